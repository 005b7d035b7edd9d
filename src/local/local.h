/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The same-host transport: the initiator's CPU does the work of the target's adapter. This header
 * is about connections (RC, XRC, UC). Datagrams use the same means by ud_endpoint.h and datagram.h.
 *
 * A queue pair whose peer is on this host has one request channel in each direction. The one in our
 * NIC memory is for the peer, which executes its requests on our memory. The one in the peer's NIC
 * memory is for us, once the peer has opened it. Each direction works without the other.
 *
 * A request falls back to packets when it cannot be executed here: there is no channel yet, the
 * peer will refuse the request, its memory cannot be reached, or no receive request comes in time.
 * Then the peer's responder answers, with its own NAK, state and events. So this transport only
 * ever succeeds.
 *
 *     channel/        what an initiator leaves at its target, and the target's memory
 *     initiator.c     executes work requests
 *     receive_wait.h  waits for the target's receive request
 *     move.c          moves the bytes of requests
 *     batch.c         the fast path: executes plain ones, one or many
 *     words.c         atomics and the requests of annex A19
 *     shared.h        with shared receive queues
 *     capture.h       the packets that requests would have been
 *     collect.c       the target's side: collects what initiators left
 *     local.c         opens and closes channels
 *
 * Order: a request is executed here only when every earlier one is complete, so neither packets nor
 * requests of one queue pair overtake each other.
 *
 * Death: a peer that ends leaves its channel open. What needs its process fails, the request falls
 * back to packets, and the retries run out as for any dead peer. A stopped peer delays only
 * deregistration in our process, which waits for its in-use mark in our channel, and revokes the
 * mark after a while.
 *
 * Threads: everything here runs under the lane's lock. What needs a system call comes from outside
 * (struct peer_ops, struct local_owner).
 */
#ifndef URNIC_LOCAL_LOCAL_H
#define URNIC_LOCAL_LOCAL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arith.h"
#include "base/list.h"
#include "local/channel/channel.h"
#include "local/channel/peer.h"
#include "local/receive_wait.h"
#include "memory/copy.h"
#include "qp/qp.h"

enum { LOCAL_WATCHED_MAX = 8 };

/*
 * A channel whose records the lane polls for. Written under the lane's lock. Any thread reads it
 * without the lock, for a hint: channels are never freed.
 */
struct local_watch {
	const _Atomic uint64_t *_Atomic sequence; /* of the next record */
	_Atomic uint64_t published; /* its value when that record is published */
	struct local_qp *local;
	bool is_busy; /* it had a record since another channel last wanted its place */
};

/* A lane's part: its doorbell, and the busiest of its connected channels. */
struct local_lane {
	struct doorbell *doorbell; /* NULL: no other process reaches this lane */
	struct local_owner *owner;
	/* Nested calls of local_collect() that take from the ready list. */
	_Atomic uint32_t depth;
	bool has_borrowers; /* a borrower has rung the doorbell */
	struct local_watch watch[LOCAL_WATCHED_MAX];
	_Atomic uint32_t watch_count;
	uint32_t next_watch; /* the place that the next channel may take */
};

/* Numbers of captured requests. */
struct local_captured {
	bool has_begun;
	struct psn next; /* the number of the next packet, had all been packets */
	struct msn msn;
	uint64_t now_ns; /* of the request at hand */
};

/* A queue pair's state. `peer` (the room) allocates it with the connection. */
struct local_qp {
	struct qp_local base; /* qp->local */
	struct qp *qp;
	const struct local_owner *owner;
	/* As target. */
	struct request_channel *channel;
	uint64_t channel_offset;
	struct local_lane *lane;
	struct local_watch *watch; /* NULL: the channel is not watched */
	bool has_taken; /* receive requests, by records */
	uint32_t last_taken; /* rq_taken() before the last of them */
	bool is_unsound; /* the channel had an invalid record: nothing is collected any more */
	/* As initiator. */
	struct peer *peer; /* NULL: not known (any more) */
	const struct channel_table *table; /* the peer's, of the lane of its queue pair */
	struct request_channel *target; /* the peer's channel; NULL until it has opened it for us */
	/* NULL: not for initiators. Of an XRC target: the queue that the present request names. */
	struct recv_queue *target_rq;
	struct cq_ring *target_cq;
	struct doorbell *target_doorbell;
	uint64_t target_offset;
	uint32_t generation; /* of the target */
	bool is_inside; /* our mark in the target is set, while a request is executed */
	uint32_t collected_seen; /* by the target, of our records */
	uint32_t posted_seen; /* of its receive requests */
	bool is_rq_shared; /* the target's receive queue is */
	const struct srq_directory *target_srqs; /* of an XRC target; else NULL */
	uint64_t target_serial; /* of its receive queue */
	uint32_t target_srqn; /* by which its receive queue was found, or SHARED_NO_SRQN */
	uint32_t target_pd; /* of the regions that remote keys name */
	uint32_t target_recv_pd;
	bool has_handed_over; /* the last record is CHANNEL_TAKEN */
	uint32_t taken_seen; /* rq_taken() when the shared queue was last empty */
	uint64_t peeked; /* rq_peek_borrowed()'s result for the request that shared_peek() found */
	struct mr_cached own; /* of keys that our requests name */
	struct mr_cached remote; /* of remote keys */
	struct mr_cached receive; /* of keys that the receive requests name */
	struct receive_wait wait; /* for a receive request */
	bool is_invalidating; /* a SEND WITH INVALIDATE may not be collected yet */
	uint32_t invalidated_number; /* count of records with that one */
	bool has_unmapped_atomics; /* the last atomic was for memory that is not mapped here */
	uint32_t unmapped_key; /* and this was its key */
	struct local_captured captured;
};

