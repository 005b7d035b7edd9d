/* SPDX-License-Identifier: BSD-2-Clause */
/* The text of URNIC_CC: algorithm, preset, parameters, and what is no such text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "congestion/cc_params.h"

static struct cc_params params;
static char why[CC_WHY_BYTES];

static void parse(const char *text)
{
	assert_true(cc_params_parse(&params, text, why));
}

static void expect_refusal(const char *text, const char *sentence)
{
	struct cc_params before = params;

	assert_false(cc_params_parse(&params, text, why));
	assert_string_equal(why, sentence);
	assert_memory_equal(&params, &before, sizeof(params));
}

static void text_sets_algorithm_preset_and_parameters(void **state)
{
	(void)state;
	parse("");
	assert_int_equal(params.algorithm, CC_DCQCN);
	assert_int_equal(params.preset, CC_PRESET_SIGCOMM15);
	assert_int_equal(params.rp_ai_rate, 40);
	parse("dcqcn,preset=cx4+,rp_ai_rate=10");
	assert_int_equal(params.preset, CC_PRESET_CX4);
	assert_int_equal(params.rp_ai_rate, 10);
	assert_int_equal(params.rp_time_reset, 300);
	assert_int_equal(params.rp_dce_tcp_g, 1019);
	parse("off");
	assert_int_equal(params.algorithm, CC_OFF);
	parse("swift, swift_beta=500");
	assert_int_equal(params.algorithm, CC_SWIFT);
	assert_int_equal(params.swift_beta, 500);
}

static void preset_overrides_no_parameter(void **state)
{
	(void)state;
	parse("rp_time_reset=77,preset=ms-ns3");
	assert_int_equal(params.rp_time_reset, 77);
	assert_int_equal(params.rp_byte_reset, 300000000);
	assert_int_equal(params.rp_alpha_first, 1);
}

static void wrong_text_is_refused_with_a_sentence(void **state)
{
	(void)state;
	parse("");
	expect_refusal("bbr",
		"there is no 'bbr'; write off, dcqcn or swift, preset=NAME or PARAMETER=NUMBER; "
		"`urnic explain rp_ np_ swift_` lists the parameters");
	expect_refusal("dcqcn,rp_rate=1",
		"there is no 'rp_rate'; write off, dcqcn or swift, preset=NAME or "
		"PARAMETER=NUMBER; `urnic explain rp_ np_ swift_` lists the parameters");
	expect_refusal("preset=cx5", "preset is 'cx5'; it may be sigcomm15, ms-ns3 or cx4+");
	expect_refusal("rp_threshold=0", "rp_threshold is '0'; it may be a number from 1 to 31");
	expect_refusal("rp_threshold=32", "rp_threshold is '32'; it may be a number from 1 to 31");
	expect_refusal(
		"rp_min_rate=\n", "rp_min_rate is '?'; it may be a number from 1 to 1000000");
	expect_refusal("rp_min_rate",
		"there is no 'rp_min_rate'; write off, dcqcn or swift, "
		"preset=NAME or PARAMETER=NUMBER; "
		"`urnic explain rp_ np_ swift_` lists the parameters");
}

/* Each preset is within the limits of the settings. */
static void every_preset_value_may_be_set(void **state)
{
	(void)state;
	for (enum cc_preset preset = 0; preset < CC_PRESET_COUNT; preset++) {
		cc_params_init(&params, CC_DCQCN, preset);
#define PARAMETER(name, lowest, highest, sigcomm15, ms_ns3, cx4, unit, sentence) \
	assert_true(params.name <= highest && params.name + 1 > lowest);
#include "congestion/parameter.def"
#undef PARAMETER
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(text_sets_algorithm_preset_and_parameters),
		cmocka_unit_test(preset_overrides_no_parameter),
		cmocka_unit_test(wrong_text_is_refused_with_a_sentence),
		cmocka_unit_test(every_preset_value_may_be_set),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
