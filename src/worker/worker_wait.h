/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_WORKER_WORKER_WAIT_H
#define URNIC_WORKER_WORKER_WAIT_H

/*
 * A program's thread that drives a lane when it comes for an event of a completion channel.
 *
 * Without it, a packet wakes the lane's thread, which takes the packet in and then wakes the
 * waiter: two wake-ups for a message. Here the waiter itself sleeps on the lane's sockets, so the
 * packet wakes the waiter, which drives the lane and finds its event.
 *
 * The first such wait assigns the lane to the channel. While it is assigned, the lane's thread does
 * not watch the sockets, also between two waits: the program mostly comes back soon. The thread
 * looks once a tick while waits are frequent, and sleeps without a limit while they are rare; then
 * a waiter that leaves sets a timer for it. When the thread finds that no waiter was there for a
 * tick, it takes the lane back. So a lane is undriven for two ticks at most. If packets had arrived
 * meanwhile, the next few waits do not drive.
 *
 * A thread that does not block cannot sleep here. It sleeps in epoll or poll, on the descriptor of
 * its channel. So the lane's sockets are put into that descriptor, which is an epoll set, and a
 * packet wakes the program. Its next ibv_get_cq_event is a visit: it drives the lane.
 *
 * - The sockets are in the set from the arming of a queue on, and stay there.
 * - A visit that finds an event by a packet assigns the lane to the channel. The lane's thread then
 *   looks once a tick, and takes the lane back when there was no visit for a tick.
 * - While the lane is not assigned, its thread watches the sockets, too. A packet then wakes both,
 *   because the program may sleep or compute.
 *
 * A visit may find no event, which only some programs tolerate: nic/nic_channel.c knows which.
 *
 * A lane is assigned to one channel, and a channel drives one lane. The lane is taken back at once
 * when a queue of another channel is armed, when another thread reads the same channel, or when
 * other threads receive the packets that wake the waiter. Then the next many waits do not drive.
 *
 * All fields belong to the holder of the lane's lock, unless they are atomic.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct worker;

struct worker_wait {
	_Atomic bool is_assigned; /* written with the lock held */
	const void *_Atomic channel; /* that the lane is assigned to, or of `set`; likewise */
	_Atomic int set; /* the descriptor of a channel that has the sockets; -1: none; likewise */
	bool is_in; /* a thread is in worker_wait() */
	/* That thread sleeps, or is about to; true only until the first wake-up. */
	_Atomic bool is_asleep;
	bool is_parked; /* the lane's thread sleeps without a limit and without the timer */
	bool is_timer_set; /* the timer will wake the lane's thread */
	bool is_impossible; /* a system call was refused */
	bool was_long; /* the last sleep was longer than a tick */
	bool is_absent; /* the lane's thread found no waiter when it last looked */
	bool has_held_acks; /* the last waiter left acknowledgements to the program's answer */
	int hold_budget; /* as in struct poll_thread */
	uint32_t waits; /* so far */
	uint32_t waits_seen; /* when the lane's thread last looked */
	uint32_t refusals; /* waits that will not drive */
	uint32_t vain; /* wake-ups by sockets in a row without a packet; visits without an event */
	uint32_t packets_seen; /* worker.packets at the last visit */
	bool had_event; /* the last visit found one: the program may ask for more at once */
	int wake; /* eventfd that wakes the waiter; -1 before the first wait, as is: */
	int timer; /* timerfd that wakes the lane's thread */
};

void worker_wait_init(struct worker_wait *wait);
void worker_wait_done(struct worker_wait *wait);

/*
 * Drive the lane, asleep between packets, until `has_events` is true.
 *
 * `channel`  Whose waiter the caller is.
 *
 * Returns 0; -EINTR after a signal that interrupts read(2); -EAGAIN when others drive the lane, so
 * the caller cannot wait here. A cancellation point. The worker is not locked.
 */
int worker_wait(struct worker *worker, const void *channel, const _Atomic bool *has_events);

/* Wake the thread in worker_wait() if it sleeps: `has_events` has changed. Any thread. */
void worker_wait_wake(struct worker *worker);

/*
 * Take the lane and its sockets back, because the channel is not their only user. The worker is
 * locked.
 */
void worker_wait_return(struct worker *worker);

/* Is the lane assigned, or are its sockets in a channel's descriptor? Any thread. */
static inline bool worker_wait_is_used(struct worker_wait *wait)
{
	return atomic_load(&wait->is_assigned) || atomic_load(&wait->set) >= 0;
}

/* worker_wait_return() if there is something to take back. The worker is not locked. */
void worker_wait_end(struct worker *worker);

/* --- visits (worker_visit.c) --- */

/*
 * Put the lane's sockets into `set`, if the lane is free: a packet makes it readable.
 *
 * `channel`  Whose program visits.
 * `set`      An epoll set. It stays open until worker_visit_end().
 *
 * Returns whether they are in it. Any thread; the worker is not locked.
 */
bool worker_visit_begin(struct worker *worker, const void *channel, int set);

/* Take the sockets out of the channel's set, if they are in it. The worker is not locked. */
void worker_visit_end(struct worker *worker, const void *channel);

/*
 * Drive the lane for a program that comes for an event, if the sockets are in its channel's set.
 *
 * `has_events`  Of the channel. If it is false afterwards, all has been received that arrived
 *               before the call.
 *
 * Any thread; the worker is not locked. No cancellation point.
 */
void worker_visit(struct worker *worker, const void *channel, const _Atomic bool *has_events);

/*
 * Does a lane that is assigned for visits have work before the lane's thread next wakes up? The
 * worker is locked.
 */
bool worker_visit_needs_thread(struct worker *worker);

/* The lane's sockets are about to change: the next arming begins anew. The worker is locked. */
void worker_visit_forget(struct worker *worker);

/* A stream becomes hot, or ends to be: it is not in the lane's set then. Returns 0 or -errno. */
int worker_visit_watch_hot(struct worker *worker, int fd, bool shall_watch);

/* --- both --- */

/*
 * worker_wait_note_arm() for the lane `worker`: a queue of `channel` was armed, and if the lane is
 * assigned to another channel, take it back. Any thread; the worker is not locked.
 */
static inline void worker_wait_note_arm(
	struct worker *worker, struct worker_wait *wait, const void *channel)
{
	if (channel && worker_wait_is_used(wait) && atomic_load(&wait->channel) != channel)
		worker_wait_end(worker);
}

/*
 * For the lane's thread: take the lane back if no waiter has come for a tick. Returns how long the
 * thread may leave the lane alone; 0: it drives the lane. The worker is not locked.
 */
uint64_t worker_wait_look(struct worker *worker);

/*
 * Does the lane have work that no packet announces: bytes to send, or messages that wait for
 * receive requests? A lane that is assigned for visits has no sleeper that finds it. Locked.
 */
bool worker_wait_has_left(const struct worker *worker);

/* Is the lane assigned for visits? Locked. */
static inline bool worker_visit_is_assigned(struct worker_wait *wait)
{
	return atomic_load_explicit(&wait->is_assigned, memory_order_relaxed) && !wait->is_in &&
		atomic_load_explicit(&wait->set, memory_order_relaxed) >= 0;
}

/* Wake the waiter or the lane's thread, to sleep for a shorter time. The worker is locked. */
void worker_rouse(struct worker *worker);

#endif
