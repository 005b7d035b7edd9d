/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "fabric/deadlock/loop.h"
#include "fabric/route.h"
#include "support/fabric_net.h"

#define MS FABRIC_PS_PER_MS
#define US FABRIC_PS_PER_US

enum { HOSTS_MAX = 16, PACKETS = 50 };

/* How often each packet of flow 0 has arrived at each host. */
static uint32_t arrivals[HOSTS_MAX][PACKETS];

static void arrival_count(void *context, uint64_t now_ps, enum fabric_event event, uint32_t number,
	uint32_t priority, const struct fabric_packet *packet)
{
	const struct net *net = (const struct net *)context;
	const struct fabric_port *port = &net->fabric->ports[number];

	(void)now_ps;
	(void)priority;
	if (event == FABRIC_FRAME_ARRIVED && port->is_host && !packet->is_link)
		arrivals[port->node][packet->number / NET_PACKET_BYTES]++;
}

/* Make flow 0 one to a group, before net_start(). */
static struct fabric_flow *group_flow(struct net *net, uint32_t source, uint64_t bytes)
{
	struct fabric_flow *flow = net_flow(net, source, 0);

	flow->is_multicast = true;
	flow->bytes = bytes;
	return flow;
}

static uint32_t arrived_at(uint32_t host)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < PACKETS; i++)
		count += arrivals[host][i];
	return count;
}

/* --- who receives --- */

static void tree_run(enum topology_kind kind, enum infiniband_routing routing)
{
	/* Members at both leaves, a stranger at each, and a sender that is none. */
	static const uint8_t roles[8] = {INFINIBAND_SENDER, INFINIBAND_MEMBER, INFINIBAND_STRANGER,
		INFINIBAND_MEMBER, INFINIBAND_STRANGER, INFINIBAND_MEMBER, INFINIBAND_STRANGER,
		INFINIBAND_MEMBER};
	struct net net;

	memset(arrivals, 0, sizeof(arrivals));
	net_init_infiniband(&net, kind);
	net.infiniband.data_vls = 8;
	net.infiniband.routing = routing;
	net.infiniband.buffer_blocks = NET_PACKET_BYTES / IB_BLOCK_BYTES;
	net.topology.hosts = 4;
	net.topology.hosts_right = 4;
	net.topology.leaves = 2;
	net.topology.spines = 3;
	net.groups[0] = roles;
	net.group_count = 1;
	for (uint32_t i = 0; i < 8; i++)
		net.infiniband.arbitration.low.entries[i] =
			(struct arbitration_entry){(uint8_t)i, 1};
	net.infiniband.arbitration.low.count = 8;
	group_flow(&net, 0, (uint64_t)PACKETS * NET_PACKET_BYTES);
	net_start(&net);
	fabric_watch(net.fabric, arrival_count, &net);
	net_run(&net, MS);
	for (uint32_t host = 0; host < 8; host++)
		for (uint32_t i = 0; i < PACKETS; i++)
			assert_int_equal(arrivals[host][i], roles[host] == INFINIBAND_MEMBER);
	assert_int_equal(net.flows[0].receivers, 4);
	assert_int_equal(net.flows[0].received_bytes, 4 * net.flows[0].bytes);
	assert_true(net.flows[0].finish_ps < MS);
	net_done(&net);
}

static void packet_to_a_group_arrives_at_each_member_once_and_at_no_stranger(void **state)
{
	static const enum infiniband_routing engines[] = {
		INFINIBAND_MINHOP, INFINIBAND_UPDN, INFINIBAND_LASH};

	(void)state;
	for (uint32_t i = 0; i < ARRAY_COUNT(engines); i++) {
		tree_run(TOPOLOGY_DUMBBELL, engines[i]);
		tree_run(TOPOLOGY_LEAF_SPINE, engines[i]);
	}
}

