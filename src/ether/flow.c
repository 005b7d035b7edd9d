/* SPDX-License-Identifier: BSD-2-Clause */
#include "ether/flow.h"

#include <stdlib.h>
#include <string.h>

enum { KEY_WORDS = sizeof(struct frame_key) / sizeof(uint64_t) };

/* Rules of a smaller rank are tried first. */
static uint32_t rank_of(const struct flow_rule *rule)
{
	return (uint32_t)rule->kind << 16 | (rule->kind == FLOW_NORMAL ? rule->priority : 0);
}

struct flow_table *flow_table_with(const struct flow_table *old, const struct flow_rule *rule)
{
	uint32_t old_count = old ? old->count : 0;
	struct flow_table *table =
		calloc(1, sizeof(*table) + (old_count + 1) * sizeof(struct flow_rule *));
	uint32_t place = 0;

	if (!table)
		return NULL;
	while (place < old_count && rank_of(old->rules[place]) <= rank_of(rule))
		place++;
	for (uint32_t i = 0; i < old_count; i++)
		table->rules[i < place ? i : i + 1] = old->rules[i];
	table->rules[place] = rule;
	table->count = old_count + 1;
	return table;
}

void flow_table_remove(struct flow_table *table, const struct flow_rule *rule)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < table->count; i++)
		if (table->rules[i] != rule)
			table->rules[kept++] = table->rules[i];
	table->count = kept;
}

static bool is_key_matching(const struct flow_rule *rule, const struct frame_key *key)
{
	uint64_t value[KEY_WORDS], mask[KEY_WORDS], have[KEY_WORDS];
	uint64_t difference = 0;

	memcpy(value, &rule->value, sizeof(value));
	memcpy(mask, &rule->mask, sizeof(mask));
	memcpy(have, key, sizeof(have));
	for (int i = 0; i < KEY_WORDS; i++)
		difference |= (have[i] ^ value[i]) & mask[i];
	return !difference;
}

static bool is_matching(const struct flow_rule *rule, const struct flow_frame *frame)
{
	if (rule->ifindex != frame->ifindex)
		return false;
	switch (rule->kind) {
	case FLOW_SNIFFER:
		return true;
	case FLOW_NORMAL:
		return !frame->is_departing && is_key_matching(rule, &frame->key);
	case FLOW_MULTICAST_DEFAULT:
		return !frame->is_departing && (frame->key.dst_mac[0] & 1);
	case FLOW_ALL_DEFAULT:
		return !frame->is_departing;
	}
	return false;
}

static bool does_end_search(const struct flow_rule *rule)
{
	return rule->kind == FLOW_NORMAL ? rule->does_trap : rule->kind != FLOW_SNIFFER;
}

const struct flow_rule *flow_table_find(
	const struct flow_table *table, const struct flow_frame *frame, const struct qp *owner)
{
	uint32_t last_rank = UINT32_MAX;

	for (uint32_t i = 0; table && i < table->count; i++) {
		const struct flow_rule *rule = table->rules[i];

		if (rank_of(rule) > last_rank)
			return NULL;
		if (!is_matching(rule, frame))
			continue;
		if (rule->owner == owner)
			return rule;
		if (does_end_search(rule))
			last_rank = rank_of(rule);
	}
	return NULL;
}
