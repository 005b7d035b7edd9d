/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Lock: queue->lock guards the list, the counts and the byte in the socket pair. `pin` is called
 * under this lock, and may take only the lock of the event's source (lock_order.def).
 *
 * A reader that has read the byte takes one event. If events are left, it sends another byte, so
 * the next reader wakes up. While there is a waiter or a visitor, no thread sends a byte.
 */
#include "event/event_queue.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "os/cancel.h"
#include "os/futex.h"
#include "os/log.h"

int event_queue_init(struct event_queue *queue)
{
	int fds[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds))
		return log_refusal("no channel for events", "socketpair");
	queue->fd = fds[0];
	queue->read_fd = fds[0];
	queue->wake_fd = fds[1];
	pthread_mutex_init(&queue->lock, NULL);
	list_init(&queue->waiting);
	queue->is_readable = false;
	queue->has_waiter = false;
	queue->is_signaling = false;
	atomic_init(&queue->readers, 0);
	atomic_init(&queue->has_events, false);
	atomic_init(&queue->collector, NULL);
	queue->owner = getpid();
	return 0;
}

void event_queue_done(struct event_queue *queue)
{
	pthread_mutex_destroy(&queue->lock);
	close(queue->fd);
	if (queue->fd != queue->read_fd)
		close(queue->read_fd);
	close(queue->wake_fd);
}

/* Update has_events after a change of the list. The queue is locked. */
static void list_changed(struct event_queue *queue)
{
	atomic_store(&queue->has_events, !list_is_empty(&queue->waiting));
}

void event_queue_wake(struct event_queue *queue)
{
	static const char byte;
	int cancel = cancel_forbid();

	if (!queue->is_readable && !queue->has_waiter && !list_is_empty(&queue->waiting)) {
		event_queue_copy_owner(queue);
		/* The socket has room, because it holds no byte while is_readable is false. */
		queue->is_readable =
			send(queue->wake_fd, &byte, 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1;
	}
	cancel_allow(cancel);
}

/* Wake the waiter, if it sleeps. The queue is locked. */
static void waiter_wake(struct event_queue *queue)
{
	struct event_collector *collector = atomic_load(&queue->collector);
	struct waiter *waiter = collector->waiter;

	if (atomic_load(&collector->is_driving)) {
		collector->wake(collector);
	} else if (waiter_state(waiter) == WAITER_SLEEPS) {
		atomic_fetch_add(waiter_wakes(waiter), 1);
		futex_wake(waiter_wakes(waiter));
	}
}

void event_queue_post(struct event_queue *queue, struct event *event)
{
	pthread_mutex_lock(&queue->lock);
	if (event->waiting++ == 0)
		list_append(&queue->waiting, &event->node);
	list_changed(queue);
	if (queue->has_waiter)
		waiter_wake(queue);
	else
		event_queue_wake(queue);
	pthread_mutex_unlock(&queue->lock);
}

void event_queue_set_collector(struct event_queue *queue, struct event_collector *collector)
{
	atomic_store(&queue->collector, collector);
}

void event_queue_take_first(
	struct event_queue *queue, void (*pin)(struct event *event, void *argument), void *argument)
{
	struct event *event = list_first(&queue->waiting, struct event, node);

	list_remove(&event->node);
	event->waiting--;
	event->taken++;
	if (event->waiting)
		list_append(&queue->waiting, &event->node);
	list_changed(queue);
	pin(event, argument);
}

static void note_miss(struct event_queue *queue)
{
	struct event_collector *collector = atomic_load(&queue->collector);

	if (collector)
		atomic_store(&collector->has_missed, true);
}

static void reader_leave(void *argument)
{
	struct event_queue *queue = argument;

	atomic_fetch_sub(&queue->readers, 1);
}

/* Wait for the byte. Returns 0 after reading it, or -errno. A cancellation point. */
static int byte_await(struct event_queue *queue)
{
	/* A program with an epoll set puts O_NONBLOCK on the set, not on `read_fd`. */
	int is_blocking = queue->fd == queue->read_fd ? 1 : event_queue_is_blocking(queue);
	ssize_t bytes;
	char byte;

	if (is_blocking < 0)
		return is_blocking;
	atomic_fetch_add(&queue->readers, 1);
	pthread_cleanup_push(reader_leave, queue);
	bytes = recv(queue->read_fd, &byte, 1, is_blocking ? 0 : MSG_DONTWAIT);
	pthread_cleanup_pop(true);
	if (bytes < 0)
		return errno == EAGAIN || errno == EINTR || errno == EBADF
			? -errno
			: log_refusal("no thread can wait for events", "recvfrom");
	return bytes ? 0 : -EBADF;
}

int event_queue_take(
	struct event_queue *queue, void (*pin)(struct event *event, void *argument), void *argument)
{
	bool has_event = false;
	int error;

	while (!has_event) {
		/*
		 * If an event is present, no later call in this loop is a cancellation point, so
		 * check here.
		 */
		pthread_testcancel();
		error = event_queue_take_visiting(queue, pin, argument);
		if (error == -ENOENT)
			error = event_queue_take_collecting(queue, pin, argument);
		if (error == -ENOENT)
			error = byte_await(queue);
		else
			return error;
		if (error == -EAGAIN)
			note_miss(queue);
		if (error)
			return error;
		pthread_mutex_lock(&queue->lock);
		queue->is_readable = false;
		/* event_queue_forget() may have emptied the list after the byte was read. */
		has_event = !list_is_empty(&queue->waiting);
		if (has_event)
			event_queue_take_first(queue, pin, argument);
		event_queue_wake(queue);
		pthread_mutex_unlock(&queue->lock);
	}
	return 0;
}

void event_queue_forget(struct event_queue *queue, struct event *event)
{
	char byte;
	int cancel = cancel_forbid();

	pthread_mutex_lock(&queue->lock);
	list_remove(&event->node);
	event->waiting = 0;
	list_changed(queue);
	/*
	 * If the list is empty, take the byte back. If recv() finds no byte, a reader has read it.
	 * That reader takes the lock next, and sends another byte if there are events by then.
	 */
	if (queue->is_readable && list_is_empty(&queue->waiting) && queue->owner == getpid() &&
		recv(queue->read_fd, &byte, 1, MSG_DONTWAIT) == 1)
		queue->is_readable = false;
	pthread_mutex_unlock(&queue->lock);
	cancel_allow(cancel);
}
