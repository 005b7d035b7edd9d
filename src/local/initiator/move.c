/* SPDX-License-Identifier: BSD-2-Clause */
/* Moves bytes between a request's local memory and the target's. */
#include "local/initiator/initiator.h"

#include "memory/copy.h"

/* May the first `bytes` bytes of the memory in the target's list be accessed now? */
static bool theirs_check(
	const struct local_initiator *local, const struct local_theirs *theirs, uint64_t bytes)
{
	struct peer_place place;

	for (uint32_t i = 0; i < theirs->count && bytes; i++) {
		const struct sge *sge = &theirs->list[i];
		uint64_t part_bytes = min_u64(sge->bytes, bytes);

		if (part_bytes &&
			mr_resolve_for(&local->peer->mrs, sge->lkey, theirs->user, theirs->access,
				sge->address, part_bytes, &place.here))
			return false;
		bytes -= part_bytes;
	}
	return bytes == 0;
}

/* Find the bytes at `at`, whose key the mark in the channel names. */
static bool theirs_find(const struct local_initiator *local, const struct local_theirs *theirs,
	const struct sge *at, struct peer_place *ret_place)
{
	return !peer_find_cached(local->peer, theirs->cached, at->lkey, theirs->user,
		theirs->access, at->address, at->bytes, ret_place);
}

const uint8_t *local_own_keep(struct local_initiator *local, const struct sge *sge, uint32_t bytes)
{
	uint8_t *pointer;

	return local_own_find(local, sge->lkey, MR_LOCAL_READ, sge->address, bytes, &pointer)
		? mr_cached_find(
			  &local->own, sge->lkey, MR_LOCAL_READ | MR_TOUCH, sge->address, bytes)
		: NULL;
}

uint8_t *local_theirs_keep(struct local_initiator *local, const struct local_theirs *theirs)
{
	struct peer_place place;

	return theirs_find(local, theirs, theirs->list, &place)
		? mr_cached_find(theirs->cached, theirs->list->lkey, theirs->access | MR_TOUCH,
			  theirs->list->address, theirs->list->bytes)
		: NULL;
}

/*
 * Move bytes between `own`, which the caller has checked, and the range `at` of the target's
 * memory. On success the mark is set and was not revoked during the move.
 */
static bool move_step(struct local_initiator *local, uint8_t *own,
	const struct local_theirs *theirs, const struct sge *at, bool is_written)
{
	struct peer_place place;

	if (!local_use(local, at->lkey) || !theirs_find(local, theirs, at, &place))
		return false;
	if (place.here) {
		copy_place_any(
			is_written ? place.here : own, is_written ? own : place.here, at->bytes);
		return local_mark_holds(local);
	}
	return local_mark_holds(local) &&
		(is_written ? peer_put(local->peer, &place, 0, own, at->bytes)
			    : peer_get(local->peer, &place, 0, own, at->bytes)) &&
		local_mark_holds(local);
}

/* A position in a scatter/gather list. */
struct cursor {
	const struct sge *sge;
	uint64_t skip_bytes;
};

/*
 * Skip entries of which all bytes were moved. Returns the number of bytes left in the entry at the
 * cursor.
 */
static uint64_t cursor_left(struct cursor *cursor)
{
	while (cursor->skip_bytes == cursor->sge->bytes) {
		cursor->sge++;
		cursor->skip_bytes = 0;
	}
	return cursor->sge->bytes - cursor->skip_bytes;
}

static bool is_null_region(const struct mr_table *mrs, const uint8_t *pointer)
{
	return pointer == mrs->null_zeros || pointer == mrs->null_sink;
}

bool local_own_find(struct local_initiator *local, uint32_t key, uint32_t access, uint64_t address,
	uint64_t bytes, uint8_t **ret_pointer)
{
	const struct qp *qp = local->qp;

	return !mr_resolve_cached(qp->lane->mrs, &local->own, key, qp->pd, access | MR_TOUCH,
		address, bytes, ret_pointer);
}

/*
 * Move `bytes` bytes between the request's list and the target's list, in list order. Both lists
 * have at least that many bytes. Returns false when a step fails (move_step()); the bytes of the
 * steps before it were moved.
 */
static bool move_steps(struct local_initiator *local, const struct send_wqe *wqe,
	const struct local_theirs *theirs, uint64_t bytes, bool is_written)
{
	struct sge inlined = {(uint64_t)(uintptr_t)wqe->inline_bytes, wqe->total_bytes, 0};
	bool is_inline = wqe->flags & SEND_INLINE;
	struct cursor own = {is_inline ? &inlined : wqe->sge, 0};
	struct cursor their = {theirs->list, 0};
	uint32_t own_access = is_written ? MR_LOCAL_READ : MR_LOCAL_WRITE;

	while (bytes) {
		uint64_t own_left = cursor_left(&own), their_left = cursor_left(&their);
		uint32_t step_bytes = (uint32_t)min_u64(
			min_u64(own_left, their_left), min_u64(bytes, LOCAL_STEP_BYTES));
		uint64_t address = own.sge->address + own.skip_bytes;
		struct sge at = {
			their.sge->address + their.skip_bytes, step_bytes, their.sge->lkey};
		uint8_t *pointer = (uint8_t *)(uintptr_t)address;

		if (!is_inline &&
			!local_own_find(
				local, own.sge->lkey, own_access, address, step_bytes, &pointer))
			return false;
		if (is_null_region(local->qp->lane->mrs, pointer))
			at.bytes = step_bytes = min_u32(step_bytes, MR_NULL_BYTES);
		if (!move_step(local, pointer, theirs, &at, is_written))
			return false;
		own.skip_bytes += step_bytes;
		their.skip_bytes += step_bytes;
		bytes -= step_bytes;
	}
	return true;
}

bool local_may_move(const struct local_initiator *local, const struct send_wqe *wqe,
	const struct local_theirs *theirs, bool is_written)
{
	const struct qp *qp = local->qp;
	uint32_t own_access = is_written ? MR_LOCAL_READ : MR_LOCAL_WRITE;

	return ((wqe->flags & SEND_INLINE) ||
		       !sge_check(qp->lane->mrs, qp->pd, own_access, wqe->sge, wqe->sge_count)) &&
		theirs_check(local, theirs, wqe->total_bytes);
}

/* The usual case: one piece of local memory and one of the target's. */
static bool move_once(struct local_initiator *local, const struct send_wqe *wqe,
	const struct local_theirs *theirs, bool is_written)
{
	uint32_t own_access = is_written ? MR_LOCAL_READ : MR_LOCAL_WRITE;
	struct sge at = {theirs->list[0].address, wqe->total_bytes, theirs->list[0].lkey};
	uint8_t *own = (uint8_t *)(uintptr_t)wqe->inline_bytes;

	if (!(wqe->flags & SEND_INLINE) &&
		!local_own_find(
			local, wqe->sge[0].lkey, own_access, wqe->sge[0].address, at.bytes, &own))
		return false;
	return move_step(local, own, theirs, &at, is_written);
}

bool local_move(struct local_initiator *local, const struct send_wqe *wqe,
	const struct local_theirs *theirs, bool is_written)
{
	uint32_t bytes = wqe->total_bytes;
	bool is_inline = wqe->flags & SEND_INLINE;

	if (bytes && bytes <= MR_NULL_BYTES && (is_inline || wqe->sge_count == 1) &&
		theirs->count >= 1 && theirs->list[0].bytes >= bytes)
		return move_once(local, wqe, theirs, is_written);
	return local_may_move(local, wqe, theirs, is_written) &&
		move_steps(local, wqe, theirs, bytes, is_written);
}
