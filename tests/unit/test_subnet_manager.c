/* SPDX-License-Identifier: BSD-2-Clause */
#include "other_manager.h"

#include <stdio.h>

#include "wire/infiniband/rmpp.h"
#include "wire/infiniband/sa_record.h"

static void manager_makes_all_ports_active_with_lids_of_their_own(void **state)
{
	static struct fixture fixture;
	static const struct {
		uint32_t node, port;
	} ports[] = {{S1, 1}, {S1, 4}, {S2, 3}, {S2, 2}, {H1, 1}, {H2, 1}, {H3, 1}, {H4, 1}};
	bool has_lid[16] = {false};

	(void)state;
	fixture_init(&fixture, two_switches, true);
	for (size_t i = 0; i < sizeof(ports) / sizeof(ports[0]); i++)
		assert_int_equal(
			fixture_port(&fixture, ports[i].node, ports[i].port).info->port_state,
			IB_PORT_ACTIVE);
	assert_int_equal(fixture_port(&fixture, H4, 2).info->port_state, IB_PORT_DOWN);
	for (uint32_t node = S1; node <= H4; node++) {
		const uint16_t lid = fixture_lid(&fixture, node);

		assert_in_range(lid, 1, 6);
		assert_false(has_lid[lid]);
		has_lid[lid] = true;
		assert_int_equal(fixture_port(&fixture, node, node <= S2 ? 0 : 1).info->sm_lid,
			fixture_lid(&fixture, S1));
	}
	fixture_done(&fixture);
}

/* Send a datagram of data from one host to another, and see who gets it. */
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

static void data_reach_every_host_by_its_lid(void **state)
{
	static struct fixture fixture;

	(void)state;
	fixture_init(&fixture, two_switches, true);
	for (uint32_t from = H1; from <= H4; from++) {
		for (uint32_t to = H1; to <= H4; to++) {
			data_send(&fixture, from, fixture_lid(&fixture, to), 0xffff);
			assert_int_equal(fixture.delivered_count, 1);
			assert_int_equal(fixture.delivered[0].node, to);
		}
	}
	fixture_done(&fixture);
}

/* Three switches in a triangle, a host at each: no route goes over a third switch. */
static void routes_have_the_fewest_hops(void **state)
{
	static const char triangle[] =
		"Switch 4 \"s1\"\n[1] \"h1\"[1]\n[2] \"s2\"[3]\n[3] \"s3\"[2]\n"
		"\n"
		"Switch 4 \"s2\"\n[1] \"h2\"[1]\n[2] \"s3\"[3]\n"
		"\n"
		"Switch 4 \"s3\"\n[1] \"h3\"[1]\n"
		"\n"
		"Ca 1 \"h1\"\n\nCa 1 \"h2\"\n\nCa 1 \"h3\"\n";
	static struct fixture fixture;

	(void)state;
	fixture_init(&fixture, triangle, true);
	for (uint32_t s = 0; s < 3; s++) {
		const uint32_t next = (s + 1) % 3, previous = (s + 2) % 3;
		const uint16_t lids[3] = {fixture_port(&fixture, 3, 1).info->lid,
			fixture_port(&fixture, 4, 1).info->lid,
			fixture_port(&fixture, 5, 1).info->lid};

		assert_int_equal(subnet_switch_route(fixture.subnet, s, lids[s]), 1);
		assert_int_equal(subnet_switch_route(fixture.subnet, s, lids[next]), 2);
		assert_int_equal(subnet_switch_route(fixture.subnet, s, lids[previous]), 3);
	}
	fixture_done(&fixture);
}

static void data_take_the_other_cable_after_a_cut(void **state)
{
	static struct fixture fixture;

	(void)state;
	fixture_init(&fixture, two_switches, true);
	for (uint32_t cut = 3; cut <= 4; cut++) {
		assert_int_equal(subnet_cable_cut(fixture.subnet, S1, cut, 0), 0);
		subnet_advance(fixture.subnet, 0);
		for (uint32_t to = H3; to <= H4; to++) {
			data_send(&fixture, H1, fixture_lid(&fixture, to), 0xffff);
			assert_int_equal(fixture.delivered_count, 1);
		}
		assert_int_equal(subnet_cable_join(fixture.subnet, S1, cut, 0), 0);
		subnet_advance(fixture.subnet, 0);
	}
	fixture_done(&fixture);
}

