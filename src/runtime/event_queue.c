/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Lock: queue->lock, for the list, the counts and the bell. It is a leaf: `hold` and all callers keep out of other locks under it.
 *
 * The bell is taken back by reading the program's end. Whoever reads it rings again if the list is not empty afterwards, so that
 * every waiting reader is woken as long as there is something for it.
 */
#include "runtime/event_queue.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/cancel.h"

int event_queue_init(struct event_queue *queue)
{
	int fds[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds))
		return -errno;
	queue->fd = fds[0];
	queue->bell_fd = fds[1];
	pthread_mutex_init(&queue->lock, NULL);
	list_init(&queue->waiting);
	queue->is_rung = false;
	queue->owner = getpid();
	return 0;
}

void event_queue_done(struct event_queue *queue)
{
	pthread_mutex_destroy(&queue->lock);
	close(queue->fd);
	close(queue->bell_fd);
}

/* Under the lock. */
static void bell_ring(struct event_queue *queue)
{
	static const char bell;
	int cancel = cancel_forbid();

	/* There is room: the last byte was taken back, or never sent. */
	if (!queue->is_rung && !list_is_empty(&queue->waiting))
		queue->is_rung = send(queue->bell_fd, &bell, 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1;
	cancel_allow(cancel);
}

void event_queue_post(struct event_queue *queue, struct event *event)
{
	pthread_mutex_lock(&queue->lock);
	if (event->waiting++ == 0)
		list_append(&queue->waiting, &event->node);
	bell_ring(queue);
	pthread_mutex_unlock(&queue->lock);
}

int event_queue_take(struct event_queue *queue, void (*hold)(struct event *event, void *argument),
	void *argument)
{
	bool has_event = false;

	while (!has_event) {
		char bell;
		ssize_t bytes = recv(queue->fd, &bell, 1, 0);

		if (bytes <= 0)
			return bytes < 0 ? -errno : -EBADF;
		pthread_mutex_lock(&queue->lock);
		queue->is_rung = false;
		/* Empty only if the event was forgotten after its bell had been heard. */
		has_event = !list_is_empty(&queue->waiting);
		if (has_event) {
			struct event *event = list_first(&queue->waiting, struct event, node);

			list_remove(&event->node);
			event->waiting--;
			event->taken++;
			if (event->waiting)
				list_append(&queue->waiting, &event->node);
			hold(event, argument);
		}
		bell_ring(queue);
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
	/* Nobody may be woken for nothing. If a reader has the bell already, it comes here next and rings again for others. */
	if (queue->is_rung && list_is_empty(&queue->waiting) && queue->owner == getpid() &&
		recv(queue->fd, &bell, 1, MSG_DONTWAIT) == 1)
		queue->is_rung = false;
	pthread_mutex_unlock(&queue->lock);
	cancel_allow(cancel);
}
