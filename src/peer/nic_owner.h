/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_PEER_NIC_OWNER_H
#define URNIC_PEER_NIC_OWNER_H

/*
 * Owners: other processes of this host whose protection domains this process uses
 * (local/channel/owner.h). A domain of an owner has a number in this process. By that number a lane
 * finds the owner's table of regions, in which it looks up the keys of the domain.
 *
 * The NIC is locked for all calls.
 */

#include <stdint.h>

#include "base/list.h"
#include "local/channel/owner.h"

struct nic_peer;

struct nic_owner {
	struct owner_process process;
	struct list link;
	struct nic_peer *peer;
	uint32_t users;
};

/*
 * Get the struct nic_owner of process `peer`, and reference it. The function takes over the
 * caller's reference to `peer`, and releases it on failure. Returns 0 or -ENOMEM.
 */
int nic_owner_get(struct nic_peer *peer, struct nic_owner **ret_owner);

/* nic_owner_get() for process `pid`, whose NIC memory is `memory`, which the call closes. */
int nic_owner_get_process(uint32_t pid, int memory, struct nic_owner **ret_owner);

void nic_owner_put(struct nic_owner *owner);

/*
 * Assign a number in this process to protection domain `pd` of the owner. The number holds a
 * reference to the owner until nic_domain_remove(). Returns 0 or -ENOMEM.
 */
int nic_domain_add(struct nic_owner *owner, uint32_t pd, uint32_t *ret_number);

/*
 * Release the number of a domain. No queue pair and no region of this process is in the domain any
 * more.
 */
void nic_domain_remove(uint32_t number);

#endif
