/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "lane/poll_policy.h"

/* --- polls --- */

static void poll_without_local_work_never_skips_sockets(void **state)
{
	struct poll_policy policy = {0};

	(void)state;
	for (unsigned i = 0; i < 10; i++) {
		poll_policy_begin(&policy);
		poll_policy_sockets_read(&policy, 0, true);
		assert_false(poll_policy_is_skipping(&policy));
	}
}

static unsigned polls_until_read(struct poll_policy *policy)
{
	unsigned polls = 1;

	while (poll_policy_skips(policy))
		polls++;
	return polls;
}

static void sockets_without_packets_are_read_half_as_often_each_time(void **state)
{
	struct poll_policy policy = {0};

	(void)state;
	poll_policy_local_work(&policy);
	for (unsigned polls = POLL_SKIP_MIN; polls < 4 * POLL_SKIP_MAX; polls *= 2) {
		unsigned limit = polls < POLL_SKIP_MAX ? polls : POLL_SKIP_MAX;

		assert_int_equal(polls_until_read(&policy), limit);
		poll_policy_sockets_read(&policy, 0, true);
	}
}

static void packet_ends_skipping(void **state)
{
	struct poll_policy policy = {0};

	(void)state;
	poll_policy_local_work(&policy);
	assert_true(poll_policy_is_skipping(&policy));
	poll_policy_sockets_read(&policy, 1, true);
	assert_false(poll_policy_is_skipping(&policy));
}

static void poll_after_skipped_ones_weighs_more(void **state)
{
	struct poll_policy policy = {0};

	(void)state;
	poll_policy_begin(&policy);
	assert_int_equal(policy.weight, 1);
	poll_policy_local_work(&policy);
	polls_until_read(&policy);
	poll_policy_begin(&policy);
	assert_int_equal(policy.weight, 1 + POLL_SKIP_MIN / POLL_SKIPS_PER_WEIGHT);
	poll_policy_sockets_read(&policy, 0, true);
	assert_int_equal(policy.weight, POLL_CALL_WEIGHT + POLL_SKIP_MIN / POLL_SKIPS_PER_WEIGHT);
}

static void clock_is_read_once_in_so_many_polls(void **state)
{
	struct poll_policy policy = {0};

	(void)state;
	for (unsigned i = 1; i <= 3 * POLL_CLOCKLESS_MAX; i++)
		assert_int_equal(poll_policy_reads_clock(&policy), i % POLL_CLOCKLESS_MAX == 0);
}

static void deferred_acks_wait_while_polls_find_completions(void **state)
{
	struct poll_policy policy = {.weight = POLL_CALL_WEIGHT};

	(void)state;
	for (unsigned i = 0; i < 100; i++)
		assert_false(poll_policy_sends_acks(&policy, true, true));
}

static void deferred_acks_are_sent_by_the_fourth_poll_without_a_completion(void **state)
{
	struct poll_policy policy = {.weight = POLL_CALL_WEIGHT};

	(void)state;
	for (unsigned round = 0; round < 2; round++) {
		for (unsigned i = 0; i < 3; i++)
			assert_false(poll_policy_sends_acks(&policy, true, false));
		assert_true(poll_policy_sends_acks(&policy, true, false));
	}
	poll_policy_sends_acks(&policy, true, false);
	assert_false(poll_policy_sends_acks(&policy, false, false));
	assert_int_equal(policy.deferring_weight, 0);
}

static void polling_thread_yields_after_many_fruitless_polls(void **state)
{
	struct poll_policy policy = {.weight = POLL_CALL_WEIGHT};
	unsigned polls = 1;

	(void)state;
	while (!poll_policy_yields(&policy, 0))
		polls++;
	assert_int_equal(polls, POLL_YIELD_WEIGHT / POLL_CALL_WEIGHT);
	for (polls = 1; !poll_policy_yields(&policy, 0); polls++)
		;
	assert_int_equal(polls, POLL_YIELD_AGAIN_WEIGHT / POLL_CALL_WEIGHT);
	assert_false(poll_policy_yields(&policy, 1));
	assert_int_equal(policy.idle_weight, 0);
}

static void polling_thread_yields_to_the_holder_of_a_locked_lane(void **state)
{
	struct poll_policy policy = {0};

	(void)state;
	for (unsigned round = 0; round < 2; round++) {
		for (unsigned poll = 1; poll < POLL_LOCKED_MAX; poll++)
			assert_false(poll_policy_yields_to_holder(&policy));
		assert_true(poll_policy_yields_to_holder(&policy));
	}
	assert_false(poll_policy_yields_to_holder(&policy));
	poll_policy_yields(&policy, 0);
	assert_int_equal(policy.locked, 0);
}

