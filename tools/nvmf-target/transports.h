/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_TOOLS_NVMF_TARGET_TRANSPORTS_H
#define URNIC_TOOLS_NVMF_TARGET_TRANSPORTS_H

/*
 * The transports of the program, TCP and RDMA. The service (nvmf/target/service) calls them through
 * `table`.
 */

#include <stdbool.h>
#include <stddef.h>

#include "nvmf/common/list.h"
#include "nvmf/common/loop.h"
#include "nvmf/target/service/service.h"

enum { TRANSPORTS_MAX = 2 };

struct transports {
	struct loop *loop;
	/* NULL until the service listens on an RDMA port for the first time. */
	struct target_rdma *rdma;
	struct list tcp; /* struct tcp_listener; those that no longer listen stay in the list */
	bool is_busy; /* the RDMA transport polls instead of sleeping */
	struct service_transport table[TRANSPORTS_MAX];
	size_t count;
};

/* Fill the table. The caller has set `loop` and `is_busy`; all other members are zero. */
void transports_init(struct transports *transports);

/*
 * Have the transports freed all connections? They may do so a little after service_is_idle() is
 * true.
 */
bool transports_are_idle(const struct transports *transports);

/* Free the transports. service_is_idle() and transports_are_idle() are true. */
void transports_done(struct transports *transports);

#endif
