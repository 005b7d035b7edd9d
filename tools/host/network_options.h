/* SPDX-License-Identifier: BSD-2-Clause */
/* What `urnic host` and `urnic pair` share besides the network itself: options and environment. */
#ifndef TOOLS_NETWORK_OPTIONS_H
#define TOOLS_NETWORK_OPTIONS_H

/*
 * Parse an MTU, or a number of hosts. `command` begins the complaint. Returns 0, or -EINVAL after a
 * complaint.
 */
int network_mtu_parse(const char *command, const char *text, unsigned *ret_mtu);
int network_hosts_parse(const char *command, const char *text, unsigned *ret_hosts);

/*
 * To a program on one host, the others are machines across a network, unless the user has set
 * URNIC_HOST_ID. Sets it to a text of network and host.
 */
void network_identify(const char *network, int host);

/* Extend PATH by /usr/sbin and /sbin, where `ip` may be. Returns 0 or -errno. */
int network_find_ip(void);

#endif
