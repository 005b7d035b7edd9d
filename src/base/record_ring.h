/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_BASE_RECORD_RING_H
#define URNIC_BASE_RECORD_RING_H

/*
 * A ring of records of any length, from one writer to one reader in another process.
 *
 * The writer never waits: what finds no room is dropped, and counted. Each side writes one index,
 * and trusts the other with nothing: a writer sees a full ring where the reader's index makes no
 * sense, a reader loses what is in the ring where the writer's does not. Plain data without
 * pointers; zeroed memory is an empty ring, and no page of it is touched that no record has
 * reached.
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
	alignas(64) _Atomic uint64_t written; /* bytes, ever; the writer's, as is the next */
	_Atomic uint64_t dropped; /* records, ever */
	alignas(64) _Atomic uint64_t read; /* bytes, ever; the reader's */
	alignas(64) uint8_t bytes[RECORD_RING_BYTES];
};

struct record_piece {
	const void *bytes;
	uint32_t count;
};

/*
 * Append one record: the `count` pieces behind each other, RECORD_BYTES_MAX at most. False, and
 * counted, when there is no room.
 */
bool record_ring_put(struct record_ring *ring, const struct record_piece *pieces, uint32_t count);

/*
 * Take out the oldest record.
 *
 * `to`  Room for RECORD_BYTES_MAX.
 *
 * Returns its length, 0 when there is none; or -EPROTO when the writer does not keep to the rules:
 * then everything was thrown away.
 */
int record_ring_take(struct record_ring *ring, uint8_t *to);

/* Begin anew, as reader. */
void record_ring_skip(struct record_ring *ring);

#endif