static void adapters_without_a_switch_reach_each_other(void **state)
{
	static struct fixture fixture;

	(void)state;
	fixture_init(&fixture, "Ca 1 \"a\"\n[1] \"b\"[1]\n\nCa 1 \"b\"\n", true);
	data_send(&fixture, 0, fixture_port(&fixture, 1, 1).info->lid, 0xffff);
	assert_int_equal(fixture.delivered_count, 1);
	assert_int_equal(fixture.delivered[0].node, 1);
	fixture_done(&fixture);
}

static void user_hears_of_its_ports(void **state)
{
	static struct fixture fixture;
	bool is_active = false, has_lid = false;

	(void)state;
	fixture_init(&fixture, two_switches, true);
	for (uint32_t i = 0; i < fixture.event_count; i++) {
		if (fixture.events[i].node != H3)
			continue;
		is_active |= fixture.events[i].event == SUBNET_PORT_ACTIVE;
		has_lid |= fixture.events[i].event == SUBNET_LID_CHANGE;
	}
	assert_true(is_active && has_lid);
	fixture.event_count = 0;
	subnet_cable_cut(fixture.subnet, H3, 1, 0);
	assert_int_equal(fixture.event_count, 1);
	assert_int_equal(fixture.events[0].event, SUBNET_PORT_ERROR);
	fixture_done(&fixture);
}

/* --- queries --- */

/* Ask the manager from h1; returns the answer. */
static const uint8_t *sa_ask(struct fixture *fixture, uint32_t node, uint8_t method,
	uint16_t attribute_id, uint64_t mask, const uint8_t *record, uint32_t record_bytes)
{
	const struct mad_frame frame = {.dlid = fixture_lid(fixture, S1),
		.slid = fixture_lid(fixture, node),
		.pkey = 0xffff,
		.dest_qpn = GSI_QPN,
		.source_qpn = GSI_QPN,
		.qkey = GSI_QKEY};
	const struct mad_header header = {
		.base_version = MAD_BASE_VERSION,
		.management_class = MAD_CLASS_SUBN_ADM,
		.class_version = SA_CLASS_VERSION,
		.method = method,
		.attribute_id = attribute_id,
		.transaction_id = 77,
	};
	const struct sa_header sa = {.component_mask = mask};
	uint8_t mad[MAD_BYTES] = {0};

	mad_header_encode(&header, mad);
	sa_header_encode(&sa, mad);
	if (record_bytes)
		memcpy(mad + SA_DATA_OFFSET, record, record_bytes);
	fixture_send_mad(fixture, node, &frame, mad);
	return fixture_last_mad(fixture, node, NULL);
}

static struct gid port_gid(const struct fixture *fixture, uint32_t node)
{
	const struct subnet_port_view view = fixture_port(fixture, node, node <= S2 ? 0 : 1);
	struct gid gid = {{0}};

	put_be64(gid.raw, view.info->gid_prefix);
	put_be64(gid.raw + 8, view.guids[0]);
	return gid;
}

/* `asker` asks for `node`. Returns the answer. */
static const uint8_t *group_ask_for(
	struct fixture *fixture, uint32_t asker, uint32_t node, uint8_t method, uint8_t join_state)
{
	struct sa_mc_member member = {
		.mgid = {0xff, 0x12, [15] = 9},
		.qkey = 0x1234,
		.pkey = 0xffff,
		.join_state = join_state,
	};
	const struct gid gid = port_gid(fixture, node);
	uint8_t record[SA_MC_MEMBER_BYTES];

	memcpy(member.port_gid, gid.raw, 16);
	sa_mc_member_encode(&member, record);
	return sa_ask(fixture, asker, method, SA_ATTRIBUTE_MC_MEMBER,
		sa_mask_mc_member_mgid | sa_mask_mc_member_port_gid | sa_mask_mc_member_qkey |
			sa_mask_mc_member_traffic_class | sa_mask_mc_member_pkey |
			sa_mask_mc_member_sl | sa_mask_mc_member_flow_label |
			sa_mask_mc_member_join_state,
		record, sizeof(record));
}

static struct sa_mc_member group_ask_as(
	struct fixture *fixture, uint32_t node, uint8_t method, uint8_t join_state)
{
	const uint8_t *answer = group_ask_for(fixture, node, node, method, join_state);
	struct sa_mc_member member;

