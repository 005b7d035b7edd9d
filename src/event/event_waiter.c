/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Waiters. A waiter publishes its state in NIC memory. event_queue_post() and peers on this host
 * (local/channel/peer.c) read that state after they have left an event or a completion.
 *
 * If peers on this host use the channel, the waiter polls for POLL_NS before it sleeps. That
 * shortens the program's wait, and takes less processor time than a sleep and a wake-up, so other
 * programs gain, too. bench/events measures both.
 *
 * If no peer on this host uses the channel, the waiter drives the channel's lane
 * (worker/worker_wait.h). There, packets wake the waiter.
 */
#include <errno.h>

#include "base/spin.h"
#include "event/event_queue.h"
#include "os/clock.h"
#include "os/futex.h"

/*
 * A little longer than the 30 us in which a sleeping peer wakes up. While both ends sleep between
 * messages, no answer arrives sooner, so a shorter poll would always be fruitless.
 */
#define POLL_NS 40000

enum {
	POLLS_PER_CLOCK = 8,
	/*
	 * After more than BUDGET_MAX fruitless waits in a row, the waiter does its next -BUDGET_MIN
	 * waits without polling.
	 */
	BUDGET_MAX = 8,
	BUDGET_MIN = -32,
};

static void state_publish(const struct event_collector *collector, enum waiter_state state)
{
	atomic_store(&collector->waiter->state, state);
	atomic_thread_fence(memory_order_seq_cst);
}

/* There is no waiter: publish how peers wake the program now. The queue is locked. */
static void state_reset(const struct event_collector *collector)
{
	state_publish(collector, collector->is_watching ? WAITER_WATCHES : WAITER_NONE);
}

void event_queue_watch(struct event_queue *queue, bool is_watching)
{
	struct event_collector *collector = atomic_load(&queue->collector);

	pthread_mutex_lock(&queue->lock);
	collector->is_watching = is_watching;
	/* A visitor sets has_waiter, too, but does not change the state. */
	if (!queue->has_waiter || waiter_state(collector->waiter) == WAITER_WATCHES)
		state_reset(collector);
	pthread_mutex_unlock(&queue->lock);
}

static bool waiter_begin(struct event_queue *queue, struct event_collector *collector)
{
	bool is_free;

	pthread_mutex_lock(&queue->lock);
	is_free = !queue->has_waiter && !queue->is_readable;
	if (is_free) {
		queue->has_waiter = true;
		state_publish(collector, WAITER_POLLS);
	}
	pthread_mutex_unlock(&queue->lock);
	return is_free;
}

/*
 * The waiter leaves. Events posted from now on go to other threads. The caller then collects once
 * more, for completions that peers left before. The queue is locked.
 */
static void waiter_end(struct event_queue *queue, struct event_collector *collector)
{
	queue->has_waiter = false;
	state_reset(collector);
	event_queue_wake(queue);
}

/*
 * While the former waiter works on its event, packets for other threads may arrive. So let the
 * lane's thread drive the lane, if other threads wait.
 */
static void waiter_share(struct event_queue *queue, struct event_collector *collector)
{
	if (collector->share && atomic_load(&queue->readers))
		collector->share(collector);
}

static void give_up(void *argument)
{
	struct event_queue *queue = argument;
	struct event_collector *collector = atomic_load(&queue->collector);

	pthread_mutex_lock(&queue->lock);
	atomic_store(&collector->is_driving, false);
	waiter_end(queue, collector);
	pthread_mutex_unlock(&queue->lock);
	collector->collect(collector);
	waiter_share(queue, collector);
}

static bool is_worth_it(struct event_collector *collector)
{
	if (collector->wait_budget >= 0)
		return true;
	collector->wait_budget++;
	return false;
}

