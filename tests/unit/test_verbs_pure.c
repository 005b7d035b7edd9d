/* SPDX-License-Identifier: BSD-2-Clause */
/* The calls of libibverbs that need no device: words, rates, copies, addresses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "front/verbs/abi.h"

static void strings_of_values_that_are_none_are_unknown(void **state)
{
	(void)state;
	assert_string_equal(
		ibv_wc_status_str(IBV_WC_RETRY_EXC_ERR), "transport retry counter exceeded");
	assert_string_equal(ibv_wc_status_str((enum ibv_wc_status)1000), "unknown");
	assert_string_equal(ibv_wc_status_str((enum ibv_wc_status) - 1), "unknown");
	assert_string_equal(ibv_node_type_str(IBV_NODE_CA), "InfiniBand channel adapter");
	assert_string_equal(ibv_node_type_str(IBV_NODE_UNKNOWN), "unknown");
	assert_string_equal(ibv_port_state_str(IBV_PORT_ACTIVE), "active");
	assert_string_equal(ibv_event_type_str(IBV_EVENT_WQ_FATAL), "WQ fatal");
}

static void rates_convert_there_and_back(void **state)
{
	(void)state;
	for (int rate = IBV_RATE_2_5_GBPS; rate <= IBV_RATE_1200_GBPS; rate++) {
		int mult = ibv_rate_to_mult((enum ibv_rate)rate);

		assert_int_equal(mbps_to_ibv_rate(ibv_rate_to_mbps((enum ibv_rate)rate)), rate);
		if (mult > 0)
			assert_int_equal(mult_to_ibv_rate(mult), rate);
	}
}

static void rates_that_are_none_are_refused(void **state)
{
	(void)state;
	assert_int_equal(ibv_rate_to_mult(IBV_RATE_MAX), -1);
	assert_int_equal(ibv_rate_to_mbps((enum ibv_rate)1), -1);
	assert_int_equal(ibv_rate_to_mbps((enum ibv_rate)25), -1);
	assert_int_equal(mult_to_ibv_rate(0), IBV_RATE_MAX);
	assert_int_equal(mult_to_ibv_rate(-1), IBV_RATE_MAX);
	assert_int_equal(mbps_to_ibv_rate(1), IBV_RATE_MAX);
}

static void path_record_copies_there_and_back(void **state)
{
	struct ibv_sa_path_rec from;
	struct ibv_sa_path_rec back;
	struct ib_user_path_rec kernel;

	(void)state;
	memset(&from, 0, sizeof(from));
	memset(from.dgid.raw, 1, 16);
	memset(from.sgid.raw, 2, 16);
	from.pkey = 0xffff;
	from.mtu = 5;
	from.rate = 17;
	from.packet_life_time = 14;
	ibv_copy_path_rec_to_kern(&kernel, &from);
	ibv_copy_path_rec_from_kern(&back, &kernel);
	assert_memory_equal(&back.dgid, &from.dgid, 16);
	assert_memory_equal(&back.sgid, &from.sgid, 16);
	assert_int_equal(back.pkey, from.pkey);
	assert_int_equal(back.mtu, from.mtu);
	assert_int_equal(back.rate, from.rate);
	assert_int_equal(back.packet_life_time, from.packet_life_time);
}

static void qp_attributes_are_copied_from_the_kernel(void **state)
{
	struct ib_uverbs_qp_attr kernel = {
		.qp_state = IBV_QPS_RTR,
		.dest_qp_num = 0x123456,
		.rq_psn = 7,
		.ah_attr = {.grh = {.sgid_index = 3, .hop_limit = 64}, .port_num = 1},
		.max_send_sge = 9,
	};
	struct ibv_qp_attr attr;

	(void)state;
	kernel.ah_attr.grh.dgid[15] = 0x42;
	ibv_copy_qp_attr_from_kern(&attr, &kernel);
	assert_int_equal(attr.qp_state, IBV_QPS_RTR);
	assert_int_equal(attr.dest_qp_num, 0x123456);
	assert_int_equal(attr.rq_psn, 7);
	assert_int_equal(attr.ah_attr.grh.sgid_index, 3);
	assert_int_equal(attr.ah_attr.grh.dgid.raw[15], 0x42);
	assert_int_equal(attr.ah_attr.port_num, 1);
	assert_int_equal(attr.cap.max_send_sge, 9);
}

static void fork_needs_no_preparation(void **state)
{
	(void)state;
	assert_int_equal(ibv_fork_init(), 0);
	assert_int_equal(ibv_is_fork_initialized(), IBV_FORK_UNNEEDED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(strings_of_values_that_are_none_are_unknown),
		cmocka_unit_test(rates_convert_there_and_back),
		cmocka_unit_test(rates_that_are_none_are_refused),
		cmocka_unit_test(path_record_copies_there_and_back),
		cmocka_unit_test(qp_attributes_are_copied_from_the_kernel),
		cmocka_unit_test(fork_needs_no_preparation),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
