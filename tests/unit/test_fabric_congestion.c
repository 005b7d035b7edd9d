/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * DCQCN in the simulated network, beside what a reference model (ns-3) has measured for the same
 * scenarios. Both are models of the same algorithm, so their figures agree within 30 %.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "support/fabric_net.h"

#define MS FABRIC_PS_PER_MS

static struct cc_params params;

/*
 * The paper's parameters, with the changes that the reference has. It counts an increase after it
 * has made it, so its fast recovery is one step longer.
 */
static void dcqcn_init(struct net *net, enum topology_kind kind)
{
	net_init(net, kind);
	cc_params_init(&params, CC_DCQCN, CC_PRESET_SIGCOMM15);
	params.rp_byte_reset = 0;
	params.rp_min_rate = 100;
	params.rp_threshold++;
	net->sources_init = (struct sources_init){.cc = &params, .cnp_priority = 6};
	net->topology.switches.scheduler.strict = 1u << 6;
	net->topology.switches.marking[NET_PRIORITY] = (struct marking){5000, 200000, 10000};
}

static void near_check(const char *what, uint64_t value, uint64_t reference)
{
	printf("%s: %llu, reference %llu\n", what, (unsigned long long)value,
		(unsigned long long)reference);
	assert_in_range(value, reference * 70 / 100, reference * 130 / 100);
}

/* Jain's index of fairness, in parts of 10,000. */
static uint32_t jain_of(const uint32_t *shares, uint32_t count)
{
	uint64_t sum = 0;
	uint64_t squares = 0;

	for (uint32_t i = 0; i < count; i++) {
		sum += shares[i];
		squares += (uint64_t)shares[i] * shares[i];
	}
	return (uint32_t)(sum * sum * 10000 / (count * squares));
}

static uint64_t pauses_of(const struct net *net)
{
	uint64_t pauses = 0;

	for (uint32_t i = 0; i < net->fabric->port_count; i++)
		pauses += net->fabric->ports[i].priority[NET_PRIORITY].counters.sent_pauses;
	return pauses;
}

/* The mean length of the queue to host 0 from `from_ps` until now. */
static uint64_t queue_mean(const struct net *net, uint64_t before, uint64_t from_ps)
{
	uint64_t ns = (net->fabric->now_ps - from_ps) / FABRIC_PS_PER_NS;

	return (fabric_queue_byte_ns(net->fabric, net_port_to(net, 0), NET_PRIORITY) - before) / ns;
}

/* --- what DCQCN is for --- */

static void incast_start(struct net *net, uint32_t senders)
{
	dcqcn_init(net, TOPOLOGY_STAR);
	net->topology.hosts = senders + 1;
	for (uint32_t i = 1; i <= senders; i++)
		net_flow(net, i, 0);
}

static void incast_with_dcqcn_has_short_queues_and_fair_shares(void **state)
{
	static const uint32_t reference_bytes[] = {38000, 79000, 124000, 127000};

	(void)state;
	for (uint32_t i = 0; i < ARRAY_COUNT(reference_bytes); i++) {
		uint32_t senders = 2u << i;
		uint32_t shares[NET_FLOW_COUNT_MAX];
		struct net net;
		uint64_t before;
		uint64_t mean;
		uint32_t sum = 0;

		incast_start(&net, senders);
		net_start(&net);
		net_run(&net, 20 * MS);
		before = fabric_queue_byte_ns(net.fabric, net_port_to(&net, 0), NET_PRIORITY);
		net_measure(&net, 20 * MS, 60 * MS, shares);
		mean = queue_mean(&net, before, 20 * MS);
		for (uint32_t j = 0; j < senders; j++)
			sum += shares[j];
		printf("%u senders: sum %u, Jain %u, %llu pauses, queue %llu, reference %u\n",
			senders, sum, jain_of(shares, senders), (unsigned long long)pauses_of(&net),
			(unsigned long long)mean, reference_bytes[i]);
		near_check("queue", mean, reference_bytes[i]);
		assert_in_range(sum, 9800, 10000);
		assert_in_range(jain_of(shares, senders), 9890, 10000);
		assert_int_equal(pauses_of(&net), 0);
		net_done(&net);
	}
}

static void incast_without_dcqcn_pauses_its_senders(void **state)
{
	static const uint32_t reference_pauses[] = {3886, 4858, 6419, 5950};

	(void)state;
	for (uint32_t i = 0; i < ARRAY_COUNT(reference_pauses); i++) {
		struct net net;

		incast_start(&net, 2u << i);
		net.sources_init.cc = NULL;
		net_start(&net);
		net_run(&net, 20 * MS);
		near_check("pauses", pauses_of(&net), reference_pauses[i]);
		net_done(&net);
	}
}