	assert_int_equal(get_be16(answer + 4), 0);
	sa_mc_member_decode(&member, answer + SA_DATA_OFFSET);
	return member;
}

static struct sa_mc_member group_ask(struct fixture *fixture, uint32_t node, uint8_t method)
{
	return group_ask_as(fixture, node, method, SA_JOIN_FULL);
}

/* Join a group as a member does after another manager: with the LID that the group had. */
static uint16_t group_lid_ask(struct fixture *fixture, uint8_t group, uint16_t mlid)
{
	struct sa_mc_member member = {.mgid = {0xff, 0x12, [15] = group},
		.mlid = mlid,
		.pkey = 0xffff,
		.join_state = SA_JOIN_FULL};
	const struct gid gid = port_gid(fixture, H1);
	uint8_t record[SA_MC_MEMBER_BYTES];
	const uint8_t *answer;

	memcpy(member.port_gid, gid.raw, 16);
	sa_mc_member_encode(&member, record);
	answer = sa_ask(fixture, H1, MAD_METHOD_SET, SA_ATTRIBUTE_MC_MEMBER,
		sa_mask_mc_member_mgid | sa_mask_mc_member_port_gid | sa_mask_mc_member_qkey |
			sa_mask_mc_member_mlid | sa_mask_mc_member_traffic_class |
			sa_mask_mc_member_pkey | sa_mask_mc_member_sl |
			sa_mask_mc_member_flow_label | sa_mask_mc_member_join_state,
		record, sizeof(record));
	assert_int_equal(get_be16(answer + 4), 0);
	sa_mc_member_decode(&member, answer + SA_DATA_OFFSET);
	return member.mlid;
}

static void group_gets_the_lid_that_it_asks_for_if_it_is_free(void **state)
{
	static struct fixture fixture;

	(void)state;
	fixture_init(&fixture, two_switches, true);
	assert_int_equal(group_lid_ask(&fixture, 1, 0xc005), 0xc005);
	assert_int_equal(
		group_lid_ask(&fixture, 2, 0xc005), 0xc001); /* not the broadcast group's */
	assert_int_equal(group_lid_ask(&fixture, 3, 0x0005), 0xc002);
	assert_int_equal(group_lid_ask(&fixture, 4, 0xfffe), 0xc003);
	fixture_done(&fixture);
}

static void path_of_two_gids_has_their_lids(void **state)
{
	static struct fixture fixture;
	struct sa_path path = {0};
	uint8_t record[SA_PATH_BYTES];
	const uint8_t *answer;
	struct gid gid;

	(void)state;
	fixture_init(&fixture, two_switches, true);
	gid = port_gid(&fixture, H1);
	memcpy(path.sgid, gid.raw, 16);
	gid = port_gid(&fixture, H4);
	memcpy(path.dgid, gid.raw, 16);
	sa_path_encode(&path, record);
	answer = sa_ask(&fixture, H1, MAD_METHOD_GET, SA_ATTRIBUTE_PATH,
		sa_mask_path_sgid | sa_mask_path_dgid, record, sizeof(record));
	assert_int_equal(get_be16(answer + 4), 0);
	sa_path_decode(&path, answer + SA_DATA_OFFSET);
	assert_int_equal(path.slid, fixture_lid(&fixture, H1));
	assert_int_equal(path.dlid, fixture_lid(&fixture, H4));
	assert_int_equal(path.mtu, 5);
	assert_int_equal(path.rate, 16); /* 4xEDR: 100 Gbit/s */
	assert_int_equal(path.pkey, 0xffff);
	fixture_done(&fixture);
}

static void path_to_a_group_has_its_lid(void **state)
{
	static struct fixture fixture;
	struct sa_path path = {.dgid = {0xff, 0x12, [15] = 9}};
	uint8_t record[SA_PATH_BYTES];
	struct sa_mc_member group;
	const uint8_t *answer;

	(void)state;
	fixture_init(&fixture, two_switches, true);
	group = group_ask(&fixture, H3, MAD_METHOD_SET);
	path.slid = fixture_lid(&fixture, H1);
	sa_path_encode(&path, record);
	answer = sa_ask(&fixture, H1, MAD_METHOD_GET, SA_ATTRIBUTE_PATH,
		sa_mask_path_slid | sa_mask_path_dgid, record, sizeof(record));
	assert_int_equal(get_be16(answer + 4), 0);
	sa_path_decode(&path, answer + SA_DATA_OFFSET);
	assert_int_equal(path.dlid, group.mlid);
	assert_int_equal(path.mtu, group.mtu);
	fixture_done(&fixture);
}

