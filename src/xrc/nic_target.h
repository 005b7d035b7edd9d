/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_XRC_NIC_TARGET_H
#define URNIC_XRC_NIC_TARGET_H

/*
 * A target, in this room, is a receiving queue pair of an XRC domain that several processes may
 * have open.
 *
 * A target lives in the process that made it, its owner. The owner listens on a unix socket with
 * the identity of its NIC in the name, in a directory of its user (agent/place.h). A process that
 * opens the target by its number, a borrower, connects there. The borrower sends calls; the owner
 * sends answers and the target's events (struct target_message). When a connection ends, the
 * borrower's opening of the target ends, too. The connection ends when the borrower closes it or is
 * killed. If the owner's program destroys the target, the target lives on until its last opening
 * ends. The owner may open its target, too.
 *
 * If the owner ends, its targets end. Each borrower then sees the target in the error state, and
 * gets a fatal event. Owner and borrowers must be processes of one user; both sides check that.
 *
 * Threads: the control thread (nic_control.h) reads connections, in both processes. A calling
 * thread holds no lock of the NIC while it waits for the answer, so that two processes may call
 * each other.
 */

#include <stdint.h>

#include "nic/object/nic.h"

enum target_call {
	TARGET_OPEN, /* the first call of a connection */
	TARGET_MODIFY,
	TARGET_QUERY,
	TARGET_CLOSE,
	TARGET_EVENTS, /* a message of the owner, which gets no answer */
	TARGET_CALL_COUNT
};

/* A call or the answer to it, or events. */
struct target_message {
	uint32_t call; /* enum target_call */
	uint32_t sequence; /* the number of the call; its answer has the same number */
	int32_t error; /* in an answer: 0 or -errno */
	uint32_t events; /* in TARGET_EVENTS: enum signal_event, or'ed */
	union {
		struct {
			uint32_t number;
			uint32_t ifindex;
			struct xrc_file file;
		} open;
		struct {
			enum qp_state to;
			uint32_t mask;
			struct qp_attr attr;
		} modify;
		struct nic_qp_state state; /* in an answer */
	};
};

/*
 * Send a message. Never blocks. Returns 0; -EAGAIN when there is no room; or another -errno when
 * the other process has ended.
 */
int nic_target_send(int fd, const struct target_message *message);

/*
 * Receive a message. Never blocks. Returns 0; -EAGAIN when there is none; or another -errno when
 * the other process has ended.
 */
int nic_target_receive(int fd, struct target_message *ret_message);

/* --- the owner (nic_target_owner.c) --- */

/*
 * Listen for borrowers, because a target was made that other processes may open. The NIC is locked,
 * and its control thread runs.
 */
void nic_target_listen(void);

/* Send `events` of the target `qp` to its borrowers. The target's worker is locked. */
void nic_target_post_events(struct nic_qp *qp, uint32_t events);

void nic_target_serve(void);
void nic_target_borrowers_forget(void);

/* --- the borrower (nic_target_borrower.c) --- */

void nic_openings_hear(void);
void nic_openings_forget(void);

#endif
