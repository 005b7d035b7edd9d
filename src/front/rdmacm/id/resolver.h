/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Identifiers that wait for the kernel to resolve their next hop. A thread looks again and again
 * until the kernel knows the next hop, or the identifier's time is up. The thread runs only while
 * identifiers wait.
 */
#ifndef URNIC_FRONT_RDMACM_ID_RESOLVER_H
#define URNIC_FRONT_RDMACM_ID_RESOLVER_H

#include "front/rdmacm/id/id.h"

/*
 * Wait, in a thread, for the next hop of an identifier in state RESOLVING. The identifier gets
 * RDMA_CM_EVENT_ADDR_RESOLVED, or after `timeout_ms`, RDMA_CM_EVENT_ADDR_ERROR with -ETIMEDOUT.
 * Returns 0, or -errno when the thread cannot be created.
 */
int resolver_wait(struct id *id, int timeout_ms);

/* Stop resolving for the identifier, if it waits. */
void resolver_forget(struct id *id);

/* The forking thread locks this before a fork; the child then calls resolver_fork_child(). */
extern pthread_mutex_t resolver_lock;
void resolver_fork_child(void);

#endif
