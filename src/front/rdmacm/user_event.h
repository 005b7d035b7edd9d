/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Events that the program writes into its own event channel (rdma_write_cm_event()). Each has
 * memory of its own, which is freed when the program takes the event, or destroys the identifier.
 */
#ifndef URNIC_FRONT_RDMACM_USER_EVENT_H
#define URNIC_FRONT_RDMACM_USER_EVENT_H

#include "front/rdmacm/id.h"

struct user_event {
	struct id_event event;
	struct list node; /* of id.user_events, under id_lock */
	uint64_t argument;
	bool is_taken; /* under the lock of the event queue: whoever has taken it frees it */
};

/* Free an event that was taken. */
void user_event_free(struct user_event *event);

/* Drop the identifier's events in `queue` that are not taken. Called with id_lock held. */
void user_events_forget(struct id *id, struct event_queue *queue);

/* Move the events that are not taken to another queue. Called with id_lock held. */
void user_events_move(struct id *id, struct event_queue *from, struct event_queue *to);

#endif
