/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reliable connection (IBTA 9.7).
 *
 * A queue pair has two independent halves. The requester cuts work requests into packets, keeps a
 * window of unacknowledged packets and retransmits lost ones. The completer, on the requester's
 * side, receives acknowledgements and responses, and completes work requests. The responder
 * executes the peer's requests and sends acknowledgements and responses.
 *
 *     requester.c   what to send next
 *     recovery.c    the window, the timers, retransmission
 *     completer.c   ACK, NAK, RNR NAK, READ responses, atomic acknowledgements
 *     responder.c   requests: every check, then the effect
 *     response.c    pending responses, in the order of the requests
 *     selective*.c  selective repeat: early packets and holes
 *     xrc.c         the shared receive queue of an XRC request
 *     report.c      what is known of a failure, for the failures that the process keeps
 *     rc.c          the queue pair: both halves behind struct qp_transport
 *
 * Loss is normal on IP networks. The window starts small, grows with acknowledgements and shrinks
 * with losses, as in TCP. The specification's go-back-N repairs losses, and between two urnics
 * selective repeat (docs/roce.md). Users choose the local ACK timeout for lossless fabrics, where
 * it rarely expires, and each expiry counts against the retry limit. So the requester also probes:
 * after a few measured round trip times without a response it sends the oldest packet again, or
 * with selective repeat the newest one. A probe does not count as a retry, because the
 * specification lets the requester send duplicates at any time.
 *
 * The halves of an extended reliable connection (IBTA annex A14) are separate queue pairs: the
 * requester in an XRC_SEND queue pair, the responder in an XRC_RECV queue pair at the other end.
 * XRC opcodes have another class, and XRC requests carry the number of a shared receive queue. The
 * code is the same otherwise.
 *
 * Everything runs under the lane's lock.
 */
#ifndef URNIC_IB_RC_RC_H
#define URNIC_IB_RC_RC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ib/message.h"
#include "ib/rc/selective_pass.h"
#include "ib/rc/selective_store.h"
#include "qp/qp.h"
#include "wire/packet.h"
#include "wire/psn.h"

enum {
	/*
	 * The largest window. A receiver's socket has room for this many packets beside those of
	 * other queue pairs.
	 */
	RC_WINDOW_PACKETS_MAX = 128,
	RC_WINDOW_PACKETS_START = 64,
	/*
	 * The most responses to one READ request. A longer READ is sent as several requests, each
	 * of which fits the window.
	 */
	RC_READ_CHUNK_PACKETS = 32,
	/* The requester requests an acknowledgement at least once in this many packets */
	RC_ACK_INTERVAL_PACKETS_MAX = 64,
	/*
	 * If this many requests in a row have used packets only because packets were under way, the
	 * next request waits until no packet is under way.
	 */
	RC_FALLBACKS_MAX = 16,
	/* The longest wait for a retry, in local ACK timeouts (IBTA 9.7.6.1.3). */
	RC_TIMEOUT_FACTOR_MAX = 4,
	/*
	 * A timeout that the lane notices late (LANE_LATE_NS) does not count as a retry. At most
	 * this many timeouts in a row go uncounted.
	 */
	RC_RETRIES_LATE_MAX = 7,
	/* The most request packets in a row while responses wait, and vice versa. */
	RC_TURN_PACKETS = 16,
};

/*
 * The requester waits at least this long before a retry, if RC_TIMEOUT_FACTOR_MAX permits so long a
 * wait. The peer's process may be on an overloaded machine, where Linux may not run it for half a
 * second and more. Probes repair loss long before that.
 */
#define RC_RETRY_NS_MIN 250000000ull

/* 1 ms, because a thread on a busy machine may run that late */
#define RC_PROBE_NS_MIN      1000000ull
#define RC_PROBE_NS_MAX      1000000000ull /* 1 s */
#define RC_PROBE_BACKOFF_MAX 10u

