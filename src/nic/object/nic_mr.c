/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory regions, memory windows, and device memory.
 *
 * A thread that changes or removes a key locks every lane. So no lane copies bytes meanwhile, and
 * no lane finds a half-changed region.
 */
#include <errno.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/arith.h"
#include "memory/mw.h"
#include "nic/object/nic_object.h"
#include "os/own_thread.h"
#include "segment/segment.h"

/* Unlock all lanes, and publish the number of regions. The NIC is locked. */
static void lanes_leave(void)
{
	nic_for_each_worker(worker_unlock);
	if (nic.is_up)
		nic.public->mr_count = mr_table_count(&nic.mrs);
}

/* --- memory that peers can map ------------------------------------------------------------ */

/*
 * Is the region memory of the program, neither NIC memory nor on demand? A program keeps such
 * memory mapped as long as the region exists.
 */
static bool is_program_memory(const struct mr_region *region)
{
	return !(region->access & MR_ON_DEMAND) && !arena_contains(&nic.arena, region->address);
}

/*
 * Lock the NIC. If `is_wanted`, first park urnic's threads. That works only if the caller is the
 * only other thread. Returns whether they are parked.
 */
static bool enter_alone(bool is_wanted)
{
	bool is_alone = is_wanted && own_threads_park();

	nic_enter();
	return is_alone;
}

static void leave_alone(bool is_alone)
{
	nic_leave();
	if (is_alone)
		own_threads_unpark();
}

/*
 * For memory of the program: reference the segment that has it, and return the segment's extent.
 * For NIC memory: return the region's extent. For any other memory: return an empty extent. The NIC
 * is locked.
 */
static struct mr_extent extent_ref(const struct mr_region *region)
{
	struct mr_extent extent = {0, 0, 0};
	uint64_t start = (uintptr_t)region->address;

	if (is_program_memory(region))
		return segment_ref(region->address, region->bytes);
	if (arena_contains(&nic.arena, region->address))
		extent = (struct mr_extent){start, start + region->bytes, SEGMENT_NIC_MEMORY};
	return extent;
}

static void extent_unref(const struct mr_region *region, bool is_alone)
{
	if (is_program_memory(region))
		segment_unref(region->address, region->bytes, is_alone);
}

/*
 * The region has ended or changed while a suspended peer is in the middle of a copy to or from its
 * memory. If the memory was moved to a segment, make it private again. Then no other process uses
 * the part of the file that the peer has mapped. Memory that the program itself shares with other
 * processes stays shared. All lanes are locked.
 */
static void extent_give_up(const struct mr_region *region, bool is_alone)
{
	if (!is_program_memory(region) || !segments_are_moved(region->address, region->bytes))
		return;
	mr_table_suspend(&nic.mrs);
	segments_give_up(&nic.mrs, region->address, region->bytes, is_alone);
	mr_table_resume(&nic.mrs);
}

/*
 * Does the region's memory have to be moved? If so, the caller parks urnic's threads, because the
 * move is safest while they are parked.
 */
static bool is_cover_wanted(const struct mr_region *region)
{
	bool is_wanted;

	nic_enter();
	is_wanted = !nic_start() && is_program_memory(region) &&
		segment_is_wanted(region->address, region->bytes);
	nic_leave();
	return is_wanted;
}

static bool is_moved(uint32_t key, uint32_t pd)
{
	struct mr_region region;
	bool is;

	nic_enter();
	is = nic.is_up && mr_table_find(&nic.mrs, key, pd, &region) && is_program_memory(&region) &&
		segments_are_moved(region.address, region.bytes);
	nic_leave();
	return is;
}

/* Add a region and its extent to the table. The NIC is locked. Returns 0 or -errno. */
static int region_add(const struct mr_region *region, bool is_alone, uint32_t *ret_key)
{
	struct mr_extent extent = extent_ref(region);
	int error = mr_table_add(&nic.mrs, region, nic_random_byte(), ret_key);

	if (error)
		extent_unref(region, is_alone);
	else
		mr_table_place(&nic.mrs, *ret_key, &extent);
	nic.public->mr_count = mr_table_count(&nic.mrs);
	return error;
}

/*
 * Let peers map all present regions. The table is suspended, so no lane uses the regions' memory.
 */
static void cover_all(bool is_alone)
{
	struct mr_region region;
	struct mr_extent extent;

	for (uint32_t i = 0; mr_table_next(&nic.mrs, &i, &region);)
		if (is_program_memory(&region))
			segment_cover(region.address, region.bytes, is_alone, false);
	for (uint32_t i = 0; mr_table_next(&nic.mrs, &i, &region);) {
		extent = extent_ref(&region);
		mr_table_place_last(&nic.mrs, i, &extent);
	}
}

void nic_mr_make_mappable(void)
{
	bool is_alone = enter_alone(true);

	if (nic.is_up && segments_begin()) {
		nic_for_each_worker(worker_lock);
		if (mr_table_suspend(&nic.mrs))
			cover_all(is_alone);
		mr_table_resume(&nic.mrs);
		lanes_leave();
	}
	leave_alone(is_alone);
}

/* --- regions ------------------------------------------------------------------------------ */

int nic_mr_register(const struct mr_region *region, uint32_t *ret_key)
{
	bool is_wanted = is_cover_wanted(region);
	bool is_alone = enter_alone(is_wanted);
	int error = nic_start();

	if (!error) {
		if (is_wanted)
			segment_cover(region->address, region->bytes, is_alone,
				mr_table_overlaps(
					&nic.mrs, (uintptr_t)region->address, region->bytes));
		error = region_add(region, is_alone, ret_key);
	}
	leave_alone(is_alone);
	return error;
}

