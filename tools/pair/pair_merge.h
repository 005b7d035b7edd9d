/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TOOLS_PAIR_MERGE_H
#define TOOLS_PAIR_MERGE_H

/*
 * The order in which frames and events go into a capture: by their times.
 *
 * Frames come in their order, but up to PAIR_MERGE_FRAMES_NS late, because the kernel hands over
 * many at once. Events come from several reporters, as late as these get a processor. Each reporter
 * marks the time up to which all its events have come. So a frame waits where it is until all
 * reporters have marked a later time, and an event waits here, too, until a later frame has come.
 * Nothing waits longer than PAIR_MERGE_WAIT_NS.
 *
 * Threads: one.
 */

#include <stdbool.h>
#include <stdint.h>

#include "pair/pair.h"
#include "pair/pair_frames.h"

enum { PAIR_MERGE_EVENTS_MAX = 1 << 15 };

#define PAIR_MERGE_WAIT_NS   1000000000u
#define PAIR_MERGE_FRAMES_NS ((2 * PAIR_FRAMES_WAIT_MS + 10) * 1000000u)

struct pair_merge {
	struct pair_event *events; /* a ring of PAIR_MERGE_EVENTS_MAX of them, by time */
	uint32_t first; /* index of the earliest */
	uint32_t count;
	int reporter_count;
	uint64_t marked_ns[HOSTS_MAX]; /* by reporter; 0: no mark yet */
};

/* What goes into the capture next. */
enum pair_merge_next {
	PAIR_MERGE_NONE, /* nothing yet */
	PAIR_MERGE_FRAME,
	PAIR_MERGE_EVENT, /* the earliest, which pair_merge_event_take() takes */
};

/* There are HOSTS_MAX reporters at most. Returns false when out of memory. */
bool pair_merge_init(struct pair_merge *merge, int reporter_count);
void pair_merge_done(struct pair_merge *merge);

static inline bool pair_merge_has_room(const struct pair_merge *merge)
{
	return merge->count < PAIR_MERGE_EVENTS_MAX;
}

/* Add an event or a mark. There is room. */
void pair_merge_event_add(struct pair_merge *merge, const struct pair_event *event);

/* No other event comes. */
void pair_merge_events_end(struct pair_merge *merge);

/*
 * Say what goes next.
 *
 * `frame_ns`  The time of the earliest frame that has come; UINT64_MAX: there is none.
 * `now_ns`    The present time since 1970, as all times here. UINT64_MAX: nothing comes any more.
 */
enum pair_merge_next pair_merge_next(
	const struct pair_merge *merge, uint64_t frame_ns, uint64_t now_ns);

/* Take the earliest event. There is one. It is valid until the next is added. */
const struct pair_event *pair_merge_event_take(struct pair_merge *merge);

#endif
