/* SPDX-License-Identifier: BSD-2-Clause */
#include "front/rsocket/pieces.h"

#include <string.h>

#include "base/arith.h"

static void skip_empty(struct pieces *pieces)
{
	while (pieces->count > 1 && pieces->offset == pieces->first->iov_len) {
		pieces->first++;
		pieces->count--;
		pieces->offset = 0;
	}
}

struct pieces pieces_begin(const struct iovec *list, int count)
{
	return (struct pieces){list, count, 0};
}

size_t pieces_bytes(const struct iovec *list, int count)
{
	size_t bytes = 0;

	for (int i = 0; i < count; i++)
		bytes += list[i].iov_len;
	return bytes;
}

void pieces_copy(struct pieces *pieces, void *memory, size_t bytes, enum pieces_direction direction)
{
	uint8_t *theirs = memory;

	while (bytes) {
		skip_empty(pieces);
		size_t left = pieces->first->iov_len - pieces->offset;
		size_t part = bytes < left ? bytes : left;
		uint8_t *mine = (uint8_t *)pieces->first->iov_base + pieces->offset;

		if (direction == PIECES_OUT)
			memcpy(theirs, mine, part);
		else
			memcpy(mine, theirs, part);
		theirs += part;
		bytes -= part;
		pieces->offset += part;
	}
}

void pieces_copy_ring(struct pieces *pieces, uint8_t *ring, uint32_t size, uint32_t offset,
	uint32_t bytes, enum pieces_direction direction)
{
	uint32_t first_bytes = min_u32(size - offset, bytes);

	pieces_copy(pieces, ring + offset, first_bytes, direction);
	pieces_copy(pieces, ring, bytes - first_bytes, direction);
}
