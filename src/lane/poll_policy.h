/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_LANE_POLL_POLICY_H
#define URNIC_LANE_POLL_POLICY_H

/*
 * How often a lane's driver reads the sockets, and when the lane's thread drives, sleeps or backs
 * off. A thread that backs off leaves the lane to the application's polls.
 *
 * Two parties drive a lane (worker/worker.h). `struct poll_policy` decides for the application's
 * polls: which polls skip the sockets, which read the clock, and when deferred acknowledgements are
 * sent. `struct poll_thread` decides for the lane's thread: whether the application polls, how long
 * the thread sleeps, and whether it defers acknowledgements (a "hold").
 *
 * The module is pure: it reads no clock, makes no system call and knows no socket. The worker calls
 * its functions with times and results, and does what they return. The atomic fields of `struct
 * poll_policy` are hints: any thread writes them without a lock, and a lost count only delays a
 * decision by one poll. The holder of the lane's lock owns its other fields. The lane's thread owns
 * `struct poll_thread`.
 *
 * A poll takes 20 ns to a microsecond, so each poll has a weight. A limit on consecutive polls is a
 * limit on the sum of their weights.
 *
 * How long a blocked call polls before it sleeps is decided elsewhere: POLL_NS of
 * event/event_waiter.c for a completion channel, SPIN_NS of front/rsocket/wait.c for an rsocket.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "lane/spin_policy.h"

/*
 * The tuning constants. Each comment says how the value was measured or derived; "Not measured"
 * marks a value that is only plausible.
 */
enum {
	/*
	 * The shortest tick. A tick is how long the lane's thread trusts that the application goes
	 * on polling, and how long the thread sleeps at most while the lane has deadlines. A
	 * response that needs the thread waits for one tick at most. Two threads that woke 4,000
	 * times a second kept other programs off two CPUs for seconds, so ticks grow
	 * (POLL_TRUST_MAX).
	 */
	POLL_TICK_NS = 250000,
	/*
	 * A tick is POLL_TICK_NS shifted left by this number at most: 4 ms, which is 250 wake-ups a
	 * second. With 1,000 a second, no other program waited for a CPU for more than 20 ms.
	 */
	POLL_TRUST_MAX = 4,
	/*
	 * The lane's thread takes an application for one that polls, if it makes this many polls in
	 * each POLL_TICK_NS: one in about 60 us. Not measured.
	 */
	POLL_COUNT_PER_TICK = 4,
	/*
	 * After this many consecutive ticks in which the application polled (1 ms), the sockets
	 * leave the epoll set. Each time this many further ticks have passed, the tick doubles.
	 */
	POLL_QUIET_TICKS = 4,
	/*
	 * After this time without a poll or post, the application is passive: it is only a target
	 * of others, or it waits for events. An application that polls may lose its CPU to other
	 * programs for this long (20 ms).
	 */
	POLL_IDLE_NS = 20000000,
	/*
	 * While the application posts or polls, the thread sleeps for ticks at most, because then
	 * posts need not wake it. After this time without packets or deadlines, the thread sleeps
	 * until a packet or another thread wakes it: the next post wakes it once. So a program that
	 * sends a message each 10 ms pays for a few ticks and one wake-up.
	 */
	POLL_ALERT_NS = 2000000,
	/*
	 * How long the thread waits for the application's answer before it sends an acknowledgement
	 * alone. With this wait, ib_write_lat with 8 bytes between two hosts took 1.6 us; without
	 * it, 130 us.
	 */
	POLL_HOLD_NS = 10000,
	/*
	 * After more consecutive holds than this without an answer, the thread makes no more holds.
	 * Not measured.
	 */
	POLL_HOLD_BUDGET_MAX = 8,
	/*
	 * The negated number of batches without a hold, after which the thread tries a hold again.
	 * Not measured.
	 */
	POLL_HOLD_BUDGET_MIN = -8,
	/*
	 * A visit is a program's read of a completion channel that the lane's packets have made
	 * readable. After this many consecutive visits without an event, the sockets leave the
	 * channel's descriptor. The packets are then of one-sided requests, or acknowledgements,
	 * for which the lane's thread is enough. The limit is high because a long message takes
	 * several visits. Not measured.
	 */
	POLL_VISITS_VAIN_MAX = 64,
	/*
	 * Of this many polls without a packet, one reads the clock, because a reading costs as much
	 * as an empty poll.
	 */
	POLL_CLOCKLESS_MAX = 16,
	/*
	 * While peers on this host send, several consecutive polls skip the sockets and look at
	 * request channels only. This is the least and the greatest number of such polls. A poll
	 * that reads the sockets makes a system call of about 1 us; one that skips them takes some
	 * 20 ns.
	 */
	POLL_SKIP_MIN = 16,
	POLL_SKIP_MAX = 1024,
	/* This many polls that skip the sockets weigh as much as one poll that takes the lock. */
	POLL_SKIPS_PER_WEIGHT = 8,
	/*
	 * The weight of a poll that makes a system call. A poll that only reads a packet ring has
	 * weight 1.
	 */
	POLL_CALL_WEIGHT = 4,
	/*
	 * After polls of more than this weight without a completion, a poll sends the deferred
	 * acknowledgements. It is the weight of three polls that make a system call.
	 */
	POLL_DEFERRING_WEIGHT_MAX = 3 * POLL_CALL_WEIGHT,
	/*
	 * After polls of this weight without a packet, the polling thread yields its CPU. These
	 * polls take as long as a few round trips in a fast network. The next constant is the
	 * weight of the polls before each further yield.
	 */
	POLL_YIELD_WEIGHT = 128 * POLL_CALL_WEIGHT,
	POLL_YIELD_AGAIN_WEIGHT = 32 * POLL_CALL_WEIGHT,
	/*
	 * After this many consecutive polls that find the lane locked, the polling thread yields
	 * its CPU to the lane's driver.
	 */
	POLL_LOCKED_MAX = 20,

