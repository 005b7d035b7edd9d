/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_RUNTIME_NIC_HOSTED_H
#define URNIC_RUNTIME_NIC_HOSTED_H

/*
 * Shared receive queues of third processes (local/hosted.h), for queue pairs that ask.
 *
 * The target tells a descriptor of its own of the host's memory. We get a copy of that one, as we may look into the target, map the memory, and
 * are the host's guest. Whether it is the right process shows as for any peer (nic_peer.h). What a queue pair has got it keeps until it is
 * disconnected, or the queue's process ends.
 *
 * The NIC is locked for all calls but those that say otherwise, and no worker is.
 */

struct nic_local;
struct nic_peer;

/* Answer queue pairs that ask. The NIC is not locked. */
void nic_hosted_errand(void);

/* The connection was ended: it has no use for its queues. */
void nic_hosted_end(struct nic_local *local);

/* The peer has ended. */
void nic_hosted_forget_peer(const struct nic_peer *peer);

/* In the child of a fork. */
void nic_hosted_forget(void);

#endif
