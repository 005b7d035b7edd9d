/* SPDX-License-Identifier: BSD-2-Clause */
#include "front/verbs/async.h"

#include "front/verbs/result.h"

void async_event_init(struct async_event *async, enum ibv_event_type type, void *element)
{
	event_init(&async->event);
	async->verbs.event_type = type;
	/* All pointers of the union have the same offset. */
	async->verbs.element.qp = element;
}

void async_event_post(struct context *context, struct async_event *async)
{
	event_queue_post(&context->async, &async->event);
}

void events_wait(
	pthread_mutex_t *mutex, pthread_cond_t *cond, const uint32_t *completed, uint32_t expected)
{
	pthread_mutex_lock(mutex);
	while (*completed != expected)
		pthread_cond_wait(cond, mutex);
	pthread_mutex_unlock(mutex);
}

void events_ack(pthread_mutex_t *mutex, pthread_cond_t *cond, uint32_t *completed, uint32_t count)
{
	pthread_mutex_lock(mutex);
	*completed += count;
	pthread_cond_signal(cond);
	pthread_mutex_unlock(mutex);
}

static void copy_event(struct event *event, void *argument)
{
	struct ibv_async_event *out = argument;

	*out = container_of(event, struct async_event, event)->verbs;
}

int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	int error = event_queue_take(&context_of(context)->async, copy_event, event);

	if (error) {
		/* Do not report this, because a queue without an event is no failure */
		errno = -error;
		return -1;
	}
	return 0;
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
#define ACK(object, counter) events_ack(&(object)->mutex, &(object)->cond, &(object)->counter, 1)
	/*
	 * Events of a port or a device belong to no object, so no destruction waits for their
	 * acknowledgement.
	 */
	if (event->event_type == IBV_EVENT_CQ_ERR)
		ACK(event->element.cq, async_events_completed);
	else if (event->event_type == IBV_EVENT_SRQ_LIMIT_REACHED)
		ACK(event->element.srq, events_completed);
	else if (event->event_type == IBV_EVENT_WQ_FATAL)
		ACK(event->element.wq, events_completed);
	else if (event->event_type <= IBV_EVENT_PATH_MIG_ERR ||
		event->event_type == IBV_EVENT_QP_LAST_WQE_REACHED)
		ACK(event->element.qp, events_completed);
#undef ACK
}
