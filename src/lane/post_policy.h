/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_LANE_POST_POLICY_H
#define URNIC_LANE_POST_POLICY_H

/*
 * Which datagrams a post leaves in their send queue, so that they leave with later ones in one
 * super-packet. A system call for each datagram costs several times the copy of its bytes.
 *
 * A program that sends a long message by datagrams posts many of them between two polls. The first
 * POST_STREAK_MIN posts after a poll send at once, so a short message is not delayed. Each further
 * post waits for the next one, until POST_WAITING_MAX requests wait, or until the program polls.
 * That is soon for a program that polls. If the program does not poll in time, the lane's thread
 * sends the datagrams at the end of its tick, also if the program posts and polls so often that the
 * thread leaves the lane to it for the next tick. Then the next posts do not wait. The more often
 * the wait was too long, the more posts do not. Only many waits in a row that were short enough
 * make them fewer.
 *
 * The module is pure, like lane/poll_policy.h. The holder of the lane's lock owns the struct, which
 * is all zeros at first.
 */

#include <stdbool.h>
#include <stdint.h>

enum {
	/* How many posts in a row send at once. */
	POST_STREAK_MIN = 2,
	/* So many of the longest datagrams fill a super-packet. */
	POST_WAITING_MAX = 15,
	/*
	 * A datagram that has waited for longer was late. It is the time of some ten posts or polls
	 * of a program that does nothing else.
	 */
	POST_LATE_NS = 20000,
	/*
	 * How many posts do not wait after the first wait that was too long, and at most. If the
	 * limit were 65,536, a program that polls, but loses its processor now and then, would send
	 * each datagram by itself for most of the time: 580 MB/s of UCX over UD, not 2,100.
	 */
	POST_PROMPT_MIN = 64,
	POST_PROMPT_MAX = 1 << 12,
	/*
	 * How many waits in a row that were in time halve the number of posts that do not wait. A
	 * wait that is too long costs a tick of 250 us or more, and one in time saves some 10 us.
	 */
	POST_TIMELY_MIN = 64,
};

struct post_policy {
	uint32_t streak; /* posts since the last poll that drove the lane */
	uint32_t prompt; /* how many posts do not wait */
	uint32_t prompt_next; /* `prompt` after the next wait that is too long */
	uint32_t timely; /* waits in time since the last one that was too long, or was forgiven */
	uint64_t since_ns; /* since when the oldest datagram waits; 0: none does */
};

/* A poll drives the lane. */
static inline void post_policy_polled(struct post_policy *policy)
{
	policy->streak = 0;
}

/*
 * A datagram was posted, and `waiting` requests are in the send queue. Returns whether they wait.
 */
static inline bool post_policy_waits(struct post_policy *policy, uint32_t waiting, uint64_t now_ns)
{
	if (policy->prompt) {
		policy->prompt--;
		return false;
	}
	if (++policy->streak <= POST_STREAK_MIN || waiting >= POST_WAITING_MAX)
		return false;
	if (!policy->since_ns)
		policy->since_ns = now_ns;
	return true;
}

/* Has a datagram waited for too long? */
static inline bool post_policy_is_late(const struct post_policy *policy, uint64_t now_ns)
{
	return policy->since_ns && now_ns - policy->since_ns > POST_LATE_NS;
}

/* The lane sends all that waits. */
static inline void post_policy_sent(struct post_policy *policy, uint64_t now_ns)
{
	if (!policy->since_ns)
		return;
	if (post_policy_is_late(policy, now_ns)) {
		if (policy->prompt_next < POST_PROMPT_MIN)
			policy->prompt_next = POST_PROMPT_MIN;
		policy->prompt = policy->prompt_next;
		if (policy->prompt_next < POST_PROMPT_MAX)
			policy->prompt_next *= 2;
		policy->timely = 0;
	} else if (++policy->timely >= POST_TIMELY_MIN) {
		policy->prompt_next /= 2;
		policy->timely = 0;
	}
	policy->since_ns = 0;
}

#endif
