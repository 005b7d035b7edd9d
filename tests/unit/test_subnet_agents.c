/* SPDX-License-Identifier: BSD-2-Clause */
/* The agents of subnet management and performance management of each node. */
#include "subnet_fixture.h"

static void node_info_is_that_of_the_nodes_on_the_way(void **state)
{
	static struct fixture fixture;
	static const struct {
		uint8_t path[8];
		uint32_t node;
		uint8_t ports, local_port;
	} ways[] = {
		{"", H1, 1, 1},
		{"\1", S1, 4, 1},
		{"\1\2", H2, 1, 1},
		{"\1\4", S2, 4, 4},
		{"\1\3\2", H4, 2, 1},
	};

	(void)state;
	fixture_init(&fixture, two_switches, false);
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		struct smp_request request = {
			.method = MAD_METHOD_GET, .attribute_id = SM_ATTRIBUTE_NODE_INFO};
		struct subnet_node_view view;
		struct ib_node_info info;
		const uint8_t *mad;

		memcpy(request.path, ways[i].path, sizeof(request.path));
		mad = fixture_smp(&fixture, &request);
		assert_int_equal(smp_status(mad), 0);
		assert_int_equal(mad[3], MAD_METHOD_GET_RESP);
		ib_node_info_decode(&info, mad + SMP_DATA);
		subnet_node(fixture.subnet, ways[i].node, &view);
		assert_int_equal(info.node_guid, view.guid);
		assert_int_equal(info.node_type, view.kind);
		assert_int_equal(info.num_ports, ways[i].ports);
		assert_int_equal(info.local_port, ways[i].local_port);
	}
	fixture_done(&fixture);
}

static void way_through_a_missing_port_has_no_answer(void **state)
{
	static struct fixture fixture;
	struct smp_request request = {
		.method = MAD_METHOD_GET, .attribute_id = SM_ATTRIBUTE_NODE_INFO, .path = {1, 200}};

	(void)state;
	fixture_init(&fixture, two_switches, false);
	assert_null(fixture_smp(&fixture, &request));
	assert_int_equal(fixture_port(&fixture, S1, 1).counters->vl15_dropped, 1);
	request.path[1] = 2;
	request.path[2] = 1; /* an adapter passes nothing on */
	assert_null(fixture_smp(&fixture, &request));
	fixture_done(&fixture);
}

/* A Get of PortInfo, with some values changed, as a Set; returns its status. */
static uint16_t port_info_set(struct fixture *fixture, const uint8_t *path, uint32_t port,
	void (*change)(struct ib_port_info *info))
{
	struct smp_request request = {
		.method = MAD_METHOD_GET, .attribute_id = SM_ATTRIBUTE_PORT_INFO, .modifier = port};
	struct ib_port_info info;
	const uint8_t *mad;

	memcpy(request.path, path, sizeof(request.path));
	mad = fixture_smp(fixture, &request);
	assert_int_equal(smp_status(mad), 0);
	ib_port_info_decode(&info, mad + SMP_DATA);
	info.port_state = info.port_physical_state = 0;
	info.link_width_enabled = info.link_speed_enabled = info.link_speed_ext_enabled = 0;
	change(&info);
	request.method = MAD_METHOD_SET;
	ib_port_info_encode(&info, request.data);
	return smp_status(fixture_smp(fixture, &request));
}

static void to_armed(struct ib_port_info *info)
{
	info->port_state = IB_PORT_ARMED;
}

static void to_active(struct ib_port_info *info)
{
	info->port_state = IB_PORT_ACTIVE;
}

static void to_down(struct ib_port_info *info)
{
	info->port_state = IB_PORT_DOWN;
}

static void to_init(struct ib_port_info *info)
{
	info->port_state = IB_PORT_INIT;
}

static void to_disabled(struct ib_port_info *info)
{
	info->port_physical_state = IB_PHYSICAL_DISABLED;
}

static void to_polling(struct ib_port_info *info)
{
	info->port_physical_state = IB_PHYSICAL_POLLING;
}

