/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_CM_CM_INTERNAL_H
#define URNIC_CM_CM_INTERNAL_H

/*
 * The functions that the files of the manager share. cm.c has its creation, tables and timers;
 * program.c the program's calls; receive.c the peer's messages; request.c the messages that begin a
 * connection; answer.c the messages without a connection. No other room includes this header.
 */

#include "cm/cm.h"

/* Put a message into the outbox. */
void cm_emit(struct cm *cm, const struct cm_path *path, const struct cm_message *message);

/* Start to send conn->sent until an answer comes. */
void cm_send_until_answered(struct cm *cm, struct cm_conn *conn, uint8_t retries, uint64_t now_ns);

/* Stop repeating conn->sent, because its answer has arrived or is no longer needed. */
void cm_stop_sending(struct cm *cm, struct cm_conn *conn);

/* Queue an event, unless the program has released the connection. `message` may be NULL. */
void cm_tell(struct cm *cm, struct cm_conn *conn, enum cm_event_kind kind,
	const struct cm_message *message);

/* A message of the connection, with both communication IDs. */
static inline struct cm_message cm_conn_message(
	const struct cm_conn *conn, enum cm_attribute attribute, uint64_t transaction_id)
{
	return cm_message_begin(
		attribute, transaction_id, conn->local_comm_id, conn->remote_comm_id);
}

/* Send a REJ for a connection. The peer's communication ID may be unknown (0). */
void cm_send_reject(
	struct cm *cm, struct cm_conn *conn, enum cm_answered answered, uint16_t reason);

/*
 * Name this channel adapter in a REJ that cannot name the peer's communication ID (IBTA 12.6.7.2).
 */
void cm_rej_name_itself(struct cm_rej *rej, uint64_t guid);

/* A row of cm/cm_state.def. */
struct cm_state_info {
	int8_t rejects; /* enum cm_answered: what our REJ answers; CM_NONE: no REJ is allowed */
	int8_t timeout; /* enum cm_event_kind; CM_NONE: the state has no deadline */
	int8_t last_message; /* enum cm_attribute, or CM_NONE */
};

enum { CM_NONE = -1, CM_ANSWERED_NONE = CM_NONE, CM_EVENT_NONE = CM_NONE };

extern const struct cm_state_info cm_states[CM_STATE_COUNT];

/* End the connection, but keep its IDs in use while its packets may still be under way. */
void cm_enter_timewait(struct cm *cm, struct cm_conn *conn, uint64_t now_ns);

/* End the connection, which becomes IDLE. If it was released, report CM_EVENT_RELEASED. */
void cm_enter_idle(struct cm *cm, struct cm_conn *conn);

/* Move a spare connection from its listener into the table by_local. */
void cm_conn_publish(struct cm *cm, struct cm_conn *conn);

/* The connection is established or over: it no longer counts against its listener's limit. */
void cm_leave_half_open(struct cm_conn *conn);

/*
 * The half-open connection that makes room for a new one. It is the oldest whose peer has sent no
 * MRA, or if all peers have, the oldest of all. NULL: there is none.
 */
struct cm_conn *cm_oldest_half_open(const struct cm_listener *listener);

/* End a connection as after its last timeout, and notify the peer and the program. */
void cm_give_up(struct cm *cm, struct cm_conn *conn, uint64_t now_ns);

/*
 * Handle a REQ that belongs to no connection yet: give it a spare connection of the listener for
 * its service ID, or refuse it. If the backlog is full, or no spare connection is left, drop it.
 */
void cm_request_new(struct cm *cm, const struct cm_path *path, const struct cm_message *message,
	uint64_t now_ns);

/* cm_request_new() for a SIDR_REQ, which may be a duplicate. */
void cm_request_sidr(struct cm *cm, const struct cm_path *path, const struct cm_message *message);

void cm_set_state(struct cm_conn *conn, enum cm_state state);

/* The reason of the REJ that ends a connection when the program or its process is gone. */
static inline enum cm_reject cm_release_reason(enum cm_state state)
{
	return state == CM_STATE_REQ_SENT || state == CM_STATE_MRA_REQ_RCVD ? CM_REJECT_TIMEOUT
									    : CM_REJECT_CONSUMER;
}

/*
 * From now on, keep a last message for the connection up to date. urnicd sends it if the process
 * dies.
 */
void cm_leave_last_message(struct cm *cm, struct cm_conn *conn);

void cm_remember_remote(struct cm *cm, struct cm_conn *conn, uint32_t comm_id, uint32_t qpn);

struct cm_conn *cm_find_local(struct cm *cm, uint32_t comm_id);
struct cm_conn *cm_find_remote(
	struct cm *cm, uint32_t comm_id, const struct gid *remote, bool wants_sidr);

/*
 * The established or disconnecting connection, other than `except`, whose peer has this queue pair
 * number, channel adapter and address. NULL: there is none.
 */
struct cm_conn *cm_find_qpn(struct cm *cm, uint32_t qpn, uint64_t guid, const struct gid *remote,
	const struct cm_conn *except);

/* The window of the peer `remote`, begun anew if its period is over. */
struct cm_peer_window *cm_peer_window(struct cm *cm, const struct gid *remote, uint64_t now_ns);

/* 4.096 us * 2^code (IBTA 12.6.5). `code` is below 32. */
static inline uint64_t cm_timeout_ns(uint8_t code)
{
	return (uint64_t)4096 << code;
}

#endif
