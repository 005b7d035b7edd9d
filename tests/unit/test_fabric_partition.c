/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "support/fabric_net.h"

#define MS FABRIC_PS_PER_MS

enum { PACKETS = 100 };

static struct infiniband_port *port_of(const struct net *net, uint32_t number)
{
	return &net->fabric->infiniband->ports[number];
}

static struct infiniband_port *host_port(const struct net *net, uint32_t host)
{
	return port_of(net, net->fabric->hosts[host].port);
}

static struct infiniband_port *switch_port(const struct net *net, uint32_t host)
{
	return port_of(net, net_port_to(net, host));
}

/* Give a host one P_Key, and the switch's port to it the same. */
static void pkey_give(
	struct net *net, uint32_t host, uint16_t pkey, bool is_inbound, bool is_outbound)
{
	infiniband_set_pkeys(net->fabric, net->fabric->hosts[host].port, &pkey, 1);
	infiniband_set_pkeys(net->fabric, net_port_to(net, host), &pkey, 1);
	infiniband_set_enforcement(net->fabric, net_port_to(net, host), is_inbound, is_outbound);
}

static void pair_start(struct net *net, uint16_t pkey)
{
	struct fabric_flow *flow;

	net_init_infiniband(net, TOPOLOGY_STAR);
	net->topology.hosts = 2;
	flow = net_flow(net, 0, 1);
	flow->bytes = PACKETS * NET_PACKET_BYTES;
	flow->pkey = pkey;
	net_start(net);
}

static uint64_t received_packets(const struct net *net)
{
	return net->flows[0].received_bytes / NET_PACKET_BYTES;
}

/* Each block of the buffers is free again. */
static void credits_check(const struct net *net)
{
	for (uint32_t i = 0; i < net->fabric->port_count; i++)
		assert_int_equal(port_of(net, i)->vls[0].receiver.free_blocks,
			net->infiniband.buffer_blocks);
}

static void members_of_a_partition_reach_each_other_if_one_is_full(void **state)
{
	static const struct {
		uint16_t from, to;
		bool arrives;
	} rows[] = {
		{0x8001, 0x8001, true},
		{0x8001, 0x0001, true},
		{0x0001, 0x8001, true},
		{0x0001, 0x0001, false},
		{0x8001, 0x8002, false},
	};

	(void)state;
	for (uint32_t i = 0; i < ARRAY_COUNT(rows); i++) {
		struct net net;

		pair_start(&net, rows[i].from);
		pkey_give(&net, 0, rows[i].from | 0x8000, true, true);
		pkey_give(&net, 1, rows[i].to, true, true);
		net_run(&net, MS);
		assert_int_equal(received_packets(&net), rows[i].arrives ? PACKETS : 0);
		assert_int_equal(switch_port(&net, 0)->rcv_constraint_errors, 0);
		assert_int_equal(switch_port(&net, 1)->xmit_constraint_errors,
			rows[i].arrives ? 0 : PACKETS);
		credits_check(&net);
		net_done(&net);
	}
}

static void inbound_port_discards_what_its_host_may_not_send(void **state)
{
	struct net net;

	(void)state;
	pair_start(&net, 0x8002);
	pkey_give(&net, 0, 0x8001, true, false);
	pkey_give(&net, 1, 0x8002, false, true);
	net_run(&net, MS);
	assert_int_equal(received_packets(&net), 0);
	assert_int_equal(switch_port(&net, 0)->rcv_constraint_errors, PACKETS);
	assert_int_equal(switch_port(&net, 1)->xmit_constraint_errors, 0);
	assert_int_equal(switch_port(&net, 1)->vls[0].sent_packets, 0);
	credits_check(&net);
	net_done(&net);
}

static void port_without_enforcement_leaves_it_to_the_host(void **state)
{
	struct net net;

	(void)state;
	pair_start(&net, 0x8002);
	pkey_give(&net, 0, 0x8001, false, false);
	pkey_give(&net, 1, 0x8001, false, false);
	net_run(&net, MS);
	assert_int_equal(received_packets(&net), 0);
	assert_int_equal(switch_port(&net, 1)->vls[0].sent_packets, PACKETS);
	assert_int_equal(host_port(&net, 1)->pkey_violations, PACKETS);
	credits_check(&net);
	net_done(&net);
}

static void all_ports_have_the_default_partition_first(void **state)
{
	struct net net;

	(void)state;
	pair_start(&net, 0);
	infiniband_set_enforcement(net.fabric, net_port_to(&net, 0), true, true);
	infiniband_set_enforcement(net.fabric, net_port_to(&net, 1), true, true);
	net_run(&net, MS);
	assert_int_equal(received_packets(&net), PACKETS);
	net_done(&net);
}

