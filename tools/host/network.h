/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A test network of two hosts or more, each a network namespace. Two are joined by a veth pair,
 * more by a bridge in a namespace of its own, the switch.
 *
 * Something must keep a namespace alive. For root that is a name under /run/netns, which `ip netns`
 * knows too. For other users it is a sleeping process, the holder, with all namespaces in a user
 * namespace; a file has its process ID (network_state.h). A private network is kept by the process
 * that made it. All kinds are file descriptors and used alike.
 *
 * All networks have the same addresses, because they are isolated from each other.
 */
#ifndef TOOLS_NETWORK_H
#define TOOLS_NETWORK_H

#include <stdbool.h>
#include <stddef.h>

enum {
	HOSTS_MIN = 2,
	HOSTS_MAX = 26, /* a letter each */
	NETWORK_NAME_BYTES_MAX = 32, /* with the terminating zero */
	NETWORK_MTU_DEFAULT = 9000,
	NETWORK_MTU_MIN = 1280, /* below it IPv6 is off */
	NETWORK_MTU_MAX = 65535,
};

struct host_facts {
	char name[2];
	char ipv4[16];
	char ipv6[16];
	char mac[18];
};

/* Of host 0, which is a, to host HOSTS_MAX - 1. */
struct host_facts host_facts(int host);

/* The name, in each host, of the interface that joins them. */
#define NETWORK_INTERFACE "veth0"

struct network {
	int user_fd; /* its user namespace; -1: the caller's */
	int host_count;
	int net_fd[HOSTS_MAX]; /* each host's network namespace; -1: no such host */
	int switch_fd; /* that of the bridge; -1: none, or not opened */
	int holder_pid; /* 0: a named or private network */
};

struct network_settings {
	unsigned mtu; /* of the interfaces, NETWORK_MTU_MIN to NETWORK_MTU_MAX bytes */
	unsigned hosts; /* HOSTS_MIN to HOSTS_MAX */
};

/* Is the name legal: short, of lower-case letters, digits and hyphens? */
bool network_name_is_valid(const char *name);

/*
 * Make the network: namespaces, addresses, neighbour entries. It carries packets on return.
 *
 * Returns 0, or -errno with the reason on standard error; -EEXIST if the name is in use. After a
 * failure nothing is left.
 */
int network_make(const char *name, const struct network_settings *settings);

/*
 * Make a network without a name, which lives as long as its programs and the caller. The caller is
 * then in namespaces of it; an ordinary user is root there.
 *
 * `ret_network`  For network_enter() of child processes, and network_close().
 *
 * Returns 0, or -errno with a sentence on standard error.
 */
int network_make_private(const struct network_settings *settings, struct network *ret_network);

/*
 * Open an existing network, for network_close(), also after a failure. Returns 0, -ENOENT without a
 * message, or -errno.
 */
int network_open(const char *name, struct network *ret_network);
void network_close(struct network *network);

/* The MTU of its interfaces; 0: unknown. */
unsigned network_mtu(const struct network *network);

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