	/*
	 * A thread that waits for an event may drive its lane (worker/worker_wait.h). When it no
	 * longer waits, the lane's thread waits for the next waiter before it takes the lane back:
	 * at least this long, and at most twice as long. Not measured.
	 */
	POLL_WAIT_TICK_NS = 1000000,
	/* The longest sleep of a waiter while the lane has deadlines, which is the longest tick. */
	POLL_WAIT_SLEEP_NS_MAX = POLL_TICK_NS << POLL_TRUST_MAX,
	/*
	 * After the lane was taken back from a completion channel, this many waits do not drive the
	 * lane. Not measured.
	 */
	POLL_WAIT_REFUSALS = 256,
	/*
	 * POLL_WAIT_REFUSALS for a lane that its thread took back because packets came while there
	 * was no waiter. Not measured.
	 */
	POLL_WAIT_REFUSALS_ABSENT = 16,
	/*
	 * After this many consecutive wake-ups of waiters that brought no event, the lane is taken
	 * back. Not measured.
	 */
	POLL_WAIT_VAIN_MAX = 8,
	/*
	 * POLL_HOLD_BUDGET_MAX and _MIN for waiters. Here a hold without an answer delays the
	 * acknowledgement by up to two ticks, so these values permit fewer of them. Not measured.
	 */
	POLL_WAIT_HOLD_BUDGET_MAX = 4,
	POLL_WAIT_HOLD_BUDGET_MIN = -64,
};

struct poll_policy {
	/* Number of posts, and of polls of this lane's unarmed completion queues */
	_Atomic uint32_t polls;
	/* Number of polls that drove the lane; the lock's holder writes */
	_Atomic uint32_t polls_driving;
	_Atomic uint32_t skip; /* how many consecutive polls skip the sockets; 0: no poll does */
	_Atomic uint32_t skipped; /* consecutive polls that have skipped the sockets */
	_Atomic uint32_t locked; /* consecutive polls that found the lane locked, approximately */
	uint32_t skip_next; /* `skip` after the next poll of the sockets without a packet */
	uint32_t weight; /* weight of the present poll, or of the last one */
	/* Sum of the weights of the last polls, which all deferred acknowledgements. */
	uint32_t deferring_weight;
	uint32_t idle_weight; /* sum of the weights of the last polls, which all got no packet */
	uint32_t clockless; /* consecutive polls without a packet or a clock reading */
};