static const uint8_t to_h1[8] = "", to_s1[8] = "\1", to_h2[8] = "\1\2";

static uint8_t state_of(const struct fixture *fixture, uint32_t node, uint32_t port)
{
	return fixture_port(fixture, node, port).info->port_state;
}

static void port_goes_from_init_over_armed_to_active(void **state)
{
	static struct fixture fixture;

	(void)state;
	fixture_init(&fixture, two_switches, false);
	assert_int_equal(state_of(&fixture, S1, 2), IB_PORT_INIT);
	assert_int_equal(port_info_set(&fixture, to_s1, 2, to_active), MAD_STATUS_INVALID_VALUE);
	assert_int_equal(port_info_set(&fixture, to_s1, 2, to_init), MAD_STATUS_INVALID_VALUE);
	assert_int_equal(state_of(&fixture, S1, 2), IB_PORT_INIT);
	/* OpenSM says in bit 31 of the modifier that it knows extended speeds. */
	assert_int_equal(port_info_set(&fixture, to_s1, 0x80000002, to_armed), 0);
	assert_int_equal(state_of(&fixture, S1, 2), IB_PORT_ARMED);
	assert_int_equal(port_info_set(&fixture, to_s1, 2, to_active), 0);
	assert_int_equal(state_of(&fixture, S1, 2), IB_PORT_ACTIVE);
	assert_int_equal(port_info_set(&fixture, to_s1, 2, to_armed), MAD_STATUS_INVALID_VALUE);
	fixture_done(&fixture);
}

static void port_set_down_trains_its_link_again(void **state)
{
	static struct fixture fixture;

	(void)state;
	fixture_init(&fixture, two_switches, false);
	port_info_set(&fixture, to_s1, 2, to_armed);
	port_info_set(&fixture, to_h2, 1, to_armed);
	assert_int_equal(port_info_set(&fixture, to_s1, 2, to_down), 0);
	assert_int_equal(state_of(&fixture, S1, 2), IB_PORT_INIT);
	assert_int_equal(state_of(&fixture, H2, 1), IB_PORT_INIT);
	assert_int_equal(fixture_port(&fixture, H2, 1).counters->link_downed, 1);
	fixture_done(&fixture);
}

static void disabled_port_stays_down_until_it_polls(void **state)
{
	static struct fixture fixture;

	(void)state;
	fixture_init(&fixture, two_switches, false);
	assert_int_equal(port_info_set(&fixture, to_s1, 2, to_disabled), 0);
	assert_int_equal(state_of(&fixture, S1, 2), IB_PORT_DOWN);
	assert_int_equal(state_of(&fixture, H2, 1), IB_PORT_DOWN);
	assert_int_equal(
		fixture_port(&fixture, S1, 2).info->port_physical_state, IB_PHYSICAL_DISABLED);
	assert_int_equal(subnet_cable_cut(fixture.subnet, H2, 1, 0), 0);
	assert_int_equal(subnet_cable_join(fixture.subnet, H2, 1, 0), 0);
	assert_int_equal(subnet_cable_join(fixture.subnet, S1, 2, 0), 0);
	assert_int_equal(state_of(&fixture, H2, 1), IB_PORT_DOWN);
	assert_int_equal(port_info_set(&fixture, to_s1, 2, to_polling), 0);
	assert_int_equal(state_of(&fixture, H2, 1), IB_PORT_INIT);
	fixture_done(&fixture);
}

/* OpenSM's lash and dfsssp count the lanes before OpenSM has set any port. */
static void all_lanes_of_a_port_are_operational_from_the_start(void **state)
{
	static struct fixture fixture;
	const struct ib_port_info *info;

	(void)state;
	fixture_init(&fixture, two_switches, false);
	info = fixture_port(&fixture, S1, 3).info;
	assert_int_equal(info->operational_vls, info->vl_cap);
	assert_int_equal(info->vl_cap, 4);
	fixture_done(&fixture);
}

