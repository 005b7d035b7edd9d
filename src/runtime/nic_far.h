/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_RUNTIME_NIC_FAR_H
#define URNIC_RUNTIME_NIC_FAR_H

/*
 * Other processes of this host whose protection domains and XRC shared receive queues are used here
 * (local/far.h).
 *
 * A queue pair of a shared XRC domain that meets an unknown number raises SIGNAL_QP_ASKS. The slot
 * in the number tells the process; a NIC thread maps its memory, and looks for a queue of this
 * number in a domain of the same file. From then on queue pairs find it in nic.srqs. It goes when
 * the XRC domain does, when its process ends, and when it is found to be gone.
 *
 * The NIC is locked for all calls but those that say otherwise.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "local/far.h"

struct nic_peer;
struct nic_xrcd;
struct worker;

struct nic_host {
	struct far_host far;
	struct list link; /* in nic.hosts */
	struct nic_peer *peer;
	uint32_t users;
};

/* The NIC is being made. Returns 0 or -errno. */
int nic_far_start(void);

/* SIGNAL_QP_ASKS. A worker is locked, the NIC need not be. */
void nic_far_ask(void);

/* Look for what queue pairs ask for. The NIC is not locked. */
void nic_far_errand(void);

/* The peer has ended. */
void nic_far_forget_peer(const struct nic_peer *peer);

/* The XRC domain is going, and has no queue pairs any more. */
void nic_far_forget_xrcd(const struct nic_xrcd *xrcd);

/* In the child of a fork. */
void nic_far_forget(void);

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
