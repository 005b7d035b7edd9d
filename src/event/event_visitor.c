/* SPDX-License-Identifier: BSD-2-Clause */
/* Visitors: threads that take events from a non-blocking descriptor, and first drive the lane. */
#include <errno.h>
#include <sys/socket.h>

#include "event/event_queue.h"
#include "os/cancel.h"

/* Returns whether the caller is now the visitor, to which other threads leave the events. */
static bool visit_begin(struct event_queue *queue)
{
	bool is_free;

	pthread_mutex_lock(&queue->lock);
	is_free = !queue->has_waiter;
	queue->has_waiter = true;
	pthread_mutex_unlock(&queue->lock);
	return is_free;
}

/*
 * Returns whether an event was taken. Events posted afterwards go to other threads. The queue is
 * locked.
 */
static bool visit_end(
	struct event_queue *queue, void (*pin)(struct event *event, void *argument), void *argument)
{
	bool has_event = !list_is_empty(&queue->waiting);
	char byte;

	if (has_event)
		event_queue_take_first(queue, pin, argument);
	/* If recv() finds no byte, another reader has it, and is about to clear is_readable. */
	if (queue->is_readable && list_is_empty(&queue->waiting) &&
		recv(queue->read_fd, &byte, 1, MSG_DONTWAIT) == 1)
		queue->is_readable = false;
	queue->has_waiter = false;
	event_queue_wake(queue);
	return has_event;
}

static int visit_once(
	struct event_queue *queue, void (*pin)(struct event *event, void *argument), void *argument)
{
	struct event_collector *collector = atomic_load(&queue->collector);
	bool has_event;
	int is_blocking;

	collector->visit(collector);
	pthread_mutex_lock(&queue->lock);
	has_event = visit_end(queue, pin, argument);
	pthread_mutex_unlock(&queue->lock);
	if (has_event)
		return 0;
	is_blocking = event_queue_is_blocking(queue);
	if (is_blocking)
		return is_blocking < 0 ? is_blocking : -ENOENT;
	return -EAGAIN;
}

int event_queue_take_visiting(
	struct event_queue *queue, void (*pin)(struct event *event, void *argument), void *argument)
{
	struct event_collector *collector = atomic_load(&queue->collector);
	int cancel, error;

	if (!collector || !atomic_load(&collector->is_visited) || !visit_begin(queue))
		return -ENOENT;
	cancel = cancel_forbid();
	error = visit_once(queue, pin, argument);
	cancel_allow(cancel);
	return error;
}
