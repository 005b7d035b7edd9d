/* SPDX-License-Identifier: BSD-2-Clause */
/* What switches and end ports drop, and the traps that tell of it. */
#include "subnet_fixture.h"

static void data_send(struct fixture *fixture, uint32_t from, uint16_t dlid, uint16_t pkey)
{
	const struct mad_frame frame = {.dlid = dlid,
		.slid = fixture_lid(fixture, from),
		.pkey = pkey,
		.dest_qpn = 0x42,
		.source_qpn = 0x43,
		.qkey = 5};
	uint8_t mad[MAD_BYTES] = {7};

	fixture->delivered_count = 0;
	fixture_send_mad(fixture, from, &frame, mad);
}

/* Set a table of a node at the end of a path from h1. */
static void table_set(struct fixture *fixture, const char *path, uint16_t attribute_id,
	uint32_t modifier, const uint8_t *data, uint32_t bytes)
{
	struct smp_request request = {
		.method = MAD_METHOD_SET, .attribute_id = attribute_id, .modifier = modifier};

	memcpy(request.path, path, strlen(path));
	memcpy(request.data, data, bytes);
	assert_int_equal(smp_status(fixture_smp(fixture, &request)), 0);
}

static void frame_to_an_unknown_lid_is_dropped_at_the_switch(void **state)
{
	static struct fixture fixture;

	(void)state;
	fixture_init(&fixture, two_switches, true);
	data_send(&fixture, H1, 99, 0xffff);
	assert_int_equal(fixture.delivered_count, 0);
	assert_int_equal(fixture_port(&fixture, S1, 1).counters->port_rcv_switch_relay_errors, 1);
	fixture_done(&fixture);
}

static void frame_never_leaves_by_the_port_that_it_came_in(void **state)
{
	static struct fixture fixture;
	const struct ib_switch_info info = {.linear_fdb_top = 63};
	uint8_t to_1[64], switch_info[64];

	(void)state;
	fixture_init(&fixture, two_switches, true);
	memset(to_1, 1, sizeof(to_1));
	ib_switch_info_encode(&info, switch_info);
	table_set(&fixture, "\1", SM_ATTRIBUTE_LINEAR_FORWARDING, 0, to_1, 64);
	table_set(&fixture, "\1", SM_ATTRIBUTE_SWITCH_INFO, 0, switch_info, 20);
	data_send(&fixture, H1, 50, 0xffff);
	assert_int_equal(fixture_port(&fixture, S1, 1).counters->port_rcv_switch_relay_errors, 1);
	assert_int_equal(fixture_port(&fixture, H1, 1).counters->port_rcv_errors, 0);
	fixture_done(&fixture);
}

/* Both switches say that the other one knows the LID. */
static void frame_in_a_loop_of_routes_comes_to_an_end(void **state)
{
	static struct fixture fixture;
	const struct ib_switch_info info = {.linear_fdb_top = 63};
	uint8_t to_3[64], to_4[64], switch_info[64];

	(void)state;
	fixture_init(&fixture, two_switches, true);
	memset(to_3, 3, sizeof(to_3));
	memset(to_4, 4, sizeof(to_4));
	ib_switch_info_encode(&info, switch_info);
	table_set(&fixture, "\1\3", SM_ATTRIBUTE_LINEAR_FORWARDING, 0, to_4, 64);
	table_set(&fixture, "\1\3", SM_ATTRIBUTE_SWITCH_INFO, 0, switch_info, 20);
	table_set(&fixture, "\1", SM_ATTRIBUTE_LINEAR_FORWARDING, 0, to_3, 64);
	table_set(&fixture, "\1", SM_ATTRIBUTE_SWITCH_INFO, 0, switch_info, 20);
	data_send(&fixture, H1, 50, 0xffff);
	assert_int_equal(fixture.delivered_count, 0);
	assert_int_equal(fixture_port(&fixture, S1, 3).counters->port_xmit_discards +
			fixture_port(&fixture, S2, 4).counters->port_xmit_discards,
		1);
	fixture_done(&fixture);
}

