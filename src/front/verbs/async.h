/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Asynchronous events of objects, and the acknowledgements that their destruction waits for.
 *
 * An object embeds one `struct async_event` (context.h) per kind of event it can have. They wait in
 * the queue of the context that the object was created through.
 */
#ifndef URNIC_FRONT_VERBS_ASYNC_H
#define URNIC_FRONT_VERBS_ASYNC_H

#include "front/verbs/context.h"

/*
 * `element`  The public structure that the event is about, a queue pair, a completion queue or a
 *            shared receive queue.
 */
void async_event_init(struct async_event *async, enum ibv_event_type type, void *element);

/* The same for an event of a port, or of the device itself with `port` 0. */
void async_event_init_port(struct async_event *async, enum ibv_event_type type, int port);

/* Tell the program. Any thread. */
void async_event_post(struct context *context, struct async_event *async);

/*
 * Wait until a counter that acknowledgements increment has reached `owed`.
 *
 * `mutex`, `cond`, `completed` are those of the public structure.
 */
void events_wait(
	pthread_mutex_t *mutex, pthread_cond_t *cond, const uint32_t *completed, uint32_t owed);

/* Count `count` acknowledgements. */
void events_ack(pthread_mutex_t *mutex, pthread_cond_t *cond, uint32_t *completed, uint32_t count);

#endif
