/* SPDX-License-Identifier: BSD-2-Clause */
#include "lane/poll_policy.h"

#include "base/arith.h"

/*
 * Has the application neither polled nor posted for POLL_IDLE_NS? Then this process is only a
 * target of others, or waits for events. An application that is not passive needs the CPU more than
 * this thread does, even if it only posts and then watches its memory.
 */
static bool is_passive(const struct poll_thread *thread, uint64_t now_ns)
{
	return now_ns - thread->polled_ns > POLL_IDLE_NS;
}

static bool is_being_polled(struct poll_thread *thread, const struct poll_policy *policy,
	bool was_armed, uint64_t now_ns)
{
	uint32_t polls = atomic_load_explicit(&policy->polls, memory_order_relaxed);
	uint32_t driving = atomic_load_explicit(&policy->polls_driving, memory_order_relaxed);
	bool is_polled = !was_armed &&
		polls - thread->polls_seen >= (uint32_t)POLL_COUNT_PER_TICK << thread->trust &&
		driving != thread->driving_seen;

	if (polls != thread->polls_seen)
		thread->polled_ns = now_ns;
	if (is_polled || was_armed || now_ns - thread->seen_ns > POLL_TICK_NS) {
		thread->polls_seen = polls;
		thread->driving_seen = driving;
		thread->seen_ns = now_ns;
	}
	return is_polled;
}

bool poll_thread_backs_off(struct poll_thread *thread, const struct poll_policy *policy,
	bool was_armed, uint64_t now_ns)
{
	if (!is_being_polled(thread, policy, was_armed, now_ns)) {
		thread->quiet_ticks = 0;
		thread->trust = 0;
		return false;
	}
	thread->trust = min_u32(thread->quiet_ticks / POLL_QUIET_TICKS, POLL_TRUST_MAX);
	thread->is_regular |= thread->quiet_ticks >= POLL_QUIET_TICKS;
	thread->quiet_ticks++;
	return true;
}

void poll_thread_drove(struct poll_thread *thread, uint64_t now_ns)
{
	thread->is_regular &= now_ns - thread->polled_ns < POLL_IDLE_NS;
	spin_policy_turn_over(&thread->spin, now_ns);
}

bool poll_thread_delays_acks(struct poll_thread *thread, uint64_t now_ns)
{
	if (is_passive(thread, now_ns))
		return false;
	if (thread->hold_budget >= 0)
		return true;
	thread->hold_budget++;
	return false;
}

void poll_thread_delayed_acks(struct poll_thread *thread, bool has_answered)
{
	if (has_answered)
		thread->hold_budget = POLL_HOLD_BUDGET_MAX;
	else if (--thread->hold_budget < 0)
		thread->hold_budget = POLL_HOLD_BUDGET_MIN;
}

/*
 * The longest sleep while only packets wake the thread: a quarter of the time since the last
 * packet, within the limits of a tick. After the sleep the thread finds what the application has
 * left without waking it: new deadlines, acknowledgements, and receive requests for stalled
 * messages.
 */
static uint64_t tick_ns(const struct poll_lane *lane)
{
	uint64_t silence_ns = lane->now_ns - lane->packet_ns;

	if (lane->is_stalled)
		return POLL_TICK_NS;
	return min_u64(max_u64(silence_ns / 4, POLL_TICK_NS), POLL_TICK_NS << POLL_TRUST_MAX);
}

/*
 * For how long the thread goes on waking up in ticks while the lane has neither packets nor
 * deadlines.
 */
static uint64_t alert_ns(const struct poll_lane *lane, bool is_target)
{
	if (lane->is_stalled)
		return POLL_IDLE_NS;
	return is_target ? 0 : POLL_ALERT_NS;
}

uint64_t poll_thread_sleep_ns(struct poll_thread *thread, const struct poll_lane *lane)
{
	bool is_waiting = lane->deadline_ns != UINT64_MAX || lane->is_blocked;
	bool is_target = is_passive(thread, lane->now_ns);
	/*
	 * An application that polls receives its packets itself, so `idle_since_ns` does not show
	 * them, but `packet_ns` does.
	 */
	uint64_t quiet_since_ns =
		is_target ? thread->idle_since_ns : max_u64(thread->idle_since_ns, lane->packet_ns);
	bool spins = lane->datagrams ? spin_policy_packets(&thread->spin, is_target, lane->now_ns)
				     : spin_policy_silence(&thread->spin, lane->now_ns);

	if (lane->datagrams || is_waiting)
		quiet_since_ns = thread->idle_since_ns = lane->now_ns;
	if (spins || lane->has_output || (lane->datagrams && !(is_target && lane->is_level)))
		return 0;
	if (is_waiting && lane->deadline_ns <= lane->now_ns)
		return 0;
	if (is_waiting)
		return min_u64(lane->deadline_ns - lane->now_ns, tick_ns(lane));
	return lane->now_ns - quiet_since_ns < alert_ns(lane, is_target) ? tick_ns(lane)
									 : UINT64_MAX;
}
