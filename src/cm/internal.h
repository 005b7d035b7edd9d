/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_CM_INTERNAL_H
#define URNIC_CM_INTERNAL_H

/*
 * What the files of the manager share: cm.c is its life, its tables and its timers; program.c what
 * the program wants; receive.c what the peer says; answer.c is about messages without a connection.
 * Nobody else includes this.
 */

#include "cm/cm.h"

/* Put a message into the outbox. */
void cm_emit(struct cm *cm, const struct cm_path *path, const struct cm_message *message);

/* Start to send conn->sent until an answer comes. */
void cm_send_until_answered(struct cm *cm, struct cm_conn *conn, uint8_t retries, uint64_t now_ns);

/* An answer has come, or none is waited for any more. */
void cm_stop_sending(struct cm *cm, struct cm_conn *conn);

/* Tell the program, unless it has released the connection. `message` may be NULL. */
void cm_tell(struct cm *cm, struct cm_conn *conn, enum cm_event_kind kind,
	const struct cm_message *message);

/* Send a REJ on a connection whose peer's communication ID may be unknown (0). */
void cm_send_reject(
	struct cm *cm, struct cm_conn *conn, enum cm_answered answered, uint16_t reason);

/* Who gives up may not know the peer's ID, and then names itself (IBTA 12.6.7.2). */
void cm_rej_name_itself(struct cm_rej *rej, uint64_t guid);

/* What a REJ in this state answers (enum cm_answered); -1 where none may be sent. */
int cm_rejectable(enum cm_state state);

/* The connection is over: packets may still be under way. */
void cm_enter_timewait(struct cm *cm, struct cm_conn *conn, uint64_t now_ns);

/* The connection is over and forgotten; its memory goes back if it was released. */
void cm_enter_idle(struct cm *cm, struct cm_conn *conn);

/* A listener's spare becomes a connection. */
void cm_conn_publish(struct cm *cm, struct cm_conn *conn);

/* It is established, or over: it does not count against its listener's limit any more. */
void cm_leave_half_open(struct cm_conn *conn);

/* The first of those that may make room for another: accepted, and its peer silent. NULL: none. */
struct cm_conn *cm_oldest_half_open(const struct cm_listener *listener);

/* Its time is up: the peer is told, and the program. */
void cm_give_up(struct cm *cm, struct cm_conn *conn, uint64_t now_ns);

void cm_set_state(struct cm_conn *conn, enum cm_state state);

/* Have urnicd tell the peer, should the process die; from now on, as the state asks for. */
void cm_leave_testament(struct cm *cm, struct cm_conn *conn);

void cm_remember_remote(struct cm *cm, struct cm_conn *conn, uint32_t comm_id, uint32_t qpn);

struct cm_conn *cm_find_local(struct cm *cm, uint32_t comm_id);
struct cm_conn *cm_find_remote(
	struct cm *cm, uint32_t comm_id, const struct gid *remote, bool wants_sidr);

/*
 * The connection, beyond its beginnings and other than `except`, with this queue pair of this
 * adapter at this address.
 */
struct cm_conn *cm_find_qpn(struct cm *cm, uint32_t qpn, uint64_t guid, const struct gid *remote,
	const struct cm_conn *except);

/* 4.096 us * 2^code (IBTA 12.6.5). `code` is below 32. */
static inline uint64_t cm_timeout_ns(uint8_t code)
{
	return (uint64_t)4096 << code;
}

#endif
