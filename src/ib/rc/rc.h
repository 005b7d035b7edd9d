/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reliable connection (IBTA 9.7).
 *
 * A queue pair has two halves that know nothing of each other. The requester cuts work requests
 * into packets, keeps a window of unacknowledged ones and sends again what was lost; the completer
 * is its ear: it takes acknowledgements and responses and completes work requests. The responder
 * executes the peer's requests and owes it acknowledgements and responses.
 *
 *     requester.c   what to send next
 *     recovery.c    the window, the timers, and sending again
 *     completer.c   ACK, NAK, RNR NAK, READ responses, atomic acknowledgements
 *     responder.c   requests: every check, then the effect
 *     response.c    what the responder owes, in the order in which it was asked
 *     xrc.c         which shared receive queue a request of an extended connection is for
 *     rc.c          the queue pair: both halves behind struct qp_transport
 *
 * Loss is normal on the networks that this runs on. The window starts small, grows with
 * acknowledgements and shrinks with losses, as in TCP; the go-back-N of the specification does the
 * rest. Beside the local ACK timeout, which users set for lossless fabrics and which counts against
 * the retry limit, there is an early probe: after a few measured round trip times without an answer
 * the oldest packet is sent again. It does not count as a retry: the specification leaves it to the
 * requester when to send a duplicate.
 *
 * An extended reliable connection (IBTA annex A14) is one whose halves are queue pairs of their
 * own: an XRC_SEND queue pair at one end has the requester, an XRC_RECV queue pair at the other the
 * responder. Its opcodes are of another class, and its requests carry the number of a shared
 * receive queue; everything else is the same and the same code.
 *
 * All of this runs under the lane's lock.
 */
#ifndef URNIC_IB_RC_RC_H
#define URNIC_IB_RC_RC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ib/message.h"
#include "qp/qp.h"
#include "wire/packet.h"
#include "wire/psn.h"

enum {
	RC_WINDOW_PACKETS_MAX = 128, /* what a receiver's socket holds beside its neighbours' */
	RC_WINDOW_PACKETS_START = 64,
	/* Of responses; a longer READ goes as several requests, so that they fit the window. */
	RC_READ_CHUNK_PACKETS = 32,
	RC_ACK_INTERVAL_PACKETS_MAX = 64, /* ask for an acknowledgement at least this often */
	/* Of a stream that could go without packets; then it waits until none is under way */
	RC_DETOURS_MAX = 16,
	RC_TIMEOUT_FACTOR_STARVED = 4, /* timeouts per retry on an overloaded machine */
	RC_RETRIES_LATE_MAX = 7, /* in a row that do not count */
	RC_TURN_PACKETS =
		16, /* requests in a row before responses get their turn, and the other way round */
};

#define RC_PROBE_NS_MIN \
	1000000ull /* 1 ms: below that, a busy machine's scheduler looks like loss */
#define RC_PROBE_NS_MAX      1000000000ull /* 1 s */
#define RC_PROBE_BACKOFF_MAX 10u

/* What the requester waits for before it sends the packet at the cursor. */
enum rc_wait {
	RC_WAIT_NOTHING, /* it can send */
	RC_WAIT_WORK, /* the send queue has nothing unsent */
	RC_WAIT_WINDOW, /* an acknowledgement that opens the window */
	RC_WAIT_READ, /* a READ or atomic to end, for the rd_atomic limit */
	RC_WAIT_FENCE, /* all earlier READs and atomics to end */
	RC_WAIT_CREDIT, /* the peer to post a receive request */
	RC_WAIT_RNR, /* the RNR timer, or the end of a pause */
	RC_WAIT_RESUME, /* to leave SQD: a new work request is not started there */
	RC_WAIT_FAULT, /* earlier work requests to complete, before one that failed locally */
};