/* The event that the requester waits for before it sends the packet at the cursor. */
enum rc_wait {
	RC_WAIT_NOTHING, /* no event: the requester can send */
	RC_WAIT_WORK, /* a new work request: all posted ones were sent */
	RC_WAIT_WINDOW, /* an acknowledgement that opens the window */
	RC_WAIT_READ, /* the end of a READ or atomic, because of the rd_atomic limit */
	RC_WAIT_FENCE, /* the end of all earlier READs and atomics */
	RC_WAIT_CREDIT, /* a receive request at the peer */
	RC_WAIT_RNR, /* the RNR timer, or the end of a pause */
	RC_WAIT_RESUME, /* the end of SQD, in which no work request is started */
	/* The completion of all work requests before the one that failed locally. */
	RC_WAIT_FAULT,
};

struct rc_requester {
	/* PSN of the oldest unacknowledged packet or, in a READ, of the next missing response */
	struct psn una;
	struct psn cursor; /* PSN of the next packet to send; una <= cursor <= next */
	struct psn next; /* first PSN without a work request */
	/* Index of the work request at the cursor; sq->posted when all were sent */
	uint32_t wqe_index;
	uint32_t next_ssn;
	bool is_credit_limited;
	/* SSN of the last message for which the peer is known to have a receive request. */
	uint32_t limit_ssn;
	uint32_t reads_outstanding;
	uint32_t read_head; /* index of the oldest outstanding READ in rc_cold()->read_end */

	uint32_t window_packets;
	uint32_t slow_start_packets; /* a window smaller than this doubles in each round trip */
	uint32_t window_credit; /* packets acknowledged since the window last grew by one packet */
	/* The window was full, and less than a quarter of it has become free since */
	bool is_window_closed;
	uint32_t since_ack_request;
	/* A loss at `una` was handled; a second NAK for that packet has no effect */
	bool has_gone_back;
	bool was_probed; /* since `una` advanced, the retry or probe timer has sent packets again */
	struct selective_pass selective; /* the packets that the peer has, of those after `una` */
	/* READ responses that were placed before an earlier one; the first bit is for `una` */
	struct selective_map placed;
	/* Why the work request at wqe_index cannot be executed, or FAULT_NONE */
	enum fault local_fault;

	uint32_t retries_left;
	/* Timeouts in a row that did not count as retries: see RC_RETRIES_LATE_MAX */
	uint32_t retries_late;
	uint32_t rnr_retries_left;
	uint32_t probe_backoff;
	/*
	 * When the local ACK timeout ends; DEADLINE_NEVER when nothing is outstanding, or there is
	 * no timeout.
	 */
	uint64_t retry_at_ns;
	uint64_t probe_at_ns;
	uint64_t rnr_until_ns; /* DEADLINE_NEVER when not waiting */
	/*
	 * Set at the first of several timeouts in a row: when the peer fell silent, and the value
	 * of rcvd_pkts at that time.
	 */
	uint64_t silent_since_ns;
	uint64_t silent_heard;
	/* Number of requests in a row that used packets only because packets were under way. */
	uint32_t fallbacks;
	bool is_timing_rtt;
	struct psn rtt_psn;
	struct psn rtt_last; /* the value of `una` at the last measurement */
	uint64_t rtt_start_ns;
	uint64_t rtt_smooth_ns; /* 0 before the first measurement */
	uint64_t rtt_variance_ns;
};

/* A READ or atomic that the responder has accepted, kept for duplicates (IBTA 9.7.5.1.5). */
struct rc_resource {
	uint8_t operation; /* enum opcode_operation */
	bool is_pending; /* an answer, or its rest, is to be sent */
	bool was_answered; /* the last packet of an answer was sent at least once */
	struct psn first; /* first PSN of the request */
	struct psn end; /* first PSN after the request */
	/*
	 * First PSN of the answer being sent: `first`, or a later one if the peer has requested the
	 * rest of a READ again.
	 */
	struct psn start;
	struct psn next; /* PSN of the next response packet to send */
	struct psn stop; /* first PSN after the answer being sent */
	uint64_t va;
	uint32_t rkey;
	uint32_t pd;
	uint32_t bytes;
	struct msn msn;
	union {
		uint64_t original; /* atomics: the previous contents of the memory */
		/*
		 * READs, bit i: the answer being sent leaves out the response `first` + i, which
		 * lies between two parts that the peer has requested again.
		 */
		uint32_t left_out;
	};
};