static void frame_longer_than_the_mtu_is_not_sent(void **state)
{
	static struct fixture fixture;
	static uint8_t frame[SUBNET_FRAME_BYTES_MAX];
	struct lrh lrh = {.next = LRH_BTH, .words = sizeof(frame) / 4};
	const struct bth bth = {.opcode = 0x64, .pkey = 0xffff, .dest_qpn = {5}};

	(void)state;
	fixture_init(&fixture, two_switches, true);
	lrh.slid = fixture_lid(&fixture, H1);
	lrh.dlid = fixture_lid(&fixture, H2);
	lrh_encode(&lrh, frame);
	bth_encode(&bth, frame + LRH_BYTES);
	subnet_send(fixture.subnet, H1, 1, frame, sizeof(frame), 0);
	assert_int_equal(fixture_port(&fixture, H1, 1).counters->port_xmit_discards, 1);
	lrh.words = (4096 + 124) / 4;
	lrh_encode(&lrh, frame);
	subnet_send(fixture.subnet, H1, 1, frame, 4096 + 124, 0);
	assert_int_equal(fixture.delivered_count, 1);
	fixture_done(&fixture);
}

static void malformed_frame_is_dropped_and_counted(void **state)
{
	static struct fixture fixture;
	uint8_t frame[64] = {0};

	(void)state;
	fixture_init(&fixture, two_switches, true);
	subnet_send(fixture.subnet, H1, 1, frame, 3, 0);
	subnet_send(fixture.subnet, H1, 1, frame, sizeof(frame), 0);
	assert_int_equal(fixture_port(&fixture, H1, 1).counters->port_xmit_discards, 2);
	fixture_done(&fixture);
}

static void port_that_is_not_active_sends_no_data(void **state)
{
	static struct fixture fixture;

	(void)state;
	fixture_init(&fixture, two_switches, false);
	data_send(&fixture, H1, 2, 0xffff);
	assert_int_equal(fixture_port(&fixture, H1, 1).counters->port_xmit_discards, 1);
	assert_int_equal(fixture.traced, 0);
	fixture_done(&fixture);
}

/* The switch's port is armed: it takes data, and sends none. */
static void port_of_a_switch_that_is_not_active_forwards_no_data(void **state)
{
	static struct fixture fixture;
	struct ib_port_info info;
	uint8_t data[64];

	(void)state;
	fixture_init(&fixture, two_switches, true);
	subnet_manager_enable(fixture.subnet, false);
	info = *fixture_port(&fixture, S1, 2).info;
	info.port_physical_state = 0;
	for (info.port_state = IB_PORT_DOWN; info.port_state <= IB_PORT_ARMED;
		info.port_state += 2) {
		ib_port_info_encode(&info, data);
		table_set(&fixture, "\1", SM_ATTRIBUTE_PORT_INFO, 2, data, 64);
	}
	assert_int_equal(fixture_port(&fixture, S1, 2).info->port_state, IB_PORT_ARMED);
	data_send(&fixture, H1, fixture_lid(&fixture, H2), 0xffff);
	assert_int_equal(fixture.delivered_count, 0);
	assert_int_equal(fixture_port(&fixture, S1, 2).counters->port_xmit_discards, 1);
	assert_int_equal(fixture_port(&fixture, S1, 2).counters->port_xmit_packets,
		fixture_port(&fixture, H2, 1).counters->port_rcv_packets);
	fixture_done(&fixture);
}

static void service_level_without_a_lane_is_dropped(void **state)
{
	static struct fixture fixture;
	const uint8_t all_15[8] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};

	(void)state;
	fixture_init(&fixture, two_switches, true);
	table_set(&fixture, "\1", SM_ATTRIBUTE_SL_TO_VL, 1 << 8 | 2, all_15, 8);
	data_send(&fixture, H1, fixture_lid(&fixture, H2), 0xffff);
	assert_int_equal(fixture.delivered_count, 0);
	assert_int_equal(fixture_port(&fixture, S1, 1).counters->port_rcv_switch_relay_errors, 1);
	fixture_done(&fixture);
}

