/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_WORKER_WORKER_WAIT_H
#define URNIC_WORKER_WORKER_WAIT_H

/*
 * A program's thread that drives a lane while it waits for an event of a completion channel.
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
	const void *_Atomic channel; /* that the lane is assigned to; likewise */
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
	uint32_t vain; /* wake-ups by sockets in a row without a packet */
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
 * Returns 0; -EINTR after a signal that interrupts read(2); -EAGAIN when the caller has to wait
 * otherwise, because others drive the lane. A cancellation point. The worker is not locked.
 */
int worker_wait(struct worker *worker, const void *channel, const _Atomic bool *has_events);

/* Wake the thread in worker_wait() if it sleeps: `has_events` has changed. Any thread. */
void worker_wait_wake(struct worker *worker);

/*
 * Take the lane back, because the channel is not its only user. The worker is locked, and the lane
 * is assigned.
 */
void worker_wait_return(struct worker *worker);

/* The same if the lane is assigned. The worker is not locked. */
void worker_wait_end(struct worker *worker);

/*
 * The same if a queue of another channel was armed. Any thread; the worker is not locked.
 */
static inline void worker_wait_note_arm(
	struct worker *worker, struct worker_wait *wait, const void *channel)
{
	if (channel && atomic_load(&wait->is_assigned) && atomic_load(&wait->channel) != channel)
		worker_wait_end(worker);
}

/*
 * For the lane's thread: take the lane back if no waiter has come for a tick. Returns how long the
 * thread may leave the lane alone; 0: it drives the lane. The worker is not locked.
 */
uint64_t worker_wait_look(struct worker *worker);

/* Wake the waiter or the lane's thread, to sleep for a shorter time. The worker is locked. */
void worker_rouse(struct worker *worker);

#endif
