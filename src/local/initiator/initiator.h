/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_LOCAL_INITIATOR_INITIATOR_H
#define URNIC_LOCAL_INITIATOR_INITIATOR_H

/*
 * What the files of the initiator share. Each request is either executed or falls back to packets.
 * If a request has moved some bytes before it falls back, the packets move the same bytes again.
 *
 * Threads: the caller holds the lane's lock.
 */

#include "base/prefetch.h"
#include "local/initiator/local_qp.h"

/* Set `mark` in the target's channel. Returns false when the channel was closed. */
static inline bool local_begin(struct local_initiator *local, uint64_t mark)
{
	local->is_inside = local->is_inside ? channel_remark(local->target, local->generation, mark)
					    : channel_enter(local->target, local->generation, mark);
	return local->is_inside;
}

static inline void local_end(struct local_initiator *local)
{
	if (local->is_inside)
		channel_leave(local->target);
	local->is_inside = false;
}

/*
 * Set the in-use mark for `key`, before bytes of its memory are moved. Returns false when the
 * channel was closed.
 */
static inline bool local_use(struct local_initiator *local, uint32_t key)
{
	return local_begin(local, CHANNEL_USES_KEY | key);
}

/* Is the mark that local_use() has set still in force? */
static inline bool local_mark_holds(const struct local_initiator *local)
{
	return channel_mark_holds(local->target);
}

/* --- initiator.c --- */

/*
 * Is the initiator's `target` the peer's open channel for this queue pair? If not, find that
 * channel. Returns false when there is none.
 */
static inline bool local_is_attached(struct qp *qp)
{
	struct local_initiator *local = qp->initiator;
	const struct request_channel *target = local->target;

	if (target && channel_generation(target) == local->generation)
		return true;
	if (target)
		local->target = NULL;
	return local_attach(qp);
}

/* Add to a counter of the channel, which only this initiator writes. */
static inline void local_count(_Atomic uint64_t *count, uint64_t amount)
{
	uint64_t value = atomic_load_explicit(count, memory_order_relaxed);

	atomic_store_explicit(count, value + amount, memory_order_relaxed);
}

/* Ring the doorbell for the connection's first request, which publishes no record. */
void local_notify_first(struct local_initiator *local);

/* Count executed requests that take no receive request. `count` is the counter of their kind. */
static inline void local_executed(
	struct local_initiator *local, _Atomic uint64_t *count, uint32_t requests, uint32_t bytes)
{
	struct request_channel *target = local->target;

	local_count(count, requests);
	local_count(&target->bytes, bytes);
	if (atomic_load_explicit(&target->wants_first, memory_order_relaxed))
		local_notify_first(local);
}

/*
 * The buffer of the next receive request, which has `wr_id`, is filled. Publish its record. Returns
 * false when the channel was closed.
 */
bool local_deliver(
	struct local_initiator *local, const struct send_wqe *wqe, uint32_t opcode, uint64_t wr_id);

/*
 * May a key that a SEND WITH INVALIDATE named still be valid? The owner invalidates the key when it
 * collects the record of that SEND. Until then, requests that name a key fall back to packets. The
 * owner collects the channel before it processes a packet, so the key is invalid by then.
 */
bool local_invalidates_still(struct local_initiator *local);

static inline bool local_is_invalidating(struct local_initiator *local)
{
	return local->is_invalidating && local_invalidates_still(local);
}

/* --- move.c --- */

/*
 * The most bytes that are moved under one mark, so that deregistration never waits for a longer
 * copy.
 */
#define LOCAL_STEP_BYTES (4u << 20)

/* The target's end of a move: the list of its memory, and the rights that the move needs there. */
struct local_theirs {
	const struct sge *list;
	uint32_t count;
	struct mr_user user;
	uint32_t access;
	/* The last lookup of a key of `list`; valid only for this `user` */
	struct mr_cached *cached;
};

/*
 * Find the address of local bytes. Returns false when the key does not grant the access, or names
 * memory that is borrowed from another process.
 */
bool local_own_find(struct local_initiator *local, uint32_t key, uint32_t access, uint64_t address,
	uint64_t bytes, uint8_t **ret_pointer);

/*
 * Look up a range, and cache the result for the next request. Returns the range's address; NULL if
 * the access is refused, or the result cannot be cached. local_own_keep() is for local memory,
 * local_theirs_keep() for the target's. `theirs` has one entry, and the mark in the channel names
 * the key of that entry.
 */
const uint8_t *local_own_keep(struct local_initiator *local, const struct sge *sge, uint32_t bytes);
uint8_t *local_theirs_keep(struct local_initiator *local, const struct local_theirs *theirs);

/* Do the keys on both sides grant the move of the request's bytes (rights and bounds)? */
bool local_may_move(const struct local_initiator *local, const struct send_wqe *wqe,
	const struct local_theirs *theirs, bool is_written);

/*
 * Move the request's bytes; both lists have room for them. With `is_written` they move to the
 * target. Returns false when a key does not grant the access; then no byte was moved. Also returns
 * false when memory could not be reached, or when the mark was revoked; then some bytes may have
 * been moved.
 */
bool local_move(struct local_initiator *local, const struct send_wqe *wqe,
	const struct local_theirs *theirs, bool is_written);

/* Prefetch the line at `iova`, to which bytes will be moved soon, if the cache entry covers it. */
static inline void local_prefetch(const struct mr_cached *cached, uint64_t iova)
{
	uint64_t offset = iova - cached->iova;

	if (cached->key_word && offset < cached->bytes)
		prefetch_to_write(cached->pointer + offset);
}

/* --- words.c --- */

/* Execute FETCH AND ADD or COMPARE AND SWAP. After QP_LOCAL_FAILED *ret_fault is the reason. */
enum qp_local_result local_atomic(
	struct local_initiator *local, const struct send_wqe *wqe, enum fault *ret_fault);

/* Execute ATOMIC WRITE or FLUSH (IBTA annex A19). */
enum qp_local_result local_store_word(struct local_initiator *local, const struct send_wqe *wqe);
enum qp_local_result local_flush(struct local_initiator *local, const struct send_wqe *wqe);

#endif