struct rc_requester {
	struct psn
		una; /* oldest unacknowledged packet; for READs the next response that is missing */
	struct psn cursor; /* next packet to send; una <= cursor <= next */
	struct psn next; /* first PSN that no work request has yet */
	uint32_t wqe_index; /* work request that the cursor is in, or stands before */
	uint32_t next_ssn;
	bool is_credit_limited;
	/* Last message that the peer has a receive request for, as far as known */
	uint32_t limit_ssn;
	uint32_t reads_outstanding;
	/* The first PSN after each outstanding READ chunk or atomic, oldest first: a ring. */
	struct psn read_end[QP_INIT_RD_ATOMIC_MAX];
	uint32_t read_head;

	uint32_t window_packets;
	uint32_t slow_start_packets; /* below this the window doubles per round trip */
	uint32_t window_credit; /* acknowledged packets towards the next window step */
	bool is_window_closed; /* it was full, and less than a quarter is free again */
	uint32_t since_ack_request;
	bool has_gone_back; /* for the present una: a second NAK for it says nothing new */
	bool was_probed; /* for the present una: it was sent again on suspicion, by either timer */
	enum fault local_fault; /* the work request at wqe_index cannot be executed */

	uint32_t retries_left;
	uint32_t retries_late; /* in a row, whose deadline was served late: they did not count */
	uint32_t rnr_retries_left;
	uint32_t probe_backoff;
	uint64_t
		retry_at_ns; /* DEADLINE_NEVER when nothing is outstanding, or the timeout is off */
	uint64_t probe_at_ns;
	uint64_t rnr_until_ns; /* DEADLINE_NEVER when not waiting */
	/* Requests in a row that went by packets only because packets were under way */
	uint32_t detours;
	bool is_timing_rtt;
	struct psn rtt_psn;
	uint64_t rtt_start_ns;
	uint64_t rtt_smooth_ns; /* 0 before the first measurement */
	uint64_t rtt_variance_ns;
};

/* A READ or atomic that the responder has accepted: kept to answer duplicates (IBTA 9.7.5.1.5). */
struct rc_resource {
	enum opcode_operation operation;
	bool is_owed; /* an answer, or the rest of one, is still to be sent */
	bool was_answered; /* the last packet of an answer was sent at least once */
	struct psn first; /* of the request */
	struct psn end; /* first PSN after it */
	/* Of the answer being sent: `first`, or later for a duplicate that asks for a part */
	struct psn start;
	struct psn next; /* next response packet to send */
	struct psn stop; /* first PSN after the answer being sent */
	uint64_t va;
	uint32_t rkey;
	uint32_t pd;
	uint32_t bytes;
	struct msn msn;
	uint64_t original; /* atomics: what the memory held before */
};

/* Whether a shared receive queue that is not known is looked for in other processes (xrc.c). */
enum rc_asking {
	RC_ASKING_NOTHING,
	RC_ASKING, /* the request that names it is put off */
	RC_ASKING_ANSWERED, /* it comes again; now the queue is known or there is none */
};

struct rc_responder {
	struct psn expected;
	struct msn msn; /* messages completed */
	struct message message; /* in progress */

	bool is_ack_owed;
	bool is_nak_owed;
	/*
	 * A NAK was sent for `expected`; until that packet comes the others are dropped in silence
	 */
	bool is_waiting;
	/* A request failed: the queue pair is in error, and still answers what came before it. */
	bool is_failed;
	/* Nothing is said of that request; otherwise `nak` is, to a peer that asks again, too. */
	bool is_silent;
	struct aeth nak;
	struct psn nak_psn;
	struct psn nak_cause; /* of the packet that was dropped, and is missing */

	struct rc_resource resource[QP_RD_ATOMIC_MAX];
	uint32_t resource_head; /* where the next one goes */
	uint32_t owed_count;
	/* Of XRC: */
	enum rc_asking asking;
	uint32_t asked_srqn;
};

struct rc_qp {
	struct qp qp;
	struct rc_requester requester;
	struct rc_responder responder;
	uint32_t turn_packets; /* requests sent in a row */
};

extern const struct qp_transport rc_transport; /* of RC, XRC_SEND and XRC_RECV */

