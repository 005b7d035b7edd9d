/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_LANE_POLL_POLICY_H
#define URNIC_LANE_POLL_POLICY_H

/*
 * How often a lane reads its sockets, and when the lane's thread drives, sleeps or stands back.
 *
 * Two parties drive a lane (worker/worker.h). `struct poll_policy` decides for the application's
 * polls: which polls skip the sockets, which read the clock, and when deferred acknowledgements are
 * sent. `struct poll_thread` decides for the lane's thread: whether the application polls, how
 * long the thread sleeps, and whether it holds acknowledgements back.
 *
 * The module is pure: it reads no clock, makes no system call and knows no socket. The worker calls
 * it with times and results, and does what it returns. The counts in `struct poll_policy` are
 * hints: any thread writes them without a lock, and a lost count only shifts a decision by a poll.
 * Its other fields belong to the holder of the lane's lock, `struct poll_thread` to the thread.
 *
 * A poll has a weight, because polls take between 20 ns and a microsecond. Limits on polls in a row
 * are limits on the sum of their weights.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * The tuning constants. Each comment says what its value was measured against or derived from; a
 * value without a measurement says so.
 */
enum {
	/*
	 * The thread's shortest tick: how long it trusts that the application goes on polling, and
	 * sleeps while the lane has work later. A response that waits for the thread waits for one
	 * tick at most. At 4,000 wake-ups a second, two such threads starved the other sessions of
	 * two CPUs for seconds; hence POLL_TRUST_MAX.
	 */
	POLL_TICK_NS = 250000,
	/*
	 * Ticks grow to POLL_TICK_NS << 4 = 4 ms. At 1 ms, no session waited for more than 20 ms.
	 */
	POLL_TRUST_MAX = 4,
	/* Polls in a shortest tick that count as polling. Not measured: one in 60 us. */
	POLL_COUNT_PER_TICK = 4,
	/*
	 * Ticks of polling before the sockets leave the epoll set, and for each longer tick: 1 ms.
	 */
	POLL_QUIET_TICKS = 4,
	/*
	 * Without polls for so long, the application is passive; without packets or deadlines, the
	 * thread sleeps without a limit. Longer than an application that polls is off its CPU when
	 * others run (20 ms).
	 */
	POLL_IDLE_NS = 20000000,
	/*
	 * After a packet for a passive application, the thread polls on for so long: to wake a
	 * thread takes longer than to serve the next READ of a batch.
	 */
	POLL_SPIN_NS = 30000,
	/*
	 * The thread's wait for the application's answer before it sends an acknowledgement alone.
	 * With it, ib_write_lat with 8 bytes between two hosts took 1.6 us instead of 130.
	 */
	POLL_HOLD_NS = 10000,
	/* Holds in a row without an answer before the thread stops holding. Not measured. */
	POLL_HOLD_BUDGET_MAX = 8,
	/* Batches without a hold until the thread tries one again. Not measured. */
	POLL_HOLD_BUDGET_MIN = -8,
	/*
	 * Visits in a row without an event until the sockets leave the channel's descriptor: the
	 * packets are those of one-sided requests, or acknowledgements, for which the lane's thread
	 * is enough. A long message takes some visits. Not measured.
	 */
	POLL_VISITS_VAIN_MAX = 64,
	/* Polls without a packet per clock reading. One reading costs as much as an empty poll. */
	POLL_CLOCKLESS_MAX = 16,
	/*
	 * Polls that look at local channels only, while peers on this host send: the least and the
	 * most. A poll of the sockets is a system call of about 1 us, a skipped one some 20 ns.
	 */
	POLL_SKIP_MIN = 16,
	POLL_SKIP_MAX = 1024,
	/* Skipped polls that weigh as much as one that takes the lock. */
	POLL_SKIPS_PER_WEIGHT = 8,
	/* Weight of a poll with a system call; one that only reads a packet ring has 1. */
	POLL_CALL_WEIGHT = 4,
	/*
	 * Weight of polls without a completion until deferred acknowledgements are sent: 3 calls.
	 */
	POLL_DEFERRING_WEIGHT_MAX = 3 * POLL_CALL_WEIGHT,
	/*
	 * Weight of polls without a packet until the thread that polls yields its CPU: some round
	 * trips of a fast network. The next constant is the weight before each further yield.
	 */
	POLL_YIELD_WEIGHT = 128 * POLL_CALL_WEIGHT,
	POLL_YIELD_AGAIN_WEIGHT = 32 * POLL_CALL_WEIGHT,
	/* Polls in a row that find the lane locked until they yield the CPU to its driver. */
	POLL_LOCKED_MAX = 20,

	/*
	 * For a thread that waits for an event and drives its lane (worker/worker_wait.h): how long
	 * the lane's thread waits for the next waiter before it takes the lane back. At most twice
	 * that passes. Not measured.
	 */
	POLL_WAIT_TICK_NS = 1000000,
	/* The longest sleep of a waiter while the lane has deadlines (POLL_TRUST_MAX). */
	POLL_WAIT_SLEEP_NS_MAX = POLL_TICK_NS << POLL_TRUST_MAX,
	/* Waits that do not drive after the lane was taken back from its channel. Not measured. */
	POLL_WAIT_REFUSALS = 256,
	/* The same after packets have come for an absent waiter. Not measured. */
	POLL_WAIT_REFUSALS_ABSENT = 16,
	/* Fruitless wake-ups in a row until the lane is taken back. Not measured. */
	POLL_WAIT_VAIN_MAX = 8,
	/*
	 * As POLL_HOLD_BUDGET_MAX and _MIN. A hold without an answer delays the acknowledgement by
	 * up to two ticks, so holds without an answer are rarer here. Not measured.
	 */
	POLL_WAIT_HOLD_BUDGET_MAX = 4,
	POLL_WAIT_HOLD_BUDGET_MIN = -64,
};

