/* SPDX-License-Identifier: BSD-2-Clause */
/* DCQCN against its closed forms: recovery after a CNP, decay of alpha, spacing of CNPs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "congestion/cc_flow.h"

enum {
	LINE_KBPS = 40000000,
	PACKET_BYTES = 1048,
};

#define STEP_NS   55000u /* rp_time_reset and rp_dce_tcp_rtt of the paper */
#define SECOND_NS 1000000000u

static struct cc_params params;
static struct cc_flow flow;

static void flow_start(enum cc_preset preset)
{
	cc_params_init(&params, CC_DCQCN, preset);
	flow = (struct cc_flow){
		.params = &params, .line_kbps = LINE_KBPS, .packet_bytes = PACKET_BYTES};
}

static int start_as_paper(void **state)
{
	(void)state;
	flow_start(CC_PRESET_SIGCOMM15);
	return 0;
}

static void flow_without_cnp_has_no_limit(void **state)
{
	(void)state;
	assert_int_equal(cc_flow_rate_kbps(&flow, 0), 0);
	cc_flow_on_sent(&flow, UINT32_MAX, SECOND_NS);
	assert_int_equal(cc_flow_rate_kbps(&flow, SECOND_NS), 0);
	assert_false(flow.dcqcn.is_limited);
}

/* C8: half of the way to the target in each step; the fifth would add, but the line is full. */
static void rate_after_a_cnp_recovers_in_halves(void **state)
{
	static const uint32_t expected[] = {
		20000000, 30000000, 35000000, 37500000, 38750000, 39375000};

	(void)state;
	assert_true(cc_flow_on_cnp(&flow, 0));
	for (uint32_t i = 0; i < 6; i++) {
		assert_int_equal(cc_flow_rate_kbps(&flow, i * STEP_NS), expected[i]);
		assert_int_equal(cc_flow_rate_kbps(&flow, (i + 1) * STEP_NS - 1), expected[i]);
	}
}

/* However rarely the sender asks, the rate is the same. */
static void rate_is_the_same_if_nobody_asks_meanwhile(void **state)
{
	(void)state;
	cc_flow_on_cnp(&flow, 0);
	assert_int_equal(cc_flow_rate_kbps(&flow, 5 * STEP_NS), 39375000);
}

static void rate_reaches_the_line_and_the_state_ends(void **state)
{
	(void)state;
	cc_flow_on_cnp(&flow, 0);
	assert_int_equal(cc_flow_rate_kbps(&flow, 30 * STEP_NS), 0);
	assert_false(flow.dcqcn.is_limited);
	/* The next CNP is a first one: alpha is 1 again. */
	cc_flow_on_cnp(&flow, 40 * STEP_NS);
	assert_int_equal(cc_flow_rate_kbps(&flow, 40 * STEP_NS), LINE_KBPS / 2);
}

/* C9: 177.1 updates halve alpha. A low target keeps the flow limited for so long. */
static void alpha_has_its_half_life(void **state)
{
	(void)state;
	params.rp_max_rate = 1000;
	cc_flow_on_cnp(&flow, 0);
	assert_int_equal(flow.dcqcn.alpha, DCQCN_ALPHA_ONE);
	cc_flow_rate_kbps(&flow, 177 * STEP_NS);
	assert_true(flow.dcqcn.alpha > DCQCN_ALPHA_ONE / 2);
	cc_flow_rate_kbps(&flow, 178 * STEP_NS - 1);
	assert_true(flow.dcqcn.alpha > DCQCN_ALPHA_ONE / 2);
	cc_flow_rate_kbps(&flow, 178 * STEP_NS);
	assert_true(flow.dcqcn.alpha < DCQCN_ALPHA_ONE / 2);
	cc_flow_rate_kbps(&flow, 354 * STEP_NS);
	assert_in_range(flow.dcqcn.alpha, DCQCN_ALPHA_ONE / 4, DCQCN_ALPHA_ONE / 4 + 64);
}

