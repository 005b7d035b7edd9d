/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/record_ring.h"

#include <errno.h>
#include <string.h>

#include "base/arith.h"

static void copy_in(
	struct record_ring *ring, uint32_t size, uint64_t at, const void *from, uint32_t count)
{
	uint32_t start = (uint32_t)at & (size - 1);
	uint32_t first = min_u32(count, size - start);

	memcpy(ring->bytes + start, from, first);
	memcpy(ring->bytes, (const uint8_t *)from + first, count - first);
}

static void copy_out(
	const struct record_ring *ring, uint32_t size, uint64_t at, void *to, uint32_t count)
{
	uint32_t start = (uint32_t)at & (size - 1);
	uint32_t first = size - start;

	if (count <= first) {
		memcpy(to, ring->bytes + start, count);
		return;
	}
	memcpy(to, ring->bytes + start, first);
	memcpy((uint8_t *)to + first, ring->bytes, count - first);
}

static void count_dropped(struct record_ring *ring, uint32_t records)
{
	atomic_store_explicit(&ring->dropped,
		atomic_load_explicit(&ring->dropped, memory_order_relaxed) + records,
		memory_order_relaxed);
}

bool record_ring_drops(struct record_ring *ring, uint32_t records)
{
	uint64_t written = atomic_load_explicit(&ring->written, memory_order_relaxed);

	if (!record_ring_is_full(ring, RECORD_RING_BYTES, written, record_room(RECORD_BYTES_MAX)))
		return false;
	count_dropped(ring, records);
	return true;
}

bool record_ring_stage_sized(struct record_ring *ring, uint32_t size, uint64_t *at,
	const struct record_piece *pieces, uint32_t count)
{
	struct record_head head = {0, 0};
	uint64_t piece_at = *at + sizeof(head);

	for (uint32_t i = 0; i < count; i++)
		head.count += pieces[i].count;
	if (record_ring_is_full(ring, size, *at, record_room(head.count))) {
		count_dropped(ring, 1);
		return false;
	}
	head.count_again = ~head.count;
	copy_in(ring, size, *at, &head, sizeof(head));
	for (uint32_t i = 0; i < count; i++) {
		copy_in(ring, size, piece_at, pieces[i].bytes, pieces[i].count);
		piece_at += pieces[i].count;
	}
	*at += record_room(head.count);
	return true;
}

bool record_ring_put_sized(
	struct record_ring *ring, uint32_t size, const struct record_piece *pieces, uint32_t count)
{
	uint64_t at = atomic_load_explicit(&ring->written, memory_order_relaxed);

	if (!record_ring_stage_sized(ring, size, &at, pieces, count))
		return false;
	record_ring_publish(ring, at);
	return true;
}

void record_ring_skip(struct record_ring *ring)
{
	atomic_store_explicit(&ring->read,
		atomic_load_explicit(&ring->written, memory_order_acquire), memory_order_release);
}

/* May a record with this header be the first one of `bytes`? */
static bool is_sound(const struct record_head *head, uint64_t bytes)
{
	return head->count_again == ~head->count && head->count != 0 &&
		head->count <= RECORD_BYTES_MAX && record_room(head->count) <= bytes;
}

int record_ring_take_sized(struct record_ring *ring, uint32_t size, uint8_t *to)
{
	uint64_t read = atomic_load_explicit(&ring->read, memory_order_relaxed);
	uint64_t there = record_ring_written(ring) - read;
	struct record_head head;

	if (there == 0)
		return 0;
	if (there > size || there < sizeof(head))
		goto fail_skip;
	copy_out(ring, size, read, &head, sizeof(head));
	if (!is_sound(&head, there))
		goto fail_skip;
	copy_out(ring, size, read + sizeof(head), to, head.count);
	atomic_store_explicit(&ring->read, read + record_room(head.count), memory_order_release);
	return (int)head.count;

fail_skip:
	record_ring_skip(ring);
	return -EPROTO;
}

bool record_ring_move(struct record_ring *ring, uint64_t bytes, uint8_t *to)
{
	uint64_t read = atomic_load_explicit(&ring->read, memory_order_relaxed);

	if (bytes > RECORD_RING_BYTES) {
		record_ring_skip(ring);
		return false;
	}
	copy_out(ring, RECORD_RING_BYTES, read, to, (uint32_t)bytes);
	atomic_store_explicit(&ring->read, read + bytes, memory_order_release);
	return true;
}

const uint8_t *record_first(const uint8_t *from, uint64_t bytes, uint32_t *ret_count)
{
	struct record_head head;

	if (bytes < sizeof(head))
		return NULL;
	memcpy(&head, from, sizeof(head));
	if (!is_sound(&head, bytes))
		return NULL;
	*ret_count = head.count;
	return from + sizeof(head);
}

uint64_t record_ring_room_sized(struct record_ring *ring, uint32_t size)
{
	uint64_t written = atomic_load_explicit(&ring->written, memory_order_relaxed);
	uint64_t used;

	ring->read_seen = atomic_load_explicit(&ring->read, memory_order_acquire);
	used = written - ring->read_seen;
	return used <= size ? size - used : 0;
}