/* The lookup of an unknown shared receive queue in other processes (xrc.c). */
enum rc_srq_lookup {
	RC_SRQ_LOOKUP_NONE,
	/* The control thread searches; an RNR NAK makes the peer repeat its request. */
	RC_SRQ_LOOKUP_PENDING,
	RC_SRQ_LOOKUP_DONE, /* the repeated request finds the queue, or is refused */
};

struct rc_responder {
	struct psn expected;
	struct msn msn; /* number of completed messages */
	struct message message; /* the message that is being received */

	bool is_ack_pending;
	bool is_nak_pending;
	/*
	 * A NAK was sent for `expected`. Until that packet arrives, the responder silently drops
	 * the packets after it.
	 */
	bool is_waiting;
	/* A request failed: the queue pair is in error, and still answers earlier requests. */
	bool is_failed;
	/*
	 * The failed request gets no answer. If `is_silent` is false, the request gets the answer
	 * `nak`, and gets it again each time the peer repeats the request.
	 */
	bool is_silent;
	struct aeth nak;
	struct psn nak_psn;
	/* PSN of the dropped packet that caused the NAK; the peer sends that packet again. */
	struct psn nak_cause;

	struct selective_queue early; /* stored packets after `expected` */
	bool is_executing_early;

	bool has_resources; /* some entries of rc_cold()->resource were used since RTR */
	uint32_t resource_head; /* slot for the next READ or atomic */
	uint32_t pending_count;
	/* The next two fields are used only by XRC. */
	enum rc_srq_lookup srq_lookup;
	uint32_t lookup_srqn;
};

struct rc_qp {
	struct qp qp;
	struct rc_requester requester;
	struct rc_responder responder;
	/*
	 * Counts packets. Below RC_TURN_PACKETS, requests have their turn; from that value on,
	 * responses have theirs.
	 */
	uint32_t turn_packets;
	/*
	 * This queue pair's packets say that it knows selective NAKs. The first packet of the peer
	 * that does not say that the peer knows them clears the flag.
	 */
	bool is_selective;
};

/* The part of a queue pair that only transfers touch (qp.cold). */
struct rc_cold {
	struct recv_wqe receive; /* the receive request of the responder's message */
	struct rc_resource resource[QP_RD_ATOMIC_MAX];
	/* The first PSN after each outstanding READ chunk or atomic, oldest first: a ring. */
	struct psn read_end[QP_INIT_RD_ATOMIC_MAX];
};

extern const struct qp_transport rc_transport; /* for RC, XRC_SEND and XRC_RECV */

static inline struct rc_qp *rc_from_qp(struct qp *qp)
{
	return container_of(qp, struct rc_qp, qp);
}

static inline struct rc_cold *rc_cold(const struct rc_qp *rc)
{
	return rc->qp.cold;
}

/* requester.c */

/* Start from sq_psn, at the transition to RTS. */
void rc_requester_start(struct rc_qp *rc);

/*
 * In SQD, raise the signal if no started work request is incomplete. Called when SQD is entered,
 * and whenever work requests have completed there.
 */
void rc_requester_drain(struct rc_qp *rc);

/*
 * Resume from SQD to RTS. Attributes such as the path may have changed, so all measurements are
 * reset.
 */
void rc_requester_resume(struct rc_qp *rc);

/*
 * Execute the requests from the cursor on, as far as they need no packets and need not wait.
 * Returns false when the next request can send a packet now.
 */