static void alpha_decays_to_nothing(void **state)
{
	(void)state;
	params.rp_max_rate = 1000;
	cc_flow_on_cnp(&flow, 0);
	cc_flow_rate_kbps(&flow, UINT64_C(3600) * SECOND_NS);
	assert_int_equal(flow.dcqcn.alpha, 0);
	assert_int_equal(flow.dcqcn.alpha_at_ns, UINT64_MAX);
	assert_int_equal(flow.dcqcn.increase_at_ns, UINT64_MAX);
	assert_int_equal(cc_flow_rate_kbps(&flow, UINT64_C(3600) * SECOND_NS), 1000000);
}

/* C10. Marks arrive each microsecond, for a second. */
static void cnps_have_their_spacing(void **state)
{
	uint64_t last_ns = 0;
	uint32_t cnps = 0;

	(void)state;
	for (uint64_t now_ns = 0; now_ns < SECOND_NS; now_ns += 1000) {
		bool is_due = cc_flow_on_mark(&flow, now_ns);

		assert_int_equal(is_due, now_ns == 0 || now_ns - last_ns >= 50000);
		if (is_due)
			last_ns = now_ns;
		cnps += is_due;
	}
	assert_int_equal(cnps, 20000);
}

static void first_mark_after_a_pause_is_answered_at_once(void **state)
{
	(void)state;
	assert_true(cc_flow_on_mark(&flow, 1000));
	assert_false(cc_flow_on_mark(&flow, 50999));
	assert_true(cc_flow_on_mark(&flow, 51000));
	assert_true(cc_flow_on_mark(&flow, SECOND_NS));
}

/* Two CNPs 55 us apart, with the orders of the presets. */
static void preset_decides_whether_alpha_or_the_rate_is_first(void **state)
{
	uint32_t alpha = 65280, raised = (65280 * 1020 + 65536 * 4 + 512) / 1024;
	uint64_t rate = 30000000;

	(void)state;
	for (enum cc_preset preset = CC_PRESET_SIGCOMM15; preset <= CC_PRESET_MS_NS3; preset++) {
		uint32_t used = preset == CC_PRESET_SIGCOMM15 ? alpha : raised;

		flow_start(preset);
		params.rp_time_reset = 55;
		cc_flow_on_cnp(&flow, 0);
		assert_int_equal(flow.dcqcn.alpha, DCQCN_ALPHA_ONE);
		cc_flow_on_cnp(&flow, STEP_NS);
		assert_int_equal(flow.dcqcn.current_kbps, rate - (rate * used >> 17));
		assert_int_equal(flow.dcqcn.target_kbps, rate);
		assert_int_equal(flow.dcqcn.alpha, raised);
	}
}

/* An adapter looks for CNPs in periods: many in one period cut once. */
static void adapter_cuts_once_in_a_period(void **state)
{
	(void)state;
	flow_start(CC_PRESET_CX4);
	for (uint32_t i = 0; i < 4; i++)
		cc_flow_on_cnp(&flow, 1000 * i);
	assert_int_equal(cc_flow_rate_kbps(&flow, 3999), LINE_KBPS);
	assert_int_equal(cc_flow_rate_kbps(&flow, 4000), LINE_KBPS / 2);
	assert_int_equal(cc_flow_rate_kbps(&flow, 8000), LINE_KBPS / 2);
	/* No increase came in between, so the target is still the line's rate. */
	cc_flow_on_cnp(&flow, 8000);
	cc_flow_rate_kbps(&flow, 12000);
	assert_int_equal(flow.dcqcn.target_kbps, LINE_KBPS);
	assert_in_range(flow.dcqcn.current_kbps, LINE_KBPS / 4, LINE_KBPS / 4 + LINE_KBPS / 100);
}

static void first_cnp_sets_a_rate_if_there_is_one(void **state)
{
	(void)state;
	params.rp_rate_to_set_on_first_cnp = 5000;
	cc_flow_on_cnp(&flow, 0);
	assert_int_equal(cc_flow_rate_kbps(&flow, 0), 5000000);
	cc_flow_on_cnp(&flow, 1);
	assert_int_equal(cc_flow_rate_kbps(&flow, 1), 2500000);
	assert_int_equal(flow.dcqcn.target_kbps, 5000000);
}

