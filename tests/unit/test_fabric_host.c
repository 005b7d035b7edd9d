/* SPDX-License-Identifier: BSD-2-Clause */
/* What dcb sets at hosts: traffic classes, their rates, and buffers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "support/fabric_net.h"

#define MS FABRIC_PS_PER_MS

/* Within 1 % of the closed form. */
static void share_check(uint32_t share, uint32_t expected)
{
	assert_in_range(share, expected * 99 / 100, expected * 101 / 100);
}

/* --- classes --- */

/* h0 sends to three hosts, a priority to each, and its classes are `egress`. */
static void classes_start(struct net *net, const struct egress *egress)
{
	net_init(net, TOPOLOGY_STAR);
	net->topology.hosts = 4;
	net->topology.switches.lossless = 0xff;
	for (uint32_t i = 0; i < 3; i++)
		net_flow(net, 0, i + 1)->priority = (uint8_t)i;
	net_start(net);
	net->fabric->hosts[0].egress = *egress;
	net->fabric->hosts[0].has_classes = true;
}

static void classes_share_the_line_by_their_weights(void **state)
{
	static const struct egress egress = {
		.class_of = {0, 1, 2}, .strict = 0xf8, .weight = {20, 30, 50}};
	struct net net;
	uint32_t shares[NET_FLOW_COUNT_MAX];

	(void)state;
	classes_start(&net, &egress);
	net_measure(&net, 1 * MS, 11 * MS, shares);
	share_check(shares[0], 2000);
	share_check(shares[1], 3000);
	share_check(shares[2], 5000);
	net_done(&net);
}

static void priorities_of_a_class_have_its_share_together(void **state)
{
	static const struct egress egress = {
		.class_of = {0, 0, 1}, .strict = 0xfc, .weight = {50, 50}};
	struct net net;
	uint32_t shares[NET_FLOW_COUNT_MAX];

	(void)state;
	classes_start(&net, &egress);
	net_measure(&net, 1 * MS, 11 * MS, shares);
	share_check(shares[0] + shares[1], 5000);
	share_check(shares[2], 5000);
	net_done(&net);
}

/* The strict class sends at a quarter of the line. The other classes share three quarters. */
static void strict_class_goes_first(void **state)
{
	static const struct egress egress = {
		.class_of = {0, 1, 2}, .strict = 0xfc, .weight = {40, 60}};
	struct net net;
	uint32_t shares[NET_FLOW_COUNT_MAX];

	(void)state;
	classes_start(&net, &egress);
	net.flows[2].rate_mbps = NET_RATE_MBPS / 4;
	net_measure(&net, 1 * MS, 11 * MS, shares);
	share_check(shares[0], 3000);
	share_check(shares[1], 4500);
	share_check(shares[2], 2500);
	net_done(&net);
}

static void share_of_an_idle_class_goes_to_the_others(void **state)
{
	static const struct egress egress = {
		.class_of = {0, 1, 2}, .strict = 0xf8, .weight = {20, 30, 50}};
	struct net net;
	uint32_t shares[NET_FLOW_COUNT_MAX];

	(void)state;
	classes_start(&net, &egress);
	net.flows[2].bytes = 1;
	net_measure(&net, 1 * MS, 11 * MS, shares);
	share_check(shares[0], 4000);
	share_check(shares[1], 6000);
	net_done(&net);
}

static void class_keeps_its_highest_rate(void **state)
{
	static const struct egress egress = {.class_of = {0, 1, 2},
		.strict = 0xff,
		.rate_mbps = {[1] = NET_RATE_MBPS / 2, [2] = NET_RATE_MBPS / 10}};
	struct net net;
	uint32_t shares[NET_FLOW_COUNT_MAX];

	(void)state;
	classes_start(&net, &egress);
	net_measure(&net, 1 * MS, 11 * MS, shares);
	share_check(shares[0], 4000);
	share_check(shares[1], 5000);
	share_check(shares[2], 1000);
	net_done(&net);
}

/* The host wakes up by itself when its only class may send again. */
static void rate_of_the_only_class_that_sends_is_kept(void **state)
{
	static const struct egress egress = {
		.class_of = {0, 1, 2}, .strict = 0xff, .rate_mbps = {NET_RATE_MBPS / 5}};
	struct net net;
	uint32_t shares[NET_FLOW_COUNT_MAX];

	(void)state;
	classes_start(&net, &egress);
	net.flows[1].bytes = net.flows[2].bytes = 1;
	net_measure(&net, 1 * MS, 11 * MS, shares);
	share_check(shares[0], 2000);
	net_done(&net);
}

