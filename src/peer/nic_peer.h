/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_PEER_NIC_PEER_H
#define URNIC_PEER_NIC_PEER_H

/*
 * Other processes on this host, whose NIC memory is mapped here.
 *
 * The address and the slot of a queue pair identify the process of its peer. urnicd knows that
 * process, and passes its NIC memory to processes of the same user. An address outside of this
 * network namespace may belong to another namespace on this host, with another urnicd
 * (agent/namespace_lookup.h). A slot alone does not identify a process there, so the number of its
 * queue pair does.
 *
 * The peer's other memory is accessed by process_vm_readv(2) and _writev, if the kernel allows it.
 * The peer's directory, read in this way, must equal the directory in its NIC memory: then both
 * belong to one process.
 *
 * Life: each NIC has a pipe and keeps the only writing end. Its peers have copies of the reading
 * end, which breaks when the process dies or executes another program. In the other direction, a
 * process that has mapped a peer's NIC memory locks a byte beyond the end of that memory. The
 * kernel releases the lock when the process dies, and the owner can test it (nic_peer_is_alive()).
 *
 * The NIC is locked for all calls but nic_peer_is_alive.
 */

#include <stdbool.h>
#include <stdint.h>

#include "agent/agent_client.h"
#include "base/list.h"
#include "local/local.h"
#include "local/ud_endpoint.h"
#include "segment/nic_public.h"
#include "segment/peer_segments.h"

enum { NIC_PEERS_UNUSED_MAX = 8, NIC_PEER_REFUSED = -2 };

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
	/* of its waiters, likewise; NIC_PEER_REFUSED: the kernel refuses it */
	_Atomic int eventfd[WAITER_COUNT];
	_Atomic uint32_t raised[WAITER_COUNT]; /* this process's last write (waiter_is_raised()) */
	const struct nic_public *public;
	struct peer_segments segments; /* of its process's memory */
};

/*
 * Find the process that leases slot `slot` in this network namespace, and reference it. Returns 0;
 * -ENOENT when there is none; -EPERM when this process may not access it; or another -errno.
 */
int nic_peer_get(uint8_t slot, struct nic_peer **ret_peer);

/*
 * Find the process of this host that has queue pair `number` and the address `gid`, and reference
 * it. In this network namespace the slot alone identifies the process. Returns 0; -ENOENT when none
 * is known; -EPERM when this process may not access it; or another -errno.
 */
int nic_peer_get_at(
	const struct gid *gid, uint32_t ifindex, uint32_t number, struct nic_peer **ret_peer);

/* Reference the process whose NIC memory the caller has; `memory` stays the caller's. */
int nic_peer_get_process(uint32_t pid, int memory, struct nic_peer **ret_peer);

/*
 * The identity of the NIC of the process that leases the slot, which is of our user. Returns 0;
 * -ENOENT when no process does; or another -errno.
 */
int nic_peer_identify(uint8_t slot, uint64_t *ret_identity);

/* The public state of the peer's queue pair of this number, or NULL. */
struct qp_public *nic_peer_find_qp(const struct nic_peer *peer, uint32_t number);

/* Has the process ended? */
bool nic_peer_has_ended(const struct nic_peer *peer);

/*
 * Drop a reference; NULL is allowed. An unreferenced peer stays mapped while it lives, in case the
 * two processes connect again. At most NIC_PEERS_UNUSED_MAX peers do.
 */
void nic_peer_put(struct nic_peer *peer);

/* A peer that has ended and is not marked dead yet, or NULL. */
struct nic_peer *nic_peer_ended(void);

/* Unmap peers that have ended and that are not in use. */
void nic_peers_end(void);

/* The channels of the peer's lane that has this slot, or NULL. The lane can then be kicked. */
const struct channel_table *nic_peer_channels(struct nic_peer *peer, uint8_t slot);

/* The UD endpoints of the peer's lane that has this slot, or NULL. Sets the lane's index. */
const struct ud_endpoint_table *nic_peer_endpoints(
	const struct nic_peer *peer, uint8_t slot, uint32_t *ret_lane);

/*
 * Make the peer's lane of this index ready to be kicked. Sets the offset of the lane's struct
 * doorbell. Returns 0; -ENOENT when there is no such lane; or another -errno.
 */
int nic_peer_reach_lane(struct nic_peer *peer, uint32_t lane, uint64_t *ret_doorbell_offset);

/*
 * For the list of processes: open one. `process->memory` stays the caller's; -1 when urnicd does
 * not pass it. The peer is in no list yet. Returns 0; -EPERM when the process belongs to another
 * user; -ESRCH when it has ended; -EPROTO when its NIC memory has another layout; or another
 * -errno.
 */
int nic_peer_open(const struct agent_process *process, struct nic_peer **ret_peer);

/* Unmap and free it; also one that nic_peer_open() has opened half-way. It is in no list. */
void nic_peer_close(struct nic_peer *peer);

/* Is the process alive that our channels call `who` (local_owner.who)? Any thread. */
bool nic_peer_is_alive(uint32_t who);

#endif
