/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The state of the next hop: on interfaces with link addresses, and on a tunnel, which has none.
 */
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cmocka.h>

#include "netdev/neighbour.h"
#include "support/netns.h"

static struct gid gid_of(uint8_t subnet, uint8_t host)
{
	return (struct gid){{[10] = 0xff, [11] = 0xff, [12] = 10, subnet, 0, host}};
}

static enum neighbour look(uint8_t subnet, uint8_t host, const char *interface)
{
	struct gid local = gid_of(subnet, 1), remote = gid_of(subnet, host);

	return neighbour_look(&local, &remote, if_nametoindex(interface));
}

static void own_address_is_known(void **state)
{
	(void)state;
	assert_int_equal(look(1, 1, "wire"), NEIGHBOUR_KNOWN);
}

static void silent_host_on_a_link_is_asked_for(void **state)
{
	(void)state;
	assert_int_equal(look(1, 2, "wire"), NEIGHBOUR_PENDING);
}

static void host_behind_a_tunnel_needs_no_link_address(void **state)
{
	struct ifreq request = {.ifr_name = "tunnel", .ifr_flags = IFF_TUN | IFF_NO_PI};
	int tunnel = open("/dev/net/tun", O_RDWR | O_CLOEXEC);

	(void)state;
	if (tunnel < 0 || ioctl(tunnel, TUNSETIFF, &request)) {
		print_message("no tunnels here\n");
		if (tunnel >= 0)
			close(tunnel);
		skip();
	}
	assert_int_equal(
		netns_run("ip addr add 10.2.0.1/24 dev tunnel && ip link set tunnel up"), 0);
	assert_int_equal(look(2, 2, "tunnel"), NEIGHBOUR_KNOWN);
	close(tunnel);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(own_address_is_known),
		cmocka_unit_test(silent_host_on_a_link_is_asked_for),
		cmocka_unit_test(host_behind_a_tunnel_needs_no_link_address),
	};

	if (netns_enter_new() < 0)
		return 77;
	if (netns_run(
		    "ip link add wire type veth peer name other && ip addr add 10.1.0.1/24 dev wire && "
		    "ip link set other up && ip link set wire up"))
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
