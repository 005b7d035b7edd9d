/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A test network: two hosts, each a network namespace, joined by a veth pair.
 *
 * Somebody has to keep a namespace alive. As root that is a name under /run/netns, which `ip netns`
 * knows too. Anyone else gets a user namespace with a process that sleeps and holds both (the
 * holder); its id is in a file of the user's (network_state.h). Both are opened as file
 * descriptors, and from there on the two kinds are treated alike.
 *
 * Addresses are the same in every network, since networks do not see each other.
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

/* The interface that joins them has this name in both. */
#define NETWORK_INTERFACE "veth0"

struct network {
	int user_fd; /* its user namespace, or -1: ours */
	int net_fd[HOST_COUNT]; /* each host's network namespace */
	int holder_pid; /* 0 for a network that has names */
};

/*
 * Whether a network name is one we make: lower-case letters, digits and hyphens, short.
 */
bool network_name_is_valid(const char *name);

/*
 * Make the network: namespaces, addresses, neighbour entries; it can carry packets on return.
 *
 * `mtu`     Of the interfaces, NETWORK_MTU_MIN to NETWORK_MTU_MAX bytes.
 *
 * 0 or -errno, with the reason on standard error; -EEXIST if there is one of that name. After a
 * failure nothing is left.
 */
int network_make(const char *name, unsigned mtu);

/*
 * Open an existing network; network_close() when done, which is fine after a failure too. 0, or
 * -ENOENT silently, or -errno.
 */
int network_open(const char *name, struct network *ret_network);
void network_close(struct network *network);

/*
 * Move this process to a host, for good: its user namespace, its network namespace, and a view of
 * /sys that belongs to it. 0 or -errno.
 */
int network_enter(const struct network *network, int host);

/*
 * End a network. Programs that still run on it keep their namespace until they end. 0 or -errno.
 */
int network_drop(const char *name);

/*
 * Call back with the name of every network of this user that is up.
 */
void network_for_each(void (*visit)(const char *name, void *context), void *context);

#endif
