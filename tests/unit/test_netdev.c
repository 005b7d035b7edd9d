/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The list of interfaces, in network namespaces of our own.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "netdev/netdev.h"
#include "support/netns.h"

static int home, away; /* va is in one, vb in the other */

static struct netdev_list *list_create(void)
{
	struct netdev_list *list;

	assert_int_equal(netdev_list_create(&list), 0);
	return list;
}

static void assert_gid(const struct gid *gid, const char *text)
{
	struct gid expected = {{0}};
	uint8_t ipv4[4];

	if (inet_pton(AF_INET, text, ipv4) == 1)
		expected = gid_from_ipv4(ipv4);
	else
		assert_int_equal(inet_pton(AF_INET6, text, expected.raw), 1);
	assert_memory_equal(gid->raw, expected.raw, sizeof(expected.raw));
}

static void interfaces_are_listed_with_loopback_last(void **state)
{
	static const uint8_t no_mac[6];
	struct netdev_list *list = list_create();
	const struct netdev *veth = &list->devices[0], *loopback = &list->devices[1];

	(void)state;
	assert_int_equal(list->count, 2);
	assert_string_equal(veth->name, "va");
	assert_int_equal(veth->ifindex, if_nametoindex("va"));
	assert_int_equal(veth->mtu_bytes, 1500);
	assert_false(veth->is_loopback);
	assert_true(veth->has_carrier);
	assert_memory_not_equal(veth->mac, no_mac, sizeof(no_mac));
	assert_string_equal(loopback->name, "lo");
	assert_true(loopback->is_loopback);
	assert_gid(&loopback->gids[0], "127.0.0.1");
	assert_gid(&loopback->gids[1], "::1");
	free(list);
}

static void addresses_are_ordered_by_kind(void **state)
{
	struct netdev_list *list;
	const struct netdev *veth;

	(void)state;
	assert_int_equal(netns_run("ip addr add 10.98.0.1/24 dev va && "
				   "ip addr add fd00:98::1/64 dev va nodad && "
				   "ip addr add fe80::77/64 dev va nodad"),
		0);
	list = list_create();
	veth = &list->devices[0];
	assert_gid(&veth->gids[0], "10.99.0.1");
	assert_gid(&veth->gids[1], "10.98.0.1");
	for (uint32_t i = 0; i < veth->gid_count; i++)
		assert_int_equal(gid_is_ipv4(&veth->gids[i]), i < 2);
	for (uint32_t i = 2; i < veth->gid_count; i++)
		assert_int_equal(gid_is_link_local(&veth->gids[i]), i >= 4);
	assert_true(veth->gid_count >= 5);
	free(list);
}

static void tentative_address_is_left_out(void **state)
{
	struct netdev_list *list;
	struct gid tentative = {{0}};

	(void)state;
	/* Duplicate address detection takes a second or more. */
	assert_int_equal(netns_run("ip addr add fd00:97::1/64 dev va"), 0);
	assert_int_equal(inet_pton(AF_INET6, "fd00:97::1", tentative.raw), 1);
	list = list_create();
	for (uint32_t i = 0; i < list->devices[0].gid_count; i++)
		assert_false(gid_is_equal(&list->devices[0].gids[i], &tentative));
	free(list);
}

static void interface_of_the_best_default_route_comes_first(void **state)
{
	struct netdev_list *list;

	(void)state;
	/* The second interface has the higher index, so only the route can put it first. */
	if (netns_run("ip link add vc index 200 type veth peer name vd index 201 && "
		      "ip link set vc up && ip link set vd up "
		      "&& ip addr add 10.97.0.1/24 dev vc") != 0)
		skip();
	list = list_create();
	assert_string_equal(list->devices[0].name, "va");
	free(list);
	assert_int_equal(netns_run("ip route add default via 10.99.0.2 metric 20 && "
				   "ip route add default via 10.97.0.2 metric 10"),
		0);
	list = list_create();
	assert_string_equal(list->devices[0].name, "vc");
	assert_true(list->devices[0].has_default_route);
	assert_string_equal(list->devices[1].name, "va");
	assert_false(list->devices[1].has_default_route);
	assert_true(list->devices[list->count - 1].is_loopback);
	free(list);
}

static void interface_that_is_down_says_so_and_its_peer_has_no_carrier(void **state)
{
	struct netdev_list *list;

	(void)state;
	netns_switch(away);
	assert_int_equal(netns_run("ip link set vb down"), 0);
	list = list_create();
	assert_int_equal(list->count, 2);
	assert_string_equal(list->devices[0].name, "vb");
	assert_false(list->devices[0].is_up);
	assert_false(netdev_is_usable(&list->devices[0]));
	assert_gid(&list->devices[0].gids[0], "10.99.0.2");
	assert_true(netdev_is_usable(&list->devices[1]));
	free(list);
	netns_switch(home);
	list = list_create();
	for (uint32_t i = 0; i < list->count; i++) {
		if (strcmp(list->devices[i].name, "va") == 0)
			assert_false(list->devices[i].has_carrier);
	}
	free(list);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(interfaces_are_listed_with_loopback_last),
		cmocka_unit_test(addresses_are_ordered_by_kind),
		cmocka_unit_test(tentative_address_is_left_out),
		cmocka_unit_test(interface_of_the_best_default_route_comes_first),
		cmocka_unit_test(interface_that_is_down_says_so_and_its_peer_has_no_carrier),
	};

	home = netns_enter_new();
	away = netns_enter_new();
	if (home < 0 || away < 0 || netns_join(home, away, 1500) != 0)
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
