/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Asynchronous events of objects. The destruction of an object waits until its events are
 * acknowledged.
 *
 * An object embeds one `struct async_event` (context.h) per kind of event. Posted events wait in
 * the queue of the context through which the object was created.
 */
#ifndef URNIC_FRONT_VERBS_ASYNC_H
#define URNIC_FRONT_VERBS_ASYNC_H

#include "front/verbs/context.h"

/*
 * `element` is the public structure of the queue pair, completion queue, shared receive queue or
 * work queue.
 */
void async_event_init(struct async_event *async, enum ibv_event_type type, void *element);

/* Post the event to the program. Any thread may call. */
void async_event_post(struct context *context, struct async_event *async);

/*
 * Wait until the counter of acknowledgements, *completed, has reached `expected`. `mutex`, `cond`
 * and `completed` are members of the public structure.
 */
void events_wait(
	pthread_mutex_t *mutex, pthread_cond_t *cond, const uint32_t *completed, uint32_t expected);

void events_ack(pthread_mutex_t *mutex, pthread_cond_t *cond, uint32_t *completed, uint32_t count);

#endif
