/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The application's memory as a list of pieces, with a position that advances as bytes are copied.
 */
#ifndef URNIC_FRONT_RSOCKET_PIECES_H
#define URNIC_FRONT_RSOCKET_PIECES_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

struct pieces {
	const struct iovec *first; /* the piece at the position; `count` pieces begin here */
	int count;
	size_t offset; /* offset of the position in the first piece */
};

enum pieces_direction { PIECES_OUT, PIECES_IN };

/* Start at the beginning of `list`, which must stay valid during all copies. */
struct pieces pieces_begin(const struct iovec *list, int count);

size_t pieces_bytes(const struct iovec *list, int count);

/*
 * Copy `bytes` bytes between the position in the list and `memory`: from the list (PIECES_OUT), or
 * into the list (PIECES_IN). The position advances. The list must have that many bytes left.
 */
void pieces_copy(
	struct pieces *pieces, void *memory, size_t bytes, enum pieces_direction direction);

/*
 * Do what pieces_copy() does, with a ring buffer of `size` bytes in place of `memory`. The copy
 * begins at `offset` in the ring.
 */
void pieces_copy_ring(struct pieces *pieces, uint8_t *ring, uint32_t size, uint32_t offset,
	uint32_t bytes, enum pieces_direction direction);

#endif
