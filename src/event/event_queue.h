/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Events that a program waits for on a descriptor: completion channels, asynchronous events,
 * connection events.
 *
 * Programs put the descriptor into poll, epoll or SIGIO, make it non-blocking with fcntl, and take
 * events with a call that reads it. So it is a real descriptor, readable exactly while an event
 * waits: one end of a socket pair that holds at most one byte, the bell. The events themselves are
 * entries of a list, one entry per source with a count. So posting allocates nothing, and no event
 * is lost however late the program takes it.
 *
 * A queue may have a lookout: a function that collects completions and posts their events. A thread
 * that waits on a blocking descriptor then attends (queue/attention.h) and leaves the descriptor
 * alone. It polls the lookout for about as long as a sleep and a wake-up take, unless recent polls
 * were fruitless, and then sleeps on a futex. Events posted meanwhile are that thread's and ring no
 * bell. One thread attends at a time; others wait at the descriptor.
 *
 * A source (a completion queue, say) embeds its `struct event` and owns it. It calls
 * event_queue_forget() before it is destroyed.
 *
 * Any thread may call. Posting takes the queue's lock, and one system call for the first event of a
 * batch.
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
	/* Times taken, ever: the source's destruction waits for so many acknowledgements. */
	uint32_t taken;
};

enum event_view {
	EVENT_VIEW_NONE, /* the lookout sees no completions (any more) */
	EVENT_VIEW_EMPTY, /* no peer uses this channel: do not poll */
	EVENT_VIEW_OPEN,
};

struct event_lookout {
	struct attention *attention;
	/* Collect completions and post their events. Called without the queue's lock. */
	enum event_view (*look)(struct event_lookout *lookout);
	int luck; /* see event_attend.c */
};

struct event_queue {
	int fd; /* the program's end */
	int bell_fd; /* ours */
	pthread_mutex_t lock;
	struct list waiting; /* of struct event, oldest first */
	bool is_rung; /* a byte was sent and not yet read */
	bool is_attended; /* by a thread */
	_Atomic bool has_waiting; /* the list is not empty; written under the lock */
	struct event_lookout *_Atomic lookout; /* NULL: none */
	pid_t owner; /* a forked child shares the descriptors: their byte is its parent's */
};

/* Returns 0 or -errno. */
int event_queue_init(struct event_queue *queue) URNIC_EXPORT_AS(event_queue_init);
/* Close both descriptors. The queue must be empty. */
void event_queue_done(struct event_queue *queue) URNIC_EXPORT_AS(event_queue_done);

static inline void event_init(struct event *event)
{
	list_init(&event->node);
	event->waiting = 0;
	event->taken = 0;
}

/* Post `event` once more. */
void event_queue_post(struct event_queue *queue, struct event *event)
	URNIC_EXPORT_AS(event_queue_post);

/*
 * Take the oldest event; waits for one unless the descriptor is non-blocking.
 *
 * `hold`  Called with the event under the queue's lock, so that its source exists while the caller
 *         reads it.
 *
 * Returns 0, or -errno: -EAGAIN on a non-blocking descriptor, -EINTR as read(2).
 */
int event_queue_take(struct event_queue *queue, void (*hold)(struct event *event, void *argument),
	void *argument) URNIC_EXPORT_AS(event_queue_take);

/*
 * Drop the untaken posts of `event`. event->taken does not change after this call.
 */
void event_queue_forget(struct event_queue *queue, struct event *event)
	URNIC_EXPORT_AS(event_queue_forget);

/* Give the queue a lookout, for the rest of its life. */
void event_queue_give_lookout(struct event_queue *queue, struct event_lookout *lookout);

/*
 * Wait for an event at the lookout and take it, as event_queue_take() does. -ENOENT when the
 * descriptor is the place to wait at; -EINTR. A cancellation point.
 */
int event_queue_attend(struct event_queue *queue, void (*hold)(struct event *event, void *argument),
	void *argument);

/* event_queue.c and event_attend.c: take the first event of a list that is not empty; locked. */
void event_queue_take_first(struct event_queue *queue,
	void (*hold)(struct event *event, void *argument), void *argument);
/* The same: ring, if an event waits and no thread attends. */
void event_queue_ring(struct event_queue *queue);

#endif
