/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Deadlines: a binary heap of intrusive entries, earliest first.
 *
 * Each object has one entry with one time. Callers reserve a place for each entry beforehand with
 * deadline_heap_reserve(), so deadline_set() never allocates. To set, move or clear a deadline is
 * O(log n); to find the earliest one is O(1). Times are monotonic nanoseconds. The caller
 * serializes all calls.
 */
#ifndef URNIC_BASE_DEADLINE_H
#define URNIC_BASE_DEADLINE_H

#include <stddef.h>
#include <stdint.h>

#define DEADLINE_NEVER UINT64_MAX

struct deadline {
	uint64_t at_ns;
	uint32_t position; /* place in the heap, from 1 up; 0: the deadline is not set */
};

struct deadline_heap {
	struct deadline **entries; /* entries[1] is the earliest; entries[0] is not used */
	uint32_t count;
	uint32_t capacity;
};

void deadline_heap_init(struct deadline_heap *heap);
void deadline_heap_done(struct deadline_heap *heap);

/* Reserve room for `count` deadlines in all. Returns 0, or -ENOMEM with nothing changed. */
int deadline_heap_reserve(struct deadline_heap *heap, uint32_t count);

/* Set or move a deadline. DEADLINE_NEVER clears it. */
void deadline_set(struct deadline_heap *heap, struct deadline *deadline, uint64_t at_ns);

/* Returns the earliest deadline, which stays in the heap, or NULL when the heap is empty. */
static inline struct deadline *deadline_heap_first(const struct deadline_heap *heap)
{
	return heap->count ? heap->entries[1] : NULL;
}

#endif