bool rc_requester_execute_local(struct rc_qp *rc, uint64_t now_ns);

/* Write the next request packets; 0 when the requester has to wait. */
size_t rc_requester_next(struct rc_qp *rc, struct packet_run *run, uint64_t now_ns);

/*
 * Put the queue pair on lane->tx_data if the requester can send now. If the requester cannot send,
 * keep the queue pair off that list. On the list it would send its pending acknowledgement, which
 * should wait longer (worker/worker.h).
 */
void rc_requester_schedule(struct rc_qp *rc);

/*
 * Complete the executed local work requests that have become the oldest. The caller does this after
 * each completion of a request.
 */
void rc_requester_complete_local(struct rc_qp *rc, uint64_t now_ns);

enum rc_wait rc_requester_wait(const struct rc_qp *rc);

/* The work request at sq->completed has failed: complete it, and enter the error state. */
void rc_requester_fail(struct rc_qp *rc, enum fault fault, uint64_t now_ns);

/* recovery.c */

/*
 * How long a requester waits for an acknowledgement before it retries, from the code of the local
 * ACK timeout (wire/timer.h); TIMER_INFINITE_NS for code 0.
 */
uint64_t rc_retry_ns(uint8_t timeout);

/*
 * Begin on an unknown path: reset the window and the measured round trip time, and restore all
 * retries.
 */
void rc_recovery_begin(struct rc_qp *rc);

/*
 * The packet at the cursor, which has `psn`, was sent. `is_new` says that it was sent for the first
 * time. `is_asking` says that it requests an acknowledgement.
 */
void rc_recovery_sent(
	struct rc_qp *rc, struct psn psn, bool is_new, bool is_asking, uint64_t now_ns);

/* Serve the deadlines: retry, probe and RNR timers. */
void rc_recovery_expire(struct rc_qp *rc, uint64_t now_ns);

/*
 * A packet was lost in the network: go back to una with half the window. Further calls for the same
 * una have no effect.
 */
void rc_recovery_lost(struct rc_qp *rc, uint64_t now_ns);

/* The peer has sent an RNR NAK with timer `code`: pause, then retransmit. */
void rc_recovery_rnr(struct rc_qp *rc, uint8_t code, uint64_t now_ns);

/* Send nothing until `until_ns`. No packet is outstanding. The pause does not count as a retry. */
void rc_recovery_pause(struct rc_qp *rc, uint64_t until_ns, uint64_t now_ns);

/* `una` has advanced by `packets`: update the window, the timers and the retries. */
void rc_recovery_advanced(struct rc_qp *rc, uint32_t packets, uint64_t now_ns);

/*
 * The requester is about to send `holes` lost packets again, in a pass. If more than an eighth of
 * the window is lost, the cause is congestion, and the window shrinks. Fewer losses are errors of
 * the link.
 */
void rc_recovery_holes(struct rc_qp *rc, uint32_t holes, uint64_t now_ns);

/* Clear all deadlines; there is nothing to send. */
void rc_recovery_stop(struct rc_qp *rc);

/* selective.c */

/* Before the first packet of a connection: is selective repeat on, for this type of queue pair? */
void rc_selective_start(struct rc_qp *rc);

/* Can the peer have sent this selective NAK? */
bool rc_selective_nak_is_possible(const struct rc_qp *rc, const struct packet *packet);

/* A selective NAK for una has come: send the packets that the peer lacks. */
void rc_selective_nak(struct rc_qp *rc, const struct packet *packet, uint64_t now_ns);

/*
 * An ACK, selective NAK or response with the PSN `newest` shows that the peer has executed all
 * requests before `end` and sent their responses, and that some of these responses are lost.
 * Request those of them again that are not placed yet. The SENDs and WRITEs before `end` need no
 * repetition, because the peer has executed them.
 */
void rc_selective_request(struct rc_qp *rc, struct psn end, struct psn newest, uint64_t now_ns);

