/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Events that a program waits for on a descriptor: completion channels, asynchronous events,
 * connection events.
 *
 * Programs put the descriptor into poll, epoll or SIGIO, make it non-blocking with fcntl, and take
 * events with a call that reads it. So it is a real descriptor, readable exactly while an event
 * waits: one end of a socket pair that holds at most one byte, the bell. The events themselves are
 * entries of a list, one entry per source with a count, so nothing is allocated and nothing can
 * overflow however long the program does not look.
 *
 * A queue may have a lookout: a way to see what is about to be posted. Then a thread that takes an
 * event from a blocking descriptor does not wait at that but attends by itself (queue/attention.h):
 * it looks for a while, for as long as going to sleep and waking up would take, if that has been of
 * use lately, and then sleeps at the lookout. What is posted meanwhile is that thread's, and rings
 * no bell. There is one such thread at a time; others wait at the descriptor.
 *
 * A source (a completion queue, say) embeds its `struct event`. Owner of the event is the source;
 * it takes itself out with event_queue_forget() before it goes.
 *
 * Any thread may call. Posting does not block beyond the few instructions of the queue's lock and
 * one system call for the first event of a row.
 */
#ifndef URNIC_EVENT_EVENT_QUEUE_H
#define URNIC_EVENT_EVENT_QUEUE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/export.h"
#include "base/list.h"
#include "queue/attention.h"

struct event {
	struct list node;
	/* Times posted and not yet taken; in the list exactly while not 0. */
	uint32_t waiting;
	/* Times taken, ever: what the source's destruction waits to see acknowledged. */
	uint32_t taken;
};

enum event_view {
	EVENT_VIEW_NONE, /* nothing can be seen from here (any more) */
	EVENT_VIEW_EMPTY, /* nobody comes this way: looking for long is of no use */
	EVENT_VIEW_OPEN,
};

struct event_lookout {
	struct attention *attention;
	/* Take in what has come, and post what it means. Called without the queue's lock. */
	enum event_view (*look)(struct event_lookout *lookout);
	int luck; /* see event_attend.c */
};

struct event_queue {
	int fd; /* the program's end */
	int bell_fd; /* ours */
	pthread_mutex_t lock;
	struct list waiting; /* of struct event, oldest first */
	bool is_rung; /* a byte was sent and not yet taken back */
	bool is_attended; /* by a thread */
	_Atomic bool has_waiting; /* the list is not empty; written under the lock */
	struct event_lookout *_Atomic lookout; /* NULL: none */
	pid_t owner; /* a forked child shares the descriptors: their byte is its parent's */
};

/* Returns 0 or -errno. */
int event_queue_init(struct event_queue *queue) URNIC_EXPORT_AS(event_queue_init);
/* Closes both descriptors. No event is in the queue any more. */
void event_queue_done(struct event_queue *queue) URNIC_EXPORT_AS(event_queue_done);

static inline void event_init(struct event *event)
{
	list_init(&event->node);
	event->waiting = 0;
	event->taken = 0;
}

/* One more time `event`. */
void event_queue_post(struct event_queue *queue, struct event *event)
	URNIC_EXPORT_AS(event_queue_post);

/*
 * Take the oldest event; waits for one unless the descriptor is non-blocking.
 *
 * `hold`  Called with the event under the queue's lock, so that its source cannot go before the
 *         caller has what it needs of it.
 *
 * Returns 0, or -errno: -EAGAIN on a non-blocking descriptor, -EINTR as read(2).
 */
int event_queue_take(struct event_queue *queue, void (*hold)(struct event *event, void *argument),
	void *argument) URNIC_EXPORT_AS(event_queue_take);

/*
 * Drop what `event` has waiting. event->taken does not change any more: that many acknowledgements
 * its source is owed.
 */
void event_queue_forget(struct event_queue *queue, struct event *event)
	URNIC_EXPORT_AS(event_queue_forget);

/* The queue has a lookout from now on, to the end of its life. */
void event_queue_give_lookout(struct event_queue *queue, struct event_lookout *lookout);

/*
 * Wait for an event at the lookout and take it, as event_queue_take() does. -ENOENT when the
 * descriptor is the place to wait at; -EINTR. A cancellation point.
 */
int event_queue_attend(struct event_queue *queue, void (*hold)(struct event *event, void *argument),
	void *argument);

/* event_queue.c and event_attend.c: take the first event, which is there; under the lock. */
void event_queue_take_first(struct event_queue *queue,
	void (*hold)(struct event *event, void *argument), void *argument);
/* The same: if an event waits that nobody attends to, the descriptor is readable. */
void event_queue_ring(struct event_queue *queue);

#endif