static void member_gets_no_copy_of_its_own_packets(void **state)
{
	static const uint8_t roles[4] = {INFINIBAND_MEMBER, INFINIBAND_MEMBER};
	struct net net;

	(void)state;
	memset(arrivals, 0, sizeof(arrivals));
	net_init_infiniband(&net, TOPOLOGY_STAR);
	net.topology.hosts = 4;
	net.groups[0] = roles;
	net.group_count = 1;
	group_flow(&net, 0, (uint64_t)PACKETS * NET_PACKET_BYTES);
	net_start(&net);
	fabric_watch(net.fabric, arrival_count, &net);
	net_run(&net, MS);
	assert_int_equal(arrived_at(0), 0);
	assert_int_equal(arrived_at(1), PACKETS);
	assert_int_equal(arrived_at(2) + arrived_at(3), 0);
	assert_int_not_equal(net.flows[0].finish_ps, FABRIC_NEVER);
	net_done(&net);
}

/* The members are at one leaf, so no packet leaves it. */
static void tree_ends_at_the_lowest_switch_above_all_hosts(void **state)
{
	static const uint8_t roles[8] = {INFINIBAND_MEMBER, INFINIBAND_MEMBER};
	struct net net;

	(void)state;
	net_init_infiniband(&net, TOPOLOGY_LEAF_SPINE);
	net.topology.hosts = 4;
	net.topology.leaves = net.topology.spines = 2;
	net.groups[0] = roles;
	net.group_count = 1;
	group_flow(&net, 0, NET_PACKET_BYTES);
	net_start(&net);
	for (uint32_t i = 1; i < net.fabric->switch_count; i++)
		for (uint32_t j = 0; j < MULTICAST_ROW_WORDS; j++)
			assert_int_equal(net.fabric->infiniband->multicast[i][0].ports[j], 0);
	net_done(&net);
}

static void switch_without_a_row_discards_a_packet_and_counts_it(void **state)
{
	static const uint8_t roles[3] = {INFINIBAND_MEMBER, INFINIBAND_MEMBER, INFINIBAND_MEMBER};
	static const struct multicast_row none;
	struct net net;

	(void)state;
	memset(arrivals, 0, sizeof(arrivals));
	net_init_infiniband(&net, TOPOLOGY_STAR);
	net.topology.hosts = 3;
	net.groups[0] = roles;
	net.group_count = 1;
	group_flow(&net, 0, (uint64_t)PACKETS * NET_PACKET_BYTES);
	net_start(&net);
	infiniband_set_multicast(net.fabric, 0, 0, &none);
	fabric_watch(net.fabric, arrival_count, &net);
	net_run(&net, MS);
	assert_int_equal(arrived_at(0) + arrived_at(1) + arrived_at(2), 0);
	assert_int_equal(net.fabric->switches[0].unroutable_frames, PACKETS);
	assert_int_equal(net.flows[0].finish_ps, FABRIC_NEVER);
	net_done(&net);
}

static void host_that_is_no_member_discards_what_a_wrong_row_brings(void **state)
{
	static const uint8_t roles[3] = {INFINIBAND_MEMBER, INFINIBAND_MEMBER};
	struct multicast_row row;
	struct net net;

	(void)state;
	net_init_infiniband(&net, TOPOLOGY_STAR);
	net.topology.hosts = 3;
	net.groups[0] = roles;
	net.group_count = 1;
	group_flow(&net, 0, (uint64_t)PACKETS * NET_PACKET_BYTES);
	net_start(&net);
	row = net.fabric->infiniband->multicast[0][0];
	multicast_row_set(&row, 3, true);
	infiniband_set_multicast(net.fabric, 0, 0, &row);
	net_run(&net, MS);
	assert_int_equal(net.flows[0].received_bytes, net.flows[0].bytes);
	assert_int_equal(net.fabric->ports[net.fabric->hosts[2].port]
				 .priority[NET_PRIORITY]
				 .counters.discarded_frames,
		PACKETS);
	net_done(&net);
}

/* --- credits --- */

