/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Lock: queue->lock, for the list, the counts and the bell. Under it `hold` takes at most the lock
 * of what the event is about (lock_order.def).
 *
 * Reading the program's end silences the bell. The reader rings again if the list is not empty
 * afterwards, so that each waiting reader with an event is woken. While a thread attends, the bell
 * stays silent.
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
	queue->bell_fd = fds[1];
	pthread_mutex_init(&queue->lock, NULL);
	list_init(&queue->waiting);
	queue->is_rung = false;
	queue->is_attended = false;
	atomic_init(&queue->has_waiting, false);
	atomic_init(&queue->lookout, NULL);
	queue->owner = getpid();
	return 0;
}

void event_queue_done(struct event_queue *queue)
{
	pthread_mutex_destroy(&queue->lock);
	close(queue->fd);
	close(queue->bell_fd);
}

/* The list has changed. Under the lock. */
static void list_changed(struct event_queue *queue)
{
	atomic_store(&queue->has_waiting, !list_is_empty(&queue->waiting));
}

void event_queue_ring(struct event_queue *queue)
{
	static const char bell;
	int cancel = cancel_forbid();

	/* The socket has room: the last byte was read, or none was sent. */
	if (!queue->is_rung && !queue->is_attended && !list_is_empty(&queue->waiting))
		queue->is_rung = send(queue->bell_fd, &bell, 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1;
	cancel_allow(cancel);
}

/* Under the lock: wake the attending thread for an event. */
static void attendant_call(struct event_queue *queue)
{
	struct attention *attention = atomic_load(&queue->lookout)->attention;

	if (attention_state(attention) == ATTENTION_SLEEPS) {
		atomic_fetch_add(attention_wakes(attention), 1);
		futex_wake(attention_wakes(attention));
	}
}

void event_queue_post(struct event_queue *queue, struct event *event)
{
	pthread_mutex_lock(&queue->lock);
	if (event->waiting++ == 0)
		list_append(&queue->waiting, &event->node);
	list_changed(queue);
	if (queue->is_attended)
		attendant_call(queue);
	else
		event_queue_ring(queue);
	pthread_mutex_unlock(&queue->lock);
}

void event_queue_give_lookout(struct event_queue *queue, struct event_lookout *lookout)
{
	atomic_store(&queue->lookout, lookout);
}

void event_queue_take_first(struct event_queue *queue,
	void (*hold)(struct event *event, void *argument), void *argument)
{
	struct event *event = list_first(&queue->waiting, struct event, node);

	list_remove(&event->node);
	event->waiting--;
	event->taken++;
	if (event->waiting)
		list_append(&queue->waiting, &event->node);
	list_changed(queue);
	hold(event, argument);
}

/* Wait at the descriptor. Returns 0 after reading the bell's byte; or -errno. */
static int bell_await(struct event_queue *queue)
{
	char bell;
	ssize_t bytes = recv(queue->fd, &bell, 1, 0);

	if (bytes < 0)
		return errno == EAGAIN || errno == EINTR || errno == EBADF
			? -errno
			: log_refusal("no thread can wait for events", "recvfrom");
	return bytes ? 0 : -EBADF;
}

int event_queue_take(struct event_queue *queue, void (*hold)(struct event *event, void *argument),
	void *argument)
{
	bool has_event = false;
	int error;

	while (!has_event) {
		/* Taking a present event has no other cancellation point. */
		pthread_testcancel();
		error = event_queue_attend(queue, hold, argument);
		if (error != -ENOENT)
			return error;
		error = bell_await(queue);
		if (error)
			return error;
		pthread_mutex_lock(&queue->lock);
		queue->is_rung = false;
		/* Empty only if the event was forgotten after the bell's byte was read. */
		has_event = !list_is_empty(&queue->waiting);
		if (has_event)
			event_queue_take_first(queue, hold, argument);
		event_queue_ring(queue);
		pthread_mutex_unlock(&queue->lock);
	}
	return 0;
}

void event_queue_forget(struct event_queue *queue, struct event *event)
{
	char bell;
	int cancel = cancel_forbid();

	pthread_mutex_lock(&queue->lock);
	list_remove(&event->node);
	event->waiting = 0;
	list_changed(queue);
	/*
	 * Silence the bell of an empty list. A reader that has the byte already takes the lock next
	 * and rings again for others.
	 */
	if (queue->is_rung && list_is_empty(&queue->waiting) && queue->owner == getpid() &&
		recv(queue->fd, &bell, 1, MSG_DONTWAIT) == 1)
		queue->is_rung = false;
	pthread_mutex_unlock(&queue->lock);
	cancel_allow(cancel);
}