/* A flood of CNPs, each of them at once. */
static void flood_of_cnps_leaves_the_lowest_rate(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 1000000; i++)
		cc_flow_on_cnp(&flow, i);
	assert_int_equal(cc_flow_rate_kbps(&flow, 1000000), 1000);
}

static void bytes_increase_the_rate_as_time_does(void **state)
{
	(void)state;
	params.rp_byte_reset = 10000;
	cc_flow_on_cnp(&flow, 0);
	cc_flow_on_sent(&flow, 9999, 1);
	assert_int_equal(cc_flow_rate_kbps(&flow, 1), 20000000);
	cc_flow_on_sent(&flow, 10001, 2);
	assert_int_equal(cc_flow_rate_kbps(&flow, 2), 35000000);
	assert_int_equal(flow.dcqcn.byte_count, 2);
}

/* Both counters are beyond F: the target rises by more in each step. */
static void hyper_increase_needs_both_counters(void **state)
{
	(void)state;
	params.rp_byte_reset = 1000;
	params.rp_threshold = 1;
	for (uint32_t i = 0; i < 6; i++)
		cc_flow_on_cnp(&flow, i);
	uint32_t target = flow.dcqcn.target_kbps;
	for (uint32_t i = 1; i <= 2; i++)
		cc_flow_rate_kbps(&flow, 5 + i * STEP_NS);
	assert_int_equal(flow.dcqcn.target_kbps, target + 2 * 40000);
	cc_flow_on_sent(&flow, 1000, 5 + 2 * STEP_NS);
	assert_int_equal(flow.dcqcn.target_kbps, target + 3 * 40000);
	cc_flow_on_sent(&flow, 1000, 5 + 2 * STEP_NS);
	assert_int_equal(flow.dcqcn.target_kbps, target + 3 * 40000 + 200000);
}

/* Without a counter of bytes the time decides, and the target rises by the same in each step. */
static void time_alone_reaches_hyper_increase(void **state)
{
	uint32_t target;

	(void)state;
	params.rp_byte_reset = 0;
	params.rp_threshold = 2;
	for (uint32_t i = 0; i < 6; i++)
		cc_flow_on_cnp(&flow, i);
	target = flow.dcqcn.target_kbps;
	cc_flow_rate_kbps(&flow, 5 + STEP_NS);
	assert_int_equal(flow.dcqcn.target_kbps, target);
	cc_flow_rate_kbps(&flow, 5 + 2 * STEP_NS);
	assert_int_equal(flow.dcqcn.target_kbps, target + 40000);
	for (uint32_t i = 3; i <= 5; i++) {
		cc_flow_rate_kbps(&flow, 5 + i * STEP_NS);
		assert_int_equal(flow.dcqcn.target_kbps, target + 40000 + (i - 2) * 200000);
	}
}

static void off_obeys_nothing(void **state)
{
	(void)state;
	params.algorithm = CC_OFF;
	assert_false(cc_flow_on_cnp(&flow, 0));
	assert_int_equal(cc_flow_rate_kbps(&flow, 0), 0);
}

#define TEST(name) cmocka_unit_test_setup(name, start_as_paper)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(flow_without_cnp_has_no_limit),
		TEST(rate_after_a_cnp_recovers_in_halves),
		TEST(rate_is_the_same_if_nobody_asks_meanwhile),
		TEST(rate_reaches_the_line_and_the_state_ends),
		TEST(alpha_has_its_half_life),
		TEST(alpha_decays_to_nothing),
		TEST(cnps_have_their_spacing),
		TEST(first_mark_after_a_pause_is_answered_at_once),
		TEST(preset_decides_whether_alpha_or_the_rate_is_first),
		TEST(adapter_cuts_once_in_a_period),
		TEST(first_cnp_sets_a_rate_if_there_is_one),
		TEST(flood_of_cnps_leaves_the_lowest_rate),
		TEST(bytes_increase_the_rate_as_time_does),
		TEST(hyper_increase_needs_both_counters),
		TEST(time_alone_reaches_hyper_increase),
		TEST(off_obeys_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