/* --- partitions --- */

static void frame_of_another_partition_is_refused_by_the_port(void **state)
{
	static struct fixture fixture;

	(void)state;
	fixture_init(&fixture, two_switches, true);
	data_send(&fixture, H1, fixture_lid(&fixture, H4), 0x8005);
	assert_int_equal(fixture.delivered_count, 0);
	assert_int_equal(fixture_port(&fixture, H4, 1).info->p_key_violations, 1);
	data_send(&fixture, H1, fixture_lid(&fixture, H4), 0x7fff);
	assert_int_equal(fixture.delivered_count, 1);
	fixture_done(&fixture);
}

static void limited_members_do_not_reach_each_other(void **state)
{
	static struct fixture fixture;
	const uint8_t limited[64] = {0x7f, 0xff};

	(void)state;
	fixture_init(&fixture, two_switches, true);
	table_set(&fixture, "\1\2", SM_ATTRIBUTE_PKEY_TABLE, 0, limited, 64);
	data_send(&fixture, H1, fixture_lid(&fixture, H2), 0x7fff);
	assert_int_equal(fixture.delivered_count, 0);
	data_send(&fixture, H1, fixture_lid(&fixture, H2), 0xffff);
	assert_int_equal(fixture.delivered_count, 1);
	fixture_done(&fixture);
}

static void enforce_set(struct fixture *fixture, bool is_in, bool is_out)
{
	struct ib_port_info info = *fixture_port(fixture, S1, 2).info;
	uint8_t data[64];

	info.port_state = info.port_physical_state = 0;
	info.partition_enforcement_in = is_in;
	info.partition_enforcement_out = is_out;
	ib_port_info_encode(&info, data);
	table_set(fixture, "\1", SM_ATTRIBUTE_PORT_INFO, 2, data, 64);
}

static void switch_enforces_partitions_in_both_directions(void **state)
{
	static struct fixture fixture;
	const uint8_t partition_5[64] = {0x80, 0x05};
	const struct subnet_counters *counters;

	(void)state;
	fixture_init(&fixture, two_switches, true);
	counters = fixture_port(&fixture, S1, 2).counters;
	table_set(&fixture, "\1", SM_ATTRIBUTE_PKEY_TABLE, 2u << 16, partition_5, 64);
	data_send(&fixture, H1, fixture_lid(&fixture, H2), 0xffff);
	assert_int_equal(fixture.delivered_count, 1);
	enforce_set(&fixture, false, true);
	data_send(&fixture, H1, fixture_lid(&fixture, H2), 0xffff);
	assert_int_equal(fixture.delivered_count, 0);
	assert_int_equal(counters->port_xmit_constraint_errors, 1);
	data_send(&fixture, H2, fixture_lid(&fixture, H1), 0xffff);
	assert_int_equal(fixture.delivered_count, 1);
	enforce_set(&fixture, true, false);
	data_send(&fixture, H2, fixture_lid(&fixture, H1), 0xffff);
	assert_int_equal(fixture.delivered_count, 0);
	assert_int_equal(counters->port_rcv_constraint_errors, 1);
	fixture_done(&fixture);
}

/* --- traps --- */

/* Let h1 be the manager of all ports, so that it gets their traps. */
static void manager_move(struct fixture *fixture)
{
	static const struct {
		const char *path;
		uint32_t node, port;
	} ends[] = {{"\1", S1, 0}, {"\1\3", S2, 0}, {"\1\2", H2, 1}, {"\1\3\1", H3, 1},
		{"\1\3\2", H4, 1}};

	subnet_manager_enable(fixture->subnet, false);
	subnet_port_capability(fixture->subnet, H1, 1, IB_CAPABILITY_IS_SM, 0, fixture->now_ns);
	subnet_advance(fixture->subnet, fixture->now_ns);
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		struct ib_port_info info = *fixture_port(fixture, ends[i].node, ends[i].port).info;
		uint8_t data[64];

		info.port_state = info.port_physical_state = 0;
		info.sm_lid = fixture_lid(fixture, H1);
		ib_port_info_encode(&info, data);
		table_set(fixture, ends[i].path, SM_ATTRIBUTE_PORT_INFO, ends[i].port, data, 64);
	}
	fixture->delivered_count = 0;
}

