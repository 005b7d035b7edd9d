/* SPDX-License-Identifier: BSD-2-Clause */
/* Routes that are looked up, beside those that frames take; and credit loops of paths. */
#include "subnet_fixture.h"

/* Three switches in a ring, with a host at each: port 2 leads to the next switch. */
static const char ring[] = "Switch 4 \"s1\"\n"
			   "[1] \"h1\"[1]\n"
			   "[2] \"s2\"[3]\n"
			   "[3] \"s3\"[2]\n"
			   "\n"
			   "Switch 4 \"s2\"\n"
			   "[1] \"h2\"[1]\n"
			   "[2] \"s3\"[3]\n"
			   "\n"
			   "Ca 1 \"h1\"\n"
			   "\n"
			   "Switch 4 \"s3\"\n"
			   "[1] \"h3\"[1]\n"
			   "\n"
			   "Ca 1 \"h2\"\n"
			   "\n"
			   "Ca 1 \"h3\"\n";

enum { RING_S1, RING_S2, RING_H1, RING_S3, RING_H2, RING_H3 };

static struct fixture fixture;

static void data_send(uint32_t from, uint16_t dlid, uint8_t sl, uint16_t pkey)
{
	const struct mad_frame frame = {.dlid = dlid,
		.slid = fixture_lid(&fixture, from),
		.sl = sl,
		.pkey = pkey,
		.dest_qpn = 0x42,
		.source_qpn = 0x43,
		.qkey = 5};
	uint8_t mad[MAD_BYTES] = {7};

	fixture.delivered_count = 0;
	memset(fixture.log, 0, sizeof(fixture.log));
	fixture_send_mad(&fixture, from, &frame, mad);
}

/* The route is the one of a frame: the same cables, and it arrives if the frame does. */
static void assert_route(uint32_t from, uint16_t dlid, uint8_t sl, uint16_t pkey,
	enum subnet_route_end end, uint32_t node)
{
	struct subnet_route route;
	const bool is_found = subnet_route_find(fixture.subnet, from, 1, dlid, sl, pkey, &route);
	uint32_t crossed = 0;

	assert_int_equal(route.end, end);
	assert_int_equal(is_found, end == SUBNET_ROUTE_ARRIVES);
	assert_int_equal(route.node, node);
	data_send(from, dlid, sl, pkey);
	assert_int_equal(fixture.delivered_count, is_found);
	for (uint32_t i = 0; i < TRACED_NODES; i++)
		for (uint32_t j = 0; j < TRACED_PORTS; j++)
			crossed += fixture.log[i][j].frames != 0;
	for (uint32_t i = 0; is_found && i < route.hop_count; i++)
		assert_int_equal(fixture.log[route.hops[i].node][route.hops[i].port].frames, 1);
	if (is_found) {
		assert_int_equal(crossed, route.hop_count);
		assert_int_equal(fixture.delivered[0].node, node);
		assert_true(fixture.delivered[0].bytes <= route.frame_bytes_max);
		if (route.hop_count)
			assert_int_equal(fixture.delivered[0].frame[0] >> 4,
				route.hops[route.hop_count - 1].vl);
	}
}

/* Set a table of a node at the end of a path from h1. */
static void table_set(const char *path, uint16_t attribute_id, uint32_t modifier,
	const uint8_t *data, uint32_t bytes)
{
	struct smp_request request = {
		.method = MAD_METHOD_SET, .attribute_id = attribute_id, .modifier = modifier};
	const uint64_t changes = subnet_route_changes(fixture.subnet);

	memcpy(request.path, path, strlen(path));
	memcpy(request.data, data, bytes);
	assert_int_equal(smp_status(fixture_smp(&fixture, &request)), 0);
	assert_int_not_equal(subnet_route_changes(fixture.subnet), changes);
}

static void switch_info_set(const char *path, uint16_t top)
{
	const struct ib_switch_info info = {.linear_fdb_top = top};
	uint8_t data[64] = {0};

	ib_switch_info_encode(&info, data);
	table_set(path, SM_ATTRIBUTE_SWITCH_INFO, 0, data, 20);
}

/* All LIDs of a switch leave by one port, but those of the host behind port 1. */
static void routes_set(const char *path, uint8_t port, uint32_t host)
{
	uint8_t table[64];

	memset(table, port, sizeof(table));
	table[fixture_lid(&fixture, host)] = 1;
	table_set(path, SM_ATTRIBUTE_LINEAR_FORWARDING, 0, table, 64);
	switch_info_set(path, 63);
}

