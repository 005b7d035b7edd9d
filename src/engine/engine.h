/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The engine: a lane of the NIC as a value that is told what happened and asked what to do.
 *
 *     engine_receive       these bytes arrived
 *     engine_next_packet   what shall I send?
 *     engine_deadline_ns   when must I come back?    engine_expire: I am back
 *     engine_post_*        the application wants something
 *
 * No system call, no clock, no thread, no random source in here or below: time, random numbers and
 * memory come from outside. The same code runs on sockets and on the simulated network. After any
 * call, signals may wait in lane->signals (lane/signal.h).
 *
 * Threads: the caller holds the lane's lock for every function that takes a lane or one of its
 * queue pairs, except where it says otherwise. Nothing blocks; nothing is allocated after creation.
 */
#ifndef URNIC_ENGINE_ENGINE_H
#define URNIC_ENGINE_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/gid.h"
#include "lane/lane.h"
#include "local/local.h"
#include "qp/qp.h"

enum drop {
#define DROP(name, sentence) DROP_##name,
#include "engine/drop.def"
#undef DROP
	DROP_COUNT
};

/* What others may read about a lane, in NIC memory. */
struct lane_public {
	uint32_t slot;
	uint32_t qp_count;
	_Atomic uint64_t first_qp_offset; /* struct qp_public, linked by next_offset */
	uint64_t next_offset; /* of the next lane of the process */
	_Atomic uint64_t drops[DROP_COUNT];
};

/* Room that engine_next_packet() needs: the longest header, an MTU of payload. */
#define ENGINE_PACKET_BYTES_MAX (OPCODE_HEADER_BYTES_MAX + 4096 + 4)

/* Packets of one queue pair in a row before the next one gets its turn. */
#define ENGINE_BURST_PACKETS 32

/*
 * Make a lane without queue pairs.
 *
 * `arena`, `mrs`  Shared by the lanes of a process; outlive the lane.
 * `slot`          0 to 255, the top byte of its queue pairs' numbers.
 *
 * Returns 0 or -ENOMEM.
 */
int engine_lane_init(struct lane *lane, struct arena *arena, const struct mr_table *mrs,
	uint32_t slot, uint32_t index);

/* All its queue pairs are destroyed. */
void engine_lane_done(struct lane *lane);

/*
 * Create a queue pair in state RESET.
 *
 * `random`  A random number: where the search for a free queue pair number starts.
 *
 * One of an XRC domain that processes share lies in NIC memory, so that another process can go on
 * with it.
 *
 * Returns 0, -ENOMEM, -EBUSY when there is one of this number, or -EOPNOTSUPP for a type that this
 * engine does not have. Also touches the arena: the caller holds the lock that serializes
 * arena_alloc() too.
 */
int engine_qp_create(
	struct lane *lane, const struct qp_init *init, uint64_t random, struct qp **ret_qp);
void engine_qp_destroy(struct qp *qp);

/*
 * The next queue pair of the lane that asks for a shared receive queue of another process
 * (rc_xrc_asks), or NULL. The caller answers it.
 */
struct qp *engine_qp_asking(struct lane *lane, uint32_t *ret_number);

/*
 * An XRC shared receive queue is being destroyed, and is no longer in lane->srqs: no queue pair of
 * the lane knows it any more when this returns.
 */
void engine_srq_forget(struct lane *lane, const struct srq *srq);

/* Does the engine have queue pairs of this type? Any thread. */
bool engine_has_type(enum qp_type type);

/*
 * Take in one packet.
 *
 * `origin`  The IP addresses it travelled between, and what else the IP header said.
 * `bytes`   From the first BTH byte to the last before the ICRC, which was checked. Borrowed for
 *           the call.
 * `length`  Anything; hostile input is expected.
 * `now_ns`  Monotonic time, not before that of any earlier call.
 *
 * Returns whether one queue pair took the packet for its peer's. False for multicast, too, which
 * comes from anybody.
 */
bool engine_receive(struct lane *lane, const struct packet_origin *origin, const uint8_t *bytes,
	size_t length, uint64_t now_ns);

/*
 * Write the next packet to send. Acknowledgements come first: the requests may be answers to what
 * they acknowledge.
 *
 * `with_acks`  False leaves queue pairs alone that owe nothing but an acknowledgement.
 * `buffer`     Room for ENGINE_PACKET_BYTES_MAX.
 * `ret_path`   The path (struct qp_path, id) it goes to.
 *
 * Returns its length, BTH to pad; 0 when there is nothing to send. If lane->lent is set then
 * (lane->lend_bytes_min), the packet's last lent_bytes are not in the buffer but there, where
 * nobody may take them away while the lane is locked.
 *
 * That may be a run of lane->run_packets packets (lane->lend_run_bytes): alike, of the same path,
 * their numbers, and payloads if lent, following each other. The buffer then has what is not lent
 * of each, one behind the other with room for an ICRC behind each, and is as large as all of them
 * are with their payloads.
 */
size_t engine_next_packet(
	struct lane *lane, bool with_acks, uint8_t *buffer, uint32_t *ret_path, uint64_t now_ns);

/* Is there something to send? Acknowledgements count only `with_acks`. */
static inline bool engine_has_packets(const struct lane *lane, bool with_acks)
{
	return !list_is_empty(&lane->tx_data) || (with_acks && !list_is_empty(&lane->tx_ack));
}

/*
 * Packets follow. Before they move deadlines: was one due long ago? Then nobody has run the lane
 * for a while (LANE_LATE_NS).
 */
static inline void engine_look_at_time(struct lane *lane, uint64_t now_ns)
{
	const struct deadline *first = deadline_heap_first(&lane->deadlines);

	if (first && first->at_ns <= now_ns)
		lane_note_lateness(lane, first->at_ns, now_ns);
}

/* When engine_expire() wants to be called; DEADLINE_NEVER when nothing waits for time to pass. */
uint64_t engine_deadline_ns(const struct lane *lane);
void engine_expire(struct lane *lane, uint64_t now_ns);

/*
 * Post requests, in order, until one is refused. Returns 0 or the refused one's -errno
 * (qp/qp.h); *ret_posted is how many were taken.
 */
int engine_post_send(struct qp *qp, const struct send_wr *wrs, uint32_t count, uint32_t *ret_posted,
	uint64_t now_ns);

/* Requests were posted: begin them. */
void engine_begin(struct qp *qp, uint64_t now_ns);

/* The same, by the fast path where there is one. */
static inline void engine_posted(struct qp *qp, uint64_t now_ns)
{
	if (!qp->local || !local_execute_posted(qp, now_ns))
		engine_begin(qp, now_ns);
}

/*
 * Post a batch of requests that were built in place: all of them, or none. Returns qp_post_batch().
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

/* Check the invariants of a lane and its queue pairs; asserts. For tests, after every step. */
void engine_check(const struct lane *lane);

const char *drop_name(enum drop drop);
const char *drop_sentence(enum drop drop);

#endif
