/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The NIC thread of a lane: serves it while no application does, and sleeps the rest of the time.
 */
#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/arith.h"
#include "os/clock.h"
#include "os/kick.h"
#include "os/log.h"
#include "os/own_thread.h"
#include "worker/worker.h"
#include "worker/worker_frames.h"
#include "worker/worker_streams.h"

/* The thread looks at everything all the time then. */
static void wait_refused(void)
{
	static atomic_bool is_said;
	const struct timespec pause = {.tv_nsec = WORKER_TICK_NS};

	if (!atomic_exchange(&is_said, true))
		log_refusal("a thread of the NIC cannot sleep until packets come", "epoll_wait");
	nanosleep(&pause, NULL);
}

/* What a port was refused is said once in its life. */
static void refusals_tell(struct worker *worker)
{
	const struct port_udp_refusal *refusal = port_udp_refusal(worker->port);

	if (!__atomic_load_n(&refusal->call, __ATOMIC_ACQUIRE) || worker->has_told_refusal)
		return;
	worker->has_told_refusal = true;
	errno = refusal->error;
	log_refusal("packets are lost", refusal->call);
}

static void wait_for(struct worker *worker, int epoll, uint64_t timeout_ns)
{
	struct timespec timeout = {
		(time_t)(timeout_ns / 1000000000u), (long)(timeout_ns % 1000000000u)};
	bool is_limited = timeout_ns != DEADLINE_NEVER;
	struct epoll_event events[PORT_UDP_FDS_MAX + 2];
	int count;

	own_thread_sleep();
	count = epoll_pwait2(
		epoll, events, ARRAY_COUNT(events), is_limited ? &timeout : NULL, NULL);

	/*
	 * Before Linux 5.11, and in sandboxes that know only what was before: milliseconds have to
	 * do.
	 */
	if (count < 0 && errno != EINTR)
		count = epoll_wait(epoll, events, ARRAY_COUNT(events),
			is_limited ? (int)div_ceil_u64(timeout_ns, 1000000) : -1);
	if (count < 0 && errno != EINTR)
		wait_refused();
	own_thread_wake();

	for (int i = 0; i < count; i++) {
		if (events[i].data.u32 == WORKER_SOURCE_KICK)
			kick_clear(worker->kick);
		else if (events[i].data.u32 == WORKER_SOURCE_STREAMS)
			worker_streams_look(worker);
		else if (events[i].data.u32 == WORKER_SOURCE_QUIET)
			wait_for(worker, worker->epoll_quiet, 0);
		else if (events[i].events & EPOLLERR)
			worker->has_socket_error = true;
	}
}

static bool is_stopping(struct worker *worker)
{
	return __atomic_load_n(&worker->is_stopping, __ATOMIC_ACQUIRE);
}

/* What the thread has seen of the count of empty polls, and when. */
struct polls {
	uint32_t count;
	uint32_t driving_count;
	uint64_t since_ns;
};

/*
 * Has an application polled often enough within the last tick, of WORKER_TICK_NS << trust? Then it
 * drives the lane; unless it posts only, or finds so many completions that it takes in no packets.
 */
static bool is_being_polled(struct worker *worker, struct polls *seen, uint32_t trust)
{
	uint32_t count = atomic_load_explicit(&worker->polls, memory_order_relaxed);
	uint32_t driving_count = atomic_load_explicit(&worker->polls_driving, memory_order_relaxed);
	uint64_t now_ns = clock_now_ns();
	bool was_armed = atomic_exchange(&worker->was_armed, false);
	bool is_polled = !was_armed &&
		count - seen->count >= (uint32_t)WORKER_POLLS_PER_TICK << trust &&
		driving_count != seen->driving_count;

	if (count != seen->count)
		worker->last_polled_ns = now_ns;
	if (is_polled || was_armed || now_ns - seen->since_ns > WORKER_TICK_NS) {
		seen->count = count;
		seen->driving_count = driving_count;
		seen->since_ns = now_ns;
	}
	return is_polled;
}

/*
 * Nobody here has polled or posted for a while: this process is the target of others, or waits for
 * events. A program that posts and watches its memory is at work; it needs the processor more than
 * this thread.
 */
static bool is_passive(const struct worker *worker)
{
	return worker->now_ns - worker->last_polled_ns > WORKER_IDLE_NS;
}

static bool are_acks_deferred(struct worker *worker)
{
	return atomic_load_explicit(&worker->are_acks_deferred, memory_order_acquire);
}

/*
 * Is it likely that the application, which sees what has just arrived in its memory, answers at
 * once? Then the acknowledgement goes along (worker.h). Learnt from whether it did; after a row of
 * misses it is tried again now and then only.
 */
static bool hold_is_worth_it(struct worker *worker)
{
	if (is_passive(worker))
		return false;
	if (worker->hold_luck >= 0)
		return true;
	worker->hold_luck++;
	return false;
}

/*
 * Leave the CPU for a moment to the application, so that it can post; send what is owed when it has
 * not.
 */
static void acks_hold(struct worker *worker)
{
	wait_for(worker, worker->epoll_quiet, WORKER_HOLD_NS);
	if (!worker_try_lock(worker)) {
		worker->hold_luck = WORKER_HOLD_LUCK_MAX; /* the application is at it */
		return;
	}
	if (!are_acks_deferred(worker)) {
		worker->hold_luck = WORKER_HOLD_LUCK_MAX;
	} else {
		if (--worker->hold_luck < 0)
			worker->hold_luck = WORKER_HOLD_LUCK_MIN;
		worker_send(worker, true);
	}
	worker_unlock(worker);
}