/* --- the thread --- */

struct twins {
	struct poll_policy policy;
	struct poll_thread thread;
	uint64_t now_ns;
};

/* `polls` more polls, `driving` of which read sockets, in a tick of the current length. */
static bool tick(struct twins *twins, uint32_t polls, uint32_t driving, bool was_armed)
{
	poll_policy_note(&twins->policy, polls);
	for (uint32_t i = 0; i < driving; i++)
		poll_policy_begin(&twins->policy);
	twins->now_ns += (uint64_t)POLL_TICK_NS << twins->thread.trust;
	return poll_thread_backs_off(&twins->thread, &twins->policy, was_armed, twins->now_ns);
}

static void thread_stands_back_for_polls_and_for_longer_each_time(void **state)
{
	struct twins twins = {.now_ns = 1000000000};
	uint32_t trust = 0;

	(void)state;
	for (unsigned i = 0; i < 8 * POLL_QUIET_TICKS; i++) {
		assert_true(tick(&twins, 1000, 1000, false));
		assert_true(twins.thread.trust == trust || twins.thread.trust == trust + 1);
		trust = twins.thread.trust;
		assert_int_equal(twins.thread.is_regular, i >= POLL_QUIET_TICKS);
	}
	assert_int_equal(trust, POLL_TRUST_MAX);
}

static void thread_drives_when_polls_are_few_or_read_no_sockets(void **state)
{
	struct twins twins = {.now_ns = 1000000000};

	(void)state;
	assert_false(tick(&twins, POLL_COUNT_PER_TICK - 1, 1, false));
	twins = (struct twins){.now_ns = 1000000000};
	assert_false(tick(&twins, 1000, 0, false));
}

static void thread_drives_at_once_when_a_queue_was_armed(void **state)
{
	struct twins twins = {.now_ns = 1000000000};

	(void)state;
	for (unsigned i = 0; i < 2 * POLL_QUIET_TICKS; i++)
		assert_true(tick(&twins, 1000, 1000, false));
	assert_true(twins.thread.trust > 0);
	assert_false(tick(&twins, 1000, 1000, true));
	assert_int_equal(twins.thread.trust, 0);
}

static void application_that_stopped_polling_is_not_regular(void **state)
{
	struct twins twins = {.now_ns = 1000000000};

	(void)state;
	for (unsigned i = 0; i < 2 * POLL_QUIET_TICKS; i++)
		tick(&twins, 1000, 1000, false);
	poll_thread_drove(&twins.thread, twins.now_ns + POLL_IDLE_NS - 1);
	assert_true(twins.thread.is_regular);
	poll_thread_drove(&twins.thread, twins.now_ns + POLL_IDLE_NS);
	assert_false(twins.thread.is_regular);
}

static void thread_stops_holding_acks_after_misses_and_tries_again(void **state)
{
	struct poll_thread thread = {.polled_ns = 1000};
	unsigned batches = 0;

	(void)state;
	assert_false(poll_thread_delays_acks(&thread, 1000 + POLL_IDLE_NS + 1));
	poll_thread_delayed_acks(&thread, true);
	for (unsigned i = 0; i <= POLL_HOLD_BUDGET_MAX; i++) {
		assert_true(poll_thread_delays_acks(&thread, 1000));
		poll_thread_delayed_acks(&thread, false);
	}
	while (!poll_thread_delays_acks(&thread, 1000))
		batches++;
	assert_int_equal(batches, -POLL_HOLD_BUDGET_MIN);
}

static const struct poll_lane idle_lane = {
	.now_ns = 1000000000, .packet_ns = 0, .deadline_ns = UINT64_MAX};

/* An application that polls takes the packets, so the thread itself sees none. */
static void thread_ticks_while_the_application_takes_packets(void **state)
{
	struct poll_thread thread = {.polled_ns = 1000000000};
	struct poll_lane lane = idle_lane;

	(void)state;
	lane.packet_ns = lane.now_ns - POLL_ALERT_NS + 1;
	assert_in_range(poll_thread_sleep_ns(&thread, &lane), 1, POLL_TICK_NS << POLL_TRUST_MAX);
	lane.packet_ns = lane.now_ns - POLL_ALERT_NS;
	assert_int_equal(poll_thread_sleep_ns(&thread, &lane), UINT64_MAX);
}

