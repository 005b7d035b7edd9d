/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The configuration inside the hosts of a network: interfaces, addresses, neighbours. The program
 * `ip` makes it.
 */
#ifndef TOOLS_NETWORK_SETUP_H
#define TOOLS_NETWORK_SETUP_H

#include <sys/types.h>

#include "host/network.h"

/*
 * Join the new namespaces of a network and configure them. If the network has more than HOSTS_MIN
 * hosts, network->switch_fd is open. Packets can flow on return. Returns 0 or -errno.
 */
int network_configure(const struct network *network, unsigned mtu);

/*
 * Run `ip` with up to six arguments, NULL-terminated. Returns 0, or -EIO after a message of `ip`.
 */
int network_run_ip(const char *const *arguments);

/* Wait for a child to end. Returns 0 if its exit status is 0, otherwise -EIO or -errno. */
int network_wait_for(pid_t child);

#endif