static void path_to_nobody_has_no_record(void **state)
{
	static struct fixture fixture;
	const struct sa_path path = {.dlid = 99};
	uint8_t record[SA_PATH_BYTES];

	(void)state;
	fixture_init(&fixture, two_switches, true);
	sa_path_encode(&path, record);
	assert_int_equal(get_be16(sa_ask(&fixture, H1, MAD_METHOD_GET, SA_ATTRIBUTE_PATH,
					  sa_mask_path_dlid, record, sizeof(record)) +
				 4),
		SA_STATUS_NO_RECORDS);
	fixture_done(&fixture);
}

/* The status of a query for a path with some properties, from h1 to h4. */
static uint16_t path_status(struct fixture *fixture, const struct sa_path *wanted, uint64_t mask)
{
	struct sa_path path = *wanted;
	uint8_t record[SA_PATH_BYTES];

	path.slid = fixture_lid(fixture, H1);
	path.dlid = fixture_lid(fixture, H4);
	sa_path_encode(&path, record);
	return get_be16(
		sa_ask(fixture, H1, MAD_METHOD_GET, SA_ATTRIBUTE_PATH,
			mask | sa_mask_path_slid | sa_mask_path_dlid, record, sizeof(record)) +
		4);
}

static void path_that_its_ends_do_not_allow_has_no_record(void **state)
{
	static struct fixture fixture;
	const struct {
		struct sa_path path;
		uint64_t mask;
		uint16_t status;
	} cases[] = {
		{{.pkey = 0xffff}, sa_mask_path_pkey, 0},
		{{.pkey = 0x8123}, sa_mask_path_pkey, SA_STATUS_NO_RECORDS},
		{{.rate = 16, .rate_selector = SA_SELECT_EXACTLY},
			sa_mask_path_rate | sa_mask_path_rate_selector, 0},
		{{.rate = 16, .rate_selector = SA_SELECT_ABOVE},
			sa_mask_path_rate | sa_mask_path_rate_selector, SA_STATUS_NO_RECORDS},
		{{.rate = 3, .rate_selector = SA_SELECT_BELOW},
			sa_mask_path_rate | sa_mask_path_rate_selector, 0},
		{{.mtu = 4, .mtu_selector = SA_SELECT_ABOVE},
			sa_mask_path_mtu | sa_mask_path_mtu_selector, 0},
		{{.mtu = 5, .mtu_selector = SA_SELECT_ABOVE},
			sa_mask_path_mtu | sa_mask_path_mtu_selector, SA_STATUS_NO_RECORDS},
	};

	(void)state;
	fixture_init(&fixture, two_switches, true);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_int_equal(
			path_status(&fixture, &cases[i].path, cases[i].mask), cases[i].status);
	fixture_done(&fixture);
}

/* Four switches in a chain of slow cables, with many hosts each. */
static const char *wide_subnet(void)
{
	enum { SWITCHES = 4, HOSTS = 200, ROOM = 1 << 16 };
	static char text[ROOM];
	int at = 0;

	for (int i = 0; i < SWITCHES; i++) {
		at += snprintf(text + at, ROOM - (size_t)at, "Switch 254 \"s%d\"\n", i);
		if (i)
			at += snprintf(text + at, ROOM - (size_t)at, "[253] \"s%d\"[254] # 1xSDR\n",
				i - 1);
		for (int j = 1; j <= HOSTS; j++)
			at += snprintf(text + at, ROOM - (size_t)at, "[%d] \"h%d-%d\"[1] # 4xEDR\n",
				j, i, j);
		at += snprintf(text + at, ROOM - (size_t)at, "\n");
	}
	for (int i = 0; i < SWITCHES * HOSTS; i++)
		at += snprintf(text + at, ROOM - (size_t)at, "Ca 1 \"h%d-%d\"\n\n", i / HOSTS,
			i % HOSTS + 1);
	assert_true(at < ROOM);
	return text;
}