static void route_is_that_of_a_frame(void **state)
{
	(void)state;
	fixture_init(&fixture, two_switches, true);
	for (uint32_t from = H1; from <= H4; from++)
		for (uint32_t to = H1; to <= H4; to++)
			assert_route(from, fixture_lid(&fixture, to), 0, 0xffff,
				SUBNET_ROUTE_ARRIVES, to);
	/* Service level 3 has lane 3. */
	assert_route(H1, fixture_lid(&fixture, H3), 3, 0xffff, SUBNET_ROUTE_ARRIVES, H3);
	fixture_done(&fixture);
}

static void route_ends_where_a_frame_does(void **state)
{
	uint16_t h2, h3;
	uint8_t data[64] = {0};

	(void)state;
	fixture_init(&fixture, two_switches, true);
	h2 = fixture_lid(&fixture, H2);
	h3 = fixture_lid(&fixture, H3);
	assert_route(H1, 99, 0, 0xffff, SUBNET_ROUTE_NO_ROUTE, S1);
	assert_route(H1, h3, 0, 0x8123, SUBNET_ROUTE_PKEY_END, H3);
	assert_route(H1, fixture_lid(&fixture, S2), 0, 0xffff, SUBNET_ROUTE_IS_SWITCH, S2);
	assert_int_equal(subnet_port_error_rate(fixture.subnet, H3, 1, 1000000, 0), 0);
	assert_route(H1, h3, 0, 0xffff, SUBNET_ROUTE_SPOILT, S2);
	assert_int_equal(subnet_port_error_rate(fixture.subnet, H3, 1, 0, 0), 0);
	/* h2's LID leads to h1 as well, which came from there, or to h3, which has another one. */
	memset(data, 1, sizeof(data));
	table_set("\1", SM_ATTRIBUTE_LINEAR_FORWARDING, 0, data, 64);
	assert_route(H1, h2, 0, 0xffff, SUBNET_ROUTE_TURNS_BACK, S1);
	memset(data, 2, sizeof(data));
	table_set("\1", SM_ATTRIBUTE_LINEAR_FORWARDING, 0, data, 64);
	assert_route(H1, h3, 0, 0xffff, SUBNET_ROUTE_OTHER_LID, H2);
	memset(data, 0xff, sizeof(data)); /* lane 15 for each service level */
	table_set("\1", SM_ATTRIBUTE_SL_TO_VL, 1 << 8 | 2, data, 8);
	assert_route(H1, h2, 0, 0xffff, SUBNET_ROUTE_NO_LANE, S1);
	subnet_manager_enable(fixture.subnet, false);
	subnet_cable_cut(fixture.subnet, H2, 1, 0);
	subnet_cable_cut(fixture.subnet, H4, 1, 0);
	assert_route(H2, h3, 0, 0xffff, SUBNET_ROUTE_PORT_DOWN, H2);
	fixture_done(&fixture);
}

static void enforce_set(bool is_in, bool is_out)
{
	struct ib_port_info info = *fixture_port(&fixture, S1, 2).info;
	uint8_t data[64];

	info.port_state = info.port_physical_state = 0;
	info.partition_enforcement_in = is_in;
	info.partition_enforcement_out = is_out;
	ib_port_info_encode(&info, data);
	table_set("\1", SM_ATTRIBUTE_PORT_INFO, 2, data, 64);
}

static void route_ends_at_a_port_that_enforces_partitions(void **state)
{
	const uint8_t partition_5[64] = {0x80, 0x05};

	(void)state;
	fixture_init(&fixture, two_switches, true);
	table_set("\1", SM_ATTRIBUTE_PKEY_TABLE, 2u << 16, partition_5, 64);
	enforce_set(false, true);
	assert_route(H1, fixture_lid(&fixture, H2), 0, 0xffff, SUBNET_ROUTE_PKEY_OUT, S1);
	assert_route(H2, fixture_lid(&fixture, H1), 0, 0xffff, SUBNET_ROUTE_ARRIVES, H1);
	enforce_set(true, false);
	assert_route(H2, fixture_lid(&fixture, H1), 0, 0xffff, SUBNET_ROUTE_PKEY_IN, S1);
	fixture_done(&fixture);
}

