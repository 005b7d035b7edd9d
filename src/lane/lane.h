/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A lane: the part of the NIC that one lock covers.
 *
 * A lane has one slot (the top byte of its queue pairs' numbers), its queue pairs, their deadlines,
 * and lists of the queue pairs that have something to send. A transport uses the lane that it is
 * called with, and no other. Lanes share completion queues, shared receive queues and memory
 * regions; the headers of these say who may access them when.
 *
 * A queue pair that has packets to send is on `tx_data`. A queue pair that has only an
 * acknowledgement to send is on `tx_ack`. The worker may defer `tx_ack` for a moment, so that it
 * sends the application's answer and the acknowledgement together. It defers `tx_data` only for
 * datagrams that are posted in a row (lane/post_policy.h). Raw packet queue pairs with frames to
 * send are on `tx_frames` (ether/raw.h). Streams with bytes to send are on `tx_streams`
 * (iwarp/iwarp.h).
 */
#ifndef URNIC_LANE_LANE_H
#define URNIC_LANE_LANE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/deadline.h"
#include "base/gid.h"
#include "base/list.h"
#include "lane/capture.h"
#include "lane/failure.h"
#include "lane/signal.h"
#include "lane/tries.h"
#include "memory/mr.h"

#define LANE_QP_COUNT_MAX 65536

/*
 * If a thread serves a deadline this long after its time, no thread drove the lane meanwhile,
 * because the machine is overloaded. An idle machine wakes a sleeping thread within 2 ms.
 */
#define LANE_LATE_NS 20000000u

struct cc_params;
struct cq_taker;
struct impair;
struct qp;
struct selective_store;
struct srq_table;
struct lane_placer;
struct lane_public;

enum lane_tx {
	LANE_TX_NONE,
	LANE_TX_ACK,
	LANE_TX_DATA,
	LANE_TX_FRAMES,
	LANE_TX_STREAMS,
};

/* What selective repeat counts; engine/drop.def has the sentences. */
enum lane_selective {
	LANE_SELECTIVE_NAKS,
	LANE_SELECTIVE_RESENT,
	LANE_SELECTIVE_STORED,
	LANE_SELECTIVE_UNSTORED,
	LANE_SELECTIVE_COUNT,
};

/* A queue pair in a multicast group. */
struct lane_member {
	struct qp *qp;
	struct gid group;
	uint32_t ifindex; /* the interface on which the group was joined */
};

struct cqe;
struct packet;
struct packet_origin;

/* The differences between link layers; one constant object for each of them. */
struct lane_link {
	uint32_t port_count; /* of the device */
	uint32_t pkey_count; /* the most entries of a port's table of P_Keys */
	/* Each port has a table of P_Keys; otherwise there is only the default P_Key. */
	bool has_pkey_tables;
	/* The bits of a P_Key in which a received packet has to agree with the default one. */
	uint16_t pkey_mask;
	/*
	 * Write the first 40 bytes of the receive buffer of a datagram, and what its completion
	 * says of the packet's headers.
	 */
	void (*datagram_origin)(const struct packet *packet, const struct packet_origin *origin,
		uint8_t grh[40], struct cqe *cqe);
};

struct lane {
	const struct lane_link *link;
	bool has_bad_qkey; /* a datagram with a wrong Q_Key was received; the caller clears it */
	struct arena *arena;
	const struct mr_table *mrs;
	struct guards guards;
	const struct srq_table *srqs; /* the queues that XRC requests may name; the NIC sets it */
	struct deadline_heap deadlines;
	/* Deadlines of queue pairs whose rate lets them send again only later (qp/pace.h) */
	struct deadline_heap pacing;
	struct list tx_data;
	struct list tx_ack;
	struct list tx_frames;
	struct list tx_streams;
	struct signal_queue signals;
	struct cq_taker *taker; /* the poll that drives the lane now; NULL: none */
	struct qp **qp_by_number; /* LANE_QP_COUNT_MAX entries, by the low 16 bits of the number */
	struct qp *published; /* first of the list that begins at lane_public.first_qp_offset */
	uint32_t qp_count;
	/* Queue pairs in multicast groups; NULL until the first is attached */
	struct lane_member *members;
	uint32_t member_count;
	/*
	 * Does the queue pair's next packet wait for room on its route, as for the credits of an
	 * InfiniBand lane? NULL while every route has room. The worker sets it.
	 */
	bool (*waits_for_room)(const struct lane *lane, const struct qp *qp);
	/* Packets sent so far in the present turn of a queue pair */
	uint32_t burst_packets;
	/*
	 * The least payload, in bytes, that queue pairs may send zero-copy in runs
	 * (wire/packet_run.h); 0: they send nothing zero-copy. The worker sets it.
	 */
	uint32_t zerocopy_bytes_min;
	/* `capture_public` says whether a capture is on. The NIC sets both pointers together. */
	const struct capture_public *capture_public;
	struct capture *capture;
	struct impair *impair; /* NULL: no impairments; the NIC sets it */
	/* NULL: there is no checker that watches WRITEs (lane/placer.h). */
	const struct lane_placer *placer;
	const struct cc_params *cc; /* NULL: no congestion control; the NIC sets it */
	/*
	 * Early packets (ib/rc/selective_store.h); NULL: no selective repeat. The NIC creates it,
	 * and the lane owns it.
	 */
	struct selective_store *selective;
	_Atomic uint64_t *selective_counts; /* LANE_SELECTIVE_COUNT counters in `public` */
	/* URNIC_STRICT: no message waits for a receive request. The worker sets it. */
	bool is_strict;
	struct failures *failures; /* NULL: failures are not kept; the NIC sets it */
	struct failure_facts facts; /* for the next report, which takes them */
	struct lane_public *public; /* what other processes read of the lane (engine/engine.h) */
	uint64_t public_offset;
	/* The count of impossible records that processes of this host left in shared memory. */
	_Atomic uint64_t *unsound;
	uint32_t slot; /* 1 to 255 */
	uint32_t index; /* the lane's number within the NIC, from 0 */
};

static inline void lane_count_unsound(const struct lane *lane)
{
	atomic_fetch_add_explicit(lane->unsound, 1, memory_order_relaxed);
}

/* The lane is locked, so there is one writer. */
static inline void lane_count_selective(const struct lane *lane, enum lane_selective which)
{
	_Atomic uint64_t *count = &lane->selective_counts[which];

	atomic_store_explicit(
		count, atomic_load_explicit(count, memory_order_relaxed) + 1, memory_order_relaxed);
}

/* Add what is known about a failure that is about to be reported. */
static inline void lane_fact(struct lane *lane, enum fact fact, uint64_t value)
{
	failure_facts_add(&lane->facts, fact, value);
}

/* Is a capture of the lane on? */
static inline bool lane_is_captured(const struct lane *lane)
{
	return capture_session(lane->capture_public) != 0;
}

#endif