/*
 * The longest sleep that only packets interrupt: longer, the longer none have come. The thread is
 * to find what the application's has left behind: new deadlines, acknowledgements, receive requests
 * for messages that wait for one.
 */
static uint64_t tick_choose(const struct worker *worker)
{
	uint64_t silence_ns = worker->now_ns - worker->last_packet_ns;

	if (worker->stalled_count)
		return WORKER_TICK_NS;
	return min_u64(max_u64(silence_ns / 4, WORKER_TICK_NS), WORKER_TICK_NS << WORKER_TRUST_MAX);
}

/*
 * How long the thread may sleep: 0 when there is more to do, at most a tick while something is
 * going on, for ever when nothing is. The worker is locked.
 */
static uint64_t sleep_choose(struct worker *worker, unsigned datagrams, uint64_t *idle_since_ns)
{
	uint64_t deadline_ns = worker_deadline_ns(worker);
	uint64_t now_ns = worker->now_ns;
	bool is_waiting = deadline_ns != DEADLINE_NEVER || port_udp_is_blocked(worker->port);

	if (datagrams || is_waiting)
		*idle_since_ns = now_ns;

	if (datagrams || !list_is_empty(&worker->lane.tx_streams) ||
		(is_passive(worker) && now_ns - worker->last_packet_ns < WORKER_SPIN_NS))
		return 0;
	if (is_waiting && deadline_ns <= now_ns)
		return 0;
	if (is_waiting)
		return min_u64(deadline_ns - now_ns, tick_choose(worker));
	return now_ns - *idle_since_ns < WORKER_IDLE_NS ? tick_choose(worker) : DEADLINE_NEVER;
}

/*
 * An interface that goes away leaves its packet sockets an error, which wakes whoever waits for
 * them until it is read. There is nothing else to do about it.
 */
static void socket_errors_clear(struct worker *worker)
{
	struct pollfd fds[PORT_UDP_FDS_MAX];
	unsigned count = port_udp_fds(worker->port, fds);
	socklen_t bytes = sizeof(int);
	int error;

	for (unsigned i = 0; i < count; i++)
		getsockopt(fds[i].fd, SOL_SOCKET, SO_ERROR, &error, &bytes);
	worker_frames_clear_errors(worker);
	worker->has_socket_error = false;
}

/*
 * Drive the lane once, unless somebody else is at it. Returns how long the thread may sleep.
 */
static uint64_t thread_drive(struct worker *worker, uint64_t *idle_since_ns)
{
	uint64_t sleep_ns;

	if (!worker_try_lock(worker)) {
		/*
		 * Whoever has it drives. Packets, which are there for that one, must not wake us
		 * meanwhile.
		 */
		wait_for(worker, worker->epoll_quiet, WORKER_TICK_NS / 8);
		return 0;
	}
	worker->is_deep_asleep = false;
	worker_watch_sockets(worker, true);
	if (worker->has_socket_error)
		socket_errors_clear(worker);
	unsigned datagrams = worker_take_in(worker);
	worker_send(worker, !datagrams || !hold_is_worth_it(worker));
	worker_tell(worker); /* which may set alarms */
	sleep_ns = sleep_choose(worker, datagrams, idle_since_ns);
	worker->is_deep_asleep = sleep_ns == DEADLINE_NEVER;
	worker_unlock(worker);
	if (!are_acks_deferred(worker))
		return sleep_ns;
	acks_hold(worker);
	/* The wait in there may have swallowed a kick. */
	return min_u64(sleep_ns, WORKER_TICK_NS);
}

/* An application polls, and is known to go on: let it, for a tick of WORKER_TICK_NS << trust. */
static void keep_quiet(struct worker *worker, bool is_known, uint32_t trust)
{
	atomic_store_explicit(&worker->shall_unwatch, is_known, memory_order_relaxed);
	atomic_store(&worker->is_keeping_quiet, true);
	if (!atomic_load(&worker->was_armed))
		wait_for(worker, worker->epoll_quiet, (uint64_t)WORKER_TICK_NS << trust);
	atomic_store(&worker->is_keeping_quiet, false);
	atomic_store_explicit(&worker->shall_unwatch, false, memory_order_relaxed);
}

void *worker_thread_main(void *argument)
{
	struct worker *worker = argument;
	uint64_t idle_since_ns = clock_now_ns();
	struct polls polls_seen = {0, 0, 0};
	uint32_t quiet_ticks = 0, trust = 0;
	bool is_known = false; /* it has polled for some ticks, and not ceased for long since */

	own_thread_wake();
	prctl(PR_SET_TIMERSLACK, 1000); /* 1 us: ticks and holds are short */
	own_thread_shorten_slice();

	while (!is_stopping(worker)) {
		refusals_tell(worker);
		if (is_being_polled(worker, &polls_seen, trust)) {
			trust = min_u32(quiet_ticks / WORKER_QUIET_TICKS, WORKER_TRUST_MAX);
			is_known |= quiet_ticks >= WORKER_QUIET_TICKS;
			keep_quiet(worker, is_known, trust);
			quiet_ticks++;
			continue;
		}
		quiet_ticks = 0;
		trust = 0;
		uint64_t sleep_ns = thread_drive(worker, &idle_since_ns);
		is_known &= clock_now_ns() - worker->last_polled_ns < WORKER_IDLE_NS;
		if (sleep_ns)
			wait_for(worker, worker->epoll_all, sleep_ns);
		else
			own_thread_yield();
	}
	own_thread_end();
	return NULL;
}