/* The slow cables are in the middle, so that the ends of each path fit the query. */
static void query_that_many_pairs_do_not_fit_is_refused(void **state)
{
	enum { FIRST_HOST = 4 };
	static struct fixture fixture;
	const struct sa_path path = {.rate = 16, .rate_selector = SA_SELECT_EXACTLY};
	uint8_t record[SA_PATH_BYTES];

	(void)state;
	fixture_init(&fixture, wide_subnet(), true);
	sa_path_encode(&path, record);
	assert_int_equal(
		get_be16(sa_ask(&fixture, FIRST_HOST, MAD_METHOD_GET_TABLE, SA_ATTRIBUTE_PATH,
				 sa_mask_path_rate | sa_mask_path_rate_selector, record,
				 sizeof(record)) +
			4),
		SA_STATUS_NO_RESOURCES);
	fixture_done(&fixture);
}

/* The first segment says how long all are: six nodes of 112 bytes, each segment's header too. */
static void table_of_nodes_comes_in_segments(void **state)
{
	static struct fixture fixture;
	struct rmpp_header rmpp;
	const uint8_t *answer;

	(void)state;
	fixture_init(&fixture, two_switches, true);
	answer = sa_ask(&fixture, H1, MAD_METHOD_GET_TABLE, SA_ATTRIBUTE_NODE, 0, NULL, 0);
	assert_int_equal(answer[3], MAD_METHOD_GET_TABLE_RESP);
	rmpp_header_decode(&rmpp, answer);
	assert_int_equal(rmpp.type, RMPP_DATA);
	assert_int_equal(rmpp.segment, 1);
	assert_int_equal(rmpp.length, 6 * 112 + 4 * SA_HEADER_BYTES);
	fixture_done(&fixture);
}

/* Another manager does not tell the embedded one about its groups. */
static void groups_are_joined_again_after_another_manager(void **state)
{
	static struct fixture fixture;
	struct other_manager other = {.node = H2, .info = {.state = IB_SM_STANDBY}};
	bool reregisters = false;
	uint16_t mlid;

	(void)state;
	fixture_init(&fixture, two_switches, true);
	mlid = group_ask(&fixture, H3, MAD_METHOD_SET).mlid;
	other_manager_show(&fixture, &other, true);
	other_manager_pass(&fixture, &other, 500);
	assert_int_equal(other.info.state, IB_SM_MASTER);
	fixture.event_count = 0;
	other_manager_show(&fixture, &other, false);
	subnet_advance(fixture.subnet, fixture.now_ns);
	for (uint32_t i = 0; i < fixture.event_count; i++)
		reregisters |= fixture.events[i].node == H3 &&
			fixture.events[i].event == SUBNET_CLIENT_REREGISTER;
	assert_true(reregisters);
	data_send(&fixture, H1, mlid, 0xffff);
	assert_int_equal(fixture.delivered_count, 1); /* h1's own */
	group_ask(&fixture, H3, MAD_METHOD_SET);
	data_send(&fixture, H1, mlid, 0xffff);
	assert_int_equal(fixture.delivered_count, 2);
	fixture_done(&fixture);
}

static void records_of_links_and_tables_are_those_of_the_nodes(void **state)
{
	static struct fixture fixture;
	struct sa_link link = {.from_port = 1};
	struct sa_linear linear = {0};
	struct sa_pkey pkey = {.port = 4};
	uint8_t record[SA_PKEY_BYTES];
	const uint8_t *answer;

	(void)state;
	fixture_init(&fixture, two_switches, true);
	link.from_lid = fixture_lid(&fixture, H3);
	sa_link_encode(&link, record);
	answer = sa_ask(&fixture, H1, MAD_METHOD_GET, SA_ATTRIBUTE_LINK,
		sa_mask_link_from_lid | sa_mask_link_from_port, record, SA_LINK_BYTES);
	assert_int_equal(get_be16(answer + 4), 0);
	sa_link_decode(&link, answer + SA_DATA_OFFSET);
	assert_int_equal(link.to_port, 1);
	assert_int_equal(link.to_lid, fixture_lid(&fixture, S2));
	linear.lid = fixture_lid(&fixture, S2);
	sa_linear_encode(&linear, record);
	answer = sa_ask(&fixture, H1, MAD_METHOD_GET, SA_ATTRIBUTE_LINEAR, sa_mask_linear_lid,
		record, SA_LINEAR_BYTES);
	assert_int_equal(get_be16(answer + 4), 0);
	sa_linear_decode(&linear, answer + SA_DATA_OFFSET);
	assert_int_equal(linear.table[fixture_lid(&fixture, H3)], 1);
	pkey.lid = fixture_lid(&fixture, S1);
	sa_pkey_encode(&pkey, record);
	answer = sa_ask(&fixture, H1, MAD_METHOD_GET, SA_ATTRIBUTE_PKEY,
		sa_mask_pkey_lid | sa_mask_pkey_port, record, SA_PKEY_BYTES);
	assert_int_equal(get_be16(answer + 4), 0);
	sa_pkey_decode(&pkey, answer + SA_DATA_OFFSET);
	assert_int_equal(get_be16(pkey.table), 0xffff);
	fixture_done(&fixture);
}

