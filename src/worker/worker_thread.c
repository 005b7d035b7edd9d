/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The NIC thread of a lane: it drives the lane while no application does, and sleeps otherwise.
 * lane/poll_policy.h decides when it drives. While programs wait for events, worker/worker_wait.h
 * decides that.
 */
#include <errno.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/arith.h"
#include "os/clock.h"
#include "os/epoll.h"
#include "os/kick.h"
#include "os/log.h"
#include "os/own_thread.h"
#include "worker/worker.h"
#include "worker/worker_frames.h"
#include "worker/worker_port.h"
#include "worker/worker_streams.h"

/* A sandbox has refused epoll_wait(): log that once, and sleep for a tick instead. */
static void wait_refused(void)
{
	const struct timespec pause = {.tv_nsec = POLL_TICK_NS};

	LOG_REFUSAL_ONCE("a thread of the NIC cannot sleep until packets come", "epoll_wait");
	nanosleep(&pause, NULL);
}

/* Log the system call that was refused to the lane's port, once for each port. */
static void refusal_log(struct worker *worker)
{
	const struct port_udp_refusal *refusal;

	if (!worker->port)
		return;
	refusal = port_udp_refusal(worker->port);
	if (!__atomic_load_n(&refusal->call, __ATOMIC_ACQUIRE) || worker->has_logged_refusal)
		return;
	worker->has_logged_refusal = true;
	errno = refusal->error;
	log_refusal("packets are lost", refusal->call);
}

/* epoll_wait() with a timeout in ns, which is rounded up to whole ms if epoll_pwait2 is refused. */
static int wait_ns(struct worker *worker, int epoll, struct epoll_event *events, int events_max,
	uint64_t timeout_ns)
{
	struct timespec timeout = {
		(time_t)(timeout_ns / 1000000000u), (long)(timeout_ns % 1000000000u)};
	bool is_limited = timeout_ns != DEADLINE_NEVER;

	/* Some systems lack epoll_pwait2(). Try it once, because Valgrind prints each refusal. */
	if (!worker->lacks_pwait2) {
		int count =
			epoll_pwait2(epoll, events, events_max, is_limited ? &timeout : NULL, NULL);

		if (count >= 0 || errno == EINTR)
			return count;
		worker->lacks_pwait2 = true;
	}
	return epoll_sleep(epoll, events, events_max,
		is_limited ? (int)div_ceil_u64(timeout_ns, 1000000) : -1);
}

/* Sleep in the epoll set. Returns whether a socket has woken the thread. */
static bool wait_for(struct worker *worker, int epoll, uint64_t timeout_ns)
{
	struct epoll_event events[PORT_UDP_FDS_MAX + 2];
	bool is_woken = false;
	int count;

	own_thread_sleep();
	count = wait_ns(worker, epoll, events, ARRAY_COUNT(events), timeout_ns);
	if (count < 0 && errno != EINTR)
		wait_refused();
	own_thread_wake();

	for (int i = 0; i < count; i++) {
		if (events[i].data.u32 == WORKER_SOURCE_KICK)
			kick_clear(worker->kick);
		else if (events[i].data.u32 == WORKER_SOURCE_WAIT)
			kick_clear(worker->wait.timer);
		else if (events[i].data.u32 == WORKER_SOURCE_STREAMS)
			worker_streams_look(worker);
		else if (events[i].data.u32 == WORKER_SOURCE_QUIET)
			wait_for(worker, worker->epoll_quiet, 0);
		else if (events[i].events & EPOLLERR)
			worker->has_socket_error = true;
		is_woken |= events[i].data.u32 == WORKER_SOURCE_SOCKET;
	}
	return is_woken;
}

static bool is_stopping(struct worker *worker)
{
	return __atomic_load_n(&worker->is_stopping, __ATOMIC_ACQUIRE);
}

static bool are_acks_deferred(struct worker *worker)
{
	return atomic_load_explicit(&worker->are_acks_deferred, memory_order_acquire);
}

/*
 * Leave the CPU to the application for a moment, so that it can post its answer. Posting also sends
 * the deferred acknowledgements. If they are still deferred afterwards, send them.
 */
static void acks_delay(struct worker *worker, struct poll_thread *policy)
{
	bool has_answered = true;

	wait_for(worker, worker->epoll_quiet, POLL_HOLD_NS);
	if (worker_try_lock(worker)) {
		has_answered = !are_acks_deferred(worker);
		if (!has_answered)
			worker_send(worker, true);
		worker_unlock(worker);
	}
	poll_thread_delayed_acks(policy, has_answered);
}

/*
 * Does everything that is left to receive make a descriptor readable? The sockets of UDP ports are
 * readable while they have packets. Other sources may have more input than a turn receives, and
 * report it only once. The worker is locked.
 */
static bool is_level(const struct worker *worker)
{
	return worker->port && !worker->stream_count && list_is_empty(&worker->frames) &&
		!worker_has_local_work(worker);
}

/* How long the thread may sleep after a turn. The worker is locked. */
static uint64_t sleep_choose(struct worker *worker, struct poll_thread *policy, unsigned datagrams)
{
	const struct poll_lane lane = {
		.now_ns = worker->now_ns,
		.packet_ns = worker->last_packet_ns,
		.deadline_ns = worker_deadline_ns(worker),
		.datagrams = datagrams,
		.has_output = !list_is_empty(&worker->lane.tx_streams),
		.is_blocked = worker_is_blocked(worker),
		.is_stalled = worker->stalled_count != 0,
		.is_level = is_level(worker),
	};

	return poll_thread_sleep_ns(policy, &lane);
}

