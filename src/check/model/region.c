/* SPDX-License-Identifier: BSD-2-Clause */
#include "check/model/region.h"

#include <stdlib.h>

#include "check/check.h"
#include "check/model/protect.h"
#include "check/table.h"

/* How many deregistered regions are kept. The records of older ones are reused. */
enum { DEAD_COUNT_MAX = 1024 };

static struct table regions_by_key;
static struct table regions_by_object;
static struct region *dead[DEAD_COUNT_MAX];
static uint32_t next_dead;
static _Atomic uint32_t live_count;
static atomic_bool has_been_implicit;
static _Atomic uintptr_t lowest = UINTPTR_MAX, highest;

/* check_lock is locked. */
static struct region *region_take(void)
{
	struct region *region = dead[next_dead];

	if (!region)
		return calloc(1, sizeof(*region));
	dead[next_dead] = NULL;
	if (table_find(&regions_by_key, region->key) == region)
		table_set(&regions_by_key, region->key, NULL);
	return region;
}

void region_add(struct context_record *context, struct ibv_mr *mr, void *memory, uint64_t bytes,
	uint64_t iova, int access, uint32_t site)
{
	struct region *region;
	bool is_protectable;

	if (bytes > SIZE_MAX / 2 && (access & IBV_ACCESS_LOCAL_WRITE))
		has_been_implicit = true;
	if (!memory || bytes > SIZE_MAX / 2)
		return;
	is_protectable = protect_is_possible((uintptr_t)memory, bytes);
	pthread_mutex_lock(&check_lock);
	region = region_take();
	if (region) {
		region->is_protectable = is_protectable;
		region->mr = mr;
		region->key = region_key(context, mr->lkey);
		region->start = (uintptr_t)memory;
		region->iova = iova;
		region->bytes = bytes;
		region->access = access;
		region->site_registered = site;
		region->writes = region->watched_next = region->watched = 0;
		region->is_suspect = false;
		region->is_live = true;
		if (region->start < lowest)
			lowest = region->start;
		if (region->start + bytes > highest)
			highest = region->start + bytes;
		live_count++;
		table_set(&regions_by_key, region->key, region);
		table_set(&regions_by_object, (uintptr_t)mr, region);
	}
	pthread_mutex_unlock(&check_lock);
}

struct region *region_find(const struct context_record *context, uint32_t lkey)
{
	return table_find(&regions_by_key, region_key(context, lkey));
}

struct region *region_of(const struct ibv_mr *mr)
{
	struct region *region = table_find(&regions_by_object, (uintptr_t)mr);

	return region && region->is_live ? region : NULL;
}

void region_remove(struct region *region, uint32_t site)
{
	pthread_mutex_lock(&check_lock);
	region->is_live = false;
	region->site_deregistered = site;
	live_count--;
	table_set(&regions_by_object, (uintptr_t)region->mr, NULL);
	dead[next_dead] = region;
	next_dead = (next_dead + 1) % DEAD_COUNT_MAX;
	pthread_mutex_unlock(&check_lock);
}

struct region *region_around(uintptr_t start, uint64_t bytes)
{
	struct region *region;

	pthread_mutex_lock(&check_lock);
	for (uint32_t i = 0; (region = table_next(&regions_by_object, &i));)
		if (region->is_live && (region->access & IBV_ACCESS_REMOTE_WRITE) &&
			start >= region->start && bytes <= region->bytes &&
			start - region->start <= region->bytes - bytes)
			break;
	pthread_mutex_unlock(&check_lock);
	return region;
}

bool region_may_overlap(uintptr_t start, uint64_t bytes)
{
	return live_count > 0 && start < highest && start + bytes > lowest;
}

static bool region_overlaps(const struct region *region, uintptr_t start, uint64_t bytes)
{
	return region->is_live && start < region->start + region->bytes &&
		region->start < start + bytes;
}

bool region_overlapping(uintptr_t start, uint64_t bytes, int access)
{
	struct region *region;

	pthread_mutex_lock(&check_lock);
	for (uint32_t i = 0; (region = table_next(&regions_by_object, &i));)
		if (region_overlaps(region, start, bytes) &&
			(access == REGION_ANY_ACCESS || (region->access & access)))
			break;
	pthread_mutex_unlock(&check_lock);
	return region;
}

bool region_has_been_implicit(void)
{
	return has_been_implicit;
}

bool region_give_back(uintptr_t start, uint64_t bytes)
{
	struct region *region;
	bool is_found = false;

	pthread_mutex_lock(&check_lock);
	for (uint32_t i = 0; (region = table_next(&regions_by_object, &i));) {
		if (!region_overlaps(region, start, bytes))
			continue;
		region->is_suspect = true;
		is_found = true;
	}
	pthread_mutex_unlock(&check_lock);
	return is_found;
}

void region_restrict(uintptr_t start, uint64_t bytes, bool is_readable)
{
	struct region *region;

	pthread_mutex_lock(&check_lock);
	for (uint32_t i = 0; (region = table_next(&regions_by_object, &i));) {
		if (!region_overlaps(region, start, bytes))
			continue;
		region->is_protectable = false;
		if (!is_readable)
			region->is_suspect = true;
	}
	pthread_mutex_unlock(&check_lock);
}

uint32_t region_count(void)
{
	return live_count;
}