/* The started work request to which `psn` belongs; NULL: none. */
const struct send_wqe *rc_selective_find(const struct rc_qp *rc, struct psn psn);

/*
 * The packet at the cursor was sent, or una has advanced: move the cursor to the next hole, or
 * behind all packets that were ever sent when there is no further hole. The caller calls this only
 * while a pass is active.
 */
void rc_selective_step(struct rc_qp *rc);

/*
 * Can a probe repeat a single packet? Not if the peer does not know selective repeat, or the
 * requester has gone back.
 */
static inline bool rc_selective_can_probe(const struct rc_qp *rc)
{
	const struct rc_requester *requester = &rc->requester;

	return rc->is_selective &&
		(requester->selective.is_active || psn_equal(requester->cursor, requester->next));
}

/*
 * The peer has been silent: send one packet again. Its answer, an ACK, a response or a selective
 * NAK, says which packets to send again.
 */
void rc_selective_probe(struct rc_qp *rc);

/*
 * How many PSNs, from the cursor on, to request at once; `packets` is the limit. In a pass, only
 * PSNs of holes.
 */
static inline uint32_t rc_selective_limit(const struct rc_requester *requester, uint32_t packets)
{
	if (!requester->selective.is_active)
		return packets;
	return min_u32(packets, selective_pass_run(&requester->selective, requester->cursor));
}

/* Store a packet that is `ahead` packets after the expected one, and queue a selective NAK. */
void rc_selective_store(struct rc_qp *rc, const struct packet *packet, uint32_t ahead);

/* Drop the early packets. */
void rc_selective_stop(struct rc_qp *rc);

/* completer.c */
/* `is_guarded` says that the guard of numbers is up for this packet (qp/guard.h). */
enum packet_verdict rc_completer_receive(
	struct rc_qp *rc, const struct packet *packet, bool is_guarded, uint64_t now_ns);

/* responder.c */
void rc_responder_start(struct rc_qp *rc);
enum packet_verdict rc_responder_receive(
	struct rc_qp *rc, const struct packet *packet, uint64_t now_ns);

/* Repeat the answer to a request that was executed before; execute nothing. */
void rc_responder_duplicate(struct rc_qp *rc, const struct packet *packet);

/* xrc.c */

/*
 * Adopt the shared receive queue that the request names (IBTA A14.5). The request is refused when
 * the queue pair's XRC domain has no queue of this number, or when a message for another queue is
 * incomplete.
 */
enum refusal rc_xrc_select(struct rc_qp *rc, const struct packet *packet);

/*
 * Does a request wait for the lookup of a shared receive queue in other processes
 * (SIGNAL_QP_SRQ_LOOKUP)? If so, *ret_number is the queue's number.
 */
bool rc_xrc_lookup_pending(const struct rc_qp *rc, uint32_t *ret_number);

/* The lookup of this number is done: the queue is in lane->srqs, or it does not exist. */
void rc_xrc_lookup_done(struct rc_qp *rc, uint32_t number);

/* `srq` is being destroyed: a message that is being received into it loses its receive request. */
void rc_xrc_forget(struct rc_qp *rc, const struct srq *srq);

/* response.c */

/* Write the next response packets; 0 when none is pending. */
size_t rc_response_next(struct rc_qp *rc, struct packet_run *run, uint64_t now_ns);

/*
 * Write the pending acknowledgement; 0 when there is none, READ responses precede it, or a NAK
 * replaces it.
 */
size_t rc_response_ack(struct rc_qp *rc, uint8_t *buffer);

/*
 * Queue a sequence NAK for the expected packet. The NAK will have the map of the early packets.
 * `cause` is the PSN of the early packet that came last.
 */
void rc_response_queue_selective(struct rc_qp *rc, struct psn cause);

/* Queue a NAK for the expected packet. */
void rc_response_queue_nak(struct rc_qp *rc, enum aeth_kind kind, uint8_t value);
/*
 * The packet that the pending NAK names has come. The NAK now names the next missing packet, or
 * is no longer pending.
 */
