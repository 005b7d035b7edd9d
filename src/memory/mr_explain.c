/* SPDX-License-Identifier: BSD-2-Clause */
#include "memory/mr_explain.h"

#include "base/arith.h"
#include "memory/mr_borrowed.h"
#include "memory/mr_internal.h"

void mr_gone_note(
	const struct mr_table *table, const struct mr_slot *slot, uint32_t key, bool is_changed)
{
	struct mr_gone_list *list = table->gone;
	struct mr_gone gone;

	if (!list || !table->now_ns)
		return;
	gone = (struct mr_gone){
		.at_ns = table->now_ns(),
		.start = mr_slot_get(&slot->iova),
		.bytes = mr_slot_get(&slot->bytes),
		.key = key,
		.access = atomic_load_explicit(&slot->access, memory_order_relaxed),
		.is_changed = is_changed,
	};
	spin_lock(&list->lock);
	list->entry[list->count++ % MR_GONE_MAX] = gone;
	spin_unlock(&list->lock);
}

/* Copy the newest entry with this key. Returns false if there is none. */
static bool gone_find(const struct mr_table *table, uint32_t key, struct mr_gone *ret_gone)
{
	struct mr_gone_list *list = table->gone;

	*ret_gone = (struct mr_gone){.at_ns = 0};
	if (!list)
		return false;
	spin_lock(&list->lock);
	for (uint32_t i = 0; i < MR_GONE_MAX; i++) {
		const struct mr_gone *it = &list->entry[i];

		if (it->at_ns && it->key == key && it->at_ns >= ret_gone->at_ns)
			*ret_gone = *it;
	}
	spin_unlock(&list->lock);
	return ret_gone->at_ns != 0;
}

/* How many bytes of address space lie between two ranges; 0: they touch or overlap. */
static uint64_t range_distance(uint64_t a, uint64_t a_bytes, uint64_t b, uint64_t b_bytes)
{
	if (a < b)
		return b - a > a_bytes ? b - a - a_bytes : 0;
	return a - b > b_bytes ? a - b - b_bytes : 0;
}

static void region_describe(struct mr_explanation *explanation, const struct mr_slot *slot)
{
	explanation->start = mr_slot_get(&slot->iova);
	explanation->bytes = mr_slot_get(&slot->bytes);
	explanation->access = MR_ACCESS_DEFINED & ~(uint32_t)(MR_LOCAL_READ | MR_TOUCH) &
		atomic_load_explicit(&slot->access, memory_order_relaxed);
}

static void nearest_find(const struct mr_table *table, uint64_t iova, uint64_t bytes,
	struct mr_explanation *explanation)
{
	for (uint32_t i = 0; i < table->fresh_count; i++) {
		const struct mr_slot *slot = &table->slots[i];
		uint64_t distance = range_distance(
			iova, bytes, mr_slot_get(&slot->iova), mr_slot_get(&slot->bytes));

		if (mr_slot_kind(slot) != MR_KIND_REGION ||
			(explanation->explained && distance >= explanation->distance_bytes))
			continue;
		explanation->explained = MR_EXPLAINED_NEAREST;
		explanation->distance_bytes = distance;
		explanation->key = (uint32_t)mr_slot_get(&slot->key_word);
		region_describe(explanation, slot);
	}
}

static void gone_describe(
	struct mr_explanation *explanation, const struct mr_gone *gone, uint64_t now_ns)
{
	explanation->ago_ns = max_u64(now_ns, gone->at_ns + 1) - gone->at_ns;
	if (gone->is_changed)
		return;
	explanation->explained = MR_EXPLAINED_GONE;
	explanation->key = gone->key;
	explanation->start = gone->start;
	explanation->bytes = gone->bytes;
	explanation->access =
		gone->access & MR_ACCESS_DEFINED & ~(uint32_t)(MR_LOCAL_READ | MR_TOUCH);
}

struct mr_explanation mr_explain(const struct mr_table *table, uint32_t key, struct mr_user user,
	uint32_t access, uint64_t iova, uint64_t bytes, uint64_t now_ns)
{
	struct mr_explanation explanation = {
		.fault = mr_check(table, key, user, access, iova, bytes)};
	const struct mr_slot *slot = mr_slot_find(table, key);
	struct mr_gone gone;
	bool is_gone = gone_find(table, key, &gone);

	if (slot && mr_slot_kind(slot) != MR_KIND_REGION)
		return explanation;
	if (slot) {
		explanation.explained = MR_EXPLAINED_KEY;
		explanation.key = key;
		region_describe(&explanation, slot);
		if (iova >= explanation.start && iova - explanation.start < explanation.bytes)
			explanation.first_outside =
				min_u64(bytes, explanation.bytes - (iova - explanation.start));
	} else if (!is_gone) {
		nearest_find(table, iova, bytes, &explanation);
		explanation.is_swapped = mr_slot_find(table, __builtin_bswap32(key)) != NULL;
	}
	if (is_gone)
		gone_describe(&explanation, &gone, now_ns);
	return explanation;
}

uint32_t sge_refused(const struct mr_table *table, uint32_t pd, uint32_t access,
	const struct sge *list, uint32_t count)
{
	uint32_t i = 0;

	while (i < count &&
		(!list[i].bytes ||
			!mr_check(table, list[i].lkey, (struct mr_user){pd, 0}, access,
				list[i].address, list[i].bytes)))
		i++;
	return i;
}
