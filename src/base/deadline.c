/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/deadline.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void entry_place(struct deadline_heap *heap, uint32_t position, struct deadline *deadline)
{
	heap->entries[position] = deadline;
	deadline->position = position;
}

static void sift_up(struct deadline_heap *heap, uint32_t position, struct deadline *deadline)
{
	while (position > 1 && heap->entries[position / 2]->at_ns > deadline->at_ns) {
		entry_place(heap, position, heap->entries[position / 2]);
		position /= 2;
	}
	entry_place(heap, position, deadline);
}

static void sift_down(struct deadline_heap *heap, uint32_t position, struct deadline *deadline)
{
	for (;;) {
		uint32_t child = position * 2;

		if (child > heap->count)
			break;
		if (child < heap->count &&
			heap->entries[child + 1]->at_ns < heap->entries[child]->at_ns)
			child++;
		if (heap->entries[child]->at_ns >= deadline->at_ns)
			break;
		entry_place(heap, position, heap->entries[child]);
		position = child;
	}
	entry_place(heap, position, deadline);
}

/* Put `deadline`, whose time may be new, at `position`, and restore the heap's order. */
static void entry_move(struct deadline_heap *heap, uint32_t position, struct deadline *deadline)
{
	if (position > 1 && heap->entries[position / 2]->at_ns > deadline->at_ns)
		sift_up(heap, position, deadline);
	else
		sift_down(heap, position, deadline);
}

static void entry_remove(struct deadline_heap *heap, struct deadline *deadline)
{
	uint32_t position = deadline->position;
	struct deadline *last = heap->entries[heap->count--];

	deadline->position = 0;
	if (last != deadline)
		entry_move(heap, position, last);
}

void deadline_heap_init(struct deadline_heap *heap)
{
	memset(heap, 0, sizeof(*heap));
}

void deadline_heap_done(struct deadline_heap *heap)
{
	free(heap->entries);
	memset(heap, 0, sizeof(*heap));
}

int deadline_heap_reserve(struct deadline_heap *heap, uint32_t count)
{
	if (count <= heap->capacity)
		return 0;

	uint32_t capacity = heap->capacity ? heap->capacity : 16;
	while (capacity < count)
		capacity *= 2;
	struct deadline **entries =
		realloc(heap->entries, (capacity + 1) * sizeof(struct deadline *));
	if (!entries)
		return -ENOMEM;
	heap->entries = entries;
	heap->capacity = capacity;
	return 0;
}

void deadline_set(struct deadline_heap *heap, struct deadline *deadline, uint64_t at_ns)
{
	if (deadline->position == 0) {
		deadline->at_ns = at_ns;
		if (at_ns == DEADLINE_NEVER)
			return;
		assert(heap->count < heap->capacity);
		sift_up(heap, ++heap->count, deadline);
	} else if (at_ns == DEADLINE_NEVER) {
		entry_remove(heap, deadline);
		deadline->at_ns = DEADLINE_NEVER;
	} else if (deadline->at_ns != at_ns) {
		deadline->at_ns = at_ns;
		entry_move(heap, deadline->position, deadline);
	}
}
