/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_PEER_NIC_OWNER_H
#define URNIC_PEER_NIC_OWNER_H

/*
 * Other processes of this host whose protection domains this process uses (local/channel/owner.h).
 * A domain of an owner has a number in this process. By that number a lane finds the owner's table,
 * in which it looks up the keys of the domain's regions.
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
 * Get the owner behind `peer`, with a reference. The call consumes the caller's reference to
 * `peer`, also on failure. Returns 0 or -ENOMEM.
 */
int nic_owner_get(struct nic_peer *peer, struct nic_owner **ret_owner);

/* nic_owner_get() for process `pid`, whose NIC memory is `memory`, which the call closes. */
int nic_owner_get_process(uint32_t pid, int memory, struct nic_owner **ret_owner);

void nic_owner_put(struct nic_owner *owner);

/* A number here for a protection domain of the owner, which stays in use. 0 or -ENOMEM. */
int nic_domain_add(struct nic_owner *owner, uint32_t pd, uint32_t *ret_number);

/* The domain is destroyed: no queue pair and no region is in it any more. */
void nic_domain_remove(uint32_t number);

#endif
