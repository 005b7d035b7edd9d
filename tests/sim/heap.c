/* SPDX-License-Identifier: BSD-2-Clause */
#include "heap.h"

#include <stdlib.h>
#include <string.h>

#include "base/arith.h"

enum { GAP_BYTES_MAX = 16, GAP_FILL = 0xc5 };

void heap_init(struct heap *heap, struct world *world, struct host *host, uint64_t bytes)
{
	*heap = (struct heap){.world = world, .memory = calloc(1, bytes), .bytes = bytes};
	if (!heap->memory)
		abort();
	heap->key = world_register(world, host, WORLD_PD, MR_LOCAL_WRITE, heap->memory, bytes);
}

void heap_done(struct heap *heap)
{
	free(heap->memory);
}

static uint8_t *take(struct heap *heap, uint64_t bytes)
{
	uint8_t *memory = heap->memory + heap->used_bytes;

	heap->used_bytes += bytes;
	if (heap->used_bytes > heap->bytes)
		abort();
	memset(memory, GAP_FILL, bytes);
	return memory;
}

static uint64_t random_of(struct heap *heap, uint64_t limit)
{
	return sim_random_below(&heap->world->random, limit);
}

void heap_take_pieces(
	struct heap *heap, struct piece_list *list, uint32_t bytes, uint32_t count_max)
{
	uint32_t left_bytes = bytes;

	list->count = bytes ? 1 + (uint32_t)random_of(heap, count_max) : 0;
	take(heap, random_of(heap, GAP_BYTES_MAX));
	for (uint32_t i = 0; i < list->count; i++) {
		bool is_last = i == list->count - 1;
		uint32_t piece_bytes =
			is_last ? left_bytes : (uint32_t)random_of(heap, left_bytes + 1ull);
		uint8_t *memory = take(heap, piece_bytes);

		list->sge[i] = (struct sge){(uintptr_t)memory, piece_bytes, heap->key};
		left_bytes -= piece_bytes;
		take(heap, 1 + random_of(heap, GAP_BYTES_MAX));
	}
}

static uint8_t *piece_at(const struct sge *sge)
{
	return (uint8_t *)(uintptr_t)sge->address;
}

void heap_clear_piece(const struct sge *sge)
{
	memset(piece_at(sge), GAP_FILL, sge->bytes);
}

void pieces_fill(const struct piece_list *list, const uint8_t *from)
{
	for (uint32_t i = 0; i < list->count; i++) {
		memcpy(piece_at(&list->sge[i]), from, list->sge[i].bytes);
		from += list->sge[i].bytes;
	}
}

bool pieces_hold(const struct piece_list *list, const uint8_t *expected, uint32_t bytes)
{
	for (uint32_t i = 0; i < list->count; i++) {
		const uint8_t *piece = piece_at(&list->sge[i]);
		uint32_t used_bytes = min_u32(bytes, list->sge[i].bytes);

		if (memcmp(piece, expected, used_bytes) != 0)
			return false;
		for (uint32_t j = used_bytes; j <= list->sge[i].bytes; j++)
			if (piece[j] != GAP_FILL)
				return false;
		expected += used_bytes;
		bytes -= used_bytes;
	}
	return bytes == 0;
}
