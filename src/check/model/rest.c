/* SPDX-License-Identifier: BSD-2-Clause */
#include "check/model/rest.h"

#include "check/check.h"
#include "check/model/request.h"

bool rest_is_used;

void rest_count(struct queue_record *record)
{
	struct rest *rest = &record->rest;
	uint64_t now_ticks;

	if (check_is_full || ++rest->posts < (rest->has_rested ? REST_POSTS : REST_FIRST_POSTS) ||
		record->sends.head + record->receives.head == 0)
		return;
	if (record->extended && !rest_hooks_remove(record))
		return;
	now_ticks = check_ticks();
	rest->wake_ticks = now_ticks + REST_TIMES * (now_ticks - rest->begun_ticks);
	rest->has_rested = rest_is_used = true;
	rest->is_resting = true;
}

void rest_end(struct queue_record *record)
{
	record->rest.posts = 0;
	record->rest.begun_ticks = check_ticks();
	record->rest.is_resting = false;
	if (record->extended)
		rest_hooks_put(record);
}

void rest_look(struct queue_record *record)
{
	if (++record->rest.completions % REST_LOOKS == 0 &&
		check_ticks() >= record->rest.wake_ticks)
		rest_end(record);
}