/*
 * What the lane's thread remembers. At first all fields are 0, except `idle_since_ns`, which is the
 * thread's start.
 */
struct poll_thread {
	uint32_t polls_seen; /* poll_policy.polls, as read at `seen_ns` */
	uint32_t driving_seen; /* poll_policy.polls_driving, as read at `seen_ns` */
	uint64_t seen_ns;
	uint64_t polled_ns; /* when the thread last saw a new poll or post */
	uint64_t idle_since_ns; /* since when the lane has had neither packets nor deadlines */
	uint32_t quiet_ticks; /* consecutive ticks in which the application polled */
	uint32_t trust; /* the next tick is POLL_TICK_NS << trust */
	/* The application has polled for some ticks, and has not become passive since */
	bool is_regular;
	/*
	 * If not negative: how many more batches of acknowledgements the thread may hold without an
	 * answer of the program that leaves with them. If negative: the negated number
	 * of batches that the thread does not hold before it tries again.
	 */
	int hold_budget;
	struct spin_policy spin; /* for a passive application */
};

/* What the thread knows of its lane after the thread has driven it once. */
struct poll_lane {
	uint64_t now_ns;
	uint64_t packet_ns; /* when the last packet came */
	uint64_t deadline_ns; /* UINT64_MAX: none */
	unsigned datagrams; /* number received in this turn */
	bool has_output; /* streams with bytes to send */
	bool is_blocked; /* packets wait, because a socket is full */
	bool is_stalled; /* a message waits for a receive request, whose post wakes no thread */
	/* A descriptor with unread packets stays readable, so the next sleep ends at once. */
	bool is_level;
};

/* --- polls of an application --- */

/*
 * The application has polled `count` times, or has done something else that takes as long. Any
 * thread may call; the count is a hint.
 */
static inline void poll_policy_note(struct poll_policy *policy, uint32_t count)
{
	uint32_t polls = atomic_load_explicit(&policy->polls, memory_order_relaxed);

	atomic_store_explicit(&policy->polls, polls + count, memory_order_relaxed);
}

/* Do polls skip the sockets? */
static inline bool poll_policy_is_skipping(const struct poll_policy *policy)
{
	return atomic_load_explicit(&policy->skip, memory_order_relaxed) != 0;
}

/*
 * Count a poll for which peers on this host have left nothing. Returns whether this poll skips the
 * sockets. Any thread may call.
 */
static inline bool poll_policy_skips(struct poll_policy *policy)
{
	uint32_t skipped = atomic_load_explicit(&policy->skipped, memory_order_relaxed) + 1;

	atomic_store_explicit(&policy->skipped, skipped, memory_order_relaxed);
	return skipped < atomic_load_explicit(&policy->skip, memory_order_relaxed);
}

static inline void poll_policy_set_skip(struct poll_policy *policy, uint32_t skip)
{
	atomic_store_explicit(&policy->skip, skip, memory_order_relaxed);
	atomic_store_explicit(&policy->skipped, 0, memory_order_relaxed);
}

/*
 * A poll begins to drive the lane. The lane is locked, as for the functions below up to
 * poll_policy_yields().
 */
static inline void poll_policy_begin(struct poll_policy *policy)
{
	uint32_t driving = atomic_load_explicit(&policy->polls_driving, memory_order_relaxed);

	atomic_store_explicit(&policy->polls_driving, driving + 1, memory_order_relaxed);
	policy->weight = 1 +
		atomic_load_explicit(&policy->skipped, memory_order_relaxed) /
			POLL_SKIPS_PER_WEIGHT;
}

/*
 * A peer on this host has left a record: the next polls skip the sockets, and look at request
 * channels only.
 */
static inline void poll_policy_local_work(struct poll_policy *policy)
{
	if (policy->skip_next < POLL_SKIP_MIN)
		policy->skip_next = POLL_SKIP_MIN;
	poll_policy_set_skip(policy, policy->skip_next);
}

/*
 * The poll has read the sockets and received `datagrams`. `has_called` says whether that took a
 * system call. While polls skip the sockets, each fruitless read doubles the number of polls that
 * do; a packet makes all polls read the sockets again.
 */