static void to_lid_7(struct ib_port_info *info)
{
	info->lid = 7;
	info->sm_lid = 3;
	info->neighbor_mtu = 3;
}

static void to_multicast_lid(struct ib_port_info *info)
{
	info->lid = 0xc000;
}

static void to_mtu_6(struct ib_port_info *info)
{
	info->neighbor_mtu = 6;
}

static void to_width_12(struct ib_port_info *info)
{
	info->link_width_enabled = 8;
}

static void port_info_takes_valid_values_only(void **state)
{
	static struct fixture fixture;
	const struct ib_port_info *info;

	(void)state;
	fixture_init(&fixture, two_switches, false);
	info = fixture_port(&fixture, H1, 1).info;
	assert_int_equal(port_info_set(&fixture, to_h1, 1, to_lid_7), 0);
	assert_true(info->lid == 7 && info->sm_lid == 3 && info->neighbor_mtu == 3);
	assert_int_equal(
		port_info_set(&fixture, to_h1, 1, to_multicast_lid), MAD_STATUS_INVALID_VALUE);
	assert_int_equal(port_info_set(&fixture, to_h1, 1, to_mtu_6), MAD_STATUS_INVALID_VALUE);
	assert_int_equal(port_info_set(&fixture, to_h1, 1, to_width_12), MAD_STATUS_INVALID_VALUE);
	assert_true(info->lid == 7 && info->neighbor_mtu == 3);
	assert_int_equal(fixture.event_count, 2); /* the LID and the manager's */
	fixture_done(&fixture);
}

/* Write a table's block, and read the same back. */
static void table_of_a_node_reads_as_it_was_written(void **state)
{
	static struct fixture fixture;
	static const struct {
		uint16_t attribute_id;
		uint32_t modifier;
		uint8_t path[8];
		uint8_t mask; /* of each byte, what the table keeps */
		uint16_t status;
	} tables[] = {
		{SM_ATTRIBUTE_PKEY_TABLE, 0, "\1\2", 0xff, 0},
		{SM_ATTRIBUTE_PKEY_TABLE, 3, "\1\2", 0xff, 0},
		{SM_ATTRIBUTE_PKEY_TABLE, 4, "\1\2", 0, MAD_STATUS_INVALID_VALUE},
		{SM_ATTRIBUTE_PKEY_TABLE, 4u << 16, "\1", 0xff, 0},
		{SM_ATTRIBUTE_PKEY_TABLE, 5u << 16, "\1", 0, MAD_STATUS_INVALID_VALUE},
		{SM_ATTRIBUTE_LINEAR_FORWARDING, 767, "\1", 0xff, 0},
		{SM_ATTRIBUTE_LINEAR_FORWARDING, 768, "\1", 0, MAD_STATUS_INVALID_VALUE},
		{SM_ATTRIBUTE_LINEAR_FORWARDING, 0, "\1\2", 0,
			MAD_STATUS_UNSUPPORTED_METHOD_ATTRIBUTE},
		{SM_ATTRIBUTE_MULTICAST_FORWARDING, 31, "\1", 0xff, 0},
		{SM_ATTRIBUTE_MULTICAST_FORWARDING, 15u << 28 | 31, "\1", 0xff, 0},
		{SM_ATTRIBUTE_MULTICAST_FORWARDING, 32, "\1", 0, MAD_STATUS_INVALID_VALUE},
		{SM_ATTRIBUTE_VL_ARBITRATION, 1u << 16 | 4, "\1", 0x0f, 0},
		{SM_ATTRIBUTE_VL_ARBITRATION, 5u << 16 | 4, "\1", 0, MAD_STATUS_INVALID_VALUE},
		{SM_ATTRIBUTE_VL_ARBITRATION, 0u << 16 | 4, "\1", 0, MAD_STATUS_INVALID_VALUE},
		{SM_ATTRIBUTE_SL_TO_VL, 3 << 8 | 4, "\1", 0xff, 0},
		{SM_ATTRIBUTE_SL_TO_VL, 5 << 8 | 4, "\1", 0, MAD_STATUS_INVALID_VALUE},
		{SM_ATTRIBUTE_SL_TO_VL, 4 << 8 | 5, "\1", 0, MAD_STATUS_INVALID_VALUE},
		{SM_ATTRIBUTE_GUID_INFO, 1, "\1\2", 0, MAD_STATUS_INVALID_VALUE},
		{SM_ATTRIBUTE_NODE_INFO, 0, "\1\2", 0, MAD_STATUS_UNSUPPORTED_METHOD_ATTRIBUTE},
		{0x1234, 0, "\1\2", 0, MAD_STATUS_UNSUPPORTED_METHOD_ATTRIBUTE},
	};

	(void)state;
	fixture_init(&fixture, two_switches, false);
	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
		const uint32_t bytes = tables[i].attribute_id == SM_ATTRIBUTE_SL_TO_VL ? 8 : 64;
		struct smp_request request = {
			.method = MAD_METHOD_SET,
			.attribute_id = tables[i].attribute_id,
			.modifier = tables[i].modifier,
		};
		const uint8_t *mad;

		memcpy(request.path, tables[i].path, sizeof(request.path));
		for (uint32_t k = 0; k < bytes; k++)
			request.data[k] = (uint8_t)(k * 5 + 1) & tables[i].mask;
		assert_int_equal(smp_status(fixture_smp(&fixture, &request)), tables[i].status);
		if (tables[i].status)
			continue;
		request.method = MAD_METHOD_GET;
		mad = fixture_smp(&fixture, &request);
		assert_int_equal(smp_status(mad), 0);
		assert_memory_equal(mad + SMP_DATA, request.data, bytes);
	}
	fixture_done(&fixture);
}

