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
		prompt = prompt < POST_PROMPT_MAX ? 2 * prompt : prompt;
	}
}

static void send_late(struct post_policy *policy)
{
	posts_until_wait(policy, NOW_NS);
	post_policy_sent(policy, NOW_NS + POST_LATE_NS + 1);
}

static void send_in_time(struct post_policy *policy, unsigned times)
{
	for (unsigned i = 0; i < times; i++) {
		posts_until_wait(policy, NOW_NS);
		post_policy_sent(policy, NOW_NS + POST_LATE_NS);
	}
}

static void many_datagrams_in_time_forgive_late_ones(void **state)
{
	struct post_policy policy = {.streak = POST_STREAK_MIN};

	(void)state;
	for (unsigned i = 0; i < 3; i++)
		send_late(&policy);
	send_in_time(&policy, POST_TIMELY_MIN);
	assert_int_equal(policy.prompt_next, 4 * POST_PROMPT_MIN);
	send_in_time(&policy, 3 * POST_TIMELY_MIN);
	assert_int_equal(policy.prompt_next, POST_PROMPT_MIN / 2);
	send_late(&policy);
	assert_int_equal(policy.prompt, POST_PROMPT_MIN);
}

static void datagrams_in_time_count_only_in_a_row(void **state)
{
	struct post_policy policy = {.streak = POST_STREAK_MIN};

	(void)state;
	send_late(&policy);
	send_in_time(&policy, POST_TIMELY_MIN - 1);
	send_late(&policy);
	send_in_time(&policy, POST_TIMELY_MIN - 1);
	assert_int_equal(policy.prompt_next, 4 * POST_PROMPT_MIN);
}

/* The program computes after some polls, again and again. */
static void program_that_polls_and_computes_in_turn_is_seldom_late(void **state)
{
	enum { POSTS = 1000000, POLLS = 10 };

	struct post_policy policy = {0};
	unsigned late = 0;

	(void)state;
	for (unsigned posts = 0, polls = 0; posts < POSTS;) {
		bool computes = polls++ % POLLS == 0;

		post_policy_polled(&policy);
		for (bool waits = false; !waits; posts++)
			waits = post_policy_waits(&policy, 1, NOW_NS);
		post_policy_sent(&policy, NOW_NS + (computes ? 2 : 0) * POST_LATE_NS);
		late += computes;
	}
	assert_in_range(late, 1, POSTS / POST_PROMPT_MAX + 30);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(first_posts_after_a_poll_send_at_once),
		cmocka_unit_test(post_that_fills_a_super_packet_sends),
		cmocka_unit_test(each_late_datagram_doubles_the_posts_that_send_at_once),
		cmocka_unit_test(many_datagrams_in_time_forgive_late_ones),
		cmocka_unit_test(datagrams_in_time_count_only_in_a_row),
		cmocka_unit_test(program_that_polls_and_computes_in_turn_is_seldom_late),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
