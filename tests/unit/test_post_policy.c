/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "lane/post_policy.h"

enum { NOW_NS = 1000000 };

/* Post until datagrams wait. Returns how many posts have sent at once. */
static unsigned posts_until_wait(struct post_policy *policy, uint64_t now_ns)
{
	unsigned posts = 0;

	while (!post_policy_waits(policy, 1, now_ns))
		posts++;
	return posts;
}

static void first_posts_after_a_poll_send_at_once(void **state)
{
	struct post_policy policy = {0};

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(posts_until_wait(&policy, NOW_NS), POST_STREAK_MIN);
		post_policy_polled(&policy);
		post_policy_sent(&policy, NOW_NS);
	}
}

static void post_that_fills_a_super_packet_sends(void **state)
{
	struct post_policy policy = {0};

	(void)state;
	posts_until_wait(&policy, NOW_NS);
	assert_true(post_policy_waits(&policy, POST_WAITING_MAX - 1, NOW_NS));
	assert_false(post_policy_waits(&policy, POST_WAITING_MAX, NOW_NS));
}

/* The oldest datagram counts, not the newest. */
static void each_late_datagram_doubles_the_posts_that_send_at_once(void **state)
{
	struct post_policy policy = {.streak = POST_STREAK_MIN};
	unsigned prompt = POST_PROMPT_MIN;

	(void)state;
	for (unsigned i = 0; i < 20; i++) {
		assert_true(post_policy_waits(&policy, 1, NOW_NS));
		assert_true(post_policy_waits(&policy, 2, NOW_NS + POST_LATE_NS));
		post_policy_sent(&policy, NOW_NS + POST_LATE_NS + 1);
		assert_int_equal(posts_until_wait(&policy, NOW_NS), prompt);
		post_policy_sent(&policy, NOW_NS);
		policy.prompt_next *= 2; /* the wait in time has halved it */
		prompt = prompt < POST_PROMPT_MAX ? 2 * prompt : prompt;
	}
}

static void datagrams_in_time_forgive_late_ones(void **state)
{
	struct post_policy policy = {.streak = POST_STREAK_MIN};

	(void)state;
	for (unsigned i = 0; i < 8; i++) {
		posts_until_wait(&policy, NOW_NS);
		post_policy_sent(&policy, NOW_NS + POST_LATE_NS + 1);
	}
	assert_true(policy.prompt_next > POST_PROMPT_MIN);
	for (unsigned i = 0; i < 20; i++) {
		posts_until_wait(&policy, NOW_NS);
		post_policy_sent(&policy, NOW_NS + POST_LATE_NS);
	}
	assert_int_equal(policy.prompt_next, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(first_posts_after_a_poll_send_at_once),
		cmocka_unit_test(post_that_fills_a_super_packet_sends),
		cmocka_unit_test(each_late_datagram_doubles_the_posts_that_send_at_once),
		cmocka_unit_test(datagrams_in_time_forgive_late_ones),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