/*
 * When an interface disappears, its packet sockets have an error. The error wakes the thread again
 * and again until the thread reads it. The thread has nothing else to do for such an error.
 */
void worker_clear_socket_errors(struct worker *worker)
{
	struct pollfd fds[PORT_UDP_FDS_MAX];
	unsigned count = worker->kind->fds(worker, fds);
	socklen_t bytes = sizeof(int);
	int error;

	for (unsigned i = 0; i < count; i++)
		getsockopt(fds[i].fd, SOL_SOCKET, SO_ERROR, &error, &bytes);
	worker_frames_clear_errors(worker);
	worker->has_socket_error = false;
}

/*
 * Sleep while the lane is assigned to waiters, which drive it (worker_wait.h). Returns false when
 * the thread has to drive.
 */
static bool leave_to_waiters(struct worker *worker)
{
	uint64_t sleep_ns;

	if (!atomic_load(&worker->wait.is_assigned))
		return false;
	sleep_ns = worker_wait_look(worker);
	if (sleep_ns)
		wait_for(worker, worker->epoll_quiet, sleep_ns);
	return sleep_ns != 0;
}

/*
 * Receive what has arrived. `is_woken`: a socket has woken the thread. If a first read finds
 * nothing, the packet may be at a socket that the port does not read on every call, so read all of
 * them. The worker is locked.
 */
static unsigned packets_receive(struct worker *worker, bool is_woken)
{
	unsigned datagrams = worker_take_in(worker);

	if (datagrams || !is_woken)
		return datagrams;
	worker_look_everywhere(worker);
	return worker_take_in(worker);
}

/*
 * Drive the lane once, unless another thread does. `is_woken` as for packets_receive(). Returns how
 * long the thread may sleep.
 */
static uint64_t thread_drive(struct worker *worker, struct poll_thread *policy, bool is_woken)
{
	uint64_t sleep_ns;

	if (!worker_try_lock(worker)) {
		/* The holder of the lock drives, so packets must not wake this thread. */
		wait_for(worker, worker->epoll_quiet, POLL_TICK_NS / 8);
		return 0;
	}
	if (atomic_load(&worker->wait.is_assigned)) {
		worker_unlock(worker);
		return 0;
	}
	worker->is_deep_asleep = false;
	worker_watch_sockets(worker, true);
	if (worker->has_socket_error)
		worker_clear_socket_errors(worker);
	unsigned datagrams = packets_receive(worker, is_woken);
	worker_send(worker, !datagrams || !poll_thread_delays_acks(policy, worker->now_ns));
	worker_deliver_signals(worker); /* may set alarms */
	sleep_ns = sleep_choose(worker, policy, datagrams);
	worker->is_deep_asleep = sleep_ns == DEADLINE_NEVER;
	worker_unlock(worker);
	if (!are_acks_deferred(worker))
		return sleep_ns;
	acks_delay(worker, policy);
	/* The wait in acks_delay() may have consumed a kick, so sleep for a tick at most. */
	return min_u64(sleep_ns, POLL_TICK_NS);
}

/*
 * Send datagrams that have waited for too long. The thread is about to leave the lane to the
 * application for another tick, so it leaves all else to the application, too.
 */
static void late_posts_send(struct worker *worker)
{
	if (!atomic_load_explicit(&worker->are_posts_waiting, memory_order_relaxed) ||
		!worker_try_lock(worker))
		return;
	worker->now_ns = clock_now_ns();
	if (post_policy_is_late(&worker->posts, worker->now_ns))
		worker_send(worker, false);
	worker_unlock(worker);
}

/* Leave the lane to the application for a tick. Arming a completion queue ends the tick. */
static void back_off(struct worker *worker, const struct poll_thread *policy)
{
	atomic_store_explicit(&worker->shall_unwatch, policy->is_regular, memory_order_relaxed);
	atomic_store(&worker->is_keeping_quiet, true);
	if (!atomic_load(&worker->was_armed))
		wait_for(worker, worker->epoll_quiet, (uint64_t)POLL_TICK_NS << policy->trust);
	atomic_store(&worker->is_keeping_quiet, false);
	atomic_store_explicit(&worker->shall_unwatch, false, memory_order_relaxed);
}

void *worker_thread_main(void *argument)
{
	struct worker *worker = argument;
	struct poll_thread policy = {
		.idle_since_ns = clock_now_ns(), .spin.is_off = worker->is_spinning_off};
	bool is_woken = false;

	own_thread_wake();
	prctl(PR_SET_TIMERSLACK, 1000); /* 1 us, because ticks and POLL_HOLD_NS are short */
	own_thread_shorten_slice();

	while (!is_stopping(worker)) {
		refusal_log(worker);
		if (leave_to_waiters(worker))
			continue;
		bool was_armed = atomic_exchange(&worker->was_armed, false);
		if (!atomic_load_explicit(&worker->has_held, memory_order_relaxed) &&
			poll_thread_backs_off(
				&policy, &worker->policy, was_armed, clock_now_ns())) {
			late_posts_send(worker);
			back_off(worker, &policy);
			continue;
		}
		uint64_t sleep_ns = thread_drive(worker, &policy, is_woken);
		poll_thread_drove(&policy, clock_now_ns());
		is_woken = sleep_ns && wait_for(worker, worker->epoll_all, sleep_ns);
		if (!sleep_ns)
			own_thread_yield();
	}
	own_thread_end();
	return NULL;
}