static void route_in_a_loop_ends(void **state)
{
	(void)state;
	fixture_init(&fixture, ring, true);
	routes_set("\1\3", 2, RING_H3);
	routes_set("\1\2", 2, RING_H2);
	routes_set("\1", 2, RING_H1);
	assert_route(RING_H1, 60, 0, 0xffff, SUBNET_ROUTE_LOOP, RING_S1);
	fixture_done(&fixture);
}

/* Service levels of paths: those of one path, and of all others. */
struct levels {
	uint16_t all;
	uint32_t node; /* the path from this node to this LID */
	uint16_t lid; /* 0: there is none */
	uint16_t other;
};

static uint16_t levels_of(const void *context, uint32_t node, uint32_t port, uint16_t dlid)
{
	const struct levels *levels = context;

	assert_int_equal(port, 1);
	return node == levels->node && dlid == levels->lid ? levels->other : levels->all;
}

static int loop_find(const struct levels *levels, struct subnet_loop *ret_loop)
{
	return subnet_loop_find(fixture.subnet, levels_of, levels, ret_loop);
}

/* All routes lead round the ring by port 2. */
static void routes_round_the_ring(void)
{
	routes_set("\1\3", 2, RING_H3);
	routes_set("\1\2", 2, RING_H2);
	routes_set("\1", 2, RING_H1);
}

/* The loop has the three switches in their order. */
static void assert_round(const struct subnet_loop *loop, uint8_t vl)
{
	static const uint32_t next[] = {
		[RING_S1] = RING_S2, [RING_S2] = RING_S3, [RING_S3] = RING_S1};

	assert_int_equal(loop->length, 3);
	for (uint32_t i = 0; i < 3; i++) {
		assert_int_equal(loop->hops[i].port, 2);
		assert_int_equal(loop->hops[i].vl, vl);
		assert_int_equal(loop->hops[(i + 1) % 3].node, next[loop->hops[i].node]);
	}
}

static void routes_round_a_ring_are_a_credit_loop(void **state)
{
	const struct levels level_0 = {.all = 1}, level_2 = {.all = 1 << 2};
	struct subnet_loop loop;

	(void)state;
	fixture_init(&fixture, ring, true);
	/* All switches are neighbours: no cable between two waits for another one. */
	assert_int_equal(loop_find(&level_0, &loop), 0);
	routes_set("\1\3", 2, RING_H3);
	routes_set("\1\2", 2, RING_H2);
	assert_int_equal(loop_find(&level_0, &loop), 0);
	routes_round_the_ring();
	assert_int_equal(loop_find(&level_2, &loop), 1);
	assert_int_equal(loop.levels, 1 << 2);
	assert_round(&loop, 2);
	subnet_manager_enable(fixture.subnet, false);
	subnet_cable_cut(fixture.subnet, RING_S1, 2, 0);
	assert_int_equal(loop_find(&level_2, &loop), 0);
	fixture_done(&fixture);
}

/* The path from h3 to h2 closes the ring, so another lane for it opens the ring. */
static void path_of_another_lane_opens_a_credit_loop(void **state)
{
	const uint8_t level_1_has_lane_0[64] = {0x00, 0x23, 0x45, 0x67, 0x01, 0x23, 0x45, 0x67};
	struct levels levels = {.all = 1, .node = RING_H3, .other = 1 << 1};
	struct subnet_loop loop;

	(void)state;
	fixture_init(&fixture, ring, true);
	routes_round_the_ring();
	assert_int_equal(loop_find(&levels, &loop), 1);
	levels.lid = fixture_lid(&fixture, RING_H2);
	assert_int_equal(loop_find(&levels, &loop), 0);
	/* s1 puts it into the lane of the others, which it leaves at once. */
	table_set("\1", SM_ATTRIBUTE_SL_TO_VL, 3 << 8 | 2, level_1_has_lane_0, 8);
	assert_int_equal(loop_find(&levels, &loop), 0);
	table_set("\1\3", SM_ATTRIBUTE_SL_TO_VL, 1 << 8 | 2, level_1_has_lane_0, 8);
	assert_int_equal(loop_find(&levels, &loop), 1);
	assert_int_equal(loop.levels, 1 << 0 | 1 << 1);
	assert_round(&loop, 0);
	/* A path that no packet takes makes no loop. */
	levels.other = 0;
	assert_int_equal(loop_find(&levels, &loop), 0);
	/* Packets of both service levels do. */
	levels.other = 1 << 0 | 1 << 1;
	assert_int_equal(loop_find(&levels, &loop), 1);
	fixture_done(&fixture);
}