static inline struct rc_qp *rc_from_qp(struct qp *qp)
{
	return container_of(qp, struct rc_qp, qp);
}

/* requester.c */

/* Start from sq_psn. Called at the transition to RTS. */
void rc_requester_start(struct rc_qp *rc);

/*
 * In SQD: say so when no started work request is incomplete any more. Called when SQD is entered,
 * and whenever work requests have completed there.
 */
void rc_requester_drain(struct rc_qp *rc);

/*
 * Go on from SQD to RTS. Attributes, the path among them, may have changed: what was learnt of it
 * is forgotten.
 */
void rc_requester_resume(struct rc_qp *rc);

/*
 * The peer is on this host: execute what can be without packets. False when there is a packet to
 * send next.
 */
bool rc_requester_execute_local(struct rc_qp *rc, uint64_t now_ns);

/* Write the next request packet; 0 when the requester waits for something. */
size_t rc_requester_next(struct rc_qp *rc, uint8_t *buffer, uint64_t now_ns);

/*
 * If the requester can send now, have it asked. Only then: a queue pair that is asked for data also
 * sends the acknowledgement that it owes, and that may be better left waiting (worker/worker.h).
 */
void rc_requester_schedule(struct rc_qp *rc);

/*
 * Complete the executed local work requests that have become the oldest ones. Whoever completes a
 * request calls this next.
 */
void rc_requester_settle(struct rc_qp *rc, uint64_t now_ns);

/* What the requester waits for now. */
enum rc_wait rc_requester_wait(const struct rc_qp *rc);

/*
 * The work request at sq->completed has failed: complete it, and the queue pair goes to the error
 * state.
 */
void rc_requester_fail(struct rc_qp *rc, enum fault fault, uint64_t now_ns);

/* recovery.c */

/*
 * A path of which nothing is known: the window and the round trip time start anew, and all retries
 * are left.
 */
void rc_recovery_begin(struct rc_qp *rc);

/* The packet at the cursor was sent: new, or again. */
void rc_recovery_sent(struct rc_qp *rc, struct psn psn, bool is_new, uint64_t now_ns);

/* Deadlines: retry, probe and RNR timers. */
void rc_recovery_expire(struct rc_qp *rc, uint64_t now_ns);

/* A packet was lost in the network: go back with half the window. Once per una. */
void rc_recovery_lost(struct rc_qp *rc, uint64_t now_ns);

/* The peer asks to wait (RNR timer `code`). */
void rc_recovery_rnr(struct rc_qp *rc, uint8_t code, uint64_t now_ns);

/* Nothing is outstanding: send nothing until `until_ns`. It does not count as a retry. */
void rc_recovery_pause(struct rc_qp *rc, uint64_t until_ns, uint64_t now_ns);

/* una has moved `packets` ahead: move what depends on it. */
void rc_recovery_advanced(struct rc_qp *rc, uint32_t packets, uint64_t now_ns);

/* No deadline any more, nothing to send. */
void rc_recovery_stop(struct rc_qp *rc);

/* completer.c */
/* `is_guarded`: a guard is up (qp/guard.h). */
enum packet_verdict rc_completer_receive(
	struct rc_qp *rc, const struct packet *packet, bool is_guarded, uint64_t now_ns);

/* responder.c */
void rc_responder_start(struct rc_qp *rc);
enum packet_verdict rc_responder_receive(
	struct rc_qp *rc, const struct packet *packet, uint64_t now_ns);

/* Answer a request that was executed before: execute nothing twice. */
void rc_responder_duplicate(struct rc_qp *rc, const struct packet *packet);

/* xrc.c */

/*
 * The queue pair takes on the shared receive queue that the request names (IBTA A14.5). Refused
 * when there is none of this number in its domain, or a message for another one is not complete.
 */
enum refusal rc_xrc_select(struct rc_qp *rc, const struct packet *packet);

/*
 * Does it wait for somebody to look for a shared receive queue of another process (SIGNAL_QP_ASKS)?
 * And to say that who asked for this number has been looked after: it is in lane->srqs, or there is
 * none.
 */