/* Poll for POLL_NS, unless recent waits were fruitless. */
static void poll_for_a_while(struct event_queue *queue, struct event_collector *collector)
{
	uint64_t until_ns = clock_now_ns() + POLL_NS;

	if (!is_worth_it(collector))
		return;
	do {
		for (int i = 0; i < POLLS_PER_CLOCK; i++) {
			collector->collect(collector);
			if (atomic_load(&queue->has_events)) {
				collector->wait_budget = BUDGET_MAX;
				return;
			}
			spin_pause();
		}
	} while (clock_now_ns() < until_ns);
	if (--collector->wait_budget < 0)
		collector->wait_budget = BUDGET_MIN;
}

/* Sleep on the futex, unless there is an event. Returns 0 after a wake-up, or -EINTR. */
static int sleep_here(struct event_queue *queue, struct event_collector *collector)
{
	uint32_t wakes = atomic_load(waiter_wakes(collector->waiter));
	int error = 0;

	state_publish(collector, WAITER_SLEEPS);
	collector->collect(collector);
	if (!atomic_load(&queue->has_events))
		error = futex_wait(waiter_wakes(collector->waiter), wakes);
	state_publish(collector, WAITER_POLLS);
	if (!atomic_load(&queue->has_events))
		collector->collect(collector);
	return error;
}

/*
 * Wait by driving the lane. During that time this thread publishes WAITER_NONE, so peers on this
 * host kick the lane instead of waking this thread's futex. Returns 0, -EINTR, or -EAGAIN.
 */
static int drive_here(struct event_queue *queue, struct event_collector *collector)
{
	int error;

	if (!collector->drive || atomic_load(&queue->readers))
		return -EAGAIN;
	state_publish(collector, WAITER_NONE);
	atomic_store(&collector->is_driving, true);
	error = collector->drive(collector);
	atomic_store(&collector->is_driving, false);
	state_publish(collector, WAITER_POLLS);
	if (!atomic_load(&queue->has_events))
		collector->collect(collector);
	return error;
}

/*
 * Wait by collecting. Returns 0 when there is an event; -EINTR; -ENOENT when nothing can be
 * collected any more.
 */
static int waiter_wait(struct event_queue *queue, struct event_collector *collector)
{
	enum event_view view = collector->collect(collector);
	int error = view == EVENT_VIEW_NONE ? -ENOENT : 0;

	if (view == EVENT_VIEW_OPEN && !atomic_load(&queue->has_events))
		poll_for_a_while(queue, collector);
	while (!error && !atomic_load(&queue->has_events)) {
		error = view == EVENT_VIEW_EMPTY ? drive_here(queue, collector) : -EAGAIN;
		if (error == -EAGAIN)
			error = sleep_here(queue, collector);
	}
	return error;
}

/* Is the byte sent and unread? Then the thread that reads it takes the event. */
static bool is_readable(struct event_queue *queue)
{
	bool is_readable;

	pthread_mutex_lock(&queue->lock);
	is_readable = queue->is_readable;
	pthread_mutex_unlock(&queue->lock);
	return is_readable;
}

int event_queue_take_collecting(
	struct event_queue *queue, void (*pin)(struct event *event, void *argument), void *argument)
{
	struct event_collector *collector = atomic_load(&queue->collector);
	bool has_event;
	int error;

	if (!collector || is_readable(queue) || event_queue_is_blocking(queue) != 1 ||
		!waiter_begin(queue, collector))
		return -ENOENT;
	pthread_cleanup_push(give_up, queue);
	error = waiter_wait(queue, collector);
	pthread_cleanup_pop(false);
	pthread_mutex_lock(&queue->lock);
	/*
	 * event_queue_forget() may have dropped the event meanwhile. If there is an event, take it
	 * even when a signal has ended the wait.
	 */
	has_event = !list_is_empty(&queue->waiting);
	if (has_event)
		event_queue_take_first(queue, pin, argument);
	waiter_end(queue, collector);
	pthread_mutex_unlock(&queue->lock);
	collector->collect(collector);
	waiter_share(queue, collector);
	if (has_event)
		return 0;
	return error ? error : -ENOENT;
}