static inline struct local_qp *local_from_qp(const struct qp *qp)
{
	return container_of(qp->local, struct local_qp, base);
}

/* Where the channel of a queue pair is. */
struct local_channel {
	struct request_channel *channel; /* closed */
	uint64_t offset;
	struct local_lane *lane; /* of the queue pair */
	uint64_t srqs_offset; /* struct srq_directory of this process; 0: XRC uses packets */
};

/*
 * The queue pair is in RTR: its peer is on this host. Opens our channel to it. `local` is zeroed
 * and belongs to the queue pair until local_disconnect(). `peer` and `table` may be NULL: then
 * requests go by packets.
 */
void local_connect(struct local_qp *local, struct qp *qp, const struct local_channel *place,
	struct peer *peer, const struct channel_table *table);

/*
 * End the connection. Then the channel is closed, collected, and on no ready list. False when a
 * stopped initiator keeps its mark: the channel must never be used again.
 */
bool local_disconnect(struct local_qp *local, uint64_t now_ns);

/* The peer's process is going away: requests go by packets from now on. */
void local_forget_peer(struct local_qp *local);

/*
 * An object was removed from the table in which initiators look it up: wait until the initiator has
 * no mark in the channel. False when a stopped initiator keeps it: then the memory of the object
 * must never be used again. The lane need not be locked, but the caller prevents
 * local_disconnect() meanwhile.
 */
bool local_wait(const struct local_qp *local);

/*
 * Is there something to collect, or being collected? For any thread. What was published before the
 * call is in its completion queue when this is false; true is a hint.
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
 * Collect what initiators have left in the channels of a lane, and do what borrowers request.
 * Returns how much it was. Datagrams to a queue pair's own receive queue complete in the order in
 * which its requests were posted; a borrower that is about to publish one of an earlier request is
 * waited for, a few milliseconds at most.
 *
 * A record may fail a datagram queue pair, whose endpoint calls this again. A call that is nested
 * too deeply does nothing: the calls around it, or the next one, collect the rest.
 */
uint32_t local_collect(struct lane *lane, struct local_lane *local_lane, uint64_t now_ns);

/* Say where the next record of a watched channel will be. */
static inline void local_watch_next(struct local_qp *local)
{
	const struct request_channel *channel = local->channel;
	const struct channel_private *private = channel_private(channel);

	atomic_store_explicit(&local->watch->sequence,
		&channel->record[private->collected % CHANNEL_RECORD_COUNT].sequence,
		memory_order_relaxed);
	atomic_store_explicit(&local->watch->published,
		channel_sequence(private->generation, private->collected), memory_order_relaxed);
}

/* The channel is not watched from here on. */
void local_watch_end(struct local_qp *local);

/* local.c: collect the records of one channel. Returns how many there were. */
uint32_t local_collect_channel(struct local_qp *local, uint64_t now_ns);

/* local.c: the initiator has executed its first request. */
void local_establish(struct local_qp *local);

/* The connection of a queue pair within this host; NULL: it has none. `qp` may be NULL. */
struct local_qp *local_connection_of(struct qp *qp);

/* initiator.c: see struct qp_local_ops. */
bool local_can_execute(struct qp *qp, const struct send_wqe *wqe);
enum qp_local_result local_execute(struct qp *qp, const struct send_wqe *wqe, uint64_t now_ns,
	uint64_t *ret_at_ns, enum fault *ret_fault);

/*
 * The fast path (batch.c): execute and complete the plain requests at the head of the send queue.
 * The caller has just posted to `qp`, which has qp->local. Only an RC queue pair whose requester is
 * at rest gains. Returns false when requests remain for the transport.
 */
bool local_execute_posted(struct qp *qp, uint64_t now_ns);

/* Find the peer's channel for this queue pair. False: the peer has not opened it. */
bool local_attach(struct local_qp *local);

#endif
