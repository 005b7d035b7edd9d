/* SPDX-License-Identifier: BSD-2-Clause */
/* What `urnic host` and `urnic pair` share besides the network itself: options and environment. */
#ifndef TOOLS_NETWORK_OPTIONS_H
#define TOOLS_NETWORK_OPTIONS_H

/*
 * Parse an MTU, or a number of hosts. Return 0, or -EINVAL after a complaint that begins with
 * `command`.
 */
int network_mtu_parse(const char *command, const char *text, unsigned *ret_mtu);
int network_hosts_parse(const char *command, const char *text, unsigned *ret_hosts);

/*
 * Set URNIC_HOST_ID to a text that names the network and the host, unless the user has set it. So
 * urnic takes the hosts for different machines, and uses packets between them.
 */
void network_identify(const char *network, int host);

/* Extend PATH by /usr/sbin and /sbin, where `ip` may be. Returns 0 or -errno. */
int network_find_ip(void);

#endif
