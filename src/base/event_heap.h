/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Events of a simulation: a heap, earliest first. Events of one time leave in the order in which
 * they were pushed, so a run does not depend on the heap's shape.
 *
 * The unit of time is the caller's, as is the meaning of `what`. An event that is pushed cannot be
 * taken back. The caller serializes all calls.
 */
#ifndef URNIC_BASE_EVENT_HEAP_H
#define URNIC_BASE_EVENT_HEAP_H

#include <stdbool.h>
#include <stdint.h>

struct event {
	uint64_t at;
	uint64_t order; /* number of events that were pushed before it */
	uint64_t what;
};

/* All zero: an empty heap. */
struct event_heap {
	struct event *events;
	uint32_t count;
	uint32_t capacity;
	uint64_t pushed;
};

void event_heap_done(struct event_heap *heap);

/* Returns 0, or -ENOMEM with nothing changed. */
int event_heap_push(struct event_heap *heap, uint64_t at, uint64_t what);

/* Remove the earliest event. The heap is not empty. */
struct event event_heap_pop(struct event_heap *heap);

/* The earliest event's time; UINT64_MAX: none. */
static inline uint64_t event_heap_first_at(const struct event_heap *heap)
{
	return heap->count ? heap->events[0].at : UINT64_MAX;
}

#endif
