/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_WORKER_WORKER_WAIT_H
#define URNIC_WORKER_WORKER_WAIT_H

/*
 * Waiters and visits: a program's thread that wants an event of a completion channel drives a lane.
 *
 * Without this, a packet would wake the lane's thread, which receives the packet and then wakes the
 * program's thread: two wake-ups for one message. A waiter itself sleeps on the lane's sockets, so
 * the packet wakes the waiter, which drives the lane and finds its event.
 *
 * The first such wait assigns the lane to the channel. While the lane is assigned, its thread does
 * not watch the sockets, even between two waits, because the program usually comes back soon. While
 * waits are frequent, the thread wakes up once in a tick and looks for waiters. While waits are
 * rare, the thread sleeps without a limit, and a waiter that leaves sets a timer to wake it. When
 * the thread finds that there was no waiter for a tick, it takes the lane back. So for two ticks at
 * most, no thread drives the lane. If packets have arrived in that time, the next few waits do not
 * drive the lane.
 *
 * A program with a non-blocking channel cannot sleep here. It sleeps in epoll or poll, on the
 * descriptor of its channel. That descriptor is an epoll set, so the lane's sockets are put into
 * it, and a packet wakes the program. The program's next ibv_get_cq_event is a visit: it drives the
 * lane.
 *
 * - The sockets are put into the set when a queue is armed, and stay there.
 * - A visit that finds an event which a packet caused assigns the lane to the channel. The lane's
 *   thread then looks once in a tick, and takes the lane back if there was no visit for a tick.
 * - While the lane is not assigned, its thread watches the sockets, too. A packet then wakes the
 *   thread and the program, because it is unknown whether the program sleeps or computes.
 *
 * A visit may find no event, so ibv_get_cq_event fails with EAGAIN although the descriptor was
 * readable. Only some programs tolerate that; nic/object/nic_channel.c knows which.
 *
 * A lane is assigned to one channel, and a channel drives one lane. The lane is taken back at once
 * when a queue of another channel is armed, when another thread reads the same channel, or when
 * other threads receive the packets that wake the waiter. Then the next POLL_WAIT_REFUSALS waits do
 * not drive the lane.
 *
 * The lane's lock protects all fields that are not atomic.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct worker;

struct worker_wait {
	_Atomic bool is_assigned; /* written with the lock held */
	/* The channel that has the lane assigned, or that has `set`. Written with the lock held. */
	const void *_Atomic channel;
	/* The channel's epoll set with the lane's sockets; -1: none. Written with the lock held. */
	_Atomic int set;
	bool is_in; /* a thread is in worker_wait() */
	/* The thread in worker_wait() sleeps, or is about to. The first wake-up clears this. */
	_Atomic bool is_asleep;
	bool is_parked; /* the lane's thread sleeps without a limit and without the timer */
	bool is_timer_set; /* the timer will wake the lane's thread */
	bool is_impossible; /* a system call was refused, so no wait or visit drives */
	bool was_long; /* the last sleep was longer than a tick */
	bool is_absent; /* the lane's thread found no waiter when it last looked */
	bool has_held_acks; /* acknowledgements were left pending for the program's answer */
	int hold_budget; /* like hold_budget of struct poll_thread (lane/poll_policy.h) */
	uint32_t waits; /* count of all waits and visits */
	uint32_t waits_seen; /* `waits` when the lane's thread last looked */
	uint32_t refusals; /* number of coming waits and visits that do not drive */
	uint32_t vain; /* consecutive wake-ups without a packet, or visits without an event */
	uint32_t packets_seen; /* worker.packets at the last visit */
	bool had_event; /* the last visit found an event: the program may ask for more at once */
	int wake; /* eventfd that wakes the waiter; -1 before the first wait */
	int timer; /* timerfd that wakes the lane's thread; -1 before the first wait */
};

void worker_wait_init(struct worker_wait *wait);
void worker_wait_done(struct worker_wait *wait);

