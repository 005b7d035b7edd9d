/* SPDX-License-Identifier: BSD-2-Clause */
/* Inside of the hosts of a network: interfaces, addresses, neighbours, all set with `ip`. */
#ifndef TOOLS_NETWORK_SETUP_H
#define TOOLS_NETWORK_SETUP_H

#include <sys/types.h>

#include "host/network.h"

/*
 * Join fresh namespaces and configure them. More than HOSTS_MIN hosts need a switch. Packets can
 * flow on return. Returns 0 or -errno.
 */
int network_configure(const struct network *network, unsigned mtu);

/*
 * Run `ip` with up to six arguments, NULL-terminated. Returns 0, or -EIO after a message of `ip`.
 */
int network_run_ip(const char *const *arguments);

/*
 * Wait for a child: 0 if it exited with 0, otherwise -EIO.
 */
int network_wait_for(pid_t child);

#endif
