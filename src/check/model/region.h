/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory regions that the program has registered, and those that it has deregistered since. */
#ifndef URNIC_CHECK_MODEL_REGION_H
#define URNIC_CHECK_MODEL_REGION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "check/model/object.h"

struct region {
	struct ibv_mr *mr;
	uint64_t key; /* of the table */
	uintptr_t start; /* in memory */
	uint64_t iova; /* the address by which requests name `start` */
	uint64_t bytes;
	int access;
	uint32_t site_registered;
	uint32_t site_deregistered;
	_Atomic bool is_live;
	_Atomic bool is_protectable; /* protect.h */
	/* The WRITEs to it so far, the one to watch next, and how many were watched (watch.h) */
	uint32_t writes, watched_next, watched;
	/* The program has freed, unmapped or protected memory of it: reading it may fail. */
	_Atomic bool is_suspect;
};

/*
 * Add a region that was registered at `site`. Implicit regions (of the whole address space) and
 * those without memory of the program are not added.
 */
void region_add(struct context_record *context, struct ibv_mr *mr, void *memory, uint64_t bytes,
	uint64_t iova, int access, uint32_t site);

/* The key of a region in the table. */
static inline uint64_t region_key(const struct context_record *context, uint32_t lkey)
{
	return (uint64_t)(context->number + 1) << 32 | lkey;
}

/* The region of `lkey`, also a deregistered one; NULL: unknown. Any thread, without a lock. */
struct region *region_find(const struct context_record *context, uint32_t lkey);

/* The live region that has all these bytes and that peers may write; NULL: none. */
struct region *region_around(uintptr_t start, uint64_t bytes);

/* The live region of this object; NULL: unknown. */
struct region *region_of(const struct ibv_mr *mr);

/* The region is deregistered. */
void region_remove(struct region *region, uint32_t site);

/* Are the `bytes` at `address` of a request within the region? */
static inline bool region_has(const struct region *region, uint64_t address, uint64_t bytes)
{
	uint64_t offset = address - region->iova;

	return offset <= region->bytes && bytes <= region->bytes - offset;
}

static inline uintptr_t region_memory(const struct region *region, uint64_t address)
{
	return region->start + (address - region->iova);
}

/*
 * The program gives these bytes back to the system or the heap: mark the regions that have them.
 * Returns true if there is such a region.
 */
bool region_give_back(uintptr_t start, uint64_t bytes);

/*
 * The program is about to protect these bytes from itself: the checker does not protect the regions
 * that have them any more, and without `is_readable` it has the kernel read them.
 */
void region_restrict(uintptr_t start, uint64_t bytes, bool is_readable);

enum { REGION_ANY_ACCESS = -1 };

/* True if a live region has one of these bytes, and one of the rights of `access`. */
bool region_overlapping(uintptr_t start, uint64_t bytes, int access);

/*
 * True once the program has had an implicit region that can be written. Its requests are unknown,
 * and may have any memory as their target.
 */
bool region_has_been_implicit(void);

/* True if a region may have one of these bytes; quick. */
bool region_may_overlap(uintptr_t start, uint64_t bytes);

/* The number of live regions. */
uint32_t region_count(void);

#endif