static void first_guid_of_a_port_cannot_be_set(void **state)
{
	static struct fixture fixture;
	struct smp_request request = {
		.method = MAD_METHOD_SET, .attribute_id = SM_ATTRIBUTE_GUID_INFO, .path = "\1\2"};
	struct subnet_port_view view;

	(void)state;
	fixture_init(&fixture, two_switches, false);
	view = fixture_port(&fixture, H2, 1);
	memset(request.data, 0xab, sizeof(request.data));
	assert_int_equal(smp_status(fixture_smp(&fixture, &request)), 0);
	assert_int_not_equal(view.guids[0], 0xabababababababab);
	assert_int_equal(view.guids[1], 0xabababababababab);
	fixture_done(&fixture);
}

/* --- M_Key --- */

#define M_KEY 0x1122334455667788u

static void to_m_key(struct ib_port_info *info)
{
	info->m_key = M_KEY;
	info->lid = 2;
	info->sm_lid = 1;
	info->m_key_lease_period = 10;
}

static void to_m_key_protected(struct ib_port_info *info)
{
	to_m_key(info);
	info->m_key_protect = 2;
}

static void set_without_the_m_key_changes_nothing(void **state)
{
	static struct fixture fixture;
	struct smp_request request = {
		.method = MAD_METHOD_SET, .attribute_id = SM_ATTRIBUTE_PKEY_TABLE, .path = "\1\2"};
	struct subnet_port_view view;

	(void)state;
	fixture_init(&fixture, two_switches, false);
	view = fixture_port(&fixture, H2, 1);
	assert_int_equal(port_info_set(&fixture, to_h2, 1, to_m_key), 0);
	memset(request.data, 0x11, sizeof(request.data));
	assert_null(fixture_smp(&fixture, &request));
	assert_int_equal(view.pkeys[0], 0xffff);
	assert_int_equal(view.info->m_key_violations, 1);
	request.m_key = M_KEY;
	assert_int_equal(smp_status(fixture_smp(&fixture, &request)), 0);
	assert_int_equal(view.pkeys[0], 0x1111);
	assert_int_equal(view.info->m_key_violations, 1);
	fixture_done(&fixture);
}

