/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory regions that the program has registered, with those that it has deregistered since. */
#ifndef URNIC_CHECK_MODEL_REGION_H
#define URNIC_CHECK_MODEL_REGION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "check/model/object.h"

struct region {
	struct ibv_mr *mr;
	uint64_t key; /* the key in the table of regions */
	uintptr_t start; /* the region's address in memory */
	uint64_t iova; /* the address by which requests name `start` */
	uint64_t bytes;
	int access;
	uint32_t site_registered;
	uint32_t site_deregistered;
	_Atomic bool is_live;
	_Atomic bool is_protectable; /* its pages can be protected (protect.h) */
	/*
	 * For watch.h: the number of WRITEs to the region so far, which of them to watch next, and
	 * how many were watched
	 */
	uint32_t writes, watched_next, watched;
	/*
	 * The program has freed, unmapped or protected memory of the region, so a read of it may
	 * fail.
	 */
	_Atomic bool is_suspect;
};

/*
 * Add a region that was registered at `site`. Implicit regions (of the whole address space) are not
 * added, nor are regions without memory of the program.
 */
void region_add(struct context_record *context, struct ibv_mr *mr, void *memory, uint64_t bytes,
	uint64_t iova, int access, uint32_t site);

/* The key of a region in the table. */
static inline uint64_t region_key(const struct context_record *context, uint32_t lkey)
{
	return (uint64_t)(context->number + 1) << 32 | lkey;
}

/*
 * The region of `lkey`, live or deregistered; NULL: unknown. Any thread may call, without a lock.
 */
struct region *region_find(const struct context_record *context, uint32_t lkey);

/* The live region that has all these bytes and to which peers may write; NULL: none. */
struct region *region_around(uintptr_t start, uint64_t bytes);

/* The live region of `mr`; NULL: unknown. */
struct region *region_of(const struct ibv_mr *mr);

/* The region is deregistered. */
void region_remove(struct region *region, uint32_t site);

/* Are the `bytes` bytes at `address`, as a request names it, within the region? */
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
 * The program is about to change the protection of these bytes. From now on the checker does not
 * protect the regions that have them. If the bytes will not be readable (`is_readable`), the
 * checker lets the kernel read them.
 */
void region_restrict(uintptr_t start, uint64_t bytes, bool is_readable);

enum { REGION_ANY_ACCESS = -1 };

/* True if a live region has one of these bytes, and one of the rights of `access`. */
bool region_overlapping(uintptr_t start, uint64_t bytes, int access);

/*
 * Has the program ever had a writable implicit region? The checker does not know the requests that
 * use such a region; they may write to any memory.
 */
bool region_has_been_implicit(void);

/* May a region have one of these bytes? The answer is quick, and true in case of doubt. */
bool region_may_overlap(uintptr_t start, uint64_t bytes);

/* The number of live regions. */
uint32_t region_count(void);

#endif
