/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "fabric/deadlock/loop.h"
#include "subnet/simulated/simulated.h"
#include "support/fabric_net.h"

#define MS FABRIC_PS_PER_MS

enum { RING = 6, CHORDS = 2, HOSTS_MAX = 16, HOPS_MAX = 20 };

static struct topology_cable cables[2 * RING + CHORDS];

/* A ring of switches with a host each and two cables across; elsewhere the usual shapes. */
static void net_choose(struct net *net, enum topology_kind kind)
{
	net_init_infiniband(net, kind);
	net->topology.hosts = 3;
	net->topology.hosts_right = 2;
	net->topology.leaves = 3;
	net->topology.spines = 2;
	net->topology.k = 4;
	if (kind != TOPOLOGY_CUSTOM)
		return;
	net->topology.hosts = net->topology.switch_count = RING;
	net->topology.cables = cables;
	net->topology.cable_count = 2 * RING + CHORDS;
	for (uint32_t i = 0; i < RING; i++) {
		cables[i] = (struct topology_cable){{{true, i}, {false, i}}};
		cables[RING + i] = (struct topology_cable){{{false, i}, {false, (i + 1) % RING}}};
	}
	for (uint32_t i = 0; i < CHORDS; i++)
		cables[2 * RING + i] = (struct topology_cable){{{false, i}, {false, i + 3}}};
}

/* How many switches a packet from one host to another passes. */
static uint32_t hops_of(const struct net *net, uint32_t from, uint32_t to)
{
	const struct fabric *fabric = net->fabric;
	const struct infiniband *infiniband = fabric->infiniband;
	uint32_t port = fabric->hosts[from].port;

	for (uint32_t hops = 0; hops < HOPS_MAX; hops++) {
		const struct fabric_port *input = &fabric->ports[fabric->ports[port].peer];

		if (input->is_host) {
			assert_int_equal(input->node, to);
			return hops;
		}
		port = infiniband->forwarding[(uint64_t)input->node * infiniband->lid_count +
			infiniband_lid(to)];
		assert_int_not_equal(port, FABRIC_NO_PORT);
	}
	fail();
	return 0;
}

static void routes_of_any_topology_lead_to_all_hosts_by_the_fewest_hops(void **state)
{
	(void)state;
	for (uint32_t kind = 0; kind <= TOPOLOGY_CUSTOM; kind++) {
		uint32_t fewest[HOSTS_MAX][HOSTS_MAX];
		struct deadlock loop;
		struct net net;
		uint32_t hosts;

		net_choose(&net, (enum topology_kind)kind);
		net_flow(&net, 0, 1);
		net_start(&net);
		hosts = net.fabric->host_count;
		for (uint32_t i = 0; i < hosts * hosts; i++)
			fewest[i / hosts][i % hosts] = hops_of(&net, i / hosts, i % hosts);
		memset(net.fabric->infiniband->forwarding, 0xff,
			net.fabric->infiniband->lid_count * net.fabric->switch_count *
				sizeof(uint32_t));
		assert_int_equal(simulated_tables_set(net.fabric), 0);
		for (uint32_t i = 0; i < hosts * hosts; i++)
			assert_int_equal(
				hops_of(&net, i / hosts, i % hosts), fewest[i / hosts][i % hosts]);
		if (kind != TOPOLOGY_CUSTOM)
			assert_int_equal(
				infiniband_loop_find(net.fabric, 1u << NET_PRIORITY, &loop), 0);
		net_done(&net);
	}
}

static void group_has_the_tree_of_the_embedded_manager(void **state)
{
	static const struct multicast_row unset;
	static const uint8_t roles[HOSTS_MAX] = {INFINIBAND_SENDER, INFINIBAND_MEMBER,
		INFINIBAND_STRANGER, INFINIBAND_MEMBER, INFINIBAND_MEMBER};

	(void)state;
	for (uint32_t kind = 0; kind <= TOPOLOGY_CUSTOM; kind++) {
		struct net net;

		net_choose(&net, (enum topology_kind)kind);
		net.topology.hosts = max_u32(net.topology.hosts, 5);
		if (kind == TOPOLOGY_CUSTOM)
			net.topology.hosts = RING;
		for (uint32_t i = 0; i < 2; i++) {
			struct fabric_flow *flow = net_flow(&net, 3 * i, 1);

			flow->is_multicast = true;
			flow->bytes = 100 * NET_PACKET_BYTES;
		}
		net.groups[0] = net.groups[1] = roles;
		net.group_count = 2;
		net_start(&net);
		for (uint32_t i = 0; i < net.fabric->switch_count; i++)
			for (uint32_t group = 0; group < 2; group++)
				infiniband_set_multicast(net.fabric, i, group, &unset);
		assert_int_equal(simulated_tables_set(net.fabric), 0);
		net_run(&net, 2 * MS);
		assert_int_equal(net.flows[0].received_bytes, 3 * net.flows[0].bytes);
		assert_int_equal(net.flows[1].received_bytes, 2 * net.flows[1].bytes);
		assert_int_equal(net_discards(&net), 0);
		for (uint32_t i = 0; i < net.fabric->switch_count; i++)
			assert_int_equal(net.fabric->switches[i].unroutable_frames, 0);
		net_done(&net);
	}
}

static void switch_of_255_ports_is_refused(void **state)
{
	struct net net;

	(void)state;
	net_init_infiniband(&net, TOPOLOGY_STAR);
	net.topology.hosts = 254;
	net_flow(&net, 0, 1);
	net_start(&net);
	assert_int_equal(simulated_tables_set(net.fabric), 0);
	net_done(&net);
	net_init_infiniband(&net, TOPOLOGY_STAR);
	net.topology.hosts = 255;
	net_flow(&net, 0, 1);
	net_start(&net);
	assert_int_equal(simulated_tables_set(net.fabric), -E2BIG);
	net_done(&net);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(routes_of_any_topology_lead_to_all_hosts_by_the_fewest_hops),
		cmocka_unit_test(group_has_the_tree_of_the_embedded_manager),
		cmocka_unit_test(switch_of_255_ports_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
