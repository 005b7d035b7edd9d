/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_LOCAL_INITIATOR_H
#define URNIC_LOCAL_INITIATOR_H

/*
 * What the files of the initiator share. Each request is either executed, or left to packets
 * without any effect.
 *
 * Threads: as local.h.
 */

#include "base/prefetch.h"
#include "local/local.h"

/* Set this mark in the target's channel. False: the channel was closed. */
static inline bool local_begin(struct local_qp *local, uint64_t mark)
{
	local->is_inside = local->is_inside ? channel_remark(local->target, local->generation, mark)
					    : channel_enter(local->target, local->generation, mark);
	return local->is_inside;
}

static inline void local_end(struct local_qp *local)
{
	if (local->is_inside)
		channel_leave(local->target);
	local->is_inside = false;
}

/* Set the in-use mark before bytes that `key` names are moved. */
static inline bool local_use(struct local_qp *local, uint32_t key)
{
	return local_begin(local, CHANNEL_USES_KEY | key);
}

/* Is the mark that local_use() has set still in force? */
static inline bool local_mark_holds(const struct local_qp *local)
{
	return channel_mark_holds(local->target);
}

/* --- initiator.c --- */

/* local->target is the peer's channel for this queue pair. False: the peer has none. */
static inline bool local_is_attached(struct local_qp *local)
{
	const struct request_channel *target = local->target;

	if (target && channel_generation(target) == local->generation)
		return true;
	local->target = NULL;
	return local_attach(local);
}

/* Add to a counter of the channel, which only this initiator writes. */
static inline void local_count(_Atomic uint64_t *count, uint64_t amount)
{
	uint64_t value = atomic_load_explicit(count, memory_order_relaxed);

	atomic_store_explicit(count, value + amount, memory_order_relaxed);
}

/* Ring the doorbell for the first request of the connection, which has no record. */
void local_notify_first(struct local_qp *local);

/* Requests without a receive request were executed. `count` is their counter in the channel. */
static inline void local_executed(
	struct local_qp *local, _Atomic uint64_t *count, uint32_t requests, uint32_t bytes)
{
	struct request_channel *target = local->target;

	local_count(count, requests);
	local_count(&target->bytes, bytes);
	if (atomic_load_explicit(&target->wants_first, memory_order_relaxed))
		local_notify_first(local);
}

/*
 * The buffer of the next receive request, `wr_id`, is filled: publish its record. False when the
 * channel was closed.
 */
bool local_deliver(
	struct local_qp *local, const struct send_wqe *wqe, uint32_t opcode, uint64_t wr_id);

/*
 * A SEND WITH INVALIDATE takes effect when the owner collects its record. Until then, requests that
 * name a key fall back to packets, which the owner processes after the channel.
 */
bool local_invalidates_still(struct local_qp *local);

static inline bool local_is_invalidating(struct local_qp *local)
{
	return local->is_invalidating && local_invalidates_still(local);
}

/* --- move.c --- */

/* Bytes moved under one mark: a region that is deregistered waits for no more than that. */
#define LOCAL_STEP_BYTES (4u << 20)

/* The target's end of a move: its scatter list, and the rights that it needs. */
struct local_theirs {
	const struct sge *list;
	uint32_t count;
	struct mr_user user;
	uint32_t access;
	struct mr_cached *cached; /* of this user */
};

/*
 * The address of local bytes. False: they are not in one piece, may not be accessed, or belong to
 * an imported region of another process.
 */
bool local_own_find(struct local_qp *local, uint32_t key, uint32_t access, uint64_t address,
	uint64_t bytes, uint8_t **ret_pointer);

/*
 * Look up a range, and cache the result for the next request. NULL when it cannot be cached.
 * `theirs` has one entry, whose key the mark in the channel names.
 */
const uint8_t *local_own_keep(struct local_qp *local, const struct sge *sge, uint32_t bytes);
uint8_t *local_theirs_keep(struct local_qp *local, const struct local_theirs *theirs);

/* May the request's bytes be moved, as far as rights and bounds go? */
bool local_may_move(const struct local_qp *local, const struct send_wqe *wqe,
	const struct local_theirs *theirs, bool is_written);

/*
 * Move the request's bytes, which both lists have room for. False when some may not be accessed:
 * then none was moved; or when some are not mapped.
 */
bool local_move(struct local_qp *local, const struct send_wqe *wqe,
	const struct local_theirs *theirs, bool is_written);

/* Prefetch the target of bytes that go to `iova` soon, if the cache entry covers it. */
static inline void local_prefetch(const struct mr_cached *cached, uint64_t iova)
{
	uint64_t offset = iova - cached->iova;

	if (cached->key_word && offset < cached->bytes)
		prefetch_to_write(cached->pointer + offset);
}

/* --- words.c --- */

/* FETCH AND ADD, COMPARE AND SWAP. `ret_fault` is set for QP_LOCAL_FAILED. */
enum qp_local_result local_atomic(
	struct local_qp *local, const struct send_wqe *wqe, enum fault *ret_fault);

/* ATOMIC WRITE and FLUSH (IBTA annex A19). */
enum qp_local_result local_store_word(struct local_qp *local, const struct send_wqe *wqe);
enum qp_local_result local_flush(struct local_qp *local, const struct send_wqe *wqe);

#endif
