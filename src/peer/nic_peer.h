/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_PEER_NIC_PEER_H
#define URNIC_PEER_NIC_PEER_H

/*
 * Peers: other processes on this host whose NIC memory this process has mapped.
 *
 * The remote address of a queue pair, and the slot in its destination queue pair number, identify
 * the process of its peer. urnicd knows that process, and passes its NIC memory to processes of the
 * same user. An address outside of this network namespace may belong to another namespace on this
 * host, which has another urnicd (agent/namespace_lookup.h). Several such namespaces may have a
 * process with that slot, so there the whole queue pair number identifies the process.
 *
 * This process accesses the peer's other memory by process_vm_readv(2) and process_vm_writev(2), if
 * the kernel permits it. It first reads the peer's `identity` (struct nic_public) in this way. If
 * that equals the identity in the mapped NIC memory, both belong to the same process.
 *
 * How a process learns of a peer's end: each NIC has a pipe, of which only its process has the
 * writing end. Peers have copies of the reading end, and the pipe breaks when the process dies or
 * executes another program. How the owner learns that a user of its NIC memory has ended: a process
 * that maps a peer's NIC memory locks a byte of that file, beyond its end. The kernel releases the
 * lock when the process dies, and the owner can test the lock (nic_peer_is_alive()).
 *
 * The NIC is locked for all calls but nic_peer_is_alive().
 */

#include <stdbool.h>
#include <stdint.h>

#include "agent/agent_client.h"
#include "base/list.h"
#include "local/ud_endpoint.h"
#include "segment/nic_public.h"
#include "segment/peer_segments.h"

enum { NIC_PEERS_UNUSED_MAX = 8, NIC_PEER_REFUSED = -2 };

struct nic_peer {
	struct peer peer;
	struct list link; /* in peer_list */
	uint32_t users; /* number of references, by connections and owners */
	uint64_t identity; /* the identity of the peer's NIC (struct nic_public) */
	uint32_t pid;
	bool is_self;
	/* The peer is in another network namespace, which has slots of its own */
	bool is_elsewhere;
	int memory; /* another opening of the peer's memfd; -1 for this process itself */
	int pidfd; /* -1 for this process itself */
	int life; /* a pipe that breaks when the peer ends; -1 for this process itself */
	bool is_dead; /* nic_peer_ended() has reported the peer's end */
	/* Eventfds of the peer's lanes, or -1; any thread may read them */
	_Atomic int kick[NIC_LANES_MAX];
	/*
	 * Copies of the eventfds of the peer's waiters, or -1; NIC_PEER_REFUSED: the kernel has
	 * refused the copy.
	 */
	_Atomic int eventfd[WAITER_COUNT];
	/*
	 * For each waiter, the number of this process's last write to its eventfd
	 * (waiter_is_raised)
	 */
	_Atomic uint32_t raised[WAITER_COUNT];
	const struct nic_public *public;
	struct peer_segments segments; /* segments of the memory of the peer's program */
};

/*
 * Find the process that leases slot `slot` in this network namespace, and reference it. Returns 0;
 * -ENOENT when there is none; -EPERM when this process may not access it; or another -errno.
 */
int nic_peer_get(uint8_t slot, struct nic_peer **ret_peer);

/*
 * Find the process of this host that has queue pair `number` and the address `gid`, and reference
 * it. In this network namespace the slot alone identifies the process. Returns 0; -ENOENT when no
 * such process is found; -EPERM when this process may not access it; or another -errno.
 */
int nic_peer_get_at(
	const struct gid *gid, uint32_t ifindex, uint32_t number, struct nic_peer **ret_peer);

/*
 * Find or open process `pid`, and reference it. `memory` is a descriptor of its NIC memory, which
 * the caller still has to close. Returns 0 or -errno.
 */
int nic_peer_get_process(uint32_t pid, int memory, struct nic_peer **ret_peer);

/*
 * Get the identity of the NIC whose process leases the slot. Returns 0; -ENOENT when no process
 * leases it; -EPERM when the process is another user's; or another -errno.
 */
int nic_peer_identify(uint8_t slot, uint64_t *ret_identity);

/* The public state of the peer's queue pair of this number, or NULL. */
struct qp_public *nic_peer_find_qp(const struct nic_peer *peer, uint32_t number);

/* Has the process ended? */
bool nic_peer_has_ended(const struct nic_peer *peer);

/*
 * Drop a reference; NULL is allowed. A peer without references stays mapped until its process ends,
 * because the two processes may connect again. At most NIC_PEERS_UNUSED_MAX such peers stay, those
 * that were used last.
 */
void nic_peer_put(struct nic_peer *peer);

/*
 * Find a peer that has ended, and whose `is_dead` is not set yet. Returns NULL when there is none.
 */
struct nic_peer *nic_peer_ended(void);

/* Close the peers that have ended and have no references. */
void nic_peers_end(void);

/*
 * Get the channels of the peer's lane that has this slot, and prepare for kicks of that lane.
 * Returns NULL when there is no such lane, or it cannot be kicked.
 */
const struct channel_table *nic_peer_channels(struct nic_peer *peer, uint8_t slot);

/*
 * The UD endpoints of the peer's lane that has this slot, or NULL. *ret_lane becomes the lane's
 * index.
 */
const struct ud_endpoint_table *nic_peer_endpoints(
	const struct nic_peer *peer, uint8_t slot, uint32_t *ret_lane);

/*
 * Prepare for kicks of the peer's lane number `lane`, and get the offset of the lane's struct
 * doorbell. Returns 0; -ENOENT when there is no such lane; or another -errno.
 */
int nic_peer_reach_lane(struct nic_peer *peer, uint32_t lane, uint64_t *ret_doorbell_offset);

/*
 * Open `process`, for the list of peers; the new peer is in no list yet. `process->memory` stays
 * the caller's; it is -1 when urnicd does not pass it. Returns 0; -EPERM when the process belongs
 * to another user; -ESRCH when it has ended; -EPROTO when its NIC memory has another layout; or the
 * -errno of a system call.
 *
 * `ret_call`  Set on failure: the failed system call, if it is one that accesses the process; else
 *             NULL.
 */
int nic_peer_open(
	const struct agent_process *process, struct nic_peer **ret_peer, const char **ret_call);

/* Unmap and free a peer that is in no list, even if nic_peer_open() has failed half-way. */
void nic_peer_close(struct nic_peer *peer);

/*
 * Is process `who` alive? `who` is its name in this process's channels (local_owner.who). Any
 * thread may call.
 */
bool nic_peer_is_alive(uint32_t who);

#endif