static inline void poll_policy_sockets_read(
	struct poll_policy *policy, unsigned datagrams, bool has_called)
{
	if (has_called)
		policy->weight += POLL_CALL_WEIGHT - 1;
	if (!poll_policy_is_skipping(policy))
		return;
	policy->skip_next = datagrams ? 0 : 2 * policy->skip_next;
	if (policy->skip_next > POLL_SKIP_MAX)
		policy->skip_next = POLL_SKIP_MAX;
	poll_policy_set_skip(policy, policy->skip_next);
}

/* The poll found no packet. Returns whether it reads the clock and serves deadlines. */
static inline bool poll_policy_reads_clock(struct poll_policy *policy)
{
	if (++policy->clockless < POLL_CLOCKLESS_MAX)
		return false;
	policy->clockless = 0;
	return true;
}

/*
 * The poll ends. `are_deferred` says that acknowledgements wait for the application's answer.
 * `has_completion` says that the poll returns a completion, so the application will probably
 * answer. Returns whether the poll sends the acknowledgements.
 */
static inline bool poll_policy_sends_acks(
	struct poll_policy *policy, bool are_deferred, bool has_completion)
{
	if (!are_deferred) {
		policy->deferring_weight = 0;
		return false;
	}
	if (has_completion)
		return false;
	policy->deferring_weight += policy->weight;
	if (policy->deferring_weight <= POLL_DEFERRING_WEIGHT_MAX)
		return false;
	policy->deferring_weight = 0;
	return true;
}

/*
 * The poll has received `datagrams`. Returns whether the polling thread yields its CPU, because
 * many consecutive polls have received nothing. The caller has the lane locked.
 */
static inline bool poll_policy_yields(struct poll_policy *policy, unsigned datagrams)
{
	atomic_store_explicit(&policy->locked, 0, memory_order_relaxed);
	policy->idle_weight = datagrams ? 0 : policy->idle_weight + policy->weight;
	if (policy->idle_weight < POLL_YIELD_WEIGHT)
		return false;
	policy->idle_weight -= POLL_YIELD_AGAIN_WEIGHT;
	return true;
}

/*
 * The poll has found the lane locked. Returns whether the polling thread yields its CPU to the
 * lock's holder. Several threads may call this at once; a lost count delays the yield by one poll.
 */
static inline bool poll_policy_yields_to_holder(struct poll_policy *policy)
{
	uint32_t locked = atomic_load_explicit(&policy->locked, memory_order_relaxed) + 1;
	bool yields = locked >= POLL_LOCKED_MAX;

	atomic_store_explicit(&policy->locked, yields ? 0 : locked, memory_order_relaxed);
	return yields;
}

/* --- the lane's thread --- */

/*
 * Does the thread leave the lane alone for POLL_TICK_NS << trust, because an application drives the
 * lane?
 *
 * An application drives the lane if it has polled often enough in the last tick, and some of its
 * polls have driven the lane. Posts alone do not count, nor do polls that always find completions
 * in the queue.
 *
 * `was_armed`  A completion queue was armed since the last call, so the program is about to sleep.
 */
bool poll_thread_backs_off(struct poll_thread *thread, const struct poll_policy *policy,
	bool was_armed, uint64_t now_ns);

/*
 * The thread has driven the lane itself, until `now_ns`. Clears is_regular if the application has
 * not polled for POLL_IDLE_NS.
 */
void poll_thread_drove(struct poll_thread *thread, uint64_t now_ns);

/*
 * Does the thread defer the acknowledgements of the packets that it has just received, so that they
 * leave together with the application's answer? Each call counts as one batch.
 */
bool poll_thread_delays_acks(struct poll_thread *thread, uint64_t now_ns);

/*
 * A hold is over. `has_answered` says that the application has sent the acknowledgements, or is
 * about to send them.
 */
void poll_thread_delayed_acks(struct poll_thread *thread, bool has_answered);

/*
 * How long the thread may sleep after a turn: 0 when there is more to do, or while the thread spins
 * (spin_policy.h); a tick at most when the lane has deadlines, or the application posted or polled
 * recently; UINT64_MAX when only packets, or a thread that wakes this one, cause work.
 */
uint64_t poll_thread_sleep_ns(struct poll_thread *thread, const struct poll_lane *lane);

#endif
