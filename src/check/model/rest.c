/* SPDX-License-Identifier: BSD-2-Clause */
#include "check/model/rest.h"

#include "check/check.h"
#include "check/model/request.h"

atomic_bool rest_is_used;

static void rest_begin(struct queue_record *record)
{
	struct rest *rest = &record->rest;
	uint64_t now_ticks;

	if (rest->is_resting || (record->extended && !rest_hooks_remove(record)))
		return;
	now_ticks = check_ticks();
	rest->wake_ticks = now_ticks + REST_TIMES * (now_ticks - rest->begun_ticks);
	rest->has_rested = rest_is_used = true;
	rest->is_resting = true;
}

void rest_count(struct queue_record *record)
{
	struct rest *rest = &record->rest;

	if (check_is_full ||
		atomic_fetch_add_explicit(&rest->posts, 1, memory_order_relaxed) + 1 <
			(rest->has_rested ? REST_POSTS : REST_FIRST_POSTS) ||
		record->sends.head + record->receives.head == 0)
		return;
	owned_lock_take(&rest->lock);
	rest_begin(record);
	owned_lock_leave(&rest->lock);
}

void rest_end(struct queue_record *record)
{
	owned_lock_take(&record->rest.lock);
	record->rest.posts = 0;
	record->rest.begun_ticks = check_ticks();
	record->rest.is_resting = false;
	if (record->extended)
		rest_hooks_put(record);
	owned_lock_leave(&record->rest.lock);
}

void rest_look(struct queue_record *record)
{
	struct rest *rest = &record->rest;
	uint32_t before = atomic_fetch_add_explicit(&rest->completions, 1, memory_order_relaxed);

	if ((before + 1) % REST_LOOKS == 0 && check_ticks() >= rest->wake_ticks)
		rest_end(record);
}
