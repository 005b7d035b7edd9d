/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_FRONT_RDMACM_ID_EVENT_CAUSE_H
#define URNIC_FRONT_RDMACM_ID_EVENT_CAUSE_H

/*
 * Events that say that something failed. Each of these events has a cause, which is a row of
 * queue/event_cause.def. The row names the event, its status, and the reason that is kept for
 * `urnic explain`. No other function posts an event with an error (tests/rooms/check-events).
 *
 * Arguments that the functions share:
 *
 * `given`  The status of the event, if the row has the status GIVEN; otherwise unused.
 * `why`    The text that is kept with the reason, if the row has no text; otherwise NULL.
 */

#include "front/rdmacm/id/id.h"

enum event_cause {
#define EVENT_CAUSE(name, event, status, reason, why) CAUSE_##name,
#include "queue/event_cause.def"
#undef EVENT_CAUSE
	EVENT_CAUSE_COUNT,
};

/* Post the event of the cause, and keep the reason. Any thread may call, without id_lock. */
void id_fail(struct id *id, enum event_cause cause, int given, const char *why);

/* id_fail() for a caller that has locked id_lock. */
void id_fail_locked(struct id *id, enum event_cause cause, int given, const char *why);

/* id_fail() for an event that is not in id->events. The function sets the event's type. */
void id_fail_event(struct id *id, struct id_event *event, enum event_cause cause, int given);

/*
 * The program is taking an event, and the event's action fails: change the event to that of the
 * cause.
 */
void id_fail_taken(
	const struct id *id, struct rdma_cm_event *event, enum event_cause cause, int given);

/* The cause of a rejected connection. `code` is that of the REJ message. */
enum event_cause event_cause_of_reject(uint32_t code);

/* The cause of an iWARP connection that is not made. `error` is -errno. */
enum event_cause event_cause_of_stream(int error);

#endif
