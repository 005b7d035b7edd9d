/* SPDX-License-Identifier: BSD-2-Clause */
#include "memory/mw.h"

#include <assert.h>
#include <errno.h>

#include "base/arith.h"
#include "memory/mr_internal.h"

/* The rights that a bind may grant; it grants no other right of mw_bind.access. */
#define GRANTED (MR_REMOTE_ANY | MR_FLUSH_GLOBAL)

/* The window, bound or not, that the upper 24 bits of `key` name; NULL when there is none. */
static struct mr_slot *window_find(const struct mr_table *table, uint32_t key)
{
	uint32_t plain = permute_back(table->permutation, key >> MR_KEY_VARIANT_BITS);
	uint32_t index = plain & (MR_SLOT_COUNT_MAX - 1);

	if (index >= table->slot_count)
		return NULL;
	struct mr_slot *slot = &table->slots[index];
	return mr_kind_is_window(mr_slot_kind(slot)) &&
			slot->generation == plain >> MR_KEY_SLOT_BITS
		? slot
		: NULL;
}

static bool is_bound(const struct mr_slot *slot)
{
	return atomic_load_explicit(&slot->key_word, memory_order_relaxed) != 0;
}

/* Unbind a window. It is bound, and the caller holds its lock. */
static void window_unbind(const struct mr_table *table, struct mr_slot *slot)
{
	atomic_store_explicit(&slot->key_word, 0, memory_order_relaxed);
	/* A reader that sees one of the next writes also sees that `key_word` is 0. */
	atomic_thread_fence(memory_order_release);
	atomic_store_explicit(&slot->qpn, 0, memory_order_relaxed);
	atomic_fetch_sub_explicit(
		&table->slots[slot->region_index].window_count, 1, memory_order_relaxed);
}

int mw_add(
	struct mr_table *table, uint32_t pd, enum mr_kind kind, uint8_t variant, uint32_t *ret_key)
{
	assert(mr_kind_is_window(kind));
	struct mr_slot *slot = mr_slot_take(table, pd, kind);

	if (!slot)
		return -ENOMEM;
	*ret_key = mr_slot_key(table, slot, variant);
	return 0;
}

int mw_remove(struct mr_table *table, uint32_t key, uint32_t pd)
{
	struct mr_slot *slot = window_find(table, key);

	if (!slot || slot->pd != pd)
		return -EINVAL;
	if (is_bound(slot))
		window_unbind(table, slot);
	atomic_thread_fence(memory_order_seq_cst);
	if (table->quiesce)
		table->quiesce(key);
	mr_slot_free(table, slot);
	return 0;
}

/* Does the region allow the bind (IBTA 10.6.7.2.1)? */
static enum mr_fault region_check(const struct mr_slot *region, const struct mw_bind *bind)
{
	uint32_t access = atomic_load_explicit(&region->access, memory_order_relaxed);
	bool needs_local_write = (bind->access & (MR_REMOTE_WRITE | MR_REMOTE_ATOMIC)) != 0;

	if (region->pd != bind->user.pd)
		return MR_FAULT_PD;
	if (!(access & MR_WINDOW_BIND) || (needs_local_write && !(access & MR_LOCAL_WRITE)) ||
		((bind->access & MR_FLUSH_GLOBAL) && !(access & MR_FLUSH_GLOBAL)))
		return MR_FAULT_ACCESS;
	if (!range_inside(bind->iova, bind->bytes, mr_slot_get(&region->iova),
		    mr_slot_get(&region->bytes)))
		return MR_FAULT_BOUNDS;
	return MR_OK;
}

