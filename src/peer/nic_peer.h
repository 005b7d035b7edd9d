/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_PEER_NIC_PEER_H
#define URNIC_PEER_NIC_PEER_H

/*
 * Other processes on this host, whose NIC memory is mapped here.
 *
 * Who a queue pair's peer is follows from its address and its slot: urnicd knows the process, and
 * hands out its NIC memory to the same user. An address that is not of this network namespace may
 * be of another one on this host, where another urnicd knows (agent/namespace_lookup.h); that one
 * slot may there be anybody's, so such a peer is told by its queue pair. Its other memory is
 * reached as a debugger would reach it (process_vm_readv(2) and _writev), if the kernel lets us;
 * reading its directory that way, and comparing it with the one in NIC memory, shows that both are
 * of one process.
 *
 * Life: each NIC has a pipe of which it alone has the writing end; its peers have copies of the
 * other and hear it break, when the process dies or executes another program. The other way round,
 * NIC memory has a lock of ours on it, on a byte beyond its end, as long as we have it mapped; the
 * kernel takes it back when we die, however that was, and its owner can look (nic_peer_is_alive).
 *
 * The NIC is locked for all calls but nic_peer_is_alive.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "local/local.h"
#include "local/ud_endpoint.h"
#include "segment/nic_public.h"
#include "segment/peer_segments.h"

enum { NIC_PEERS_UNUSED_MAX = 8 };

struct nic_peer {
	struct peer peer;
	struct list link; /* in peer_list */
	uint32_t users; /* connections */
	uint64_t identity; /* of its NIC (struct nic_public) */
	uint32_t pid;
	bool is_self;
	bool is_elsewhere; /* in another network namespace, where slots are others */
	int memory; /* its memfd, opened anew; -1 for ourselves */
	int pidfd; /* -1 for ourselves */
	int life; /* a pipe that breaks when its NIC ends; -1 for ourselves */
	bool is_dead; /* seen to have ended */
	_Atomic int kick[NIC_LANES_MAX]; /* of its lanes: eventfds, or -1; read by any thread */
	const struct nic_public *public;
	struct peer_segments segments; /* of its process's memory */
};

/*
 * The process that has slot `slot` of this network namespace, one more time in use. Returns 0;
 * -ENOENT when there is none; -EPERM when it is not ours to look into; or another -errno.
 */
int nic_peer_get(uint8_t slot, struct nic_peer **ret_peer);

/*
 * The process of this host that has queue pair `number` and the address `gid`, in this network
 * namespace (by the slot alone) or in another one, one more time in use. Returns 0; -ENOENT when
 * none is known; -EPERM when this process may not look into it; or another -errno.
 */
int nic_peer_get_at(
	const struct gid *gid, uint32_t ifindex, uint32_t number, struct nic_peer **ret_peer);

/* A process whose NIC memory is at hand, one more time in use; `memory` stays the caller's. */
int nic_peer_get_process(uint32_t pid, int memory, struct nic_peer **ret_peer);

/*
 * The process that has the slot, of our user, and the identity of its NIC. Returns 0; -ENOENT:
 * nobody; or another -errno.
 */
int nic_peer_identify(uint8_t slot, uint64_t *ret_identity);

/* The public state of its queue pair of this number, or NULL. */
struct qp_public *nic_peer_find_qp(const struct nic_peer *peer, uint32_t number);

/* Has it ended, by now? */
bool nic_peer_has_ended(const struct nic_peer *peer);

/*
 * Used one time less. NULL is fine. After the last time it stays mapped, should the two connect
 * again, if it lives and not too many are unused; NIC_PEERS_UNUSED_MAX.
 */
void nic_peer_put(struct nic_peer *peer);

/* One that has ended and is not marked dead yet, or NULL. */
struct nic_peer *nic_peer_ended(void);

/* Unmap those that nobody uses and that have ended. */
void nic_peers_end(void);

/* The channels of the lane that has this slot, or NULL. Its peer can be kicked from here on. */
const struct channel_table *nic_peer_channels(struct nic_peer *peer, uint8_t slot);

/* The endpoints of the lane that has this slot, or NULL. Sets the lane's index. */
const struct ud_endpoint_table *nic_peer_endpoints(
	const struct nic_peer *peer, uint8_t slot, uint32_t *ret_lane);

/*
 * Its lane of this index can be kicked from here on. Sets the offset of the lane's struct
 * doorbell. Returns 0, -ENOENT when there is no such lane, or another -errno.
 */
int nic_peer_reach_lane(struct nic_peer *peer, uint32_t lane, uint64_t *ret_doorbell_offset);

/*
 * Does the process live that calls itself `who` (local_owner.who) in one of our channels? Any
 * thread.
 */
bool nic_peer_is_alive(uint32_t who);

#endif