static void get_of_a_protected_port_needs_the_m_key_until_its_lease_ends(void **state)
{
	static struct fixture fixture;
	struct smp_request request = {
		.method = MAD_METHOD_GET, .attribute_id = SM_ATTRIBUTE_PORT_INFO, .path = "\1\2"};

	(void)state;
	fixture_init(&fixture, two_switches, false);
	assert_int_equal(port_info_set(&fixture, to_h2, 1, to_m_key_protected), 0);
	assert_null(fixture_smp(&fixture, &request));
	request.m_key = M_KEY;
	assert_non_null(fixture_smp(&fixture, &request));
	request.m_key = 0;
	assert_null(fixture_smp(&fixture, &request));
	fixture.now_ns = 9999999999;
	assert_null(fixture_smp(&fixture, &request));
	fixture.now_ns = 10000000000;
	assert_non_null(fixture_smp(&fixture, &request));
	fixture_done(&fixture);
}

/* OpenSM takes the M_Key from the response, and uses it from then on. */
static void manager_that_sets_the_m_key_sees_it_in_the_response(void **state)
{
	static struct fixture fixture;
	struct smp_request request = {
		.method = MAD_METHOD_SET, .attribute_id = SM_ATTRIBUTE_PORT_INFO, .path = "\1\2"};
	struct ib_port_info info;

	(void)state;
	fixture_init(&fixture, two_switches, false);
	info = *fixture_port(&fixture, H2, 1).info;
	info.port_state = info.port_physical_state = 0;
	to_m_key(&info);
	info.m_key_protect = 1;
	ib_port_info_encode(&info, request.data);
	assert_int_equal(get_be64(fixture_smp(&fixture, &request) + SMP_DATA), M_KEY);
	request.method = MAD_METHOD_GET;
	assert_int_equal(get_be64(fixture_smp(&fixture, &request) + SMP_DATA), 0);
	request.m_key = M_KEY;
	assert_int_equal(get_be64(fixture_smp(&fixture, &request) + SMP_DATA), M_KEY);
	fixture_done(&fixture);
}

/* --- counters --- */

/* A request to the PMA of a node from h1. */
static const uint8_t *pma_ask(struct fixture *fixture, uint32_t node, uint8_t method,
	uint16_t attribute_id, uint8_t port, uint16_t select)
{
	const struct mad_frame frame = {.dlid = fixture_lid(fixture, node),
		.slid = fixture_lid(fixture, H1),
		.pkey = 0xffff,
		.dest_qpn = GSI_QPN,
		.source_qpn = GSI_QPN,
		.qkey = GSI_QKEY};
	const struct mad_header header = {
		.base_version = MAD_BASE_VERSION,
		.management_class = MAD_CLASS_PERF,
		.class_version = 1,
		.method = method,
		.attribute_id = attribute_id,
	};
	uint8_t mad[MAD_BYTES] = {0};

	mad_header_encode(&header, mad);
	mad[64 + 1] = port;
	put_be16(mad + 64 + 2, select);
	fixture_send_mad(fixture, H1, &frame, mad);
	return fixture_last_mad(fixture, H1, NULL);
}

static void port_counters_are_those_of_the_frames_that_crossed(void **state)
{
	static struct fixture fixture;
	struct ib_port_counters_ext counters;
	const struct subnet_counters *own;
	const uint8_t *mad;

	(void)state;
	fixture_init(&fixture, two_switches, true);
	own = fixture_port(&fixture, S2, 2).counters;
	mad = pma_ask(&fixture, H4, MAD_METHOD_GET, PM_ATTRIBUTE_PORT_COUNTERS_EXT, 1, 0);
	assert_int_equal(get_be16(mad + 4), 0);
	ib_port_counters_ext_decode(&counters, mad + 64);
	assert_int_equal(counters.port_rcv_packets, 1);
	assert_int_equal(counters.port_rcv_data, MAD_FRAME_BYTES / 4);
	assert_int_equal(counters.unicast_rcv_packets, 1);
	assert_int_equal(counters.port_xmit_packets, 0); /* the answer leaves later */
	assert_int_equal(own->port_xmit_packets, 1);
	assert_int_equal(own->port_rcv_packets, 1);
	fixture_done(&fixture);
}

