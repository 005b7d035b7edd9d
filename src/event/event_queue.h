/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Events that a program waits for on a descriptor: completion channels, asynchronous events,
 * connection events.
 *
 * Programs put the descriptor into poll, epoll or SIGIO, make it non-blocking with fcntl, and take
 * events with a call that reads the descriptor. So the descriptor must be one of the kernel's, and
 * readable exactly while there is an event: it is one end of a socket pair with at most one byte in
 * it. The queue's list has one entry for each source, with the count of that source's events. So
 * posting allocates nothing, and no event is lost however late the program takes it.
 *
 * The descriptor of a completion channel is an epoll set that has this end as a member, so that
 * other descriptors can make the set readable, too. The calls that take events read the end itself,
 * and block unless the set has O_NONBLOCK. An epoll set sends no SIGIO. So the thread that sends
 * the byte first copies the set's owner and signal (F_SETOWN, F_SETSIG) to the end. The end then
 * sends the signal, whose si_fd is therefore not the program's descriptor.
 *
 * A queue may have a collector: a function that collects completions and posts their events. A
 * thread that waits on a blocking descriptor is then a waiter (queue/waiter.h): it calls the
 * collector and leaves the descriptor alone. If peers on this host use the queue, the waiter polls
 * for about as long as a sleep and a wake-up take, unless recent polls were fruitless, and then
 * sleeps on a futex. If no peer uses the queue, the waiter drives the lane that brings completions,
 * and sleeps in the collector's drive(). Events posted meanwhile go to the waiter, without a byte.
 * There is one waiter at a time; other threads wait at the descriptor.
 *
 * A thread that takes an event from a non-blocking descriptor is a visitor, if the collector wants
 * visits. The visitor drives the lane that brings completions, once. If this posts an event, the
 * visitor takes it at once, and no byte is sent.
 *
 * A source (a completion queue, say) embeds its `struct event` and owns it. It calls
 * event_queue_forget() before it is destroyed.
 *
 * Any thread may call these functions. Posting takes the queue's lock, and makes a system call if
 * a sleeping thread must wake up.
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
	/* Posts taken so far. The source's destruction waits until all of them are acknowledged. */
	uint32_t taken;
};

enum event_view {
	EVENT_VIEW_NONE, /* completions cannot be collected, or no longer */
	EVENT_VIEW_EMPTY, /* no peer on this host uses the channel: do not poll */
	EVENT_VIEW_OPEN, /* peers on this host use the channel: poll before sleeping */
};

struct event_collector {
	struct waiter *waiter;
	/* Collect completions and post their events. Called without the queue's lock. */
	enum event_view (*collect)(struct event_collector *collector);
	/*
	 * For a waiter: drive the lane that brings completions, and sleep while it is idle, until
	 * there are events. Peers on this host then wake the lane, not the waiter's futex. Returns
	 * 0; -EINTR; or -EAGAIN when the waiter has to sleep on the futex instead. Called without
	 * the queue's lock; a cancellation point.
	 * NULL: the waiter always sleeps on the futex.
	 */
	int (*drive)(struct event_collector *collector);
	/* Wake a waiter in drive(), if it sleeps. Called with the queue's lock. */
	void (*wake)(struct event_collector *collector);
	/*
	 * Called when the waiter leaves and other threads still wait at the descriptor: from now on
	 * the lane's thread drives the lane for them.
	 */
	void (*share)(struct event_collector *collector);
	/*
	 * For a visitor: drive the lane that brings completions, once. Called without the queue's
	 * lock. NULL: there are no visits.
	 */
	void (*visit)(struct event_collector *collector);
	_Atomic bool is_visited; /* the collector wants visits, and sets and clears this itself */
	/* Peers on this host write an eventfd for each completion; guarded by the queue's lock. */
	bool is_watching;
	/* event_queue_take() has returned -EAGAIN. A hint, which the collector clears. */
	_Atomic bool has_missed;
	_Atomic bool is_driving; /* a waiter is in drive() */
	/*
	 * If not negative: how many more waits may be fruitless before the waiter sleeps without
	 * polling. If negative: the negated number of waits to come that do not poll. See
	 * event_waiter.c.
	 */
	int wait_budget;
};

struct event_queue {
	int fd; /* the program's descriptor: `read_fd`, or an epoll set with `read_fd` in it */
	int read_fd; /* the program's end of the socket pair */
	int wake_fd; /* urnic's end */
	pthread_mutex_t lock;
	struct list waiting; /* of struct event, oldest first */
	bool is_readable; /* the byte was sent and not read yet */
	bool has_waiter; /* there is a waiter or a visitor, to which events go without a byte */
	bool is_signaling; /* the set's owner gets a signal when the byte is sent */
	_Atomic uint32_t readers; /* threads that wait at the descriptor */
	_Atomic bool has_events; /* the list is not empty; written under the lock */
	struct event_collector *_Atomic collector; /* NULL: none */
	pid_t owner; /* the process that reads the byte; its forked children must not */
};

/* Make an empty queue and its descriptors. Returns 0 or -errno. */
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

/* Count one more event of the source, and wake a thread that waits for it. */
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
int event_queue_is_blocking(const struct event_queue *queue)
	URNIC_EXPORT_AS(event_queue_is_blocking);

/* Does the descriptor have an owner (F_SETOWN), which may want signals? */
bool event_queue_has_owner(const struct event_queue *queue);

/*
 * The caller is about to send the byte that wakes readers. If the program's descriptor is an epoll
 * set, give `read_fd` the owner (F_SETOWN) and the signal (F_SETSIG) of that set. The queue is
 * locked.
 */
void event_queue_copy_owner(struct event_queue *queue);

/* Set the queue's collector, once. */
void event_queue_set_collector(struct event_queue *queue, struct event_collector *collector);

/*
 * `is_watching`  True: while there is no waiter, peers on this host write the waiter's eventfd
 *                after they have left a completion. False: they no longer do, and the caller
 *                collects the completions that they have left until now.
 */
void event_queue_watch(struct event_queue *queue, bool is_watching);

/*
 * event_queue_take() for a waiter. Returns 0; -ENOENT when the caller has to wait at the
 * descriptor; or -EINTR. A cancellation point.
 */
int event_queue_take_collecting(struct event_queue *queue,
	void (*pin)(struct event *event, void *argument), void *argument);

/*
 * event_queue_take() for a visitor. Returns 0; -EAGAIN when there is no event and the descriptor
 * does not block; or -ENOENT when the caller has to read the descriptor. No cancellation point.
 */
int event_queue_take_visiting(struct event_queue *queue,
	void (*pin)(struct event *event, void *argument), void *argument);

/* Take the first event of a list that is not empty. The queue is locked. */
void event_queue_take_first(struct event_queue *queue,
	void (*pin)(struct event *event, void *argument), void *argument);
/*
 * Make the descriptor readable if there is an event, and neither a waiter nor a visitor (see the
 * top of this file) that would take it. The queue is locked.
 */
void event_queue_wake(struct event_queue *queue);

#endif
