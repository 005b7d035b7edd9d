/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_BASE_RECORD_RING_H
#define URNIC_BASE_RECORD_RING_H

/*
 * A ring of records of any length, from a writer to a reader in another process.
 *
 * The writer never waits: a record that finds no room is dropped and counted. Each side writes one
 * index and does not trust the other's. The writer treats an impossible reader's index as a full
 * ring; the reader answers an impossible writer's index by emptying the ring. Plain data without
 * pointers; zeroed memory is an empty ring. A page is untouched until a record reaches it.
 *
 * Threads: one writer and one reader, at the same time.
 */

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
	RECORD_RING_BYTES = 1 << 23, /* a power of two */
	RECORD_BYTES_MAX = 1 << 13,
};

struct record_ring {
	alignas(64) _Atomic uint64_t written; /* bytes in all; the writer's, as is the next */
	_Atomic uint64_t dropped; /* records in all */
	alignas(64) _Atomic uint64_t read; /* bytes in all; the reader's */
	alignas(64) uint8_t bytes[RECORD_RING_BYTES];
};

struct record_piece {
	const void *bytes;
	uint32_t count;
};

/*
 * Append a record: the `count` pieces behind each other, RECORD_BYTES_MAX at most. When there is no
 * room, the record is counted as dropped, and the result is false.
 */
bool record_ring_put(struct record_ring *ring, const struct record_piece *pieces, uint32_t count);

/*
 * Take out the oldest record.
 *
 * `to`  Room for RECORD_BYTES_MAX.
 *
 * Returns its length; 0 when there is none; -EPROTO when the writer broke the rules, and the ring
 * was emptied.
 */
int record_ring_take(struct record_ring *ring, uint8_t *to);

/* Empty the ring, as its reader. */
void record_ring_skip(struct record_ring *ring);

#endif
