/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/event_heap.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "base/arith.h"

/*
 * With four children a pop reads half as many cache lines as with two, because four children share
 * a line or two.
 */
enum { CHILD_COUNT = 4, CAPACITY_MIN = 64 };

static bool is_earlier(const struct event *a, const struct event *b)
{
	return a->at < b->at || (a->at == b->at && a->order < b->order);
}

void event_heap_done(struct event_heap *heap)
{
	free(heap->events);
	*heap = (struct event_heap){0};
}

static int heap_grow(struct event_heap *heap)
{
	uint32_t capacity = max_u32(CAPACITY_MIN, 2 * heap->capacity);
	struct event *events =
		(struct event *)realloc(heap->events, capacity * sizeof(struct event));

	if (!events)
		return -ENOMEM;
	heap->events = events;
	heap->capacity = capacity;
	return 0;
}

int event_heap_push(struct event_heap *heap, uint64_t at, uint64_t what)
{
	struct event event = {at, heap->pushed, what};
	uint32_t hole = heap->count;

	if (heap->count == heap->capacity && heap_grow(heap))
		return -ENOMEM;
	heap->count++;
	heap->pushed++;
	while (hole && is_earlier(&event, &heap->events[(hole - 1) / CHILD_COUNT])) {
		heap->events[hole] = heap->events[(hole - 1) / CHILD_COUNT];
		hole = (hole - 1) / CHILD_COUNT;
	}
	heap->events[hole] = event;
	return 0;
}

/* The earliest child of `hole`; heap->count or more: it has none. */
static uint32_t child_earliest(const struct event_heap *heap, uint32_t hole)
{
	uint32_t first = CHILD_COUNT * hole + 1;
	uint32_t end = min_u32(first + CHILD_COUNT, heap->count);
	uint32_t earliest = first;

	for (uint32_t child = first + 1; child < end; child++)
		if (is_earlier(&heap->events[child], &heap->events[earliest]))
			earliest = child;
	return earliest;
}

struct event event_heap_pop(struct event_heap *heap)
{
	assert(heap->count);
	struct event first = heap->events[0];
	struct event last = heap->events[--heap->count];
	uint32_t hole = 0;

	for (;;) {
		uint32_t child = child_earliest(heap, hole);

		if (child >= heap->count || !is_earlier(&heap->events[child], &last))
			break;
		heap->events[hole] = heap->events[child];
		hole = child;
	}
	heap->events[hole] = last;
	return first;
}