/* Two service levels share a lane of their host, and have different ones behind it. */
static void paths_that_share_a_lane_are_followed_apart(void **state)
{
	const uint8_t level_1_has_lane_0[64] = {0x00, 0x23, 0x45, 0x67, 0x01, 0x23, 0x45, 0x67};
	struct levels levels = {.all = 1 << 1, .node = RING_H3, .other = 1 << 0 | 1 << 1};
	struct subnet_loop loop;

	(void)state;
	fixture_init(&fixture, ring, true);
	routes_round_the_ring();
	table_set("\1\3\1", SM_ATTRIBUTE_SL_TO_VL, 0, level_1_has_lane_0, 8);
	levels.lid = fixture_lid(&fixture, RING_H2);
	assert_int_equal(loop_find(&levels, &loop), 1);
	assert_int_equal(loop.levels, 1 << 1);
	assert_round(&loop, 1);
	fixture_done(&fixture);
}

/* Only the service levels of paths that close the loop are its own. */
static void loop_has_the_service_levels_of_its_paths(void **state)
{
	struct levels levels = {.all = 1, .node = RING_H1, .other = 1 << 0 | 1 << 5};
	struct subnet_loop loop;

	(void)state;
	fixture_init(&fixture, ring, true);
	routes_round_the_ring();
	/* From h1 to h2 there is one cable between switches. */
	levels.lid = fixture_lid(&fixture, RING_H2);
	assert_int_equal(loop_find(&levels, &loop), 1);
	assert_int_equal(loop.levels, 1 << 0);
	assert_round(&loop, 0);
	levels = (struct levels){.all = 1 << 0 | 1 << 5};
	assert_int_equal(loop_find(&levels, &loop), 1);
	assert_true(loop.levels == 1 << 0 || loop.levels == 1 << 5);
	fixture_done(&fixture);
}

/* What the caller has carried is counted at each port of the route. */
static void carried_frames_are_counted_at_each_port(void **state)
{
	struct subnet_counters before[2], after;
	struct subnet_route route;

	(void)state;
	fixture_init(&fixture, two_switches, true);
	assert_true(subnet_route_find(
		fixture.subnet, H1, 1, fixture_lid(&fixture, H3), 0, 0xffff, &route));
	before[0] = *fixture_port(&fixture, S1, route.hops[1].port).counters;
	before[1] = *fixture_port(&fixture, S2, 1).counters;
	subnet_route_count(fixture.subnet, &route, 5, 100, 2, 7);
	after = *fixture_port(&fixture, S1, route.hops[1].port).counters;
	assert_int_equal(after.port_xmit_packets - before[0].port_xmit_packets, 5);
	assert_int_equal(after.unicast_xmit_packets - before[0].unicast_xmit_packets, 5);
	assert_int_equal(after.port_xmit_data - before[0].port_xmit_data, 100);
	assert_int_equal(after.port_xmit_discards, 0);
	after = *fixture_port(&fixture, S2, 1).counters;
	assert_int_equal(after.port_xmit_packets - before[1].port_xmit_packets, 5);
	assert_int_equal(after.port_xmit_discards, 2);
	assert_int_equal(after.port_xmit_wait, 7);
	assert_int_equal(fixture_port(&fixture, H3, 1).counters->port_rcv_packets, 5);
	assert_int_equal(fixture_port(&fixture, H3, 1).counters->port_rcv_data, 100);
	fixture_done(&fixture);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(route_is_that_of_a_frame),
		cmocka_unit_test(route_ends_where_a_frame_does),
		cmocka_unit_test(route_ends_at_a_port_that_enforces_partitions),
		cmocka_unit_test(route_in_a_loop_ends),
		cmocka_unit_test(routes_round_a_ring_are_a_credit_loop),
		cmocka_unit_test(path_of_another_lane_opens_a_credit_loop),
		cmocka_unit_test(paths_that_share_a_lane_are_followed_apart),
		cmocka_unit_test(loop_has_the_service_levels_of_its_paths),
		cmocka_unit_test(carried_frames_are_counted_at_each_port),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