static void service_records_are_refused(void **state)
{
	static struct fixture fixture;

	(void)state;
	fixture_init(&fixture, two_switches, true);
	assert_int_equal(get_be16(sa_ask(&fixture, H1, MAD_METHOD_SET, 0x31, 0, NULL, 0) + 4),
		MAD_STATUS_UNSUPPORTED_METHOD_ATTRIBUTE);
	fixture_done(&fixture);
}

static void group_reaches_its_members_once_each(void **state)
{
	static struct fixture fixture;
	uint32_t got[H4 + 1] = {0};
	uint16_t mlid;

	(void)state;
	fixture_init(&fixture, two_switches, true);
	mlid = group_ask(&fixture, H1, MAD_METHOD_SET).mlid;
	assert_int_equal(group_ask(&fixture, H3, MAD_METHOD_SET).mlid, mlid);
	assert_int_equal(group_ask(&fixture, H4, MAD_METHOD_SET).mlid, mlid);
	data_send(&fixture, H1, mlid, 0xffff);
	for (uint32_t i = 0; i < fixture.delivered_count; i++)
		got[fixture.delivered[i].node]++;
	assert_int_equal(fixture.delivered_count, 3);
	assert_true(got[H1] == 1 && got[H3] == 1 && got[H4] == 1);
	group_ask(&fixture, H3, MAD_METHOD_DELETE);
	data_send(&fixture, H2, mlid, 0xffff);
	/* h2 is no member, but its adapter sends to itself, too. */
	assert_int_equal(fixture.delivered_count, 3);
	fixture_done(&fixture);
}

static void send_only_member_sends_and_gets_nothing(void **state)
{
	static struct fixture fixture;
	uint16_t mlid;

	(void)state;
	fixture_init(&fixture, two_switches, true);
	mlid = group_ask(&fixture, H1, MAD_METHOD_SET).mlid;
	data_send(&fixture, H3, mlid, 0xffff);
	assert_int_equal(fixture.delivered_count, 1); /* h3's own: its switch has no group */
	group_ask_as(&fixture, H3, MAD_METHOD_SET, SA_JOIN_SEND_ONLY);
	data_send(&fixture, H3, mlid, 0xffff);
	assert_int_equal(fixture.delivered_count, 2);
	assert_int_equal(fixture.delivered[0].node, H1);
	data_send(&fixture, H1, mlid, 0xffff);
	assert_int_equal(fixture.delivered_count, 1);
	fixture_done(&fixture);
}

static void group_with_an_impossible_mtu_or_rate_is_refused(void **state)
{
	static const struct {
		uint8_t mtu, rate;
		uint16_t status;
	} cases[] = {{6, 3, SA_STATUS_INVALID}, {4, 63, SA_STATUS_INVALID}, {5, 3, MAD_STATUS_OK}};
	static struct fixture fixture;
	uint8_t record[SA_MC_MEMBER_BYTES];

	(void)state;
	fixture_init(&fixture, two_switches, true);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct sa_mc_member member = {.mgid = {0xff, 0x12, [15] = 9},
			.pkey = 0xffff,
			.join_state = SA_JOIN_FULL,
			.mtu_selector = SA_SELECT_EXACTLY,
			.mtu = cases[i].mtu,
			.rate_selector = SA_SELECT_EXACTLY,
			.rate = cases[i].rate};
		const struct gid gid = port_gid(&fixture, H1);
		const uint8_t *answer;

		memcpy(member.port_gid, gid.raw, 16);
		sa_mc_member_encode(&member, record);
		answer = sa_ask(&fixture, H1, MAD_METHOD_SET, SA_ATTRIBUTE_MC_MEMBER,
			~sa_mask_mc_member_mlid, record, sizeof(record));
		assert_int_equal(get_be16(answer + 4), cases[i].status);
	}
	fixture_done(&fixture);
}

