/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "fabric/deadlock/deadlock.h"
#include "fabric/route.h"
#include "support/fabric_net.h"

#define MS FABRIC_PS_PER_MS

enum { RING = 3 };

/* A ring of switches with a host each; cables in the order host, next switch. */
static struct topology_cable cables[2 * RING];

static void ring_init(struct net *net)
{
	net_init(net, TOPOLOGY_CUSTOM);
	net->topology.hosts = RING;
	net->topology.switch_count = RING;
	net->topology.cable_count = 2 * RING;
	net->topology.cables = cables;
	for (uint32_t i = 0; i < RING; i++) {
		cables[i] = (struct topology_cable){{{true, i}, {false, i}}};
		cables[RING + i] = (struct topology_cable){{{false, i}, {false, (i + 1) % RING}}};
	}
}

/* The port of switch `at` towards the next one of the ring. */
static uint32_t port_onward(uint32_t at)
{
	return 2 * (RING + at);
}

/* Frames from each host to the last one before it go the long way round. */
static void ring_start(struct net *net)
{
	for (uint32_t i = 0; i < RING; i++)
		net_flow(net, i, (i + 2) % RING);
	net_start(net);
	for (uint32_t i = 0; i < RING; i++)
		assert_int_equal(route_override(net->fabric, i, (i + 2) % RING, port_onward(i)), 0);
}

static void ring_of_full_buffers_is_a_deadlock_that_names_its_cycle(void **state)
{
	struct deadlock deadlock;
	struct net net;
	uint64_t received_bytes;

	(void)state;
	ring_init(&net);
	ring_start(&net);
	net_run(&net, MS / 100);
	assert_false(deadlock_find(net.fabric, &deadlock));
	net_run(&net, 5 * MS);
	received_bytes = net.flows[0].received_bytes;
	assert_true(deadlock_find(net.fabric, &deadlock));
	assert_int_equal(deadlock.priority, NET_PRIORITY);
	assert_int_equal(deadlock.port_count, RING);
	for (uint32_t i = 0; i < RING; i++)
		assert_int_equal(deadlock.ports[(i + 1) % RING],
			port_onward((net.fabric->ports[deadlock.ports[i]].node + 1) % RING));
	assert_in_range(deadlock.since_ps, MS / 100, 4 * MS);
	net_run(&net, 10 * MS);
	assert_int_equal(net.flows[0].received_bytes, received_bytes);
	net_done(&net);
}

static void ring_on_shortest_paths_is_none(void **state)
{
	struct deadlock deadlock;
	struct net net;

	(void)state;
	ring_init(&net);
	for (uint32_t i = 0; i < RING; i++)
		for (uint32_t j = 1; j < RING; j++)
			net_flow(&net, i, (i + j) % RING);
	net_start(&net);
	net_run(&net, 5 * MS);
	assert_false(deadlock_find(net.fabric, &deadlock));
	net_done(&net);
}

static void watchdog_ends_a_deadlock(void **state)
{
	struct deadlock deadlock;
	struct net net;
	uint64_t received_bytes;

	(void)state;
	ring_init(&net);
	net.topology.switches.watchdog =
		(struct fabric_watchdog){FABRIC_WATCHDOG_DROP, 2 * MS, 1 * MS};
	ring_start(&net);
	net_run(&net, 3 * MS);
	assert_true(deadlock_find(net.fabric, &deadlock));
	received_bytes = net.flows[0].received_bytes;
	net_run(&net, 6 * MS);
	assert_true(net.flows[0].received_bytes > received_bytes);
	net_done(&net);
}

static void storm_is_no_deadlock(void **state)
{
	struct deadlock deadlock;
	struct net net;

	(void)state;
	net_init(&net, TOPOLOGY_DUMBBELL);
	net.topology.hosts = 2;
	net.topology.hosts_right = 2;
	net_flow(&net, 0, 2);
	net_start(&net);
	pause_force(net.fabric, net.fabric->hosts[2].port, 1u << NET_PRIORITY);
	net_run(&net, 5 * MS);
	/* The switch on the left is paused, too, but waits for a host. */
	assert_int_not_equal(net.fabric->ports[net_port_to(&net, 2)].paused, 0);
	assert_false(deadlock_find(net.fabric, &deadlock));
	net_done(&net);
}

static void route_that_leads_back_is_a_loop(void **state)
{
	struct net net;

	(void)state;
	ring_init(&net);
	ring_start(&net);
	assert_false(route_has_loop(net.fabric, 2));
	/* Frames to host 2 go from switch 0 to 1; from there back to 0. */
	assert_int_equal(route_override(net.fabric, 1, 2, port_onward(0) + 1), 0);
	assert_true(route_has_loop(net.fabric, 2));
	assert_false(route_has_loop(net.fabric, 1));
	net_done(&net);
}

/* Nor does a slow host hold its switch for ever, though it has a full buffer. */
static void queue_that_a_slow_host_has_paused_is_not_dead(void **state)
{
	struct net net;
	struct deadlock deadlock;

	(void)state;
	net_init(&net, TOPOLOGY_STAR);
	net.topology.hosts = 3;
	net_flow(&net, 1, 0);
	net_flow(&net, 2, 0);
	net_start(&net);
	fabric_slow_host(net.fabric, 0, 1000, NET_FRAME_BYTES);
	net_run(&net, 50 * FABRIC_PS_PER_US);
	assert_true(net.fabric->ports[net_port_to(&net, 0)].paused >> NET_PRIORITY & 1);
	assert_false(deadlock_find(net.fabric, &deadlock));
	net_done(&net);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(queue_that_a_slow_host_has_paused_is_not_dead),
		cmocka_unit_test(ring_of_full_buffers_is_a_deadlock_that_names_its_cycle),
		cmocka_unit_test(ring_on_shortest_paths_is_none),
		cmocka_unit_test(watchdog_ends_a_deadlock),
		cmocka_unit_test(storm_is_no_deadlock),
		cmocka_unit_test(route_that_leads_back_is_a_loop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