/* The last frame is a trap; returns its notice. */
static struct ib_notice last_trap(
	const struct fixture *fixture, uint16_t number, struct mad_header *ret_header)
{
	const uint8_t *mad = fixture_last_mad(fixture, H1, NULL);
	struct ib_notice notice;

	mad_header_decode(ret_header, mad);
	assert_int_equal(ret_header->method, MAD_METHOD_TRAP);
	assert_int_equal(ret_header->management_class, MAD_CLASS_SUBN_LID_ROUTED);
	ib_notice_decode(&notice, mad + SMP_DATA);
	assert_int_equal(notice.trap_number, number);
	assert_int_equal(notice.is_generic, 1);
	return notice;
}

static void advance_by_ms(struct fixture *fixture, uint64_t ms)
{
	fixture->now_ns += ms * 1000000;
	subnet_advance(fixture->subnet, fixture->now_ns);
}

static void trap_is_repeated_until_it_is_repressed(void **state)
{
	static struct fixture fixture;
	const struct mad_frame to = {.vl = LRH_VL_MANAGEMENT, .pkey = 0xffff};
	struct mad_frame frame = to;
	struct ib_notice notice;
	struct mad_header header;
	uint8_t mad[MAD_BYTES] = {0};

	(void)state;
	fixture_init(&fixture, two_switches, true);
	manager_move(&fixture);
	subnet_cable_cut(fixture.subnet, S2, 2, fixture.now_ns);
	advance_by_ms(&fixture, 1);
	assert_int_equal(fixture.delivered_count, 1);
	notice = last_trap(&fixture, 128, &header);
	assert_int_equal(notice.issuer_lid, fixture_lid(&fixture, S2));
	assert_int_equal(get_be16(notice.details), notice.issuer_lid);
	assert_int_equal(notice.producer_type, IB_NODE_SWITCH);
	advance_by_ms(&fixture, 1);
	assert_int_equal(fixture.delivered_count, 1);
	advance_by_ms(&fixture, 2000);
	assert_int_equal(fixture.delivered_count, 2);
	last_trap(&fixture, 128, &header);
	header.method = MAD_METHOD_TRAP_REPRESS;
	mad_header_encode(&header, mad);
	frame.slid = fixture_lid(&fixture, H1);
	frame.dlid = notice.issuer_lid;
	fixture_send_mad(&fixture, H1, &frame, mad);
	advance_by_ms(&fixture, 2000);
	assert_int_equal(fixture.delivered_count, 2);
	fixture_done(&fixture);
}

/* A caller that sleeps until the deadline misses no trap. */
static void trap_makes_the_subnet_due(void **state)
{
	static struct fixture fixture;
	const struct mad_frame frame = {.pkey = 0x8005, .dest_qpn = 5};
	struct mad_frame to = frame;
	uint8_t mad[MAD_BYTES] = {0}, bytes[MAD_FRAME_BYTES_MAX];

	(void)state;
	fixture_init(&fixture, two_switches, true);
	manager_move(&fixture);
	assert_in_range(subnet_deadline_ns(fixture.subnet), 6, UINT64_MAX);
	to.slid = fixture_lid(&fixture, H2);
	to.dlid = fixture_lid(&fixture, H4);
	subnet_send(fixture.subnet, H2, 1, bytes, mad_frame_encode(&to, mad, bytes), 5);
	assert_in_range(subnet_deadline_ns(fixture.subnet), 0, 5);
	subnet_advance(fixture.subnet, 5);
	assert_in_range(subnet_deadline_ns(fixture.subnet), 6, UINT64_MAX - 1);
	fixture_done(&fixture);
}