/*
 * Drive the lane until *has_events is true, and sleep between packets.
 *
 * `channel`  The completion channel from which the caller wants an event.
 *
 * Returns 0; -EINTR after a signal that interrupts read(2); -EAGAIN when the caller cannot drive
 * the lane, and has to wait in another way. A cancellation point. The worker is not locked.
 */
int worker_wait(struct worker *worker, const void *channel, const _Atomic bool *has_events);

/* *has_events is true now: wake the thread in worker_wait() if it sleeps. Any thread may call. */
void worker_wait_wake(struct worker *worker);

/*
 * Take the lane and its sockets back from the channel, because other threads or channels use them,
 * too. The worker is locked.
 */
void worker_wait_return(struct worker *worker);

/* Is the lane assigned, or are its sockets in a channel's descriptor? Any thread may call. */
static inline bool worker_wait_is_used(struct worker_wait *wait)
{
	return atomic_load(&wait->is_assigned) || atomic_load(&wait->set) >= 0;
}

/* Call worker_wait_return() if there is something to take back. The worker is not locked. */
void worker_wait_end(struct worker *worker);

/* --- visits (worker_visit.c) --- */

/*
 * Put the lane's sockets into `set`, if the lane is free, so that a packet makes `set` readable.
 *
 * `channel`  The completion channel of `set`.
 * `set`      An epoll set. The caller keeps it open until worker_visit_end().
 *
 * Returns whether the sockets are in `set`. Any thread; the worker is not locked.
 */
bool worker_visit_begin(struct worker *worker, const void *channel, int set);

/* Take the sockets out of the channel's set, if they are in it. The worker is not locked. */
void worker_visit_end(struct worker *worker, const void *channel);

/*
 * Drive the lane for a program that wants an event, if the lane's sockets are in its channel's set.
 *
 * `has_events`  Whether the channel has an event. If it is false afterwards, every packet that
 *               arrived before the call was received.
 *
 * Any thread; the worker is not locked. No cancellation point.
 */
void worker_visit(struct worker *worker, const void *channel, const _Atomic bool *has_events);

/*
 * Is the lane assigned for visits, and has it work to do before its thread next wakes up? The
 * worker is locked.
 */
bool worker_visit_needs_thread(struct worker *worker);

/*
 * Take the sockets out of the channel's set, because the lane's sockets are about to change. The
 * next arming of a queue puts them back. The worker is locked.
 */
void worker_visit_forget(struct worker *worker);

/*
 * Put a hot stream, which is not in the lane's epoll set, into the set of the channel, if there is
 * one; or take it out. Returns 0 or -errno.
 */
int worker_visit_watch_hot(struct worker *worker, int fd, bool shall_watch);

/* --- both --- */

/*
 * A completion queue of `channel` was armed. If the lane is assigned to another channel, take it
 * back. Any thread; the worker is not locked.
 */
static inline void worker_wait_note_arm(
	struct worker *worker, struct worker_wait *wait, const void *channel)
{
	if (channel && worker_wait_is_used(wait) && atomic_load(&wait->channel) != channel)
		worker_wait_end(worker);
}

/*
 * For the lane's thread: take the lane back if no waiter or visit has come for a tick. Returns how
 * long the thread may sleep; 0: the thread has to drive the lane. The worker is not locked.
 */
uint64_t worker_wait_look(struct worker *worker);

/*
 * Does the lane have work that no packet announces: bytes to send, or messages that wait for
 * receive requests? If the lane is assigned for visits, no thread wakes up for such work. The
 * worker is locked.
 */
bool worker_wait_has_left(const struct worker *worker);

/* Is the lane assigned to a channel for visits? The worker is locked. */
static inline bool worker_visit_is_assigned(struct worker_wait *wait)
{
	return atomic_load_explicit(&wait->is_assigned, memory_order_relaxed) && !wait->is_in &&
		atomic_load_explicit(&wait->set, memory_order_relaxed) >= 0;
}

/* Wake the waiter or the lane's thread, so that it chooses its sleep anew. The worker is locked. */
void worker_rouse(struct worker *worker);

#endif
