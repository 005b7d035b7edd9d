/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_TOOLS_NVMF_TARGET_TRANSPORTS_H
#define URNIC_TOOLS_NVMF_TARGET_TRANSPORTS_H

/*
 * The transports of the program: TCP and RDMA, as the service (nvmf/target/service) calls them.
 */

#include <stdbool.h>
#include <stddef.h>

#include "nvmf/common/list.h"
#include "nvmf/common/loop.h"
#include "nvmf/target/service/service.h"

enum { TRANSPORTS_MAX = 2 };

struct transports {
	struct loop *loop;
	struct target_rdma *rdma; /* NULL until a port of RDMA listens */
	struct list tcp; /* of listeners, also of those that listen no more */
	bool is_busy; /* poll instead of sleeping, where a transport can */
	struct service_transport table[TRANSPORTS_MAX];
	size_t count;
};

/* The caller sets `loop` and `is_busy` of an object that is otherwise zero. */
void transports_init(struct transports *transports);

/* Nothing is left of the connections? The target may have forgotten them a little earlier. */
bool transports_are_idle(const struct transports *transports);

/* The service is idle. */
void transports_done(struct transports *transports);

#endif
