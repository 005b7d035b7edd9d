/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A lane: the part of the NIC that one lock covers.
 *
 * A lane has one slot (the top byte of its queue pairs' numbers), its queue pairs, their deadlines,
 * and the list of those that have something to send. Transports work on the lane they are called
 * with and see no other lane. Objects that lanes share (completion queues, shared receive queues,
 * memory regions) have rules of their own, written where they are declared.
 *
 * A queue pair that has packets to send is on `tx_data`. If it has nothing but an acknowledgement
 * to send, it is on `tx_ack`. The worker may defer that list for a moment, to send the
 * application's answer and the acknowledgement together; it never defers `tx_data`. Raw packet
 * queue pairs with frames to send are on `tx_frames` (ether/raw.h). Streams with bytes to send are
 * on `tx_streams` (iwarp/iwarp.h).
 */
#ifndef URNIC_LANE_LANE_H
#define URNIC_LANE_LANE_H

#include <stdint.h>

#include "base/arena.h"
#include "base/deadline.h"
#include "base/gid.h"
#include "base/list.h"
#include "lane/capture.h"
#include "lane/signal.h"
#include "lane/tries.h"
#include "memory/mr.h"

#define LANE_QP_COUNT_MAX 65536

/*
 * A deadline that is served so late shows that no thread drove the lane: the machine is overloaded.
 * An idle machine wakes a sleeping thread within two milliseconds.
 */
#define LANE_LATE_NS 20000000u

struct cq_taker;
struct impair;
struct qp;
struct srq_table;
struct lane_public;

enum lane_tx {
	LANE_TX_NONE,
	LANE_TX_ACK,
	LANE_TX_DATA,
	LANE_TX_FRAMES,
	LANE_TX_STREAMS,
};

/* A queue pair in a multicast group. */
struct lane_member {
	struct qp *qp;
	struct gid group;
	uint32_t ifindex; /* of the group */
};

struct lane {
	struct arena *arena;
	const struct mr_table *mrs;
	struct guards guards;
	const struct srq_table *srqs; /* the queues that XRC requests may name; set by the owner */
	struct deadline_heap deadlines;
	struct deadline_heap pacing; /* of queue pairs that wait for their rate (pace.h) */
	struct list tx_data;
	struct list tx_ack;
	struct list tx_frames;
	struct list tx_streams;
	struct signal_queue signals;
	struct cq_taker *taker; /* of the poll that drives the lane now; NULL: none */
	struct qp **qp_by_number; /* LANE_QP_COUNT_MAX entries, by the low 16 bits of the number */
	struct qp *published; /* those of first_qp_offset in struct lane_public, in its order */
	uint32_t qp_count;
	struct lane_member *members; /* allocated when they are attached */
	uint32_t member_count;
	uint32_t burst_packets; /* sent by the first queue pair of a list in its turn */
	/*
	 * The least payload that queue pairs may send zero-copy, in runs (wire/packet_run.h); 0:
	 * none. Set by the owner.
	 */
	uint32_t zerocopy_bytes_min;
	/* Whether a capture is on, and its ring; the owner sets both together. */
	const struct capture_public *capture_public;
	struct capture *capture;
	struct impair *impair; /* NULL: none; set by the owner */
	struct lane_public *public; /* for readers in other processes (engine/engine.h) */
	uint64_t public_offset;
	/* Counts impossible records that processes of this host left in shared memory */
	_Atomic uint64_t *unsound;
	uint32_t slot; /* 1 to 255 */
	uint32_t index; /* among the NIC's lanes */
};

static inline void lane_count_unsound(const struct lane *lane)
{
	atomic_fetch_add_explicit(lane->unsound, 1, memory_order_relaxed);
}

/* Does a capture record its packets? */
static inline bool lane_is_captured(const struct lane *lane)
{
	return capture_is_on(lane->capture_public);
}

#endif
