/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_BASE_RECORD_RING_H
#define URNIC_BASE_RECORD_RING_H

/*
 * A ring by which a writer passes records to a reader in another process. A record has at most
 * RECORD_BYTES_MAX bytes.
 *
 * The writer never waits: a record for which the ring has no room is dropped and counted. The
 * writer writes `written`, the reader writes `read`, and neither trusts the other's index. If
 * `read` is impossible when the writer reads it, the writer treats the ring as full. If `written`
 * is impossible, the reader empties the ring. The ring has no pointers, and zeroed memory is an
 * empty ring. A page is untouched until a record reaches it.
 *
 * A ring may be smaller than the struct: its memory may end after the first `size` elements of
 * `bytes`. Both ends then pass this size to each function that has a parameter `size`. It is a
 * power of two, and at least 2 * RECORD_BYTES_MAX.
 *
 * Threads: one writer and one reader, at the same time.
 */

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/arith.h"

enum {
	RECORD_RING_BYTES = 1 << 23, /* a power of two */
	RECORD_BYTES_MAX = 1 << 13,
};

struct record_ring {
	/*
	 * Bytes put into the ring since its creation, headers and padding included. The writer
	 * alone writes this member and `dropped`.
	 */
	alignas(64) _Atomic uint64_t written;
	_Atomic uint64_t dropped; /* records for which the ring had no room, since its creation */
	/*
	 * The value of `read` that the writer saw last. The writer reads `read` again only when the
	 * ring seems to have no room, because the reader's processor has that cache line.
	 */
	uint64_t read_seen;
	/* The part of `written` that the reader has taken. The reader alone writes this member. */
	alignas(64) _Atomic uint64_t read;
	alignas(64) uint8_t bytes[RECORD_RING_BYTES];
};

/* The header before each record. A record's bytes are padded to a multiple of the header's size. */
struct record_head {
	uint32_t count; /* bytes of the record, without padding */
	uint32_t count_again; /* ~count, so that the reader rejects zeros and most other garbage */
};

static inline uint64_t record_room(uint32_t count)
{
	return sizeof(struct record_head) + align_up_u64(count, sizeof(struct record_head));
}

struct record_piece {
	const void *bytes;
	uint32_t count;
};

/* The bytes of memory that a ring of this size takes. */
static inline size_t record_ring_memory(uint32_t size)
{
	return offsetof(struct record_ring, bytes) + size;
}

/*
 * Append a record that consists of the `count` pieces in their order. The pieces together have at
 * most RECORD_BYTES_MAX bytes. Returns false, and counts the record as dropped, when the ring has
 * no room for it.
 */
bool record_ring_put_sized(
	struct record_ring *ring, uint32_t size, const struct record_piece *pieces, uint32_t count);

static inline bool record_ring_put(
	struct record_ring *ring, const struct record_piece *pieces, uint32_t count)
{
	return record_ring_put_sized(ring, RECORD_RING_BYTES, pieces, count);
}

/*
 * record_ring_put_sized() in two steps. The writer stages several records, then publishes all of
 * them at once. So a reader that polls finds all of them together.
 *
 * record_ring_stage_sized(): write a record at *at, which is `written` for the first one, and set
 * *at to its end. The reader does not see the record yet.
 * record_ring_publish(): let the reader see all records before `at`.
 */
bool record_ring_stage_sized(struct record_ring *ring, uint32_t size, uint64_t *at,
	const struct record_piece *pieces, uint32_t count);

static inline void record_ring_publish(struct record_ring *ring, uint64_t at)
{
	atomic_store_explicit(&ring->written, at, memory_order_release);
}

/*
 * Does the ring lack room for `bytes`, headers included, behind the position `written`? Only the
 * writer may call this.
 */
static inline bool record_ring_is_full(
	struct record_ring *ring, uint32_t size, uint64_t written, uint64_t bytes)
{
	uint64_t used = written - ring->read_seen;

	if (used <= size && bytes <= size - used)
		return false;
	ring->read_seen = atomic_load_explicit(&ring->read, memory_order_acquire);
	used = written - ring->read_seen;
	return used > size || bytes > size - used;
}

