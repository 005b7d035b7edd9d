/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Identifiers that wait for the kernel to resolve their next hop. A thread polls until the next hop
 * is known, or the time is up. It runs only while identifiers wait.
 */
#ifndef URNIC_FRONT_RDMACM_RESOLVER_H
#define URNIC_FRONT_RDMACM_RESOLVER_H

#include "front/rdmacm/id.h"

/*
 * Resolve the next hop of an identifier in state RESOLVING, whose route is known. It gets
 * RDMA_CM_EVENT_ADDR_RESOLVED, or RDMA_CM_EVENT_ADDR_ERROR with -ETIMEDOUT after `timeout_ms` and
 * its former state. Returns 0, or -errno: no thread.
 */
int resolver_wait(struct id *id, int timeout_ms);

/* Stop resolving for the identifier, if it waits. */
void resolver_forget(struct id *id);

/* Held across a fork; the child then calls the function. */
extern pthread_mutex_t resolver_lock;
void resolver_fork_child(void);

#endif