static void thread_of_an_idle_lane_sleeps_without_a_limit(void **state)
{
	struct poll_thread thread = {.polled_ns = 1000000000};
	struct poll_lane lane = idle_lane;

	(void)state;
	assert_int_equal(poll_thread_sleep_ns(&thread, &lane), UINT64_MAX);
	lane.datagrams = 1;
	assert_int_equal(poll_thread_sleep_ns(&thread, &lane), 0);
	lane.datagrams = 0;
	lane.has_output = true;
	assert_int_equal(poll_thread_sleep_ns(&thread, &lane), 0);
	lane.has_output = false;
	thread.polled_ns = lane.now_ns;
	lane.now_ns += POLL_ALERT_NS - 1;
	assert_int_equal(poll_thread_sleep_ns(&thread, &lane), POLL_TICK_NS << POLL_TRUST_MAX);
	lane.now_ns++;
	assert_int_equal(poll_thread_sleep_ns(&thread, &lane), UINT64_MAX);
}

static void thread_sleeps_a_quarter_of_the_silence_and_no_longer_than_a_deadline(void **state)
{
	struct poll_thread thread = {.polled_ns = 1000000000};
	struct poll_lane lane = idle_lane;

	(void)state;
	lane.deadline_ns = lane.now_ns + 1000000000;
	lane.packet_ns = lane.now_ns - 2000000;
	assert_int_equal(poll_thread_sleep_ns(&thread, &lane), 500000);
	lane.is_stalled = true;
	assert_int_equal(poll_thread_sleep_ns(&thread, &lane), POLL_TICK_NS);
	lane.deadline_ns = lane.now_ns + 7;
	assert_int_equal(poll_thread_sleep_ns(&thread, &lane), 7);
	lane.deadline_ns = lane.now_ns;
	assert_int_equal(poll_thread_sleep_ns(&thread, &lane), 0);
}

/* A program that has neither posted nor polled for POLL_IDLE_NS. */
static void thread_of_a_passive_process_spins_while_packets_are_frequent(void **state)
{
	struct poll_thread thread = {.polled_ns = 0};
	struct poll_lane lane = idle_lane;

	(void)state;
	lane.is_level = true;
	lane.datagrams = 1;
	assert_int_equal(poll_thread_sleep_ns(&thread, &lane), UINT64_MAX);
	lane.now_ns += SPIN_NS_MIN;
	assert_int_equal(poll_thread_sleep_ns(&thread, &lane), 0);
	lane.datagrams = 0;
	lane.now_ns += SPIN_NS_MIN - 1;
	assert_int_equal(poll_thread_sleep_ns(&thread, &lane), 0);
	lane.now_ns++;
	assert_int_equal(poll_thread_sleep_ns(&thread, &lane), UINT64_MAX);
}

static void thread_of_a_passive_process_looks_again_for_what_wakes_it_only_once(void **state)
{
	struct poll_thread thread = {.polled_ns = 0};
	struct poll_lane lane = idle_lane;

	(void)state;
	lane.datagrams = 1;
	assert_int_equal(poll_thread_sleep_ns(&thread, &lane), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(poll_without_local_work_never_skips_sockets),
		cmocka_unit_test(sockets_without_packets_are_read_half_as_often_each_time),
		cmocka_unit_test(packet_ends_skipping),
		cmocka_unit_test(poll_after_skipped_ones_weighs_more),
		cmocka_unit_test(clock_is_read_once_in_so_many_polls),
		cmocka_unit_test(deferred_acks_wait_while_polls_find_completions),
		cmocka_unit_test(deferred_acks_are_sent_by_the_fourth_poll_without_a_completion),
		cmocka_unit_test(polling_thread_yields_after_many_fruitless_polls),
		cmocka_unit_test(polling_thread_yields_to_the_holder_of_a_locked_lane),
		cmocka_unit_test(thread_stands_back_for_polls_and_for_longer_each_time),
		cmocka_unit_test(thread_drives_when_polls_are_few_or_read_no_sockets),
		cmocka_unit_test(thread_drives_at_once_when_a_queue_was_armed),
		cmocka_unit_test(application_that_stopped_polling_is_not_regular),
		cmocka_unit_test(thread_stops_holding_acks_after_misses_and_tries_again),
		cmocka_unit_test(thread_ticks_while_the_application_takes_packets),
		cmocka_unit_test(thread_of_an_idle_lane_sleeps_without_a_limit),
		cmocka_unit_test(
			thread_sleeps_a_quarter_of_the_silence_and_no_longer_than_a_deadline),
		cmocka_unit_test(thread_of_a_passive_process_spins_while_packets_are_frequent),
		cmocka_unit_test(
			thread_of_a_passive_process_looks_again_for_what_wakes_it_only_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
