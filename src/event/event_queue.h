/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Events that a program waits for on a descriptor: completion channels, asynchronous events,
 * connection events.
 *
 * Programs put the descriptor into poll, epoll or SIGIO, make it non-blocking with fcntl, and take
 * events with a call that reads it. So it is a real descriptor, readable exactly while there is an
 * event: one end of a socket pair with at most one byte in it. The events are entries of a list,
 * one per source, with a count. So posting allocates nothing, and no event is lost however late the
 * program takes it.
 *
 * The descriptor of a completion channel is an epoll set that has that end as a member, so that
 * other descriptors can make it readable, too. The calls that take events read the end itself, with
 * the set's O_NONBLOCK. An epoll set sends no SIGIO: before the byte is sent, the set's owner and
 * signal are copied to the end. So si_fd of such a signal is another descriptor than the program's.
 *
 * A queue may have a collector: a function that collects completions and posts their events. A
 * thread that waits on a blocking descriptor is then a waiter (queue/waiter.h): it calls the
 * collector and leaves the descriptor alone. If peers on this host use the queue, the waiter polls
 * for about as long as a sleep and a wake-up take, unless recent polls were fruitless, and then
 * sleeps on a futex. Otherwise the waiter drives what brings completions, and sleeps there. Events
 * posted meanwhile go to the waiter, without a byte. There is one waiter at a time; other threads
 * wait at the descriptor.
 *
 * A thread that reads a non-blocking descriptor is a visitor, if the collector wants visits. It
 * drives what brings completions once, and gets an event that this has posted without a byte.
 *
 * A source (a completion queue, say) embeds its `struct event` and owns it. It calls
 * event_queue_forget() before it is destroyed.
 *
 * Any thread may call. Posting takes the queue's lock, and a system call for the first event of a
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
#include "queue/waiter.h"

struct event {
	struct list node;
	/* Posts that are not taken yet. The event is in the list while this is not 0. */
	uint32_t waiting;
	/* Taken so far: the source's destruction waits for as many acknowledgements. */
	uint32_t taken;
};

enum event_view {
	EVENT_VIEW_NONE, /* no completions can be collected (any more) */
	EVENT_VIEW_EMPTY, /* no peer uses this channel: do not poll */
	EVENT_VIEW_OPEN,
};

struct event_collector {
	struct waiter *waiter;
	/* Collect completions and post their events. Called without the queue's lock. */
	enum event_view (*collect)(struct event_collector *collector);
	/*
	 * For a waiter: drive what brings completions, asleep in between, until there are events.
	 * Peers on this host do not know that waiter. Returns 0; -EINTR; -EAGAIN when the waiter
	 * has to sleep on the futex instead. Called without the queue's lock; a cancellation point.
	 * NULL: the waiter always sleeps on the futex.
	 */
	int (*drive)(struct event_collector *collector);
	/* Wake a waiter in drive(), if it sleeps. Called with the queue's lock. */
	void (*wake)(struct event_collector *collector);
	/* Other threads wait, too, when a waiter that has driven leaves: let them not miss it. */
	void (*share)(struct event_collector *collector);
	/*
	 * For a visitor: drive what brings completions, once. Called without the queue's lock.
	 * NULL: there are no visits.
	 */
	void (*visit)(struct event_collector *collector);
	_Atomic bool is_visited; /* visit() is to be called; written by the collector */
	bool is_watching; /* peers on this host write an eventfd; under the queue's lock */
	_Atomic bool has_missed; /* a thread has got -EAGAIN; a hint, which the collector clears */
	_Atomic bool is_driving; /* a waiter is in drive() */
	/* Fruitless waits before the next sleep without polling; see event_waiter.c. */
	int wait_budget;
};

struct event_queue {
	int fd; /* the program's descriptor: `read_fd`, or an epoll set that has it */
	int read_fd; /* the program's end of the socket pair */
	int wake_fd; /* urnic's end */
	pthread_mutex_t lock;
	struct list waiting; /* of struct event, oldest first */
	bool is_readable; /* the byte was sent and not read yet */
	bool has_waiter; /* a thread waits by collecting */
	bool is_signaling; /* the set's owner gets a signal when the byte is sent */
	_Atomic uint32_t readers; /* threads that wait at the descriptor */
	_Atomic bool has_events; /* the list is not empty; written under the lock */
	struct event_collector *_Atomic collector; /* NULL: none */
	pid_t owner; /* a forked child shares the descriptors, but the byte is its parent's */
};

/* Returns 0 or -errno. */
int event_queue_init(struct event_queue *queue) URNIC_EXPORT_AS(event_queue_init);
/* event_queue_init(), but the program's descriptor is an epoll set. */
int event_queue_init_set(struct event_queue *queue) URNIC_EXPORT_AS(event_queue_init_set);
/* Close the descriptors. The queue must be empty. */
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
 * `pin`  Called with the event under the queue's lock, so that its source exists meanwhile. It
 *        copies what the caller needs, or takes a reference.
 *
 * Returns 0, or -errno: -EAGAIN on a non-blocking descriptor, -EINTR as read(2).
 */
int event_queue_take(struct event_queue *queue, void (*pin)(struct event *event, void *argument),
	void *argument) URNIC_EXPORT_AS(event_queue_take);

/* Drop the untaken posts of `event`. event->taken does not change after this call. */
void event_queue_forget(struct event_queue *queue, struct event *event)
	URNIC_EXPORT_AS(event_queue_forget);

/* Does the program's descriptor block? Returns 1, 0 or -errno. */
int event_queue_is_blocking(const struct event_queue *queue);

/* Does the descriptor have an owner, who may want signals? */
bool event_queue_has_owner(const struct event_queue *queue);

/* The byte is about to be sent: let the set's owner get its signal. Locked. */
void event_queue_copy_owner(struct event_queue *queue);

/* Set the queue's collector, once. */
void event_queue_set_collector(struct event_queue *queue, struct event_collector *collector);

/*
 * Start or stop (`is_watching`) having peers on this host write the waiter's eventfd while there is
 * no waiter. The caller collects after it has stopped that.
 */
void event_queue_watch(struct event_queue *queue, bool is_watching);

/*
 * event_queue_take() for a waiter that collects. -ENOENT when the caller has to wait at the
 * descriptor; -EINTR. A cancellation point.
 */
int event_queue_take_collecting(struct event_queue *queue,
	void (*pin)(struct event *event, void *argument), void *argument);

/*
 * event_queue_take() for a visitor. -EAGAIN when there is no event and the descriptor does not
 * block; -ENOENT when there is no visit, and the caller reads the descriptor. No cancellation
 * point.
 */
int event_queue_take_visiting(struct event_queue *queue,
	void (*pin)(struct event *event, void *argument), void *argument);

/* Take the first event of a list that is not empty. Locked. */
void event_queue_take_first(struct event_queue *queue,
	void (*pin)(struct event *event, void *argument), void *argument);
/* Make the descriptor readable if there is an event and no waiter collects. Locked. */
void event_queue_wake(struct event_queue *queue);

#endif