static void trap_that_nobody_represses_comes_to_an_end(void **state)
{
	static struct fixture fixture;

	(void)state;
	fixture_init(&fixture, two_switches, true);
	manager_move(&fixture);
	subnet_cable_cut(fixture.subnet, S2, 2, fixture.now_ns);
	for (unsigned i = 0; i < 50; i++)
		advance_by_ms(&fixture, 2000);
	assert_int_equal(fixture.delivered_count, 8);
	assert_int_equal(subnet_advance(fixture.subnet, fixture.now_ns), UINT64_MAX);
	fixture_done(&fixture);
}

/* OpenSM sends trap 144 to another manager, and waits for its answer. */
static void trap_of_a_program_is_repressed_to_the_program(void **state)
{
	static struct fixture fixture;
	const struct mad_header header = {
		.base_version = MAD_BASE_VERSION,
		.management_class = MAD_CLASS_SUBN_LID_ROUTED,
		.class_version = 1,
		.method = MAD_METHOD_TRAP,
		.attribute_id = SM_ATTRIBUTE_NOTICE,
		.transaction_id = 5ull << 32 | 7,
	};
	struct mad_frame to = {.pkey = 0xffff, .vl = LRH_VL_MANAGEMENT};
	struct mad_header answer;
	uint8_t mad[MAD_BYTES] = {0};

	(void)state;
	fixture_init(&fixture, two_switches, true);
	to.slid = fixture_lid(&fixture, H2);
	to.dlid = fixture_lid(&fixture, S1);
	mad_header_encode(&header, mad);
	fixture_send_mad(&fixture, H2, &to, mad);
	mad_header_decode(&answer, fixture_last_mad(&fixture, H2, NULL));
	assert_int_equal(answer.method, MAD_METHOD_TRAP_REPRESS);
	assert_int_equal(answer.transaction_id, header.transaction_id);
	fixture_done(&fixture);
}

static void change_of_capabilities_or_name_sends_trap_144(void **state)
{
	static struct fixture fixture;
	struct ib_notice notice;
	struct mad_header header;

	(void)state;
	fixture_init(&fixture, two_switches, true);
	manager_move(&fixture);
	subnet_port_capability(fixture.subnet, H3, 1, IB_CAPABILITY_IS_SM, 0, fixture.now_ns);
	advance_by_ms(&fixture, 1);
	notice = last_trap(&fixture, 144, &header);
	assert_int_equal(get_be16(notice.details + 2), fixture_lid(&fixture, H3));
	assert_int_equal(
		get_be32(notice.details + 6), fixture_port(&fixture, H3, 1).info->capability_mask);
	subnet_node_describe(fixture.subnet, H2, "another name", fixture.now_ns);
	advance_by_ms(&fixture, 1);
	notice = last_trap(&fixture, 144, &header);
	assert_int_equal(get_be16(notice.details + 10), 1);
	fixture_done(&fixture);
}

static void wrong_key_sends_its_trap(void **state)
{
	static struct fixture fixture;
	struct mad_frame frame = {
		.pkey = 0xffff, .dest_qpn = GSI_QPN, .source_qpn = 0x99, .qkey = 0x1234};
	uint8_t mad[MAD_BYTES] = {0};
	struct ib_notice notice;
	struct mad_header header;

	(void)state;
	fixture_init(&fixture, two_switches, true);
	manager_move(&fixture);
	data_send(&fixture, H2, fixture_lid(&fixture, H4), 0x8005);
	notice = last_trap(&fixture, 257, &header);
	assert_int_equal(get_be16(notice.details + 2), fixture_lid(&fixture, H2));
	assert_int_equal(get_be16(notice.details + 4), fixture_lid(&fixture, H4));
	assert_int_equal(get_be32(notice.details + 6), 0x8005);
	frame.slid = fixture_lid(&fixture, H2);
	frame.dlid = fixture_lid(&fixture, H3);
	fixture_send_mad(&fixture, H2, &frame, mad);
	notice = last_trap(&fixture, 258, &header);
	assert_int_equal(get_be32(notice.details + 6), 0x1234);
	assert_int_equal(get_be32(notice.details + 10), 0x99);
	assert_int_equal(fixture_port(&fixture, H3, 1).info->q_key_violations, 1);
	fixture_done(&fixture);
}