/*
 * Returns the place of the next record, of at most `bytes`. The writer makes the record there,
 * without a copy, and record_ring_commit() appends it. NULL: the place is not in one piece, or the
 * ring has no room. No drop is counted then; the caller uses record_ring_put(). The place is
 * aligned to 8 bytes. The reader's process may change it at any time, so the writer does not read
 * what it has written.
 */
static inline void *record_ring_place(struct record_ring *ring, uint32_t bytes)
{
	uint64_t written = atomic_load_explicit(&ring->written, memory_order_relaxed);
	/* A hostile process may have changed `written`, so align the place here. */
	uint32_t start = (uint32_t)(written + sizeof(struct record_head)) &
		(RECORD_RING_BYTES - sizeof(struct record_head));

	if (bytes > RECORD_RING_BYTES - start ||
		record_ring_is_full(ring, RECORD_RING_BYTES, written, record_room(bytes)))
		return NULL;
	return ring->bytes + start;
}

/* `place` is the result of record_ring_place(), which is not NULL. */
static inline void record_ring_commit(struct record_ring *ring, void *place, uint32_t bytes)
{
	uint64_t written = atomic_load_explicit(&ring->written, memory_order_relaxed);
	const struct record_head head = {bytes, ~bytes};
	/* A place at the beginning of the ring has its header at the end of the ring. */
	void *before = place == ring->bytes ? ring->bytes + RECORD_RING_BYTES : place;

	memcpy((uint8_t *)before - sizeof(head), &head, sizeof(head));
	atomic_store_explicit(&ring->written, written + record_room(bytes), memory_order_release);
}

/*
 * How many bytes the ring has room for, the header of each record included. Only the writer may
 * call this.
 */
uint64_t record_ring_room_sized(struct record_ring *ring, uint32_t size);

static inline uint64_t record_ring_room(struct record_ring *ring)
{
	return record_ring_room_sized(ring, RECORD_RING_BYTES);
}

/*
 * Does the ring lack room for a record of the largest size? Then count `records` as dropped. The
 * writer calls this before it makes a record that costs time to make.
 */
bool record_ring_drops(struct record_ring *ring, uint32_t records);

/*
 * Take out the oldest record.
 *
 * `to`  Receives the record; has room for RECORD_BYTES_MAX bytes.
 *
 * Returns the record's length, or 0 when there is none. Returns -EPROTO, and empties the ring, when
 * the writer has left an impossible index or header.
 */
int record_ring_take_sized(struct record_ring *ring, uint32_t size, uint8_t *to);

static inline uint64_t record_ring_written(const struct record_ring *ring)
{
	return atomic_load_explicit(&ring->written, memory_order_acquire);
}

/*
 * The same in two steps, for a reader that moves many records to memory of its own, so that it
 * reads and writes the lines that it shares with the writer once for all of them.
 *
 * record_ring_move(): take out the first `bytes`, whole records, which are what lies before a
 * record_ring_written(). Returns false, and empties the ring, if the writer has left an impossible
 * index.
 * record_first(): the first record in `bytes` of such memory, which is aligned to 8 bytes, and its
 * length. NULL: the writer has left an impossible header. The next record follows after
 * record_room() of that length.
 */
bool record_ring_move(struct record_ring *ring, uint64_t bytes, uint8_t *to);
const uint8_t *record_first(const uint8_t *from, uint64_t bytes, uint32_t *ret_count);

static inline int record_ring_take(struct record_ring *ring, uint8_t *to)
{
	return record_ring_take_sized(ring, RECORD_RING_BYTES, to);
}

/* Does the ring have no record? Only the reader may call this. */
static inline bool record_ring_is_empty(const struct record_ring *ring)
{
	return atomic_load_explicit(&ring->written, memory_order_acquire) ==
		atomic_load_explicit(&ring->read, memory_order_relaxed);
}

/* Discard all records. Only the reader may call this. */
void record_ring_skip(struct record_ring *ring);

#endif
