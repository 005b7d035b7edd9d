/* SPDX-License-Identifier: BSD-2-Clause */
#include "worker/worker_wait.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "base/arith.h"
#include "os/clock.h"
#include "os/kick.h"
#include "os/log.h"
#include "os/restart.h"
#include "worker/worker.h"
#include "worker/worker_wait_internal.h"
#include "worker/worker_port.h"

enum {
	/* The port's descriptors, the streams' epoll set, the hot stream, and wait.wake. */
	FDS_MAX = PORT_UDP_FDS_MAX + 3,
};

void worker_wait_init(struct worker_wait *wait)
{
	wait->wake = -1;
	wait->timer = -1;
	atomic_init(&wait->set, -1);
}

void worker_wait_done(struct worker_wait *wait)
{
	if (wait->wake >= 0)
		close(wait->wake);
	if (wait->timer >= 0)
		close(wait->timer);
}

bool worker_wait_open(struct worker *worker)
{
	struct worker_wait *wait = &worker->wait;

	if (wait->wake >= 0 || wait->is_impossible)
		return !wait->is_impossible;
	wait->is_impossible = true;
	wait->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (wait->timer < 0) {
		log_refusal("programs that wait for events are slower", "timerfd_create");
		return false;
	}
	if (worker_watch_timer(worker, worker->wait.timer, WORKER_SOURCE_WAIT))
		return false;
	wait->wake = kick_create("programs that wait for events are slower");
	wait->is_impossible = wait->wake < 0;
	return !wait->is_impossible;
}

/* --- assigning the lane --- */

void worker_wait_return(struct worker *worker)
{
	struct worker_wait *wait = &worker->wait;

	worker_visit_forget(worker);
	atomic_store(&wait->is_assigned, false);
	worker_watch_update(worker);
	wait->is_parked = false;
	wait->refusals = POLL_WAIT_REFUSALS;
	worker->is_deep_asleep = false;
	worker_wait_wake(worker);
	kick_raise(worker->kick);
}

void worker_wait_set_timer(struct worker *worker, uint64_t ns)
{
	const struct itimerspec once = {.it_value.tv_nsec = (long)ns};
	struct worker_wait *wait = &worker->wait;
	bool is_set = !timerfd_settime(wait->timer, 0, &once, NULL);

	wait->is_timer_set = is_set && ns;
	if (is_set || !ns)
		return;
	log_refusal("programs that wait for events are slower", "timerfd_settime");
	wait->is_impossible = true;
	worker_wait_return(worker);
}

void worker_wait_end(struct worker *worker)
{
	worker_lock(worker);
	if (worker_wait_is_used(&worker->wait))
		worker_wait_return(worker);
	worker_unlock(worker);
}

bool worker_wait_is_free(struct worker *worker, const void *channel)
{
	struct worker_wait *wait = &worker->wait;

	if (wait->is_in || !list_is_empty(&worker->frames))
		return false;
	if (wait->refusals) {
		wait->refusals--;
		return false;
	}
	if (!worker_wait_is_used(wait) || atomic_load(&wait->channel) == channel)
		return true;
	worker_wait_return(worker);
	return false;
}

void worker_wait_assign(struct worker *worker, const void *channel)
{
	struct worker_wait *wait = &worker->wait;

	if (atomic_load(&wait->is_assigned))
		return;
	atomic_store(&wait->channel, channel);
	atomic_store(&wait->is_assigned, true);
	worker_watch_update(worker);
	wait->is_parked = worker->is_deep_asleep;
	wait->waits_seen = wait->waits;
	wait->is_absent = false;
	wait->vain = 0;
	worker_watch_sockets(worker, false);
}

/* --- acknowledgements --- */

bool worker_wait_holds_acks(struct worker_wait *wait)
{
	wait->has_held_acks = wait->hold_budget >= 0;
	if (!wait->has_held_acks)
		wait->hold_budget++;
	return wait->has_held_acks;
}

void worker_wait_update_hold_budget(struct worker *worker)
{
	struct worker_wait *wait = &worker->wait;

	if (!wait->has_held_acks)
		return;
	wait->has_held_acks = false;
	if (!atomic_load_explicit(&worker->are_acks_deferred, memory_order_relaxed))
		wait->hold_budget = POLL_WAIT_HOLD_BUDGET_MAX;
	else if (--wait->hold_budget < 0)
		wait->hold_budget = POLL_WAIT_HOLD_BUDGET_MIN;
}

/* --- the waiter --- */

static bool wait_begin(struct worker *worker, const void *channel)
{
	struct worker_wait *wait = &worker->wait;
	bool is_begun;

	worker_lock(worker);
	is_begun = worker_wait_is_free(worker, channel) && worker_wait_open(worker);
	if (is_begun) {
		worker_wait_assign(worker, channel);
		wait->is_in = true;
		wait->waits++;
		/* A waiter is here again, so the timer need not wake the lane's thread. */
		if (wait->is_timer_set && wait->was_long) {
			worker_wait_set_timer(worker, 0);
			wait->is_parked = true;
		}
		worker_wait_update_hold_budget(worker);
		worker->now_ns = clock_now_ns();
		if (worker->stalled_count)
			worker_take_in(worker);
		worker_send(worker, true);
	}
	worker_unlock(worker);
	return is_begun;
}

