/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_PEER_NIC_PEER_PROCESS_H
#define URNIC_PEER_NIC_PEER_PROCESS_H

/*
 * A process of this host, opened: its NIC memory is mapped, its other memory can be copied, and its
 * lanes can be woken. nic_peer.h has the list of them, finds the process of a queue pair, and
 * counts users.
 *
 * The operations of struct peer are here, in two kinds: for another process, and for this one,
 * whose memory needs no mapping and no system call.
 *
 * The NIC is locked for both calls.
 */

#include "agent/agent_client.h"
#include "peer/nic_peer.h"

/*
 * Open a process. `process->memory` stays the caller's; -1 when urnicd does not pass it. The peer
 * is in no list yet. Returns 0; -EPERM when the process belongs to another user; -ESRCH when it has
 * ended; -EPROTO when its NIC memory has another layout; or another -errno.
 */
int nic_peer_open(const struct agent_process *process, struct nic_peer **ret_peer);

/* Unmap and free it; also one that nic_peer_open() has opened half-way. It is in no list. */
void nic_peer_close(struct nic_peer *peer);

#endif