void rc_response_revise_nak(struct rc_qp *rc);
void rc_response_queue_ack(struct rc_qp *rc);

/* Queue the response packets of a READ or atomic, from PSN `start` up to `stop`, without `stop`. */
void rc_response_queue(
	struct rc_qp *rc, struct rc_resource *resource, struct psn start, struct psn stop);

/* rc_response_queue() for a part of a READ. If another part is pending, both are sent. */
void rc_response_queue_part(
	struct rc_qp *rc, struct rc_resource *resource, struct psn start, struct psn stop);

/* Mark the response as no longer pending. */
void rc_response_done(struct rc_qp *rc, struct rc_resource *resource);

/*
 * Drop the pending responses, because the queue pair has entered ERR or RESET. If the responder has
 * failed, nothing is dropped, so that the peer gets the fatal NAK and the responses before it. If
 * the responder has not failed, a pending ACK is kept, unless it follows a READ response. The ACK
 * was only delayed to be merged with others, and the program may already have seen the message
 * complete.
 */
void rc_response_stop(struct rc_qp *rc);

/* report.c */

/* Report why the responder refuses a request. Called before the refusal has any effect. */
void rc_report_refusal(
	struct rc_qp *rc, const struct packet *packet, enum refusal refusal, uint64_t now_ns);

/* Report that the packet's PSN is far from the expected one. */
void rc_report_far_psn(struct rc_qp *rc, const struct packet *packet, uint64_t now_ns);

/* The first of several timeouts in a row: remember what was received from the peer so far. */
void rc_report_silence(struct rc_qp *rc, uint64_t now_ns);

/*
 * Add facts (lane/fact.def) to the report of a failure. rc_fact_silence() is for a peer that did
 * not answer. rc_fact_not_ready() is for a peer that had no receive request; `code` is the RNR
 * timer in its NAK.
 */
void rc_fact_silence(struct rc_qp *rc, uint64_t now_ns);
void rc_fact_not_ready(struct rc_qp *rc, uint8_t code);

/* Packets sent and not acknowledged, including expected READ responses. */
static inline uint32_t rc_in_flight(const struct rc_requester *requester)
{
	return (uint32_t)psn_diff(requester->cursor, requester->una);
}

/*
 * Is no packet under way, no RNR wait running and no request failed? If so, requests may be
 * executed without packets, and remain in order.
 */
static inline bool rc_requester_is_at_rest(const struct rc_qp *rc)
{
	const struct rc_requester *requester = &rc->requester;

	return psn_equal(requester->una, requester->next) &&
		requester->wqe_index == rc->qp.sq->completed &&
		requester->rnr_until_ns == DEADLINE_NEVER && !requester->local_fault;
}

/*
 * Complete the `count` oldest requests, at least 1, the first of which is `wqe`. They were executed
 * without packets while the requester was at rest.
 */
static inline void rc_requester_executed(
	struct rc_qp *rc, const struct send_wqe *wqe, uint32_t count, uint64_t now_ns)
{
	rc->requester.wqe_index += count;
	qp_complete_batch(&rc->qp, wqe, count, now_ns);
}

/*
 * Is the request a READ, atomic, ATOMIC WRITE or FLUSH? Other comments in ib/rc call all of these
 * READs.
 */
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

/* Start a packet of this connection. `opcode` has class RC, even if the connection is XRC. */
static inline void rc_packet_init(
	const struct rc_qp *rc, struct packet *packet, enum opcode opcode, struct psn psn)
{
	packet_init(packet, (enum opcode)((uint32_t)rc_class(rc) | (uint32_t)opcode));
	packet->bth.dest_qpn = qpn_from(rc->qp.attr.dest_qpn);
	packet->bth.is_migrated = rc->qp.attr.migration == QP_MIGRATED;
	packet->bth.is_selective = rc->is_selective;
	packet->bth.psn = psn;
}

#endif