int nic_mr_register_null(uint32_t pd, uint32_t *ret_key)
{
	int error;

	nic_enter();
	error = nic_start();
	if (!error)
		error = mr_table_add_null(&nic.mrs, pd, nic_random_byte(), ret_key);
	if (!error)
		nic.public->mr_count = mr_table_count(&nic.mrs);
	nic_leave();
	return error;
}

int nic_mr_change(uint32_t key, uint32_t pd, const struct mr_region *region)
{
	bool is_alone = enter_alone(is_moved(key, pd));
	struct mr_region before;
	bool is_held = false;
	int error = -EINVAL;

	nic_for_each_worker(worker_lock);
	if (nic.is_up && mr_table_find(&nic.mrs, key, pd, &before)) {
		struct mr_extent extent = extent_ref(region);

		error = mr_table_change(&nic.mrs, key, pd, region);
		if (error >= 0)
			mr_table_place(&nic.mrs, key, &extent);
		if (error == MR_IN_USE)
			extent_give_up(&before, is_alone);
		is_held = true;
	}
	lanes_leave();
	if (is_held)
		extent_unref(error < 0 ? region : &before, is_alone);
	leave_alone(is_alone);
	return error < 0 ? error : 0;
}

int nic_mr_deregister(uint32_t key, uint32_t pd)
{
	bool is_alone = enter_alone(is_moved(key, pd));
	struct mr_region region;
	bool is_region = nic.is_up && mr_table_find(&nic.mrs, key, pd, &region);
	int error;

	nic_for_each_worker(worker_lock);
	error = nic.is_up ? mr_table_remove(&nic.mrs, key, pd) : -EINVAL;
	if (is_region && error == MR_IN_USE)
		extent_give_up(&region, is_alone);
	lanes_leave();
	if (is_region && error >= 0)
		extent_unref(&region, is_alone);
	leave_alone(is_alone);
	return error < 0 ? error : 0;
}

int nic_mw_create(uint32_t pd, enum mr_kind kind, uint32_t *ret_key)
{
	int error;

	nic_enter();
	error = nic_start();
	if (!error)
		error = mw_add(&nic.mrs, pd, kind, kind == MR_KIND_WINDOW_2 ? 0 : nic_random_byte(),
			ret_key);
	nic_leave();
	return error;
}

int nic_mw_destroy(uint32_t key, uint32_t pd)
{
	int error;

	nic_enter();
	nic_for_each_worker(worker_lock);
	error = nic.is_up ? mw_remove(&nic.mrs, key, pd) : -EINVAL;
	lanes_leave();
	nic_leave();
	return error;
}

static uintptr_t page_of(const void *address)
{
	return (uintptr_t)address & ~((uintptr_t)getpagesize() - 1);
}

/*
 * Does the kernel support MADV_POPULATE_WRITE? Linux before 5.14 does not: it returns EINVAL, even
 * for a page that is mapped.
 */
static bool can_populate(void)
{
	static _Atomic int answer; /* 1: yes; -1: no; 0: not tested yet */
	char known[1] = {0};

	if (!answer)
		answer = madvise((void *)page_of(known), 1, MADV_POPULATE_WRITE) ? -1 : 1;
	return answer > 0;
}

bool nic_memory_touch(void *address, uint64_t bytes, bool is_written)
{
	uintptr_t start = (uintptr_t)address;
	uintptr_t first = page_of(address);

	if (madvise((void *)first, start - first + bytes,
		    is_written ? MADV_POPULATE_WRITE : MADV_POPULATE_READ) == 0)
		return true;
	return errno == EINVAL && !can_populate();
}

int nic_mr_find(uint32_t key, uint32_t pd, uint32_t access, uint64_t iova, uint64_t bytes,
	void **ret_address)
{
	enum mr_fault fault = MR_FAULT_KEY;
	uint8_t *pointer = NULL;

	nic_enter();
	if (nic.is_up)
		fault = mr_resolve(&nic.mrs, key, pd, access, iova, bytes, &pointer);
	nic_leave();
	*ret_address = pointer;
	return mr_fault_errno(fault);
}

int nic_dm_create(uint64_t bytes, uint32_t log_align, struct nic_dm *ret_dm)
{
	uint64_t align = 1ull << log_align;
	uint64_t block_bytes = bytes + (align > ARENA_BLOCK_BYTES_MIN ? align : 0);
	uint64_t offset = 0;
	int error;

	nic_enter();
	error = nic_start();
	if (!error)
		offset = arena_alloc_shared(&nic.arena, block_bytes);
	if (!error && !offset)
		error = -ENOMEM;
	if (!error) {
		uintptr_t start = (uintptr_t)arena_peers_side(arena_at(&nic.arena, offset));

		*ret_dm = (struct nic_dm){
			.memory = (uint8_t *)align_up_u64(start, align),
			.bytes = bytes,
			.offset = offset,
			.epoch = nic_epoch,
		};
	}
	nic_leave();
	return error;
}

bool nic_dm_is_alive(const struct nic_dm *dm)
{
	return dm->epoch == nic_epoch;
}

void nic_dm_destroy(struct nic_dm *dm)
{
	nic_enter();
	if (dm->epoch == nic_epoch && dm->owner)
		dm->release(dm->owner);
	else if (dm->epoch == nic_epoch)
		arena_free(&nic.arena, dm->offset);
	nic_leave();
}