/* Host 0 sends to hosts 1 to 3. The link of host 3 is down, so its credits do not come back. */
static void stuck_start(struct net *net, uint64_t hoq_life_ps)
{
	static const uint8_t roles[4] = {
		INFINIBAND_SENDER, INFINIBAND_MEMBER, INFINIBAND_MEMBER, INFINIBAND_MEMBER};

	memset(arrivals, 0, sizeof(arrivals));
	net_init_infiniband(net, TOPOLOGY_STAR);
	net->topology.hosts = 4;
	net->infiniband.buffer_blocks = 8 * NET_PACKET_BYTES / IB_BLOCK_BYTES;
	net->infiniband.hoq_life_ps = hoq_life_ps;
	net->groups[0] = roles;
	net->group_count = 1;
	group_flow(net, 0, (uint64_t)PACKETS * NET_PACKET_BYTES);
	net_start(net);
	net->fabric->ports[net->fabric->hosts[3].port].is_down = true;
	fabric_watch(net->fabric, arrival_count, net);
}

/*
 * Eight packets take the credits of host 3. The copies of the next eight keep the buffer of the
 * input port, and then nothing arrives any more; until then the others have all packets.
 */
static void copy_without_credits_stops_the_others_only_by_its_buffer(void **state)
{
	struct net net;

	(void)state;
	stuck_start(&net, FABRIC_NEVER);
	net_run(&net, 5 * MS);
	assert_int_equal(arrived_at(3), 8);
	assert_int_equal(arrived_at(1), 16);
	assert_int_equal(arrived_at(2), 16);
	assert_int_equal(
		net.fabric->infiniband->ports[net_port_to(&net, 0)].vls[0].receiver.free_blocks, 0);
	net_done(&net);
}

static void lifetime_of_one_copy_frees_the_buffer_for_the_others(void **state)
{
	struct net net;
	const struct infiniband_vl *vl;

	(void)state;
	stuck_start(&net, 20 * US);
	net_run(&net, 5 * MS);
	assert_int_equal(arrived_at(1), PACKETS);
	assert_int_equal(arrived_at(2), PACKETS);
	vl = &net.fabric->infiniband->ports[net_port_to(&net, 3)].vls[0];
	assert_int_equal(vl->sent_packets, 8);
	assert_int_equal(vl->discards, PACKETS - 8);
	vl = &net.fabric->infiniband->ports[net_port_to(&net, 0)].vls[0];
	assert_int_equal(vl->receiver.free_blocks, net.infiniband.buffer_blocks);
	assert_int_equal(vl->held_packets, 0);
	net_done(&net);
}

/* --- loops --- */

enum { RING = 4 };

/* A ring of switches with a host each, all of which are members. */
static void ring_start(struct net *net, enum infiniband_routing routing)
{
	static const uint8_t roles[RING] = {
		INFINIBAND_MEMBER, INFINIBAND_MEMBER, INFINIBAND_MEMBER, INFINIBAND_MEMBER};
	static struct topology_cable cables[2 * RING];

	net_init_infiniband(net, TOPOLOGY_CUSTOM);
	net->topology.hosts = net->topology.switch_count = RING;
	net->topology.cables = cables;
	net->topology.cable_count = 2 * RING;
	for (uint32_t i = 0; i < RING; i++) {
		cables[i] = (struct topology_cable){{{true, i}, {false, i}}};
		cables[RING + i] = (struct topology_cable){{{false, i}, {false, (i + 1) % RING}}};
	}
	net->infiniband.routing = routing;
	net->infiniband.data_vls = 4;
	net->infiniband.arbitration.low =
		(struct arbitration_table){4, {{0, 1}, {1, 1}, {2, 1}, {3, 1}}};
	net->infiniband.buffer_blocks = 2 * NET_PACKET_BYTES / IB_BLOCK_BYTES;
	net->groups[0] = roles;
	net->group_count = 1;
	group_flow(net, 0, 0);
	for (uint32_t i = 1; i < RING; i++)
		group_flow(net, i, 0);
	net_start(net);
}

