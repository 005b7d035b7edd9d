/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Events that the program writes into an identifier's event channel (rdma_write_cm_event()). Each
 * has its own memory, which is freed when the program takes the event or destroys the identifier.
 */
#ifndef URNIC_FRONT_RDMACM_ID_USER_EVENT_H
#define URNIC_FRONT_RDMACM_ID_USER_EVENT_H

#include "front/rdmacm/id/id.h"

struct user_event {
	struct id_event event;
	struct list node; /* in id.user_events; guarded by id_lock */
	uint64_t argument;
	/* Guarded by the lock of the event queue. The thread that has taken the event frees it. */
	bool is_taken;
};

/* Free an event that was taken. */
void user_event_free(struct user_event *event);

/*
 * Free the identifier's events in `queue` that the program has not taken. The caller has locked
 * id_lock.
 */
void user_events_forget(struct id *id, struct event_queue *queue);

/*
 * Move the events that the program has not taken to another queue. The caller has locked id_lock.
 */
void user_events_move(struct id *id, struct event_queue *from, struct event_queue *to);

#endif