/* The waiter leaves, perhaps because it is cancelled. */
static void wait_leave(void *argument)
{
	struct worker *worker = argument;
	struct worker_wait *wait = &worker->wait;

	worker_lock(worker);
	wait->is_in = false;
	atomic_store(&wait->is_asleep, false);
	if (atomic_load(&wait->is_assigned))
		worker->is_deep_asleep = false;
	if (wait->is_parked) {
		wait->is_parked = false;
		worker_wait_set_timer(worker, POLL_WAIT_TICK_NS);
	}
	worker_unlock(worker);
}

/*
 * List the descriptors to sleep on; the last one is wait.wake. The worker is locked. Returns their
 * number.
 */
static unsigned descriptors_list(const struct worker *worker, struct pollfd *fds)
{
	const struct worker_stream *hot = worker->hot_stream;
	unsigned count = worker->kind->fds(worker, fds);

	if (worker->stream_count)
		fds[count++] = (struct pollfd){.fd = worker->epoll_streams, .events = POLLIN};
	if (hot)
		fds[count++] = (struct pollfd){.fd = hot->fd, .events = POLLIN};
	fds[count++] = (struct pollfd){.fd = worker->wait.wake, .events = POLLIN};
	return count;
}

/* How long the waiter may sleep. The worker is locked. */
static uint64_t sleep_choose(const struct worker *worker)
{
	uint64_t deadline_ns = worker_deadline_ns(worker);
	bool is_blocked = worker_is_blocked(worker);

	if (!list_is_empty(&worker->lane.tx_streams) || deadline_ns <= worker->now_ns)
		return 0;
	if (worker->stalled_count)
		return min_u64(deadline_ns - worker->now_ns, POLL_TICK_NS);
	if (deadline_ns == DEADLINE_NEVER && !is_blocked)
		return DEADLINE_NEVER;
	return min_u64(deadline_ns - worker->now_ns, POLL_WAIT_SLEEP_NS_MAX);
}

/* Sleep; a cancellation point. Returns the number of ready descriptors, or -errno. */
static int sleep_on(struct pollfd *fds, unsigned count, uint64_t sleep_ns)
{
	const struct timespec limit = {
		(time_t)(sleep_ns / 1000000000u), (long)(sleep_ns % 1000000000u)};
	int ready = ppoll(fds, count, sleep_ns == DEADLINE_NEVER ? NULL : &limit, NULL);

	return ready < 0 ? -errno : ready;
}

/*
 * Evaluate `ready`, the result of sleep_on(). The last entry of `fds` is wait.wake. The worker is
 * locked. Returns 1 if a socket has woken the waiter, else 0; -EINTR after a signal that interrupts
 * read(2); or -EAGAIN when the kernel refuses the sleep.
 */
static int sleep_judge(struct worker *worker, const struct pollfd *fds, unsigned count, int ready)
{
	struct worker_wait *wait = &worker->wait;

	if (ready == -EINTR)
		return restart_is_due() ? 0 : -EINTR;
	if (ready < 0) {
		errno = -ready;
		log_refusal("programs that wait for events are slower", "ppoll");
		wait->is_impossible = true;
		worker_wait_return(worker);
		return -EAGAIN;
	}
	for (unsigned i = 0; i < count && ready > 0; i++)
		if (fds[i].revents & POLLERR)
			worker->has_socket_error = true;
	if (ready && fds[count - 1].revents) {
		kick_clear(wait->wake);
		ready--;
	}
	return ready > 0;
}

/* Drive the lane after the sleep. The worker is locked. */
static void lane_drive(struct worker *worker, bool is_woken, const _Atomic bool *has_events)
{
	struct worker_wait *wait = &worker->wait;
	unsigned datagrams;

	if (worker->has_socket_error)
		worker_clear_socket_errors(worker);
	datagrams = worker_take_in(worker);
	if (is_woken && !datagrams) {
		/* The packet is probably at a socket that the port does not read on every call. */
		worker_look_everywhere(worker);
		datagrams = worker_take_in(worker);
	}
	worker_deliver_signals(worker);
	worker_send(worker, !atomic_load(has_events) || !worker_wait_holds_acks(wait));
	if (datagrams)
		wait->vain = 0;
	else if (is_woken && ++wait->vain == POLL_WAIT_VAIN_MAX)
		worker_wait_return(worker);
}

/*
 * Prepare a sleep of the waiter. Returns the number of descriptors to sleep on; 0: the lane's
 * thread has taken the lane back. The worker is not locked.
 */
