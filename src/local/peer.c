/* SPDX-License-Identifier: BSD-2-Clause */
#include "local/peer.h"

#include <string.h>

enum mr_fault peer_find(struct peer *peer, uint32_t key, struct mr_user user, uint32_t access,
	uint64_t iova, uint64_t bytes, struct peer_place *ret_place)
{
	uint8_t *pointer = NULL;
	enum mr_fault fault =
		mr_resolve_for(&peer->mrs, key, user, access | MR_TOUCH, iova, bytes, &pointer);
	const struct mr_slot *region;

	if (fault)
		return fault;
	ret_place->there = (uint64_t)(uintptr_t)pointer;
	ret_place->here = NULL;
	if (peer->ops->map && bytes && pointer) {
		region = mr_region_of(&peer->mrs, key);
		if (region)
			ret_place->here = peer->ops->map(peer, region, ret_place->there, bytes);
	}
	return MR_OK;
}

bool peer_put(struct peer *peer, const struct peer_place *place, uint64_t offset,
	const uint8_t *from, size_t bytes)
{
	if (place->here)
		copy_place(place->here + offset, from, bytes);
	else if (place->there && bytes)
		return peer->ops->write(peer, place->there + offset, from, bytes);
	return true;
}

bool peer_get(struct peer *peer, const struct peer_place *place, uint64_t offset, uint8_t *to,
	size_t bytes)
{
	if (place->here)
		copy_place(to, place->here + offset, bytes);
	else if (place->there && bytes)
		return peer->ops->read(peer, to, place->there + offset, bytes);
	else
		memset(to, 0, bytes);
	return true;
}