struct poll_policy {
	_Atomic uint32_t polls; /* of unarmed completion queues of this lane, and posts */
	_Atomic uint32_t polls_driving; /* those that read the sockets; the lock's holder writes */
	_Atomic uint32_t skip; /* so many polls in a row skip the sockets; 0: none does */
	_Atomic uint32_t skipped; /* in a row */
	_Atomic uint32_t locked; /* polls in a row that found the lane locked, about */
	uint32_t skip_next; /* `skip` after the next poll of the sockets without a packet */
	uint32_t weight; /* of the last poll */
	uint32_t deferring_weight; /* of polls in a row with acknowledgements deferred */
	uint32_t idle_weight; /* of polls in a row without a packet */
	uint32_t clockless; /* polls in a row without a packet or a clock reading */
};

/* The thread's view. Zeroed except for `idle_since_ns`, the thread's start. */
struct poll_thread {
	uint32_t polls_seen; /* counts of struct poll_policy at `seen_ns` */
	uint32_t driving_seen;
	uint64_t seen_ns;
	uint64_t polled_ns; /* when the thread last saw a new poll or post */
	uint64_t idle_since_ns; /* the lane has had neither packets nor deadlines since */
	uint32_t quiet_ticks; /* ticks of polling in a row */
	uint32_t trust; /* the next tick is POLL_TICK_NS << trust */
	bool is_regular; /* the application has polled for some ticks and has not stopped since */
	int hold_budget; /* >= 0: holds before giving up; < 0: batches until the next try */
};

/* What the thread knows of its lane after it has driven it once. */
struct poll_lane {
	uint64_t now_ns;
	uint64_t packet_ns; /* when the last packet came */
	uint64_t deadline_ns; /* UINT64_MAX: none */
	unsigned datagrams; /* received in this turn */
	bool has_output; /* streams with bytes to send */
	bool is_blocked; /* a full socket holds packets back */
	bool is_stalled; /* a message waits for a receive request, which wakes no thread */
};

/* --- polls of an application --- */

/* The application polls, or does what takes as long as `count` polls. Any thread; a hint. */
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

/* Count a poll that has nothing local to do. Returns whether it skips the sockets. Any thread. */
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

/* A poll begins to drive the lane. The lane is locked, as for the functions below. */
static inline void poll_policy_begin(struct poll_policy *policy)
{
	uint32_t driving = atomic_load_explicit(&policy->polls_driving, memory_order_relaxed);

	atomic_store_explicit(&policy->polls_driving, driving + 1, memory_order_relaxed);
	policy->weight = 1 +
		atomic_load_explicit(&policy->skipped, memory_order_relaxed) /
			POLL_SKIPS_PER_WEIGHT;
}

/* A peer on this host has left something: the polls that follow look there first. */
static inline void poll_policy_local_work(struct poll_policy *policy)
{
	if (policy->skip_next < POLL_SKIP_MIN)
		policy->skip_next = POLL_SKIP_MIN;
	poll_policy_set_skip(policy, policy->skip_next);
}

/*
 * The poll has read the sockets: `datagrams` came, and `has_called` says whether that took a system
 * call. Each fruitless read doubles the number of polls that skip the sockets; a packet ends that.
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
 * The poll ends. `are_deferred`: acknowledgements wait for the application's answer.
 * `has_completion`: the poll returns one, so an answer is likely. Returns whether the poll sends
 * the acknowledgements.
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
 * many polls in a row have received nothing. The caller has the lane locked.
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
 * lock's holder. Several threads may poll at once: a lost count delays the yield by one poll.
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
 * Does the thread stand back for POLL_TICK_NS << trust, because an application drives the lane?
 *
 * The application does if it has polled often enough in the last tick, and some of its polls have
 * read the sockets. Posts alone drive nothing, nor do polls that always find completions.
 *
 * `was_armed`  A completion queue was armed since the last call: its owner is about to sleep.
 */
bool poll_thread_stands_back(struct poll_thread *thread, const struct poll_policy *policy,
	bool was_armed, uint64_t now_ns);

/* The thread has driven the lane itself: an application that has stopped is not regular. */
void poll_thread_drove(struct poll_thread *thread, uint64_t now_ns);

/*
 * Does the thread defer acknowledgements of what it has just received, so that the application's
 * answer takes them along? Counts as a try.
 */
bool poll_thread_delays_acks(struct poll_thread *thread, uint64_t now_ns);

/* A hold is over. `has_answered`: the application sent the acknowledgements, or is about to. */
void poll_thread_delayed_acks(struct poll_thread *thread, bool has_answered);

/*
 * How long the thread may sleep after a turn: 0 when more is to do, at most a tick while deadlines
 * or packets are recent, UINT64_MAX when the lane is idle.
 */
uint64_t poll_thread_sleep_ns(struct poll_thread *thread, const struct poll_lane *lane);

#endif