static void group_closes_no_loop_with_updn_or_lash(void **state)
{
	static const enum infiniband_routing engines[] = {INFINIBAND_UPDN, INFINIBAND_LASH};
	struct deadlock deadlock;
	struct net net;

	(void)state;
	for (uint32_t i = 0; i < ARRAY_COUNT(engines); i++) {
		ring_start(&net, engines[i]);
		assert_int_equal(infiniband_loop_find(net.fabric, 0xff, &deadlock), 0);
		net_run(&net, 5 * MS);
		assert_false(deadlock_find(net.fabric, &deadlock));
		for (uint32_t j = 0; j < RING; j++)
			assert_true(net.flows[j].received_bytes > 1000000);
		net_done(&net);
	}
}

/* Rows that pass packets on for ever: each switch has its host and the next switch. */
static void rows_that_lead_around_a_ring_are_a_loop_and_a_deadlock(void **state)
{
	struct deadlock deadlock;
	struct net net;

	(void)state;
	ring_start(&net, INFINIBAND_UPDN);
	for (uint32_t i = 0; i < RING; i++) {
		struct multicast_row row = {{0}};
		uint32_t count;
		const uint32_t *ports = route_ports_of(net.fabric, i, &count);

		for (uint32_t j = 0; j < count; j++) {
			const struct fabric_port *peer =
				&net.fabric->ports[net.fabric->ports[ports[j]].peer];

			multicast_row_set(
				&row, j + 1, peer->is_host || peer->node == (i + 1) % RING);
		}
		infiniband_set_multicast(net.fabric, i, 0, &row);
	}
	assert_int_equal(infiniband_loop_find(net.fabric, 1u << NET_PRIORITY, &deadlock), 1);
	assert_int_equal(deadlock.port_count, RING);
	net_run(&net, 5 * MS);
	assert_true(deadlock_find(net.fabric, &deadlock));
	assert_int_equal(deadlock.port_count, RING);
	net_done(&net);
}

static void group_needs_a_switch_above_all_of_its_hosts_and_few_ports(void **state)
{
	static uint8_t roles[300];
	struct net net;
	uint32_t group;

	(void)state;
	roles[0] = roles[1] = INFINIBAND_MEMBER;
	net_init_infiniband(&net, TOPOLOGY_STAR);
	net.topology.hosts = 254;
	net_flow(&net, 0, 1);
	net_start(&net);
	assert_int_equal(infiniband_add_group(net.fabric, roles, &group), 0);
	assert_int_equal(infiniband_add_group(net.fabric, roles, &group), 0);
	assert_int_equal(group, 1);
	net_done(&net);
	net_init_infiniband(&net, TOPOLOGY_STAR);
	net.topology.hosts = 255;
	net_flow(&net, 0, 1);
	net_start(&net);
	assert_int_equal(infiniband_add_group(net.fabric, roles, &group), -E2BIG);
	net_done(&net);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(packet_to_a_group_arrives_at_each_member_once_and_at_no_stranger),
		cmocka_unit_test(member_gets_no_copy_of_its_own_packets),
		cmocka_unit_test(tree_ends_at_the_lowest_switch_above_all_hosts),
		cmocka_unit_test(switch_without_a_row_discards_a_packet_and_counts_it),
		cmocka_unit_test(host_that_is_no_member_discards_what_a_wrong_row_brings),
		cmocka_unit_test(copy_without_credits_stops_the_others_only_by_its_buffer),
		cmocka_unit_test(lifetime_of_one_copy_frees_the_buffer_for_the_others),
		cmocka_unit_test(group_closes_no_loop_with_updn_or_lash),
		cmocka_unit_test(rows_that_lead_around_a_ring_are_a_loop_and_a_deadlock),
		cmocka_unit_test(group_needs_a_switch_above_all_of_its_hosts_and_few_ports),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
