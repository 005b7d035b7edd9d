/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rate limits, by the clock: over the loopback interface of a namespace of its own.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <time.h>

#include "support/netns.h"
#include "support/verbs_pair.h"

enum {
	WRITES = 64,
	TOTAL_BYTES = WRITES * PAIR_BYTES, /* 1 MiB */
	MTU_BYTES = 1024, /* of verbs_pair */
	/* Ethernet, IP, UDP, BTH and ICRC; the RETH of the first packets is left out. */
	OVERHEAD_BYTES = 18 + 20 + 8 + 12 + 4,
	RATE_KBPS = 80000,
	TRIES_MAX = 20,
};

static struct ibv_context *context;
static struct verbs_pair pair;

static int setup(void **state)
{
	(void)state;
	verbs_pair_make(&pair, context);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	verbs_pair_unmake(&pair);
	return 0;
}

static double now_ms(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec * 1e3 + (double)time.tv_nsec / 1e6;
}

/* How long 1 MiB takes from a to b. */
static double transfer_ms(void)
{
	double start_ms = now_ms();

	for (int i = 0; i < WRITES - 1; i++)
		MUST(!verbs_post_unsignaled(&pair.a, IBV_WR_RDMA_WRITE, &pair.b, 0, PAIR_BYTES));
	MUST(!verbs_post(&pair.a, IBV_WR_RDMA_WRITE, &pair.b, 0, PAIR_BYTES));
	MUST(verbs_poll_one(pair.a.cq).status == IBV_WC_SUCCESS);
	return now_ms() - start_ms;
}

/* What it takes at a rate, less the first burst, which is a millisecond's. */
static double expected_ms(uint32_t rate_kbps)
{
	double packets = (double)TOTAL_BYTES / MTU_BYTES;

	return packets * (MTU_BYTES + OVERHEAD_BYTES) * 8 / rate_kbps - 1;
}

static int set_rate(uint32_t rate_kbps, uint32_t burst_bytes, uint16_t packet_bytes)
{
	struct ibv_qp_rate_limit_attr attr = {
		.rate_limit = rate_kbps,
		.max_burst_sz = burst_bytes,
		.typical_pkt_sz = packet_bytes,
	};

	return ibv_modify_qp_rate_limit(pair.a.qp, &attr);
}

static uint32_t rate_of(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	assert_int_equal(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
	return attr.rate_limit;
}

static void rate_limit_is_kept(void **state)
{
	double unlimited_ms = transfer_ms();
	double least_ms = INFINITY;

	(void)state;
	assert_int_equal(set_rate(RATE_KBPS, 0, 0), 0);
	assert_int_equal(rate_of(pair.a.qp), RATE_KBPS);
	/*
	 * A busy machine sometimes takes longer, so one of several transfers has to reach the rate.
	 */
	for (int i = 0; i < TRIES_MAX && least_ms > 1.5 * expected_ms(RATE_KBPS); i++) {
		double limited_ms = transfer_ms();

		assert_true(limited_ms > 0.98 * expected_ms(RATE_KBPS));
		if (limited_ms < least_ms)
			least_ms = limited_ms;
	}
	assert_int_equal(set_rate(0, 0, 0), 0);
	assert_int_equal(rate_of(pair.a.qp), 0);
	print_message("1 MiB: %.1f ms; at %u kbit/s %.1f ms, expected %.1f ms; then %.1f ms\n",
		unlimited_ms, RATE_KBPS, least_ms, expected_ms(RATE_KBPS), transfer_ms());
	assert_true(least_ms <= 2.5 * expected_ms(RATE_KBPS));
}

static void rate_limit_with_bursts_is_kept(void **state)
{
	double limited_ms;

	(void)state;
	assert_int_equal(set_rate(RATE_KBPS, 50000, MTU_BYTES), 0);
	limited_ms = transfer_ms();
	assert_true(limited_ms > 0.98 * expected_ms(RATE_KBPS) - 50000.0 * 8 / RATE_KBPS);
}

static void rate_limit_is_an_attribute(void **state)
{
	struct ibv_qp_attr attr = {.rate_limit = RATE_KBPS};

	(void)state;
	assert_int_equal(ibv_modify_qp(pair.a.qp, &attr, IBV_QP_RATE_LIMIT), 0);
	assert_int_equal(rate_of(pair.a.qp), RATE_KBPS);
	assert_true(transfer_ms() > 0.98 * expected_ms(RATE_KBPS));
}

static void rate_limit_within_the_stated_range_is_taken(void **state)
{
	struct ibv_device_attr_ex device;
	struct ibv_qp_rate_limit_attr unknown = {.rate_limit = RATE_KBPS, .comp_mask = 1};

	(void)state;
	assert_int_equal(ibv_query_device_ex(context, NULL, &device), 0);
	assert_true(device.packet_pacing_caps.supported_qpts & 1u << IBV_QPT_RC);
	assert_int_equal(set_rate(device.packet_pacing_caps.qp_rate_limit_min, 0, 0), 0);
	assert_int_equal(set_rate(device.packet_pacing_caps.qp_rate_limit_max, 0, 0), 0);
	assert_int_equal(set_rate(device.packet_pacing_caps.qp_rate_limit_max + 1, 0, 0), EINVAL);
	assert_int_equal(set_rate(0, 1, 0), EINVAL);
	assert_int_equal(set_rate(0, 0, 1), EINVAL);
	assert_int_equal(ibv_modify_qp_rate_limit(pair.a.qp, &unknown), EINVAL);
	assert_int_equal(rate_of(pair.a.qp), device.packet_pacing_caps.qp_rate_limit_max);
}

/* Who sleeps for its completion is paced by the NIC's thread. */
static void rate_limit_is_kept_while_the_program_sleeps(void **state)
{
	double start_ms;

	(void)state;
	assert_int_equal(set_rate(RATE_KBPS, 0, 0), 0);
	MUST(!ibv_req_notify_cq(pair.a.cq, 0));
	start_ms = now_ms();
	for (int i = 0; i < WRITES - 1; i++)
		MUST(!verbs_post_unsignaled(&pair.a, IBV_WR_RDMA_WRITE, &pair.b, 0, PAIR_BYTES));
	MUST(!verbs_post(&pair.a, IBV_WR_RDMA_WRITE, &pair.b, 0, PAIR_BYTES));
	MUST(verbs_wait_one(&pair.a).status == IBV_WC_SUCCESS);
	print_message("asleep: %.1f ms\n", now_ms() - start_ms);
	assert_true(now_ms() - start_ms > 0.98 * expected_ms(RATE_KBPS));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(rate_limit_is_kept),
		TEST(rate_limit_with_bursts_is_kept),
		TEST(rate_limit_is_an_attribute),
		TEST(rate_limit_within_the_stated_range_is_taken),
		TEST(rate_limit_is_kept_while_the_program_sleeps),
	};

	if (netns_enter_new() < 0)
		return 77;
	context = verbs_pair_open();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