bool rc_xrc_asks(const struct rc_qp *rc, uint32_t *ret_number);
void rc_xrc_answer(struct rc_qp *rc, uint32_t number);

/*
 * This queue is being destroyed: a message that was being received into it has no request any more.
 */
void rc_xrc_forget(struct rc_qp *rc, const struct srq *srq);

/* response.c */

/* Write the next response packet; 0 when nothing is owed. */
size_t rc_response_next(struct rc_qp *rc, uint8_t *buffer, uint64_t now_ns);

/*
 * Write the acknowledgement that is owed; 0 when none is, or READ responses or a NAK go out before
 * it.
 */
size_t rc_response_ack(struct rc_qp *rc, uint8_t *buffer);

/* Owe a NAK for the expected packet. */
void rc_response_owe_nak(struct rc_qp *rc, enum aeth_kind kind, uint8_t value);
/*
 * The packet that the NAK asks for has come before the NAK was sent. It names what is missing now,
 * or is not owed any more.
 */
void rc_response_revise_nak(struct rc_qp *rc);
void rc_response_owe_ack(struct rc_qp *rc);

/* Owe the answer of a resource from `start` to `stop`. */
void rc_response_owe(
	struct rc_qp *rc, struct rc_resource *resource, struct psn start, struct psn stop);

/* Owe it no longer. */
void rc_response_settle(struct rc_qp *rc, struct rc_resource *resource);

/*
 * Forget what is owed, but for a fatal NAK and what has to go out before it, and an
 * acknowledgement: that has been waiting for company, and the program may have seen the message
 * complete. An adapter would have sent it at once.
 */
void rc_response_stop(struct rc_qp *rc);

/* Packets sent and not acknowledged; those of READ responses to come count. */
static inline uint32_t rc_in_flight(const struct rc_requester *requester)
{
	return (uint32_t)psn_diff(requester->cursor, requester->una);
}

/*
 * Nothing is under way, and nothing is waited for: requests may be executed as they come, without
 * packets.
 */
static inline bool rc_requester_is_at_rest(const struct rc_qp *rc)
{
	const struct rc_requester *requester = &rc->requester;

	return psn_equal(requester->una, requester->next) &&
		requester->wqe_index == rc->qp.sq->completed &&
		requester->rnr_until_ns == DEADLINE_NEVER && !requester->local_fault;
}

/*
 * The `count` oldest requests, at least 1, of which `wqe` is the first, were executed without
 * packets while the requester was at rest: they are complete.
 */
static inline void rc_requester_executed(
	struct rc_qp *rc, const struct send_wqe *wqe, uint32_t count, uint64_t now_ns)
{
	rc->requester.wqe_index += count;
	qp_complete_batch(&rc->qp, wqe, count, now_ns);
}

/* READs, atomics, ATOMIC WRITEs, FLUSHes: what counts as a READ in the comments here. */
static inline bool rc_wqe_has_answer(const struct send_wqe *wqe)
{
	return wr_table[wqe->opcode].has_answer;
}

static inline bool rc_wqe_is_local(const struct send_wqe *wqe)
{
	return wr_table[wqe->opcode].is_local;
}

static inline enum opcode_class rc_class(const struct rc_qp *rc)
{
	return rc->qp.type == QP_TYPE_RC ? OPCODE_CLASS_RC : OPCODE_CLASS_XRC;
}

/* Start a packet of this connection; `opcode` is the one of class RC. */
static inline void rc_packet_init(
	const struct rc_qp *rc, struct packet *packet, enum opcode opcode, struct psn psn)
{
	packet_init(packet, (enum opcode)((uint32_t)rc_class(rc) | (uint32_t)opcode));
	packet->bth.dest_qpn = qpn_from(rc->qp.attr.dest_qpn);
	packet->bth.is_migrated = rc->qp.attr.migration == QP_MIGRATED;
	packet->bth.psn = psn;
}

#endif
