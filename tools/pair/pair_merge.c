/* SPDX-License-Identifier: BSD-2-Clause */
#include "pair/pair_merge.h"

#include <stdlib.h>

#include "base/arith.h"

bool pair_merge_init(struct pair_merge *merge, int reporter_count)
{
	*merge =
		(struct pair_merge){.events = calloc(PAIR_MERGE_EVENTS_MAX, sizeof(*merge->events)),
			.reporter_count = reporter_count};
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
	uint32_t index;

	if (!event->text[0]) {
		merge->marked_ns[event->reporter % HOSTS_MAX] = event->time_ns;
		return;
	}
	index = merge->count++;
	/* Each process writes its events in order, so few others are later. */
	for (; index > 0 && event_at(merge, index - 1)->time_ns > event->time_ns; index--)
		*event_at(merge, index) = *event_at(merge, index - 1);
	*event_at(merge, index) = *event;
}

void pair_merge_events_end(struct pair_merge *merge)
{
	for (int i = 0; i < merge->reporter_count; i++)
		merge->marked_ns[i] = UINT64_MAX;
}

/* Is the time so long ago? */
static bool has_passed(uint64_t time_ns, uint64_t wait_ns, uint64_t now_ns)
{
	return now_ns == UINT64_MAX || (now_ns > wait_ns && time_ns <= now_ns - wait_ns);
}

/* Have all events up to this time come, or is it too late to wait for them? */
static bool has_all_events(const struct pair_merge *merge, uint64_t time_ns, uint64_t now_ns)
{
	for (int i = 0; i < merge->reporter_count; i++)
		if (merge->marked_ns[i] < time_ns)
			return has_passed(time_ns, PAIR_MERGE_WAIT_NS, now_ns);
	return true;
}

enum pair_merge_next pair_merge_next(
	const struct pair_merge *merge, uint64_t frame_ns, uint64_t now_ns)
{
	bool has_frame = frame_ns != UINT64_MAX;
	uint64_t event_ns = merge->count ? event_at(merge, 0)->time_ns : UINT64_MAX;

	if (!merge->count && !has_frame)
		return PAIR_MERGE_NONE;
	if (!has_all_events(merge, min_u64(frame_ns, event_ns), now_ns))
		return PAIR_MERGE_NONE;
	if (frame_ns < event_ns)
		return PAIR_MERGE_FRAME;
	/* A frame of this time or later has come, so all earlier ones have. */
	return has_frame || has_passed(event_ns, PAIR_MERGE_FRAMES_NS, now_ns) ? PAIR_MERGE_EVENT
									       : PAIR_MERGE_NONE;
}

const struct pair_event *pair_merge_event_take(struct pair_merge *merge)
{
	const struct pair_event *event = event_at(merge, 0);

	merge->first = (merge->first + 1) % PAIR_MERGE_EVENTS_MAX;
	merge->count--;
	return event;
}