/* In the reference a CNP cuts the rate at the end of a period, so queues grow until then. */
static void incast_with_dcqcn_peaks_at_its_start(void **state)
{
	static const uint32_t reference_bytes[] = {450000, 1280000, 3150000, 7180000};

	(void)state;
	for (uint32_t i = 0; i < ARRAY_COUNT(reference_bytes); i++) {
		struct net net;

		incast_start(&net, 2u << i);
		params.rp_rate_reduce_monitor_period = 50;
		net_start(&net);
		net_run(&net, 5 * MS);
		near_check("peak",
			net.fabric->ports[net_port_to(&net, 0)]
				.priority[NET_PRIORITY]
				.counters.queue_bytes_max,
			reference_bytes[i]);
		net_done(&net);
	}
}

static void flow_that_joins_gets_its_share(void **state)
{
	uint32_t shares[NET_FLOW_COUNT_MAX];
	struct net net;
	uint64_t at_ps = 10 * MS;

	(void)state;
	dcqcn_init(&net, TOPOLOGY_STAR);
	net.topology.hosts = 3;
	net_flow(&net, 1, 0);
	net_flow(&net, 2, 0)->start_ps = 10 * MS;
	net_start(&net);
	do {
		net_measure(&net, at_ps, at_ps + MS / 4, shares);
		at_ps += MS / 4;
	} while (at_ps < 20 * MS && (shares[1] < 4500 || shares[1] > 5500));
	printf("fair after %llu us, reference 1660\n",
		(unsigned long long)((at_ps - 10 * MS) / FABRIC_PS_PER_US));
	assert_in_range(at_ps, 10 * MS, 10 * MS + 1660 * 130 / 100 * FABRIC_PS_PER_US);
	net_measure(&net, 20 * MS, 100 * MS, shares);
	printf("Jain %u\n", jain_of(shares, 2));
	assert_in_range(jain_of(shares, 2), 9850, 10000);
	assert_int_equal(pauses_of(&net), 0);
	net_done(&net);
}

static void dcqcn_shares_between_local_and_remote_senders(void **state)
{
	uint32_t shares[NET_FLOW_COUNT_MAX];
	struct net net;

	(void)state;
	dcqcn_init(&net, TOPOLOGY_DUMBBELL);
	net.topology.hosts = 3;
	net.topology.hosts_right = 2;
	for (uint32_t i = 0; i < 4; i++)
		net_flow(&net, i, 4);
	net_start(&net);
	net_measure(&net, 20 * MS, 60 * MS, shares);
	/* 9.1 to 10.3 Gbit/s each, instead of 19.1 and 6.4 */
	for (uint32_t i = 0; i < 4; i++)
		near_check("share", shares[i], 2500);
	net_done(&net);
}

static void dcqcn_rescues_the_victim(void **state)
{
	uint32_t shares[NET_FLOW_COUNT_MAX] = {0};
	struct net net;

	(void)state;
	dcqcn_init(&net, TOPOLOGY_DUMBBELL);
	net.topology.hosts = 3;
	net.topology.hosts_right = 4;
	net_flow(&net, 0, 5);
	net_flow(&net, 1, 5);
	net_flow(&net, 2, 6);
	net_flow(&net, 3, 5);
	net_flow(&net, 4, 5);
	net_start(&net);
	net_measure(&net, 20 * MS, 60 * MS, shares);
	/* 21.5 Gbit/s of payload, of 38.2, instead of 6.4; max-min fair is one half */
	near_check("victim", shares[2], 10000 * 215 / 382);
	net_done(&net);
}

/* A receiver answers marks by one CNP each 50 us, at least and at most. */
static void cnps_of_a_marked_flow_keep_their_distance(void **state)
{
	struct net net;

	(void)state;
	dcqcn_init(&net, TOPOLOGY_STAR);
	net.topology.hosts = 3;
	net.topology.switches.marking[NET_PRIORITY] = (struct marking){0, 1, 1000000};
	for (uint32_t i = 1; i < 3; i++)
		net_flow(&net, i, 0);
	params.rp_min_rate = 5000; /* so that marks arrive all the time */
	net_start(&net);
	net_run(&net, 50 * MS);
	for (uint32_t i = 0; i < 2; i++) {
		printf("%llu marks, %llu CNPs\n", (unsigned long long)net.flows[i].marked_frames,
			(unsigned long long)net.flows[i].cnp_count);
		assert_int_equal(net.flows[i].marked_frames, net.flows[i].received_frames);
		assert_in_range(net.flows[i].cnp_count, 960, 1000);
	}
	net_done(&net);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(incast_with_dcqcn_has_short_queues_and_fair_shares),
		cmocka_unit_test(incast_without_dcqcn_pauses_its_senders),
		cmocka_unit_test(incast_with_dcqcn_peaks_at_its_start),
		cmocka_unit_test(flow_that_joins_gets_its_share),
		cmocka_unit_test(dcqcn_shares_between_local_and_remote_senders),
		cmocka_unit_test(dcqcn_rescues_the_victim),
		cmocka_unit_test(cnps_of_a_marked_flow_keep_their_distance),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
