/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A lane: the part of the NIC that one lock covers.
 *
 * A lane has one slot (the top byte of its queue pairs' numbers), its queue pairs, their deadlines,
 * and the list of those that have something to send. Transports work on the lane they are called
 * with; they never see another one. What lanes share (completion queues, shared receive queues,
 * memory regions) has its own rules, written where it is declared.
 *
 * Who has something to send is on one of two lists: `tx_data`, or `tx_ack` for a queue pair that
 * owes nothing but an acknowledgement. The runtime may leave the second for a moment (it sends the
 * application's answer and the acknowledgement in one go), never the first. Raw packet queue pairs
 * send no packets but frames: those with some are on `tx_frames` (ether/raw.h). Streams with bytes
 * to send are on `tx_streams` (iwarp/iwarp.h).
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
 * A deadline that is served so much later than it was due says that nobody ran the lane: the
 * machine is overloaded, and may be for LANE_STARVED_NS to come. A thread that sleeps wakes within
 * a millisecond or two elsewhere.
 */
#define LANE_LATE_NS    20000000u
#define LANE_STARVED_NS 5000000000u

struct cq_taker;
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
	uint32_t ifindex; /* the interface that the group is on */
};

struct lane {
	struct arena *arena;
	const struct mr_table *mrs;
	struct guards guards; /* against guessing */
	const struct srq_table *srqs; /* those that XRC requests may name; set by the owner */
	struct deadline_heap deadlines;
	struct deadline_heap pacing; /* of queue pairs that wait for their rate (pace.h) */
	struct list tx_data;
	struct list tx_ack;
	struct list tx_frames;
	struct list tx_streams;
	struct signal_queue signals;
	struct cq_taker *taker; /* who drives it now, and polls; NULL: nobody does */
	struct qp **qp_by_number; /* LANE_QP_COUNT_MAX entries, by the low 16 bits of the number */
	uint32_t qp_count;
	struct lane_member *members; /* allocated when they are attached */
	uint32_t member_count;
	uint32_t burst_packets; /* that the first of the lists has sent in its turn */
	/*
	 * Payloads that may be sent from where they lie, and packets that may come in rows: of so
	 * many bytes and more, 0: none. Set by the owner.
	 */
	uint32_t lend_bytes_min;
	/* Packets of such a row end with the one that reaches this; 0: one */
	uint32_t lend_run_bytes;
	/* Of engine_next_packet()'s last. */
	const uint8_t *lent; /* where the payload lies; NULL: in the buffer */
	uint32_t lent_bytes; /* of each packet */
	uint32_t run_packets; /* that were made: a row of equals, if there are more than one */
	/* Whether somebody captures, and what it takes then; set by the owner, together. */
	const struct capture_public *capture_public;
	struct capture *capture;
	struct lane_public *public; /* what other processes may read; see engine/engine.h */
	uint64_t public_offset;
	uint64_t starved_until_ns; /* the machine is taken to be overloaded (LANE_LATE_NS) */
	/* Counts what processes of this host have left in shared memory and cannot be */
	_Atomic uint64_t *unsound;
	uint32_t slot; /* 1 to 255 */
	uint32_t index; /* among the NIC's lanes */
};

/* A deadline is served that was due at `due_ns`. Returns whether that is late. */
static inline bool lane_note_lateness(struct lane *lane, uint64_t due_ns, uint64_t now_ns)
{
	if (now_ns - due_ns < LANE_LATE_NS)
		return false;
	lane->starved_until_ns = now_ns + LANE_STARVED_NS;
	return true;
}

static inline void lane_count_unsound(const struct lane *lane)
{
	atomic_fetch_add_explicit(lane->unsound, 1, memory_order_relaxed);
}

/* Are its packets looked at? */
static inline bool lane_is_captured(const struct lane *lane)
{
	return capture_is_on(lane->capture_public);
}

#endif
