/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Timeouts, retries and probes of the requester, against a scripted peer.
 */
#include "ib/rc/rc.h"
#include "support/rc_script.h"
#include "wire/timer.h"

#define TIMEOUT_NS RC_RETRY_NS_MIN /* of timeout 14, as usual */

static void requester_unanswered_packet_is_probed_then_retried_then_given_up(void **state)
{
	uint64_t start_ns;

	(void)state;
	restart(&(struct script_options){.retry_cnt = 2});
	script_post(&script, WR_SEND, 1, SEND_SIGNALED);
	script_expect(&script, OPCODE_RC_SEND_ONLY, 0);
	start_ns = script.now_ns;
	while (cq_is_empty(&script.cq)) {
		script_pass(&script, engine_deadline_ns(&script.lane) - script.now_ns);
		script_drain(&script);
	}
	script_expect_completion(&script, 0, WC_RETRY_EXC_ERR);
	assert_int_equal(script.now_ns - start_ns, 3 * TIMEOUT_NS);
	assert_int_equal(script_counter(&script, COUNTER_local_ack_timeout_err), 3);
	assert_in_range(script_counter(&script, COUNTER_early_probes), 3, 30);
}

/*
 * Pass the time of each deadline by `late_ns`, until the requester gives up the request. Returns
 * the number of timeouts.
 */
static uint64_t timeouts_until_given_up(uint64_t late_ns)
{
	while (cq_is_empty(&script.cq)) {
		script_pass(&script, engine_deadline_ns(&script.lane) - script.now_ns + late_ns);
		script_drain(&script);
	}
	script_expect_completion(&script, 0, WC_RETRY_EXC_ERR);
	return script_counter(&script, COUNTER_local_ack_timeout_err);
}

static uint64_t time_until_given_up(uint32_t timeout)
{
	uint64_t start_ns;

	restart(&(struct script_options){.timeout = timeout, .retry_cnt = 2});
	script_post(&script, WR_SEND, 1, SEND_SIGNALED);
	script_drain(&script);
	start_ns = script.now_ns;
	assert_int_equal(timeouts_until_given_up(0), 3);
	return script.now_ns - start_ns;
}

static void requester_timeout_that_is_served_late_is_no_retry(void **state)
{
	(void)state;
	restart(&(struct script_options){.retry_cnt = 2});
	script_post(&script, WR_SEND, 1, SEND_SIGNALED);
	script_drain(&script);
	assert_int_equal(
		timeouts_until_given_up(LANE_LATE_NS + TIMEOUT_NS), 3 + RC_RETRIES_LATE_MAX);
	assert_int_equal(script_counter(&script, COUNTER_late_timeouts), RC_RETRIES_LATE_MAX);
}

static void requester_timeout_that_is_served_a_little_late_is_a_retry(void **state)
{
	(void)state;
	restart(&(struct script_options){.retry_cnt = 2});
	script_post(&script, WR_SEND, 1, SEND_SIGNALED);
	script_drain(&script);
	assert_int_equal(timeouts_until_given_up(LANE_LATE_NS / 2), 3);
}

/* A requester may wait for up to four timeouts (IBTA 9.7.6.1.3). */
static void requester_lengthens_short_timeouts_for_an_overloaded_peer(void **state)
{
	(void)state;
	assert_int_equal(time_until_given_up(10), 3 * RC_TIMEOUT_FACTOR_MAX * ack_timeout_ns(10));
	assert_int_equal(time_until_given_up(14), 3 * RC_RETRY_NS_MIN);
	assert_int_equal(time_until_given_up(17), 3 * ack_timeout_ns(17));
}

static void requester_progress_gives_the_retries_back(void **state)
{
	(void)state;
	restart(&(struct script_options){.retry_cnt = 1});
	script_post(&script, WR_SEND, 2 * SCRIPT_MTU_BYTES, SEND_SIGNALED);
	script_drain(&script);
	script_pass(&script, TIMEOUT_NS);
	script_drain(&script);
	script_send_ack(&script, 0, 0, SCRIPT_UNLIMITED);
	script_drain(&script);
	script_pass(&script, TIMEOUT_NS);
	script_expect_no_completion(&script);
	script_drain(&script);
	script_send_ack(&script, 1, 1, SCRIPT_UNLIMITED);
	script_expect_completion(&script, 0, WC_SUCCESS);
}

static void requester_without_retries_gives_up_at_the_first_timeout(void **state)
{
	(void)state;
	restart(&(struct script_options){.has_no_retry = true});
	script_post(&script, WR_SEND, 1, SEND_SIGNALED);
	script_drain(&script);
	script_pass(&script, TIMEOUT_NS - 1);
	script_expect_no_completion(&script);
	script_pass(&script, 1);
	script_expect_completion(&script, 0, WC_RETRY_EXC_ERR);
}

static void requester_timeout_zero_never_gives_up(void **state)
{
	(void)state;
	restart(&(struct script_options){.has_no_timeout = true, .has_no_retry = true});
	script_post(&script, WR_SEND, 1, SEND_SIGNALED);
	script_drain(&script);
	for (uint32_t i = 0; i < 100; i++) {
		script_pass(&script, 10000 * SCRIPT_MS);
		assert_int_equal(script_drain(&script), 1); /* it still probes */
	}
	script_expect_no_completion(&script);
	assert_int_equal(script.qp->state, QP_RTS);
}

static void requester_probes_adapt_to_a_long_path(void **state)
{
	uint64_t probes;

	(void)state;
	/* Answers take 50 ms. */
	for (uint32_t i = 0; i < 30; i++) {
		uint64_t answer_ns = script.now_ns + 50 * SCRIPT_MS;

		if (i == 20)
			probes = script_counter(&script, COUNTER_early_probes);
		script_post(&script, WR_SEND, 1, 0);
		script_drain(&script);
		while (engine_deadline_ns(&script.lane) < answer_ns) {
			script_pass(&script, engine_deadline_ns(&script.lane) - script.now_ns);
			script_drain(&script);
		}
		script_pass(&script, answer_ns - script.now_ns);
		script_send_ack(&script, i, i + 1, SCRIPT_UNLIMITED);
	}
	assert_int_equal(script_counter(&script, COUNTER_early_probes), probes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(requester_unanswered_packet_is_probed_then_retried_then_given_up),
		TEST(requester_timeout_that_is_served_late_is_no_retry),
		TEST(requester_timeout_that_is_served_a_little_late_is_a_retry),
		TEST(requester_lengthens_short_timeouts_for_an_overloaded_peer),
		TEST(requester_progress_gives_the_retries_back),
		TEST(requester_without_retries_gives_up_at_the_first_timeout),
		TEST(requester_timeout_zero_never_gives_up),
		TEST(requester_probes_adapt_to_a_long_path),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