static void switch_that_refuses_a_partition_sends_trap_259(void **state)
{
	static struct fixture fixture;
	const uint8_t partition_5[64] = {0x80, 0x05};
	struct ib_notice notice;
	struct mad_header header;

	(void)state;
	fixture_init(&fixture, two_switches, true);
	manager_move(&fixture);
	table_set(&fixture, "\1", SM_ATTRIBUTE_PKEY_TABLE, 2u << 16, partition_5, 64);
	enforce_set(&fixture, true, false);
	data_send(&fixture, H2, fixture_lid(&fixture, H4), 0xffff);
	notice = last_trap(&fixture, 259, &header);
	assert_int_equal(get_be16(notice.details + 6), 0xffff);
	assert_int_equal(notice.details[50], 2);
	fixture_done(&fixture);
}

static void wrong_m_key_sends_trap_256(void **state)
{
	static struct fixture fixture;
	struct smp_request request = {.method = MAD_METHOD_SET,
		.attribute_id = SM_ATTRIBUTE_PKEY_TABLE,
		.m_key = 0x77,
		.path = "\1\2"};
	struct ib_port_info info;
	struct ib_notice notice;
	struct mad_header header;
	uint8_t data[64];

	(void)state;
	fixture_init(&fixture, two_switches, true);
	manager_move(&fixture);
	info = *fixture_port(&fixture, H2, 1).info;
	info.port_state = info.port_physical_state = 0;
	info.m_key = 5;
	ib_port_info_encode(&info, data);
	table_set(&fixture, "\1\2", SM_ATTRIBUTE_PORT_INFO, 1, data, 64);
	fixture_smp(&fixture, &request);
	notice = last_trap(&fixture, 256, &header);
	assert_int_equal(notice.details[6], MAD_METHOD_SET);
	assert_int_equal(get_be64(notice.details + 14), 0x77);
	assert_int_equal(notice.details[23], 0x80 | 2);
	assert_int_equal(notice.details[25], 1); /* the return path */
	fixture_done(&fixture);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(frame_to_an_unknown_lid_is_dropped_at_the_switch),
		cmocka_unit_test(frame_never_leaves_by_the_port_that_it_came_in),
		cmocka_unit_test(frame_in_a_loop_of_routes_comes_to_an_end),
		cmocka_unit_test(frame_longer_than_the_mtu_is_not_sent),
		cmocka_unit_test(malformed_frame_is_dropped_and_counted),
		cmocka_unit_test(port_that_is_not_active_sends_no_data),
		cmocka_unit_test(port_of_a_switch_that_is_not_active_forwards_no_data),
		cmocka_unit_test(service_level_without_a_lane_is_dropped),
		cmocka_unit_test(frame_of_another_partition_is_refused_by_the_port),
		cmocka_unit_test(limited_members_do_not_reach_each_other),
		cmocka_unit_test(switch_enforces_partitions_in_both_directions),
		cmocka_unit_test(trap_is_repeated_until_it_is_repressed),
		cmocka_unit_test(trap_makes_the_subnet_due),
		cmocka_unit_test(trap_that_nobody_represses_comes_to_an_end),
		cmocka_unit_test(trap_of_a_program_is_repressed_to_the_program),
		cmocka_unit_test(change_of_capabilities_or_name_sends_trap_144),
		cmocka_unit_test(wrong_key_sends_its_trap),
		cmocka_unit_test(switch_that_refuses_a_partition_sends_trap_259),
		cmocka_unit_test(wrong_m_key_sends_trap_256),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