/* Bind the window. The caller holds the window's lock, and has checked the bind. */
static void bind_execute(const struct mr_table *table, struct mr_slot *slot, struct mr_slot *region,
	const struct mw_bind *bind)
{
	uint64_t offset = bind->iova - mr_slot_get(&region->iova);
	uint64_t iova = bind->access & MR_ZERO_BASED ? 0 : bind->iova;
	uint32_t qpn = mr_slot_kind(slot) == MR_KIND_WINDOW_2 ? bind->user.qpn : 0;

	uint32_t touch = atomic_load_explicit(&region->access, memory_order_relaxed) & MR_TOUCH;

	mr_slot_set(slot, (bind->access & GRANTED) | touch, iova, bind->bytes,
		mr_slot_get(&region->address) + offset);
	atomic_store_explicit(&slot->qpn, qpn, memory_order_relaxed);
	slot->region_index = (uint32_t)(region - table->slots);
	atomic_fetch_add_explicit(&region->window_count, 1, memory_order_relaxed);
	mr_slot_publish(slot, bind->key);
}

static enum mr_fault bind_locked(
	const struct mr_table *table, struct mr_slot *slot, const struct mw_bind *bind)
{
	bool is_type_2 = mr_slot_kind(slot) == MR_KIND_WINDOW_2;
	struct mr_slot *region = NULL;

	if (slot->pd != bind->user.pd)
		return MR_FAULT_PD;
	if (is_type_2 && is_bound(slot))
		return MR_FAULT_STATE;
	if (is_type_2 && !bind->bytes)
		return MR_FAULT_BOUNDS;
	if (bind->bytes) {
		enum mr_fault fault;

		region = mr_slot_find(table, bind->region_key);
		if (!region || mr_slot_kind(region) != MR_KIND_REGION)
			return MR_FAULT_KEY;
		fault = region_check(region, bind);
		if (fault)
			return fault;
	}
	if (is_bound(slot))
		window_unbind(table, slot);
	if (region)
		bind_execute(table, slot, region, bind);
	return MR_OK;
}

enum mr_fault mw_bind(const struct mr_table *table, const struct mw_bind *bind)
{
	struct mr_slot *slot = window_find(table, bind->key);
	enum mr_fault fault;

	if (!slot)
		return MR_FAULT_KEY;
	spin_lock(&slot->lock);
	fault = bind_locked(table, slot, bind);
	spin_unlock(&slot->lock);
	return fault;
}

/* May `user` invalidate `key`, if it is the key of `slot` now? */
static enum mr_fault invalidate_check(const struct mr_slot *slot, uint32_t key, struct mr_user user)
{
	if (!mr_slot_has_key(slot, key, memory_order_acquire))
		return MR_FAULT_KEY;
	if (mr_slot_kind(slot) != MR_KIND_WINDOW_2)
		return MR_FAULT_ACCESS;
	return atomic_load_explicit(&slot->qpn, memory_order_relaxed) == user.qpn ? MR_OK
										  : MR_FAULT_PD;
}

enum mr_fault mw_check(const struct mr_table *table, uint32_t key, struct mr_user user)
{
	const struct mr_slot *slot = mr_slot_find(table, key);

	return slot ? invalidate_check(slot, key, user) : MR_FAULT_KEY;
}

enum mr_fault mw_invalidate(const struct mr_table *table, uint32_t key, struct mr_user user)
{
	struct mr_slot *slot = mr_slot_find(table, key);
	enum mr_fault fault;

	if (!slot)
		return MR_FAULT_KEY;
	spin_lock(&slot->lock);
	fault = invalidate_check(slot, key, user);
	if (!fault)
		window_unbind(table, slot);
	spin_unlock(&slot->lock);
	return fault;
}

void mw_release(const struct mr_table *table, uint32_t qpn)
{
	for (uint32_t i = 0; i < table->fresh_count; i++) {
		struct mr_slot *slot = &table->slots[i];

		if (mr_slot_kind(slot) != MR_KIND_WINDOW_2)
			continue;
		spin_lock(&slot->lock);
		if (is_bound(slot) && atomic_load_explicit(&slot->qpn, memory_order_relaxed) == qpn)
			window_unbind(table, slot);
		spin_unlock(&slot->lock);
	}
}