static void port_counters_are_cleared_as_selected(void **state)
{
	static struct fixture fixture;
	struct ib_port_counters counters;
	const uint8_t *mad;

	(void)state;
	fixture_init(&fixture, two_switches, true);
	pma_ask(&fixture, H4, MAD_METHOD_GET, PM_ATTRIBUTE_PORT_COUNTERS, 1, 0);
	mad = pma_ask(&fixture, H4, MAD_METHOD_SET, PM_ATTRIBUTE_PORT_COUNTERS, 1, 1 << 15);
	assert_int_equal(get_be16(mad + 4), 0);
	ib_port_counters_decode(&counters, mad + 64);
	assert_int_equal(counters.port_rcv_packets, 0);
	assert_int_equal(counters.port_rcv_data, 2 * MAD_FRAME_BYTES / 4);
	mad = pma_ask(&fixture, S1, MAD_METHOD_GET, PM_ATTRIBUTE_PORT_COUNTERS, 255, 0);
	ib_port_counters_decode(&counters, mad + 64);
	assert_true(counters.port_rcv_packets >= 5);
	mad = pma_ask(&fixture, H4, MAD_METHOD_GET, PM_ATTRIBUTE_PORT_COUNTERS, 3, 0);
	assert_int_equal(get_be16(mad + 4), MAD_STATUS_INVALID_VALUE);
	mad = pma_ask(&fixture, H4, MAD_METHOD_GET, 0x77, 1, 0);
	assert_int_equal(get_be16(mad + 4), MAD_STATUS_UNSUPPORTED_METHOD_ATTRIBUTE);
	fixture_done(&fixture);
}

static void frames_of_a_bad_cable_are_dropped_and_counted(void **state)
{
	static struct fixture fixture;
	struct smp_request request = {
		.method = MAD_METHOD_GET, .attribute_id = SM_ATTRIBUTE_NODE_INFO, .path = "\1\2"};

	(void)state;
	fixture_init(&fixture, two_switches, false);
	assert_int_equal(
		subnet_port_error_rate(fixture.subnet, H2, 1, 1000000, SM_ATTRIBUTE_PORT_INFO), 0);
	assert_non_null(fixture_smp(&fixture, &request));
	subnet_port_error_rate(fixture.subnet, H2, 1, 1000000, 0);
	assert_null(fixture_smp(&fixture, &request));
	assert_int_equal(fixture_port(&fixture, H2, 1).counters->symbol_error, 1);
	fixture_done(&fixture);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(node_info_is_that_of_the_nodes_on_the_way),
		cmocka_unit_test(way_through_a_missing_port_has_no_answer),
		cmocka_unit_test(port_goes_from_init_over_armed_to_active),
		cmocka_unit_test(port_set_down_trains_its_link_again),
		cmocka_unit_test(disabled_port_stays_down_until_it_polls),
		cmocka_unit_test(all_lanes_of_a_port_are_operational_from_the_start),
		cmocka_unit_test(port_info_takes_valid_values_only),
		cmocka_unit_test(table_of_a_node_reads_as_it_was_written),
		cmocka_unit_test(first_guid_of_a_port_cannot_be_set),
		cmocka_unit_test(set_without_the_m_key_changes_nothing),
		cmocka_unit_test(get_of_a_protected_port_needs_the_m_key_until_its_lease_ends),
		cmocka_unit_test(manager_that_sets_the_m_key_sees_it_in_the_response),
		cmocka_unit_test(port_counters_are_those_of_the_frames_that_crossed),
		cmocka_unit_test(port_counters_are_cleared_as_selected),
		cmocka_unit_test(frames_of_a_bad_cable_are_dropped_and_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
