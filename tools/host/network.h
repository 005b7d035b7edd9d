/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A test network: two hosts, each a network namespace, joined by a veth pair.
 *
 * Something must keep a namespace alive. For root that is a name under /run/netns, which `ip netns`
 * knows too. For other users it is a sleeping process, the holder, with both namespaces in a user
 * namespace; a file has its process ID (network_state.h). Both kinds are opened as file descriptors
 * and used alike.
 *
 * All networks have the same addresses, because they are isolated from each other.
 */
#ifndef TOOLS_NETWORK_H
#define TOOLS_NETWORK_H

#include <stdbool.h>
#include <stddef.h>

enum {
	HOST_COUNT = 2,
	NETWORK_NAME_BYTES_MAX = 32, /* with the terminating zero */
	NETWORK_MTU_DEFAULT = 9000,
	NETWORK_MTU_MIN = 1280, /* below it IPv6 is off */
	NETWORK_MTU_MAX = 65535,
};

struct host_facts {
	const char *name;
	const char *ipv4;
	const char *ipv6;
	const char *mac;
};

/* Host a, host b. */
extern const struct host_facts hosts[HOST_COUNT];

/* The name, in both hosts, of the interface that joins them. */
#define NETWORK_INTERFACE "veth0"

struct network {
	int user_fd; /* its user namespace; -1: the caller's */
	int net_fd[HOST_COUNT]; /* each host's network namespace */
	int holder_pid; /* 0: a named network */
};

/* Is the name legal: short, of lower-case letters, digits and hyphens? */
bool network_name_is_valid(const char *name);

/*
 * Make the network: namespaces, addresses, neighbour entries. It carries packets on return.
 *
 * `mtu`  Of the interfaces, NETWORK_MTU_MIN to NETWORK_MTU_MAX bytes.
 *
 * Returns 0, or -errno with the reason on standard error; -EEXIST if the name is in use. After a
 * failure nothing is left.
 */
int network_make(const char *name, unsigned mtu);

/*
 * Open an existing network, for network_close(), also after a failure. Returns 0, -ENOENT without a
 * message, or -errno.
 */
int network_open(const char *name, struct network *ret_network);
void network_close(struct network *network);

/*
 * Move this process to a host until it ends: its user namespace, its network namespace, and a
 * matching /sys. Returns 0 or -errno.
 */
int network_enter(const struct network *network, int host);

/*
 * End a network. Programs that still run in it keep their namespace until they end. Returns 0 or
 * -errno.
 */
int network_drop(const char *name);

/* Call `visit` with the name of every network of this user. */
void network_for_each(void (*visit)(const char *name, void *context), void *context);

#endif
