/* SPDX-License-Identifier: BSD-2-Clause */
#include "local/channel/peer.h"

#include <string.h>

#include "base/arith.h"
#include "memory/copy.h"

/*
 * The address in this process of the bytes at `offset` of the place, or NULL. *bytes is reduced to
 * the mapped length.
 */
static uint8_t *piece_map(
	struct peer *peer, const struct peer_place *place, uint64_t offset, uint64_t *bytes)
{
	return peer->ops->map ? peer->ops->map(peer, place->region, place->there + offset, bytes)
			      : NULL;
}

enum mr_fault peer_find_unseen(struct peer *peer, uint32_t key, struct mr_user user,
	uint32_t access, uint64_t iova, uint64_t bytes, struct peer_place *ret_place)
{
	uint8_t *pointer = NULL;
	enum mr_fault fault = mr_resolve_for(&peer->mrs, key, user, access, iova, bytes, &pointer);
	uint64_t piece_bytes = bytes;

	if (fault)
		return fault;
	*ret_place = (struct peer_place){NULL, (uint64_t)(uintptr_t)pointer, NULL};
	if (!bytes || !pointer)
		return MR_OK;
	ret_place->region = mr_region_of(&peer->mrs, key);
	if (!ret_place->region)
		return MR_FAULT_KEY; /* the peer has withdrawn the key since the lookup */
	ret_place->here = piece_map(peer, ret_place, 0, &piece_bytes);
	if (piece_bytes < bytes)
		ret_place->here = NULL;
	return MR_OK;
}

enum mr_fault peer_find(struct peer *peer, uint32_t key, struct mr_user user, uint32_t access,
	uint64_t iova, uint64_t bytes, struct peer_place *ret_place)
{
	return peer_find_unseen(peer, key, user, access | MR_TOUCH, iova, bytes, ret_place);
}

void peer_cache(struct peer *peer, uint32_t key, struct mr_cached *ret_cached)
{
	const struct mr_slot *region = mr_region_of(&peer->mrs, key);
	struct mr_extent extent;
	uint64_t address, start, end, bytes;

	mr_cache(&peer->mrs, key, ret_cached);
	if (!region || !ret_cached->key_word)
		return;
	address = (uintptr_t)ret_cached->pointer;
	start = address;
	end = address + ret_cached->bytes;
	if (mr_region_extent(&peer->mrs, region, &extent)) {
		start = max_u64(start, extent.start);
		end = min_u64(end, extent.end);
	}
	bytes = start < end ? end - start : 0;
	ret_cached->pointer =
		bytes && peer->ops->map ? peer->ops->map(peer, region, start, &bytes) : NULL;
	ret_cached->iova += start - address;
	ret_cached->bytes = bytes;
	if (!ret_cached->pointer)
		*ret_cached = (struct mr_cached){.key_word = NULL};
}

/* Move bytes of which this process has mapped only some. */
static bool put_pieces(struct peer *peer, const struct peer_place *place, uint64_t offset,
	const uint8_t *from, size_t bytes)
{
	while (bytes) {
		uint64_t piece_bytes = bytes;
		uint8_t *to = piece_map(peer, place, offset, &piece_bytes);

		if (to)
			copy_place_long(to, from, piece_bytes);
		else if (!peer->ops->write(peer, place->there + offset, from, piece_bytes))
			return false;
		offset += piece_bytes;
		from += piece_bytes;
		bytes -= piece_bytes;
	}
	return true;
}

static bool get_pieces(struct peer *peer, const struct peer_place *place, uint64_t offset,
	uint8_t *to, size_t bytes)
{
	while (bytes) {
		uint64_t piece_bytes = bytes;
		const uint8_t *from = piece_map(peer, place, offset, &piece_bytes);

		if (from)
			copy_place_long(to, from, piece_bytes);
		else if (!peer->ops->read(peer, to, place->there + offset, piece_bytes))
			return false;
		offset += piece_bytes;
		to += piece_bytes;
		bytes -= piece_bytes;
	}
	return true;
}

bool peer_put(struct peer *peer, const struct peer_place *place, uint64_t offset,
	const uint8_t *from, size_t bytes)
{
	if (place->here)
		copy_place_long(place->here + offset, from, bytes);
	else if (place->there)
		return put_pieces(peer, place, offset, from, bytes);
	return true;
}

bool peer_get(struct peer *peer, const struct peer_place *place, uint64_t offset, uint8_t *to,
	size_t bytes)
{
	if (place->here)
		copy_place_long(to, place->here + offset, bytes);
	else if (place->there)
		return get_pieces(peer, place, offset, to, bytes);
	else
		memset(to, 0, bytes);
	return true;
}

/* --- waking --- */

/* Is the queue armed for a completion that is, or is not, solicited? */
static bool is_awaited(const struct cq_ring *cq, bool is_solicited)
{
	switch ((enum cq_arm)atomic_load(&cq->arm)) {
	case CQ_ARM_NONE:
		return false;
	case CQ_ARM_SOLICITED:
		return is_solicited;
	case CQ_ARM_NEXT:
		return true;
	}
	return false;
}

static void waiter_wake(struct peer *peer, const struct cq_ring *cq, uint32_t lane)
{
	uint32_t number = atomic_load_explicit(&cq->waiter, memory_order_relaxed);
	struct waiter *waiter = waiter_at(peer->waiters, number);

	switch (waiter_state(waiter)) {
	case WAITER_POLLS:
		break;
	case WAITER_SLEEPS:
		atomic_fetch_add(waiter_wakes(waiter), 1);
		peer->ops->wake(peer, waiter, WAITER_SLEEPS);
		break;
	case WAITER_WATCHES:
		if (!peer->ops->wake(peer, waiter, WAITER_WATCHES))
			peer->ops->kick(peer, lane);
		break;
	case WAITER_NONE:
		peer->ops->kick(peer, lane);
		break;
	}
}

void peer_notify_armed(
	struct peer *peer, const struct cq_ring *cq, uint32_t lane, bool is_solicited)
{
	if (is_awaited(cq, is_solicited))
		waiter_wake(peer, cq, lane);
}
