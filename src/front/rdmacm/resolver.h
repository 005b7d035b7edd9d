/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Addresses whose next hop has yet to say that it is there: looked at until it has, or until the
 * time is up. A thread does that, which is there while there are any.
 */
#ifndef URNIC_FRONT_RDMACM_RESOLVER_H
#define URNIC_FRONT_RDMACM_RESOLVER_H

#include "front/rdmacm/id.h"

/*
 * The identifier, in state RESOLVING with its route known, gets RDMA_CM_EVENT_ADDR_RESOLVED, or
 * RDMA_CM_EVENT_ADDR_ERROR with -ETIMEDOUT after `timeout_ms`, and its state before that. Returns
 * 0, or -errno: no thread.
 */
int resolver_wait(struct id *id, int timeout_ms);

/* It need not be resolved any more, if it had to. */
void resolver_forget(struct id *id);

/* Around a fork: struct nic_cm_user. */
void resolver_fork_prepare(void);
void resolver_fork_parent(void);
void resolver_fork_child(void);

#endif
