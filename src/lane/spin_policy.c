/* SPDX-License-Identifier: BSD-2-Clause */
#include "lane/spin_policy.h"

#include "base/arith.h"

static void credit_grow(struct spin_policy *policy, uint64_t now_ns)
{
	uint64_t passed_ns = min_u64(now_ns - policy->credited_ns, SPIN_PERIOD_NS);

	policy->credit_ns = min_u64(policy->credit_ns + passed_ns / SPIN_SHARE, SPIN_CREDIT_NS_MAX);
	policy->credited_ns = now_ns;
}

static void credit_pay(struct spin_policy *policy, uint64_t spun_ns)
{
	policy->credit_ns -= min_u64(spun_ns, policy->credit_ns);
}

static void window_set(struct spin_policy *policy, uint64_t window_ns)
{
	policy->window_ns = min_u64(max_u64(window_ns, SPIN_NS_MIN), SPIN_NS_MAX);
}

/*
 * Packets have ended the spinning. The thread does not spin for longer than the window, so the rest
 * of a longer gap has passed before its first look: the turn took long, or another thread had the
 * processor.
 */
static void gap_bridged(struct spin_policy *policy, uint64_t gap_ns)
{
	uint64_t seen_ns = min_u64(gap_ns, policy->window_ns);
	uint64_t mean_ns = policy->gap_ns ? policy->gap_ns : seen_ns;

	policy->gap_ns = mean_ns - mean_ns / SPIN_MEAN + seen_ns / SPIN_MEAN;
	window_set(policy, SPIN_WINDOW_GAPS * policy->gap_ns);
	policy->rest_next = 0;
	credit_pay(policy, seen_ns - min_u64(seen_ns, SPIN_WAKE_NS));
}

/* Packets have ended a sleep. */
static void gap_slept(struct spin_policy *policy, uint64_t gap_ns)
{
	if (gap_ns >= SPIN_PERIOD_NS) {
		policy->rest = 0;
		policy->rest_next = 0;
	}
	if (policy->rest)
		policy->rest--;
	else if (gap_ns <= SPIN_PROBE_NS)
		window_set(policy, 2 * policy->window_ns);
	else
		policy->window_ns = policy->window_ns / 2 < SPIN_NS_MIN ? 0 : policy->window_ns / 2;
}

/* The longest window has bridged no gap: for a number of arrivals the thread only sleeps. */
static void rest_begin(struct spin_policy *policy)
{
	policy->rest = max_u32(policy->rest_next, SPIN_REST_MIN);
	policy->rest_next = min_u32(2 * policy->rest, SPIN_REST_MAX);
	policy->window_ns = 0;
	policy->gap_ns = 0;
}

/* Has another thread got the processor since the last look at the sockets? */
static bool is_stolen(const struct spin_policy *policy, uint64_t now_ns)
{
	return policy->is_spinning && policy->looked_ns &&
		now_ns - policy->looked_ns >= SPIN_STOLEN_NS;
}

bool spin_policy_packets(struct spin_policy *policy, bool may_spin, uint64_t now_ns)
{
	uint64_t gap_ns = now_ns - policy->served_ns;

	if (is_stolen(policy, now_ns))
		policy->stolen_until_ns = now_ns + SPIN_STOLEN_REST_NS;
	else if (policy->is_spinning)
		gap_bridged(policy, gap_ns);
	else
		gap_slept(policy, gap_ns);
	credit_grow(policy, now_ns);
	policy->served_ns = now_ns;
	policy->looked_ns = 0;
	policy->is_spinning = may_spin && !policy->is_off && policy->window_ns && !policy->rest &&
		policy->credit_ns >= policy->window_ns && now_ns >= policy->stolen_until_ns;
	return policy->is_spinning;
}

void spin_policy_turn_over(struct spin_policy *policy, uint64_t now_ns)
{
	if (policy->is_spinning && !policy->looked_ns)
		policy->looked_ns = now_ns;
}

bool spin_policy_silence(struct spin_policy *policy, uint64_t now_ns)
{
	bool has_lost = is_stolen(policy, now_ns);
	uint64_t spun_ns = now_ns - policy->served_ns;

	if (!policy->is_spinning)
		return false;
	policy->looked_ns = now_ns;
	if (!has_lost && spun_ns < policy->window_ns)
		return true;
	policy->is_spinning = false;
	credit_pay(policy, min_u64(spun_ns, policy->window_ns));
	if (has_lost)
		policy->stolen_until_ns = now_ns + SPIN_STOLEN_REST_NS;
	else if (policy->window_ns == SPIN_NS_MAX)
		rest_begin(policy);
	return false;
}
