/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_PEER_NIC_HOST_H
#define URNIC_PEER_NIC_HOST_H

/*
 * Other processes of this host whose protection domains are used here (local/far.h). A domain of
 * theirs has a number here, by which keys of its regions are looked up in their memory.
 *
 * The NIC is locked for all calls.
 */

#include <stdint.h>

#include "base/list.h"
#include "local/far.h"

struct nic_peer;

struct nic_host {
	struct far_host far;
	struct list link;
	struct nic_peer *peer;
	uint32_t users;
};

/*
 * Use the process behind `peer`, which is used one time more by that; one that is used already is
 * given back. Returns 0 or -ENOMEM (then `peer` is the caller's).
 */
int nic_host_get(struct nic_peer *peer, struct nic_host **ret_host);

/* The same for a process whose NIC memory is at hand, and is closed. Returns 0 or -errno. */
int nic_host_get_process(uint32_t pid, int memory, struct nic_host **ret_host);

void nic_host_put(struct nic_host *host);

/* A number here for a protection domain of the host's; that uses the host. Returns 0 or -ENOMEM. */
int nic_domain_add(struct nic_host *host, uint32_t pd, uint32_t *ret_number);

/* No queue pair works in it any more, and no region is in it. */
void nic_domain_remove(uint32_t number);

#endif