static unsigned sleep_prepare(struct worker *worker, struct pollfd *fds, uint64_t *ret_sleep_ns)
{
	struct worker_wait *wait = &worker->wait;
	unsigned count = 0;

	worker_lock(worker);
	if (atomic_load(&wait->is_assigned)) {
		count = descriptors_list(worker, fds);
		*ret_sleep_ns = sleep_choose(worker);
		worker->is_deep_asleep = *ret_sleep_ns == DEADLINE_NEVER;
		atomic_store(&wait->is_asleep, true);
	}
	worker_unlock(worker);
	return count;
}

/* Sleep once, then drive the lane. Returns 0 or an error as worker_wait(). */
static int wait_turn(struct worker *worker, const _Atomic bool *has_events)
{
	struct worker_wait *wait = &worker->wait;
	struct pollfd fds[FDS_MAX];
	uint64_t sleep_ns, began_ns;
	unsigned count;
	int result = 0;

	count = sleep_prepare(worker, fds, &sleep_ns);
	if (!count)
		return -EAGAIN;
	/*
	 * This thread has set is_asleep, and now reads `has_events`. Another thread sets the events
	 * and then reads is_asleep. So this thread sees the events, or that thread wakes it.
	 */
	if (sleep_ns && !atomic_load(has_events))
		result = sleep_on(fds, count, sleep_ns);
	worker_lock(worker);
	atomic_store(&wait->is_asleep, false);
	began_ns = worker->now_ns;
	result = sleep_judge(worker, fds, count, result);
	if (result >= 0 && atomic_load(&wait->is_assigned)) {
		worker->is_deep_asleep = false;
		lane_drive(worker, result > 0, has_events);
		wait->was_long = worker->now_ns - began_ns > POLL_WAIT_TICK_NS;
	}
	worker_unlock(worker);
	return result < 0 ? result : 0;
}

/* Not inlined: the cleanup handler of its caller uses setjmp(), which prevents optimization. */
static __attribute__((noinline)) int wait_for_events(
	struct worker *worker, const _Atomic bool *has_events)
{
	int error = 0;

	while (!error && !atomic_load(has_events))
		error = wait_turn(worker, has_events);
	return error;
}

int worker_wait(struct worker *worker, const void *channel, const _Atomic bool *has_events)
{
	int error;

	if (!restart_is_certain(clock_now_ns()) || !wait_begin(worker, channel))
		return -EAGAIN;
	pthread_cleanup_push(wait_leave, worker);
	error = wait_for_events(worker, has_events);
	pthread_cleanup_pop(true);
	return error;
}

void worker_wait_wake(struct worker *worker)
{
	if (atomic_exchange(&worker->wait.is_asleep, false))
		kick_raise(worker->wait.wake);
}

/* --- the others --- */

bool worker_wait_has_left(const struct worker *worker)
{
	return !list_is_empty(&worker->lane.tx_streams) || worker->stalled_count ||
		worker_is_blocked(worker);
}

void worker_rouse(struct worker *worker)
{
	worker->is_deep_asleep = false;
	if (worker->wait.is_in && atomic_load(&worker->wait.is_assigned))
		worker_wait_wake(worker);
	else
		kick_raise(worker->kick);
}

/*
 * Must the thread take the lane back? Yes if neither a waiter nor a visit has come for a tick, or
 * if there is work that no packet announces and no waiter is there to do it. The worker is locked.
 */
static bool lane_is_abandoned(struct worker *worker)
{
	const struct worker_wait *wait = &worker->wait;

	if (wait->is_in)
		return false;
	if (worker_visit_is_assigned(&worker->wait) && worker_wait_has_left(worker))
		return true;
	return (wait->is_absent && wait->waits == wait->waits_seen) ||
		worker_deadline_ns(worker) <= worker->now_ns;
}

/* Leave the lane to its waiters. Returns how long its thread may sleep. The worker is locked. */
static uint64_t thread_leave(struct worker *worker)
{
	struct worker_wait *wait = &worker->wait;
	bool is_frequent = wait->waits - wait->waits_seen > 1;

	wait->is_absent = !wait->is_in;
	wait->waits_seen = wait->waits;
	if (!wait->is_in)
		return min_u64(worker_deadline_ns(worker) - worker->now_ns, POLL_WAIT_TICK_NS);
	wait->is_parked = !is_frequent;
	return is_frequent ? POLL_WAIT_TICK_NS : DEADLINE_NEVER;
}

uint64_t worker_wait_look(struct worker *worker)
{
	struct worker_wait *wait = &worker->wait;
	uint64_t sleep_ns = 0;

	worker_lock(worker);
	wait->is_parked = false;
	wait->is_timer_set = false;
	worker->now_ns = clock_now_ns();
	if (worker_has_local_work(worker))
		worker_collect(worker);
	if (lane_is_abandoned(worker)) {
		worker_wait_update_hold_budget(worker);
		atomic_store(&wait->is_assigned, false);
		worker_watch_update(worker);
		/* Packets have come while the program did other work: the lane needs its thread. */
		if (worker_take_in(worker))
			wait->refusals = POLL_WAIT_REFUSALS_ABSENT;
	} else if (atomic_load(&wait->is_assigned)) {
		sleep_ns = thread_leave(worker);
	}
	worker_unlock(worker);
	return sleep_ns;
}
