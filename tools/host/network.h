/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A test network of two hosts or more. Each host is a network namespace. A veth pair joins two
 * hosts. A bridge in a further namespace, the switch, joins more than two.
 *
 * A namespace lasts while something refers to it. A network is of one of three kinds:
 *
 *     named    made by root: a file under /run/netns refers to each namespace, so that `ip netns`
 *              knows it, too
 *     held     made by another user: a sleeping process, the holder, has descriptors of the
 *              namespaces, which belong to a user namespace; a file has its process ID
 *              (network_state.h)
 *     private  without a name: the process that made it has the descriptors
 *
 * struct network has descriptors of the namespaces, so that all kinds are used alike.
 *
 * Networks are isolated from each other, so all have the same addresses.
 */
#ifndef TOOLS_NETWORK_H
#define TOOLS_NETWORK_H

#include <stdbool.h>
#include <stddef.h>

enum {
	HOSTS_MIN = 2,
	HOSTS_MAX = 26, /* each has a letter */
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

/* The facts of a host. Host 0 is `a`; the last possible one is HOSTS_MAX - 1. */
struct host_facts host_facts(int host);

/* The name of each host's interface in the network. */
#define NETWORK_INTERFACE "veth0"

struct network {
	int user_fd; /* the network's user namespace; -1: that of the caller */
	int host_count;
	int net_fd[HOSTS_MAX]; /* each host's network namespace; -1: no such host */
	int switch_fd; /* the switch's network namespace; -1: none, or not opened */
	int holder_pid; /* the process that keeps an ordinary user's network open; 0: none */
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
 * Make a network without a name. It lasts until the calling process and all programs on its hosts
 * have ended. The call moves the calling process into namespaces of the network. A process of an
 * ordinary user is root in these namespaces.
 *
 * `ret_network`  Child processes pass it to network_enter(), the caller to network_close().
 *
 * Returns 0, or -errno with a sentence on standard error.
 */
int network_make_private(const struct network_settings *settings, struct network *ret_network);

/*
 * Open an existing network. The caller passes it to network_close(), which accepts it after a
 * failure, too. Returns 0, or -errno without a message; -ENOENT: there is no such network.
 */
int network_open(const char *name, struct network *ret_network);
void network_close(struct network *network);

/* The MTU of the network's interfaces; 0: unknown. */
unsigned network_mtu(const struct network *network);

/*
 * Move this process to a host for the rest of its life: into the network's user namespace, the
 * host's network namespace, and a mount namespace whose /sys shows this host. Returns 0 or -errno.
 */
int network_enter(const struct network *network, int host);

/*
 * End a network. Programs that still run on a host keep its namespace until they end. Returns 0 or
 * -errno.
 */
int network_drop(const char *name);

/* Call `visit` with the name of every network of this user. */
void network_for_each(void (*visit)(const char *name, void *context), void *context);

#endif