/* A sweep would give h4's LID its port back in the table of s1. */
static void wrong_pkey_causes_no_sweep(void **state)
{
	static struct fixture fixture;
	struct smp_request set = {.method = MAD_METHOD_SET,
		.attribute_id = SM_ATTRIBUTE_LINEAR_FORWARDING,
		.path = {1}};
	uint16_t lid;

	(void)state;
	fixture_init(&fixture, two_switches, true);
	lid = fixture_lid(&fixture, H4);
	memset(set.data, 255, sizeof(set.data));
	for (uint16_t i = 1; i < lid + 5; i++)
		set.data[i] = i == lid ? 2 : subnet_switch_route(fixture.subnet, S1, i);
	assert_int_equal(smp_status(fixture_smp(&fixture, &set)), 0);
	assert_int_equal(subnet_switch_route(fixture.subnet, S1, lid), 2);
	data_send(&fixture, H1, fixture_lid(&fixture, H2), 0x8001);
	assert_int_equal(fixture.delivered_count, 0);
	assert_int_equal(fixture_port(&fixture, H2, 1).info->p_key_violations, 1);
	/* The manager has got the trap; now it would sweep. */
	assert_true(subnet_deadline_ns(fixture.subnet) > fixture.now_ns);
	subnet_advance(fixture.subnet, fixture.now_ns);
	assert_int_equal(subnet_switch_route(fixture.subnet, S1, lid), 2);
	fixture_done(&fixture);
}

/* s2 joins by h1's request, and then loses both of its cables to the manager's switch. */
static void group_keeps_a_switch_that_is_cut_off(void **state)
{
	static struct fixture fixture;
	const uint8_t *answer;
	uint16_t mlid;

	(void)state;
	fixture_init(&fixture, two_switches, true);
	mlid = group_ask(&fixture, H2, MAD_METHOD_SET).mlid;
	answer = group_ask_for(&fixture, H1, S2, MAD_METHOD_SET, SA_JOIN_FULL);
	assert_int_equal(get_be16(answer + 4), 0);
	for (uint32_t port = 3; port <= 4; port++)
		assert_int_equal(subnet_cable_cut(fixture.subnet, S1, port, 0), 0);
	subnet_advance(fixture.subnet, 0);
	data_send(&fixture, H1, mlid, 0xffff);
	assert_int_equal(fixture.delivered_count, 2); /* h1's own, and h2's */
	fixture_done(&fixture);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(manager_makes_all_ports_active_with_lids_of_their_own),
		cmocka_unit_test(data_reach_every_host_by_its_lid),
		cmocka_unit_test(routes_have_the_fewest_hops),
		cmocka_unit_test(data_take_the_other_cable_after_a_cut),
		cmocka_unit_test(adapters_without_a_switch_reach_each_other),
		cmocka_unit_test(user_hears_of_its_ports),
		cmocka_unit_test(group_gets_the_lid_that_it_asks_for_if_it_is_free),
		cmocka_unit_test(path_of_two_gids_has_their_lids),
		cmocka_unit_test(path_to_a_group_has_its_lid),
		cmocka_unit_test(path_to_nobody_has_no_record),
		cmocka_unit_test(path_that_its_ends_do_not_allow_has_no_record),
		cmocka_unit_test(query_that_many_pairs_do_not_fit_is_refused),
		cmocka_unit_test(table_of_nodes_comes_in_segments),
		cmocka_unit_test(records_of_links_and_tables_are_those_of_the_nodes),
		cmocka_unit_test(service_records_are_refused),
		cmocka_unit_test(groups_are_joined_again_after_another_manager),
		cmocka_unit_test(send_only_member_sends_and_gets_nothing),
		cmocka_unit_test(group_reaches_its_members_once_each),
		cmocka_unit_test(group_with_an_impossible_mtu_or_rate_is_refused),
		cmocka_unit_test(wrong_pkey_causes_no_sweep),
		cmocka_unit_test(group_keeps_a_switch_that_is_cut_off),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
