/* SPDX-License-Identifier: BSD-2-Clause */
#include "front/rdmacm/id/user_event.h"

#include <stdlib.h>

int rdma_write_cm_event(
	struct rdma_cm_id *public, enum rdma_cm_event_type type, int status, uint64_t arg)
{
	struct id *id = id_find(public);
	struct user_event *event;

	if (!id)
		return fail_errno(errno);
	if ((int)type != ID_EVENT_USER && (int)type != ID_EVENT_INTERNAL)
		return fail_errno(id_cause(REASON_CM_EVENT));
	event = calloc(1, sizeof(*event));
	if (!event)
		return fail_errno(id_cause(REASON_NO_MEMORY));
	event_init(&event->event.event);
	event->event.id = id;
	event->event.type = type;
	event->event.user = event;
	event->argument = arg;
	pthread_mutex_lock(&id_lock);
	list_append(&id->user_events, &event->node);
	id_post_locked(id, &event->event, status);
	pthread_mutex_unlock(&id_lock);
	return 0;
}

void user_event_free(struct user_event *event)
{
	pthread_mutex_lock(&id_lock);
	list_remove(&event->node);
	pthread_mutex_unlock(&id_lock);
	free(event);
}

void user_events_forget(struct id *id, struct event_queue *queue)
{
	list_for_each_safe(event, &id->user_events, struct user_event, node) {
		event_queue_forget(queue, &event->event.event);
		if (event->is_taken)
			continue;
		list_remove(&event->node);
		free(event);
	}
}

void user_events_move(struct id *id, struct event_queue *from, struct event_queue *to)
{
	list_for_each(event, &id->user_events, struct user_event, node)
		id_move_event(&event->event.event, from, to);
}
