/* SPDX-License-Identifier: BSD-2-Clause */
#include "netdev/netdev_change.h"

#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "os/cancel.h"

static struct mnl_socket *netlink; /* NULL: none */
static struct stat namespace; /* the network namespace of the socket */
/* The process that opened `netlink`. A child would take its messages, so it opens another one. */
static pid_t owner;

static int groups_join(void)
{
	static const int groups[] = {RTNLGRP_LINK, RTNLGRP_IPV4_IFADDR, RTNLGRP_IPV6_IFADDR,
		RTNLGRP_IPV4_ROUTE, RTNLGRP_IPV6_ROUTE};

	if (mnl_socket_bind(netlink, 0, MNL_SOCKET_AUTOPID))
		return -1;
	for (size_t i = 0; i < sizeof(groups) / sizeof(*groups); i++)
		if (mnl_socket_setsockopt(
			    netlink, NETLINK_ADD_MEMBERSHIP, (void *)&groups[i], sizeof(groups[i])))
			return -1;
	return 0;
}

static void open_here(const struct stat *here)
{
	if (netlink)
		mnl_socket_close(netlink);
	netlink = mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC);
	if (netlink && groups_join()) {
		mnl_socket_close(netlink);
		netlink = NULL;
	}
	namespace = *here;
	owner = getpid();
}

/* Empty the socket. Returns true if it had a message, or if the kernel has lost one. */
static bool take_messages(void)
{
	bool has_changes = false;
	char byte;

	while (recv(mnl_socket_get_fd(netlink), &byte, 1, MSG_DONTWAIT | MSG_TRUNC) >= 0 ||
		errno == ENOBUFS || errno == EINTR)
		has_changes = true;
	return has_changes;
}

static bool is_where_it_was(const struct stat *here)
{
	return netlink && owner == getpid() && namespace.st_ino == here->st_ino &&
		namespace.st_dev == here->st_dev;
}

bool netdev_has_changes(void)
{
	int cancel = cancel_forbid();
	bool has_changes = true;
	struct stat here;

	if (stat("/proc/thread-self/ns/net", &here) == 0) {
		if (is_where_it_was(&here))
			has_changes = take_messages();
		else
			open_here(&here);
	}
	cancel_allow(cancel);
	return has_changes;
}