/* Hosts 1 and 2 are members of a group, host 2 in another partition. */
static void outbound_port_discards_one_copy_only(void **state)
{
	static const uint8_t roles[3] = {INFINIBAND_SENDER, INFINIBAND_MEMBER, INFINIBAND_MEMBER};
	struct net net;
	struct fabric_flow *flow;

	(void)state;
	net_init_infiniband(&net, TOPOLOGY_STAR);
	net.topology.hosts = 3;
	net.groups[0] = roles;
	net.group_count = 1;
	flow = net_flow(&net, 0, 0);
	flow->is_multicast = true;
	flow->bytes = PACKETS * NET_PACKET_BYTES;
	flow->pkey = 0x8001;
	net_start(&net);
	pkey_give(&net, 0, 0x8001, true, true);
	pkey_give(&net, 1, 0x0001, true, true);
	pkey_give(&net, 2, 0x8002, true, true);
	net_run(&net, MS);
	assert_int_equal(received_packets(&net), PACKETS);
	assert_int_equal(switch_port(&net, 1)->vls[0].sent_packets, PACKETS);
	assert_int_equal(switch_port(&net, 2)->vls[0].sent_packets, 0);
	assert_int_equal(switch_port(&net, 2)->xmit_constraint_errors, PACKETS);
	credits_check(&net);
	net_done(&net);
}

/* The receiver, a full member, asks a limited one for what was lost, with a key of its own. */
static void full_member_is_answered_by_its_own_key(void **state)
{
	struct net net;
	struct fabric_flow *flow;

	(void)state;
	net_init_infiniband(&net, TOPOLOGY_STAR);
	net.topology.hosts = 2;
	net.sources_init = (struct sources_init){.recovery = SOURCE_GO_BACK_N, .timeout_ps = MS};
	flow = net_flow(&net, 0, 1);
	flow->bytes = PACKETS * NET_PACKET_BYTES;
	flow->pkey = 0x0001;
	net_start(&net);
	pkey_give(&net, 0, 0x0001, false, true);
	pkey_give(&net, 1, 0x8001, false, true);
	net.fabric->ports[net_port_to(&net, 1)].loss_period = 30; /* not the last packet */
	net_run(&net, MS / 2); /* no timeout repeats the packets */
	assert_int_equal(received_packets(&net), PACKETS);
	assert_int_equal(switch_port(&net, 0)->xmit_constraint_errors, 0);
	assert_int_equal(host_port(&net, 0)->pkey_violations, 0);
	net_done(&net);
}

/* Management packets have no P_Key. */

static bool manager_next_packet(
	void *context, struct fabric_packet *packet, uint8_t paused, uint8_t held, uint64_t now_ps)
{
	uint32_t *left = (uint32_t *)context;

	(void)paused;
	(void)held;
	(void)now_ps;
	if (!*left)
		return false;
	--*left;
	packet->is_management = true;
	packet->destination = 1;
	packet->bytes = 290;
	return true;
}

static void manager_receive(void *context, const struct fabric_packet *packet, uint64_t now_ps)
{
	(void)packet;
	(void)now_ps;
	++*(uint32_t *)context;
}

static uint64_t manager_next_time(void *context, uint64_t now_ps)
{
	(void)context;
	(void)now_ps;
	return FABRIC_NEVER;
}

static bool manager_is_idle(
	void *context, struct fabric_packet *packet, uint8_t paused, uint8_t held, uint64_t now_ps)
{
	(void)context;
	(void)packet;
	(void)paused;
	(void)held;
	(void)now_ps;
	return false;
}

static void management_packet_passes_any_partition(void **state)
{
	static const struct fabric_host_ops sender = {
		.next_packet = manager_next_packet,
		.receive = manager_receive,
		.next_time = manager_next_time,
	};
	static const struct fabric_host_ops receiver = {
		.next_packet = manager_is_idle,
		.receive = manager_receive,
		.next_time = manager_next_time,
	};
	uint32_t left = 10;
	uint32_t received = 0;
	struct net net;

	(void)state;
	pair_start(&net, 0);
	pkey_give(&net, 0, 0x8001, true, true);
	pkey_give(&net, 1, 0x8002, true, true);
	fabric_set_host(net.fabric, 0, &sender, &left);
	fabric_set_host(net.fabric, 1, &receiver, &received);
	net_run(&net, MS);
	assert_int_equal(received, 10);
	net_done(&net);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(members_of_a_partition_reach_each_other_if_one_is_full),
		cmocka_unit_test(inbound_port_discards_what_its_host_may_not_send),
		cmocka_unit_test(port_without_enforcement_leaves_it_to_the_host),
		cmocka_unit_test(all_ports_have_the_default_partition_first),
		cmocka_unit_test(outbound_port_discards_one_copy_only),
		cmocka_unit_test(full_member_is_answered_by_its_own_key),
		cmocka_unit_test(management_packet_passes_any_partition),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
