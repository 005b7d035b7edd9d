/* SPDX-License-Identifier: BSD-2-Clause */
/* Swift: the window grows below the target delay, and shrinks above it once in a round trip. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "congestion/cc_flow.h"

enum {
	LINE_KBPS = 10000000,
	PACKET_BYTES = 1250, /* a microsecond at the line's rate */
};

#define US 1000u

static struct cc_params params;
static struct cc_flow flow;

static int start(void **state)
{
	(void)state;
	cc_params_init(&params, CC_SWIFT, CC_PRESET_SIGCOMM15);
	flow = (struct cc_flow){
		.params = &params, .line_kbps = LINE_KBPS, .packet_bytes = PACKET_BYTES};
	return 0;
}

static void short_delays_leave_the_flow_without_limit(void **state)
{
	(void)state;
	for (uint32_t i = 1; i < 1000; i++) {
		cc_flow_on_ack(&flow, 100 * US, 10, i * 100 * US);
		assert_int_equal(cc_flow_rate_kbps(&flow, i * 100 * US), 0);
	}
}

/* 4096 packets of 50 bytes in 200 us are 8 Gbit/s. */
static void largest_window_is_no_limit(void **state)
{
	(void)state;
	flow.packet_bytes = 50;
	cc_flow_on_ack(&flow, 200 * US, 1, 1);
	assert_int_equal(flow.swift.window, 4096 * SWIFT_PACKET);
	assert_int_equal(cc_flow_rate_kbps(&flow, 1), 0);
}

static void cnps_are_ignored(void **state)
{
	(void)state;
	assert_false(cc_flow_on_cnp(&flow, 0));
	assert_int_equal(cc_flow_rate_kbps(&flow, 0), 0);
}

/* Twice the target: excess is half of the delay, so 0.8 / 2 of the window go. */
static void window_shrinks_by_the_share_of_delay_beyond_the_target(void **state)
{
	(void)state;
	flow.swift = (struct swift){
		.is_limited = true, .window = 200 * SWIFT_PACKET, .rtt_ns = 600 * US};
	cc_flow_on_ack(&flow, 600 * US, 1, 1);
	assert_in_range(flow.swift.window, 119 * SWIFT_PACKET, 121 * SWIFT_PACKET);
	/* At most once in a round trip. */
	cc_flow_on_ack(&flow, 600 * US, 1, 600 * US);
	assert_in_range(flow.swift.window, 119 * SWIFT_PACKET, 121 * SWIFT_PACKET);
	cc_flow_on_ack(&flow, 600 * US, 1, 600 * US + 1);
	assert_in_range(flow.swift.window, 71 * SWIFT_PACKET, 73 * SWIFT_PACKET);
}

static void window_shrinks_by_half_at_most(void **state)
{
	(void)state;
	flow.swift = (struct swift){
		.is_limited = true, .window = 200 * SWIFT_PACKET, .rtt_ns = 600 * US};
	cc_flow_on_ack(&flow, 100000 * US, 1, 1);
	assert_int_equal(flow.swift.window, 100 * SWIFT_PACKET);
}

/* A packet in each round trip: a window of acknowledged packets adds one. */
static void window_grows_by_the_increase_in_a_round_trip(void **state)
{
	(void)state;
	flow.swift =
		(struct swift){.is_limited = true, .window = 50 * SWIFT_PACKET, .rtt_ns = 100 * US};
	for (uint32_t i = 0; i < 50; i++)
		cc_flow_on_ack(&flow, 100 * US, 1, i);
	assert_in_range(
		flow.swift.window, 50 * SWIFT_PACKET + SWIFT_PACKET * 9 / 10, 51 * SWIFT_PACKET);
	/* 51 packets of 10,000 bits in 100 us are half of the line. */
	assert_in_range(cc_flow_rate_kbps(&flow, 50), 5050000, 5150000);
}

static void window_below_a_packet_paces_longer_than_a_round_trip(void **state)
{
	(void)state;
	flow.swift =
		(struct swift){.is_limited = true, .window = SWIFT_PACKET / 2, .rtt_ns = 1000 * US};
	/* 5,000 bits in a millisecond. */
	assert_int_equal(cc_flow_rate_kbps(&flow, 0), 5000);
	for (uint32_t i = 0; i < 100; i++)
		cc_flow_on_ack(&flow, 100000 * US, 1, (uint64_t)i * 200000 * US);
	assert_int_equal(flow.swift.window, SWIFT_PACKET / 1000);
	assert_int_equal(cc_flow_rate_kbps(&flow, 0), 1000); /* rp_min_rate */
}

static void small_window_has_a_longer_target(void **state)
{
	uint64_t before_ns = UINT64_MAX;

	(void)state;
	assert_int_equal(swift_target_ns(&params, SWIFT_PACKET / 10), 600 * US);
	assert_int_equal(swift_target_ns(&params, 100 * SWIFT_PACKET), 300 * US);
	for (uint32_t window = SWIFT_PACKET / 20; window < 200 * SWIFT_PACKET; window += 1000) {
		uint64_t target_ns = swift_target_ns(&params, window);

		assert_in_range(target_ns, 300 * US, 600 * US);
		assert_true(target_ns <= before_ns);
		before_ns = target_ns;
	}
	/* 1 / sqrt(4) is 0.5; 0.1 and 100 packets give 3.1623 and 0.1. */
	assert_in_range(swift_target_ns(&params, 4 * SWIFT_PACKET), 339000, 339400);
}

/* The roots of both windows are equal in fixed point. */
static void nearly_equal_windows_have_one_target(void **state)
{
	struct cc_params narrow = params;

	(void)state;
	narrow.swift_min_window = 99990;
	narrow.swift_max_window = 100;
	assert_int_equal(swift_target_ns(&narrow, 100 * SWIFT_PACKET - 300), 300 * US);
}

static void extreme_arguments_do_not_overflow(void **state)
{
	static const uint64_t extremes[] = {0, 1, UINT32_MAX, UINT64_MAX};

	(void)state;
	flow.line_kbps = UINT32_MAX;
	for (uint32_t i = 0; i < 4; i++) {
		for (uint32_t j = 1; j < 4; j++) {
			cc_flow_on_ack(&flow, extremes[i], (uint32_t)extremes[j], i);
			assert_in_range(flow.swift.window, 1, 4096 * SWIFT_PACKET);
			cc_flow_rate_kbps(&flow, i);
		}
	}
}

#define TEST(name) cmocka_unit_test_setup(name, start)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(short_delays_leave_the_flow_without_limit),
		TEST(largest_window_is_no_limit),
		TEST(cnps_are_ignored),
		TEST(window_shrinks_by_the_share_of_delay_beyond_the_target),
		TEST(window_shrinks_by_half_at_most),
		TEST(window_grows_by_the_increase_in_a_round_trip),
		TEST(window_below_a_packet_paces_longer_than_a_round_trip),
		TEST(small_window_has_a_longer_target),
		TEST(nearly_equal_windows_have_one_target),
		TEST(extreme_arguments_do_not_overflow),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
