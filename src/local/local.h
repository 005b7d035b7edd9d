/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The same-host transport: the initiator's CPU does the work of the target's adapter. This header
 * is about connections (RC, XRC, UC). ud_endpoint.h and datagram.h are about datagrams.
 *
 * A queue pair whose peer is on this host has one request channel in each direction. The channel in
 * the NIC memory of this process is for the peer, which executes its requests on this process's
 * memory. The channel in the peer's NIC memory is for the requests of this process, once the peer
 * has opened it. Each direction works without the other.
 *
 * A request falls back to packets when the initiator cannot execute it: the peer has opened no
 * channel yet, the peer would refuse the request, its memory cannot be reached, or no receive
 * request is posted in time. Then the peer's responder decides, with NAKs, state changes and events
 * as usual. So a request here either succeeds or falls back. The only exception is an atomic that
 * may have been executed already: it fails, because it must not be executed twice
 * (initiator/words.c).
 *
 *     channel/        what an initiator leaves at its target, and the target's memory
 *     initiator/      the initiator's side: executes work requests (initiator/local_qp.h)
 *     collect.c       the target's side: collects what initiators left
 *     local.c         opens and closes channels
 *
 * Order: a request is executed here only when every earlier request of the queue pair is complete.
 * So it overtakes no earlier request that was sent in packets. A request in packets overtakes no
 * request that is executed here either.
 *
 * Death: a peer that ends leaves its channel open. Operations that need the peer's process fail,
 * the request falls back to packets, and the retries run out as for any dead peer. A suspended peer
 * delays only deregistration in this process, which waits for the peer's in-use mark, and revokes
 * the mark after a while.
 *
 * Threads: everything here runs under the lane's lock. System calls are made only by the functions
 * of struct peer_ops and struct local_owner, which the caller provides.
 */
#ifndef URNIC_LOCAL_LOCAL_H
#define URNIC_LOCAL_LOCAL_H

#include <stdbool.h>
#include <stdint.h>

#include "local/channel/channel.h"
#include "local/initiator/local_qp.h"

enum { LOCAL_WATCHED_MAX = 8 };

/*
 * A channel that the lane polls for records. The members are written under the lane's lock. Any
 * thread may read them without the lock to get a hint; `sequence` stays valid, because channels are
 * never freed.
 */
struct local_watch {
	const _Atomic uint64_t *_Atomic sequence; /* the sequence of the next record */
	_Atomic uint64_t published; /* the value of *sequence once that record is published */
	struct local_qp *local;
	/* The channel had a record since another channel last tried to take this place */
	bool is_busy;
};

/* What a lane has as owner of channels: its doorbell, and the channels that it watches. */
struct local_lane {
	struct doorbell *doorbell; /* NULL: no other process reaches this lane */
	struct local_owner *owner;
	/* The number of nested calls of local_collect() that are collecting from the ready list. */
	_Atomic uint32_t depth;
	bool has_borrowers; /* a borrower has rung the doorbell */
	struct local_watch watch[LOCAL_WATCHED_MAX];
	_Atomic uint32_t watch_count;
	/* The place in `watch` whose channel is replaced next, unless that channel is busy */
	uint32_t next_watch;
};

/* The channel that local_connect() gives to a queue pair. */
struct local_channel {
	struct request_channel *channel; /* the channel is closed */
	struct channel_ring *ring;
	uint64_t offset;
	uint64_t ring_offset;
	struct local_lane *lane; /* the queue pair's lane */
	uint64_t srqs_offset; /* struct srq_directory of this process; 0: XRC uses packets */
};

/*
 * Connect a queue pair in RTR whose peer is on this host: open the queue pair's channel to the
 * peer. The caller has zeroed `local` and `initiator`, which belong to the queue pair until
 * local_disconnect(). The call does not touch `initiator`. `peer` and `table` may be NULL; then
 * this queue pair's requests use packets.
 */
void local_connect(struct local_qp *local, struct local_initiator *initiator, struct qp *qp,
	const struct local_channel *place, struct peer *peer, const struct channel_table *table);

/*
 * End the connection: close the channel, collect its records, and take it off the ready list.
 * Returns false when a suspended initiator keeps its mark; then the channel must never be reused.
 */
bool local_disconnect(struct local_qp *local, uint64_t now_ns);

/*
 * Forget the peer, because the peer's process has ended, or the connection ends. From now on
 * requests use packets.
 */
void local_forget_peer(struct local_qp *local);

/*
 * The caller has removed an object from the table in which initiators look it up. Wait until the
 * initiator has no mark in the channel. Returns false when a suspended initiator keeps its mark;
 * then the memory of the object must never be reused. The lane need not be locked, but the caller
 * prevents local_disconnect() during the call.
 */
bool local_wait(const struct local_qp *local);

/*
 * May there be records to collect, or records that another thread is collecting? Any thread may
 * call. A result of false is certain: the completion queues have everything that was published
 * before the call. A result of true is a hint.
 */
static inline bool local_has_work(const struct local_lane *lane)
{
	uint32_t count = atomic_load_explicit(&lane->watch_count, memory_order_acquire);

	if (!lane->doorbell)
		return false;
	for (uint32_t i = 0; i < count; i++) {
		const struct local_watch *watch = &lane->watch[i];
		const _Atomic uint64_t *sequence =
			atomic_load_explicit(&watch->sequence, memory_order_relaxed);

		if (atomic_load_explicit(sequence, memory_order_relaxed) ==
			atomic_load_explicit(&watch->published, memory_order_relaxed))
			return true;
	}
	if (doorbell_is_rung(lane->doorbell))
		return true;
	atomic_thread_fence(memory_order_acquire); /* pairs with doorbell_take() */
	return atomic_load_explicit(&lane->depth, memory_order_acquire) != 0;
}

/* --- collect.c --- */

/*
 * Collect what initiators have left in the channels of a lane, and execute the operations that
 * borrowers request. Returns the number of records and operations. Datagrams to a queue pair's own
 * receive queue complete in the order in which its receive requests were posted. If a borrower has
 * taken an earlier request and not yet published its record, the call waits for the borrower, a few
 * milliseconds at most.
 *
 * A record may fail a datagram queue pair, whose endpoint then calls this function again. A call
 * that is nested too deeply collects nothing from the ready list, and leaves that to the outer
 * calls or a later call.
 */
uint32_t local_collect(struct lane *lane, struct local_lane *local_lane, uint64_t now_ns);

/*
 * For a channel that the lane polls: set local->watch to the sequence of the channel's next record,
 * and to the value that this sequence has once the record is published.
 */
static inline void local_watch_next(struct local_qp *local)
{
	const struct request_channel *channel = local->channel;
	const struct channel_private *private = channel_private(channel);

	atomic_store_explicit(&local->watch->sequence,
		&channel_record_at(local->ring, private->collected)->sequence,
		memory_order_relaxed);
	atomic_store_explicit(&local->watch->published,
		channel_sequence(private->generation, private->collected), memory_order_relaxed);
}

/* Stop watching the channel, if it is watched. */
void local_watch_end(struct local_qp *local);

/* local.c: collect the records of one channel. Returns the number of records. */
uint32_t local_collect_channel(struct local_qp *local, uint64_t now_ns);

/*
 * local.c: the initiator has executed its first request, so raise SIGNAL_QP_ESTABLISHED, but only
 * once.
 */
void local_establish(struct local_qp *local);

/* The connection of a queue pair within this host; NULL: it has none. `qp` may be NULL. */
struct local_qp *local_connection_of(struct qp *qp);

#endif
