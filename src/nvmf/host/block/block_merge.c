/* SPDX-License-Identifier: BSD-2-Clause */
#include "nvmf/host/block/block_merge.h"

#include <string.h>

void block_merger_init(struct block_merger *merger, struct block_device *device)
{
	merger->device = device;
	list_init(&merger->changes);
}

static uint64_t block_begin(const struct block_device *device, uint64_t offset)
{
	return offset & ~(uint64_t)(device->block_bytes - 1);
}

static uint64_t block_end(const struct block_device *device, uint64_t offset)
{
	return block_begin(device, offset + device->block_bytes - 1);
}

uint64_t block_merge_bytes(const struct block_device *device, uint64_t offset, uint64_t length)
{
	uint64_t covered = block_end(device, offset + length) - block_begin(device, offset);

	return covered == length ? 0 : covered;
}

static bool has_conflict(const struct block_change *change, const struct block_change *other)
{
	return (change->is_merging || other->is_merging) && change->from < other->to &&
		other->from < change->to;
}

static bool waits_for_earlier(struct block_merger *merger, const struct block_change *change)
{
	list_for_each(earlier, &merger->changes, struct block_change, node) {
		if (earlier == change)
			return false;
		if (has_conflict(change, earlier))
			return true;
	}
	return false;
}

static void changes_begin(struct block_merger *merger);

static void block_done(struct block_request *block, int error)
{
	struct block_change *change = container_of(block, struct block_change, block);
	struct block_merger *merger = change->merger;

	if (!error && block->op == BLOCK_READ) {
		memcpy(change->blocks + (change->offset_bytes - change->from), change->data,
			change->length_bytes);
		block->op = BLOCK_WRITE;
		block_submit(merger->device, block);
		return;
	}
	list_remove(&change->node);
	change->done(change, error);
	changes_begin(merger);
}

static void change_begin(struct block_merger *merger, struct block_change *change)
{
	change->has_begun = true;
	change->block = (struct block_request){
		.op = change->is_merging ? BLOCK_READ : change->op,
		.offset_bytes = change->is_merging ? change->from : change->offset_bytes,
		.length_bytes =
			change->is_merging ? change->to - change->from : change->length_bytes,
		.data = change->is_merging ? change->blocks : change->data,
		.done = block_done,
	};
	block_submit(merger->device, &change->block);
}

static struct block_change *next_ready(struct block_merger *merger)
{
	list_for_each(change, &merger->changes, struct block_change, node)
		if (!change->has_begun && !waits_for_earlier(merger, change))
			return change;
	return NULL;
}

/* A change may be done within change_begin(), which then calls this function again. */
static void changes_begin(struct block_merger *merger)
{
	struct block_change *change = NULL;

	while ((change = next_ready(merger)))
		change_begin(merger, change);
}

void block_merge(struct block_merger *merger, struct block_change *change)
{
	change->merger = merger;
	change->has_begun = false;
	change->from = block_begin(merger->device, change->offset_bytes);
	change->to = block_end(merger->device, change->offset_bytes + change->length_bytes);
	change->is_merging =
		change->op == BLOCK_WRITE && change->to - change->from != change->length_bytes;
	list_append(&merger->changes, &change->node);
	changes_begin(merger);
}
