/* SPDX-License-Identifier: BSD-2-Clause */
#include "queue/tags.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"

/* A handle is an entry's generation and, in the low INDEX_BITS bits, its index. */
enum { INDEX_BITS = 10 };

static_assert(TAGS_COUNT_MAX <= 1 << INDEX_BITS, "an index fits a handle");

struct entry {
	struct list link; /* in `waiting`, oldest first, or in `free` */
	uint32_t generation; /* number of times that the entry was used; 0: never */
	bool is_waiting;
	bool is_active;
	uint64_t tag;
	uint64_t mask;
	struct recv_wqe buffer;
};

struct tags {
	struct spin lock;
	uint32_t count;
	uint32_t unexpected_count; /* number of unexpected messages so far */
	uint32_t handled_count; /* number of those that the program has reported as handled */
	struct list waiting;
	struct list free;
	struct entry entries[];
};

struct tags *tags_create(uint32_t count)
{
	struct tags *tags = calloc(1, sizeof(*tags) + count * sizeof(struct entry));

	assert(count > 0 && count <= TAGS_COUNT_MAX);
	if (!tags)
		return NULL;
	tags->count = count;
	list_init(&tags->waiting);
	list_init(&tags->free);
	for (uint32_t i = 0; i < count; i++)
		list_append(&tags->free, &tags->entries[i].link);
	return tags;
}

void tags_destroy(struct tags *tags)
{
	free(tags);
}

static bool is_in_sync(const struct tags *tags)
{
	return tags->unexpected_count == tags->handled_count;
}

/*
 * The caller has changed one of the two counts. If the counts are equal now, all buffers become
 * active.
 */
static void entry_activate(struct tags *tags)
{
	if (!is_in_sync(tags))
		return;
	list_for_each(entry, &tags->waiting, struct entry, link)
		entry->is_active = true;
}

static void give_back(struct tags *tags, struct entry *entry)
{
	list_remove(&entry->link);
	list_append(&tags->free, &entry->link);
	entry->is_waiting = false;
}

static int entry_add(struct tags *tags, struct tag_wr *wr)
{
	struct entry *entry;

	if (wr->sge_count > SGE_COUNT_MAX)
		return -EINVAL;
	if (list_is_empty(&tags->free))
		return -ENOMEM;
	entry = list_first(&tags->free, struct entry, link);
	list_remove(&entry->link);
	list_append(&tags->waiting, &entry->link);
	entry->generation++;
	entry->is_waiting = true;
	entry->is_active = is_in_sync(tags);
	entry->tag = wr->tag;
	entry->mask = wr->mask;
	entry->buffer.wr_id = wr->recv_wr_id;
	entry->buffer.sge_count = wr->sge_count;
	if (wr->sge_count)
		memcpy(entry->buffer.sge, wr->sge, wr->sge_count * sizeof(struct sge));
	entry->buffer.total_bytes = sge_total_bytes(wr->sge, wr->sge_count);
	wr->handle = entry->generation << INDEX_BITS | (uint32_t)(entry - tags->entries);
	return 0;
}

/*
 * *ret_fault becomes FAULT_TAG_GONE when a message has taken the buffer, or the program has removed
 * it before.
 */
static int remove_entry(struct tags *tags, uint32_t handle, enum fault *ret_fault)
{
	uint32_t index = handle & ((1u << INDEX_BITS) - 1);
	uint32_t generation_mask = UINT32_MAX >> INDEX_BITS;
	struct entry *entry;

	if (index >= tags->count || !tags->entries[index].generation)
		return -EINVAL;
	entry = &tags->entries[index];
	if (!entry->is_waiting || handle >> INDEX_BITS != (entry->generation & generation_mask))
		*ret_fault = FAULT_TAG_GONE;
	else
		give_back(tags, entry);
	return 0;
}

/* The list is locked. */
static int list_execute(struct tags *tags, struct tag_wr *wr, enum fault *ret_fault)
{
	if (wr->has_count || wr->operation == TAG_SYNC) {
		tags->handled_count = wr->unexpected_count;
		entry_activate(tags);
	}
	switch (wr->operation) {
	case TAG_ADD:
		return entry_add(tags, wr);
	case TAG_REMOVE:
		return remove_entry(tags, wr->handle, ret_fault);
	case TAG_SYNC:
		return 0;
	}
	return -EINVAL;
}

int tags_execute(struct tags *tags, struct tag_wr *wr, struct cqe *ret_cqe)
{
	static const uint32_t opcode_of[] = {
		[TAG_ADD] = WC_TM_ADD, [TAG_REMOVE] = WC_TM_DEL, [TAG_SYNC] = WC_TM_SYNC};
	enum fault fault = FAULT_NONE;
	bool needs_sync;
	int error;

	spin_lock(&tags->lock);
	error = list_execute(tags, wr, &fault);
	needs_sync = !is_in_sync(tags);
	spin_unlock(&tags->lock);
	if (!error)
		*ret_cqe = (struct cqe){
			.wr_id = wr->wr_id,
			.status = fault_status(fault),
			.fault = fault,
			.opcode = opcode_of[wr->operation],
			.flags = needs_sync ? WC_TM_SYNC_REQ : 0,
		};
	return error;
}

static struct entry *entry_find(struct tags *tags, uint64_t tag)
{
	list_for_each(entry, &tags->waiting, struct entry, link)
		if (entry->is_active && (tag & entry->mask) == entry->tag)
			return entry;
	return NULL;
}

/*
 * Take a request for a message that tags_take() has already counted as unexpected. Because of the
 * count, a buffer that the program adds meanwhile is inactive. The list is not locked while `take`
 * runs, because `take` locks the receive queue.
 */
static enum tag_match take_unexpected(
	struct tags *tags, tags_take_fn *take, void *context, struct recv_wqe *wqe)
{
	if (take(context, wqe))
		return TAG_UNEXPECTED;
	spin_lock(&tags->lock);
	tags->unexpected_count--;
	entry_activate(tags);
	spin_unlock(&tags->lock);
	return TAG_NOT_READY;
}

enum tag_match tags_take(struct tags *tags, uint64_t tag, bool may_match, tags_take_fn *take,
	void *context, struct recv_wqe *wqe)
{
	enum tag_match match = TAG_NOT_READY;
	struct entry *entry;

	spin_lock(&tags->lock);
	entry = entry_find(tags, tag);
	if (entry && may_match) {
		*wqe = entry->buffer;
		give_back(tags, entry);
		match = TAG_MATCHED;
	} else if (!entry) {
		tags->unexpected_count++;
	}
	spin_unlock(&tags->lock);
	return entry ? match : take_unexpected(tags, take, context, wqe);
}

void tags_check(const struct tags *tags)
{
	uint32_t seen = 0;

	list_for_each(entry, &tags->waiting, struct entry, link) {
		assert(entry->is_waiting && entry->generation);
		assert(entry->is_active || !is_in_sync(tags));
		seen++;
	}
	list_for_each(entry, &tags->free, struct entry, link) {
		assert(!entry->is_waiting);
		seen++;
	}
	assert(seen == tags->count);
}
