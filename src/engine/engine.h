/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The engine: a lane of the NIC without I/O. The caller reports what happens to the lane, and
 * fetches the packets that the lane sends.
 *
 *     engine_receive       a packet arrived
 *     engine_next_packet   the next packet to send
 *     engine_deadline_ns   when to call engine_expire
 *     engine_post_*        the application posts requests
 *
 * This room and all below it make no system call, read no clock, start no thread and draw no random
 * numbers. The caller passes in time, random numbers and memory, so the same code runs on sockets
 * and on the simulated network. Each call may leave signals in lane->signals (lane/signal.h).
 *
 * Threads: the caller holds the lane's lock for every function that takes a lane or one of its
 * queue pairs, unless stated otherwise. No function blocks. Functions that create a lane or a queue
 * pair allocate memory, and so does multicast_attach().
 */
#ifndef URNIC_ENGINE_ENGINE_H
#define URNIC_ENGINE_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lane/lane.h"
#include "local/local.h"
#include "qp/qp.h"

enum drop {
#define DROP(name, sentence) DROP_##name,
#include "engine/drop.def"
#undef DROP
	DROP_COUNT
};

/* The part of a lane that other processes may read, in NIC memory. */
struct lane_public {
	uint32_t slot;
	uint32_t qp_count;
	_Atomic uint64_t first_qp_offset; /* struct qp_public, linked by next_offset */
	_Atomic uint64_t drops[DROP_COUNT];
};

/* Room for a packet: the longest headers, the largest MTU of payload, and an ICRC. */
#define ENGINE_PACKET_BYTES_MAX (OPCODE_HEADER_BYTES_MAX + 4096 + 4)

/* Number of packets that one queue pair sends in a row before the next queue pair's turn. */
#define ENGINE_BURST_PACKETS 32

/*
 * Make a lane without queue pairs.
 *
 * `arena`, `mrs`  Shared by the lanes of a process; the caller keeps them longer than the lane.
 * `slot`          1 to 255: the top byte of the lane's queue pair numbers.
 * `index`         The lane's number within the process.
 *
 * Returns 0 or -ENOMEM.
 */
int engine_lane_init(struct lane *lane, struct arena *arena, const struct mr_table *mrs,
	uint32_t slot, uint32_t index);

void engine_lane_done(struct lane *lane);

/*
 * Create a queue pair in state RESET. A queue pair of an XRC domain that processes share lies in
 * NIC memory, so that another process can take it over.
 *
 * `random`  Where the search for a free queue pair number starts.
 *
 * Returns 0; -ENOMEM, also when the lane has no free number; or -EOPNOTSUPP for an unknown type.
 * The caller also holds the lock that serializes arena_alloc().
 */
int engine_qp_create(
	struct lane *lane, const struct qp_init *init, uint64_t random, struct qp **ret_qp);
void engine_qp_destroy(struct qp *qp);

/*
 * The next queue pair of the lane that waits for the lookup of a shared receive queue in other
 * processes (rc_xrc_lookup_pending), or NULL. The caller ends that lookup with
 * rc_xrc_lookup_done(). *ret_number is the number of the shared receive queue.
 */
struct qp *engine_qp_in_lookup(struct lane *lane, uint32_t *ret_number);

/*
 * An XRC shared receive queue is being destroyed, and is no longer in lane->srqs: detach all queue
 * pairs of the lane from it.
 */
void engine_srq_forget(struct lane *lane, const struct srq *srq);

/* Is there a transport for queue pairs of this type? */
bool engine_has_type(enum qp_type type);

/*
 * Receive a packet.
 *
 * `origin`  Addresses and other fields of the packet's IP header.
 * `bytes`   From the first BTH byte to the last byte before the ICRC, which the caller has checked.
 *           Borrowed for the call.
 * `length`  The number of `bytes`. Any value is legal input, because the sender may be hostile.
 * `now_ns`  Monotonic time, not earlier than in any previous call.
 *
 * Returns whether a queue pair accepted the packet as sent by its peer. False for multicast, which
 * any host may send.
 */
bool engine_receive(struct lane *lane, const struct packet_origin *origin, const uint8_t *bytes,
	size_t length, uint64_t now_ns);

/*
 * Write the next packets to send: one packet, or a run of packets (wire/packet_run.h).
 * Acknowledgements precede requests, because a request may be the program's answer to a message
 * that an acknowledgement completes. A congestion notification precedes all other packets of its
 * queue pair.
 *
 * `with_acks`  If false, queue pairs that have only an acknowledgement pending are skipped.
 * `run`        In: the caller's buffer. Out: what the buffer contains. Borrowed payloads stay at
 *              their address while the lane is locked.
 *
 * Returns the length of each packet, BTH to pad; 0 when there is nothing to send, or all of it
 * waits for room (lane->waits_for_room).
 */
size_t engine_next_packet(
	struct lane *lane, bool with_acks, struct packet_run *run, uint64_t now_ns);

/* Is there a packet to send? Pending acknowledgements count only if `with_acks` is set. */
static inline bool engine_has_packets(const struct lane *lane, bool with_acks)
{
	return !list_is_empty(&lane->tx_data) || (with_acks && !list_is_empty(&lane->tx_ack));
}

/* When to call engine_expire(); DEADLINE_NEVER when no deadline is set. */
uint64_t engine_deadline_ns(const struct lane *lane);
void engine_expire(struct lane *lane, uint64_t now_ns);

/*
 * Post requests, in order, until one is refused, and begin to execute the accepted ones. Returns 0,
 * or the -errno of the refused request (qp_post_send() in qp/qp.h). *ret_posted is the number of
 * accepted requests.
 */
int engine_post_send(struct qp *qp, const struct send_wr *wrs, uint32_t count, uint32_t *ret_posted,
	uint64_t now_ns);

/* Execute or schedule the posted requests. */
void engine_begin(struct qp *qp, uint64_t now_ns);

/* Try the fast path for the posted requests, then engine_begin() for those that it leaves. */
static inline void engine_posted(struct qp *qp, uint64_t now_ns)
{
	if (!qp->initiator || !local_execute_posted(qp, now_ns))
		engine_begin(qp, now_ns);
}

/*
 * Post a batch that was built in place: all its requests, or none. Returns the result of
 * qp_post_batch().
 */
static inline int engine_post_batch(struct qp *qp, const struct sq_batch *batch, uint64_t now_ns)
{
	int error = qp_post_batch(qp, batch);

	if (!error)
		engine_posted(qp, now_ns);
	return error;
}

/* The queue pair with this number, or NULL. */
struct qp *engine_qp_find(const struct lane *lane, uint32_t qpn);

/* Assert the invariants of a lane and its queue pairs. Tests call this after every step. */
void engine_check(const struct lane *lane);

const char *drop_name(enum drop drop);

#endif