/* The receiver's class for notifications may hardly send, and the senders get them. */
static void congestion_notifications_wait_for_no_class(void **state)
{
	struct cc_params params;
	struct net net;

	(void)state;
	cc_params_init(&params, CC_DCQCN, CC_PRESET_SIGCOMM15);
	net_init(&net, TOPOLOGY_STAR);
	net.topology.hosts = 3;
	net.topology.switches.marking[NET_PRIORITY] = (struct marking){5000, 200000, 10000};
	net.sources_init = (struct sources_init){.cc = &params, .cnp_priority = 6};
	net_flow(&net, 1, 0);
	net_flow(&net, 2, 0);
	net_start(&net);
	net.fabric->hosts[0].has_classes = true;
	net.fabric->hosts[0].egress =
		(struct egress){.class_of = {[6] = 6}, .strict = 0xff, .rate_mbps = {[6] = 1}};
	net_run(&net, 10 * MS);
	assert_true(net.flows[0].cnp_count > 10);
	net_done(&net);
}

/* --- buffers --- */

/* h1 and h2 send to h0 with priorities 3 and 1. h0 takes a tenth of its line. */
static void buffers_start(struct net *net, const struct fabric_ingress_config *config)
{
	net_init(net, TOPOLOGY_STAR);
	net->topology.hosts = 3;
	net_flow(net, 1, 0);
	net_flow(net, 2, 0)->priority = 1;
	net_start(net);
	net->fabric->ports[net->fabric->hosts[0].port].pause_ignored = 1u << 1;
	fabric_set_ingress(net->fabric, 0, config);
	fabric_slow_host(net->fabric, 0, NET_RATE_MBPS / 10, 0);
}

static const struct port_counters *counters_of(const struct net *net, uint32_t priority)
{
	return &net->fabric->ports[net->fabric->hosts[0].port].priority[priority].counters;
}

static void buffer_pauses_a_lossless_priority_and_drops_the_others(void **state)
{
	static const struct fabric_ingress_config config = {.has_buffers = true,
		.buffer_of = {[3] = 1},
		.buffer_bytes = {20 * NET_FRAME_BYTES, 40 * NET_FRAME_BYTES}};
	struct net net;

	(void)state;
	buffers_start(&net, &config);
	net_run(&net, 10 * MS);
	assert_int_not_equal(counters_of(&net, 3)->sent_pauses, 0);
	assert_int_equal(counters_of(&net, 3)->discarded_frames, 0);
	assert_int_equal(counters_of(&net, 1)->sent_pauses, 0);
	assert_int_not_equal(counters_of(&net, 1)->discarded_frames, 0);
	for (uint32_t i = 0; i < 2; i++)
		assert_in_range(
			net.fabric->hosts[0].ingress.used_bytes[i], 0, config.buffer_bytes[i]);
	net_done(&net);
}

/* What is under way when the pause begins needs the headroom of the cable. */
static void buffer_below_its_headroom_drops_lossless_frames(void **state)
{
	static const struct fabric_ingress_config config = {
		.has_buffers = true, .buffer_bytes = {4 * NET_FRAME_BYTES}};
	struct net net;

	(void)state;
	buffers_start(&net, &config);
	net_run(&net, 10 * MS);
	assert_int_not_equal(counters_of(&net, 3)->sent_pauses, 0);
	assert_int_not_equal(counters_of(&net, 3)->discarded_frames, 0);
	net_done(&net);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(classes_share_the_line_by_their_weights),
		cmocka_unit_test(priorities_of_a_class_have_its_share_together),
		cmocka_unit_test(strict_class_goes_first),
		cmocka_unit_test(share_of_an_idle_class_goes_to_the_others),
		cmocka_unit_test(class_keeps_its_highest_rate),
		cmocka_unit_test(rate_of_the_only_class_that_sends_is_kept),
		cmocka_unit_test(congestion_notifications_wait_for_no_class),
		cmocka_unit_test(buffer_pauses_a_lossless_priority_and_drops_the_others),
		cmocka_unit_test(buffer_below_its_headroom_drops_lossless_frames),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
