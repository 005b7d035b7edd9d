/* SPDX-License-Identifier: BSD-2-Clause */
#include "pair/pair_merge.h"

#include <stdlib.h>

bool pair_merge_init(struct pair_merge *merge)
{
	*merge = (struct pair_merge){
		.events = calloc(PAIR_MERGE_EVENTS_MAX, sizeof(*merge->events))};
	return merge->events;
}

void pair_merge_done(struct pair_merge *merge)
{
	free(merge->events);
}

static struct pair_event *event_at(const struct pair_merge *merge, uint32_t index)
{
	return &merge->events[(merge->first + index) % PAIR_MERGE_EVENTS_MAX];
}

void pair_merge_event_add(struct pair_merge *merge, const struct pair_event *event)
{
	uint32_t index = merge->count++;

	/* Each process writes its events in order, so few others are later. */
	for (; index > 0 && event_at(merge, index - 1)->time_ns > event->time_ns; index--)
		*event_at(merge, index) = *event_at(merge, index - 1);
	*event_at(merge, index) = *event;
}

/* Is the time so long ago? */
static bool has_passed(uint64_t time_ns, uint64_t wait_ns, uint64_t now_ns)
{
	return now_ns == UINT64_MAX || (now_ns > wait_ns && time_ns <= now_ns - wait_ns);
}

enum pair_merge_next pair_merge_next(
	const struct pair_merge *merge, uint64_t frame_ns, uint64_t now_ns)
{
	bool has_frame = frame_ns != UINT64_MAX;
	uint64_t event_ns = merge->count ? event_at(merge, 0)->time_ns : UINT64_MAX;

	if (!merge->count && !has_frame)
		return PAIR_MERGE_NONE;
	if (frame_ns < event_ns)
		return has_passed(frame_ns, PAIR_MERGE_EVENTS_NS, now_ns) ? PAIR_MERGE_FRAME
									  : PAIR_MERGE_NONE;
	/* A frame of this time or later has come, so all earlier ones have. */
	return has_passed(event_ns, has_frame ? PAIR_MERGE_EVENTS_NS : PAIR_MERGE_FRAMES_NS, now_ns)
		? PAIR_MERGE_EVENT
		: PAIR_MERGE_NONE;
}

const struct pair_event *pair_merge_event_take(struct pair_merge *merge)
{
	const struct pair_event *event = event_at(merge, 0);

	merge->first = (merge->first + 1) % PAIR_MERGE_EVENTS_MAX;
	merge->count--;
	return event;
}
