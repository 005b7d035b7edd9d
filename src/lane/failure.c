/* SPDX-License-Identifier: BSD-2-Clause */
#include "lane/failure.h"

#include <stddef.h>
#include <string.h>

#include "base/arith.h"

bool failure_fact(const struct failure *failure, enum fact fact, uint64_t *ret_value)
{
	for (uint32_t i = 0; i < failure->facts.count && i < FAILURE_FACTS_MAX; i++) {
		if (failure->facts.fact[i] == fact) {
			*ret_value = failure->facts.value[i];
			return true;
		}
	}
	return false;
}

static bool is_same_failure(const struct failure *a, const struct failure *b)
{
	return a->reason == b->reason && a->qpn == b->qpn && strcmp(a->text, b->text) == 0;
}

/* The entry that counts this failure; NULL: it is the first of its kind in the list. */
static struct failure *failure_earlier(struct failures *failures, const struct failure *failure)
{
	uint64_t kept = min_u64(failures->count, FAILURES_MAX);

	if (!failure->is_repeated)
		return NULL;
	for (uint64_t i = 0; i < kept; i++) {
		struct failure *it = &failures->list[(failures->count - 1 - i) % FAILURES_MAX];

		if (is_same_failure(it, failure))
			return it;
	}
	return NULL;
}

bool failures_count(struct failures *failures, uint32_t reason, uint32_t qpn, uint64_t now_ns)
{
	struct failure *newest;
	bool is_counted;

	spin_lock(&failures->lock);
	newest = &failures->list[(failures->count - 1) % FAILURES_MAX];
	/*
	 * A repetition whose number is a power of two goes to failures_add(), which reports it to
	 * the owner.
	 */
	is_counted = failures->count && newest->reason == reason && newest->qpn == qpn &&
		newest->is_repeated && !newest->text[0] &&
		(newest->count & (newest->count + 1)) != 0;
	if (is_counted) {
		newest->count++;
		newest->at_ns = now_ns;
	}
	spin_unlock(&failures->lock);
	return is_counted;
}

void failures_add(struct failures *failures, const struct failure *failure)
{
	struct failure *entry;
	struct failure copy;
	uint32_t place;

	if (!failures)
		return;
	spin_lock(&failures->lock);
	entry = failure_earlier(failures, failure);
	if (entry) {
		entry->count++;
		entry->at_ns = failure->at_ns;
	} else {
		entry = &failures->list[failures->count++ % FAILURES_MAX];
		*entry = *failure;
		entry->number = failures->count;
		entry->count = 1;
	}
	place = (uint32_t)(entry - failures->list);
	copy = *entry;
	spin_unlock(&failures->lock);
	if (failures->noted && (copy.count & (copy.count - 1)) == 0)
		failures->noted(&copy, place);
}
