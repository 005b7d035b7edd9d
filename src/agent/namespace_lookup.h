/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_AGENT_NAMESPACE_LOOKUP_H
#define URNIC_AGENT_NAMESPACE_LOOKUP_H

/*
 * The lookup of a process in another network namespace of this host, through the urnicd there.
 * agent/place.h has the places where urnicds listen.
 *
 * The request has the host identity of the requesting process (URNIC_HOST_ID); an urnicd with
 * another identity answers that it has no such process. Nothing goes over the network. A process
 * that is not found runs on another host, or in a container with file systems of its own.
 *
 * A client from another network namespace gets none of urnicd's sockets. It may look up processes
 * (FIND in agent/agent_messages.def), gets the NIC memory of those of its own user, and may make no
 * other request.
 */

#include <stdbool.h>
#include <stdint.h>

#include "agent/agent_client.h"

/* The network namespace and the host of a process. */
struct namespace_id {
	/* Unique among the existing network namespaces; 0: unknown, so no lookup is possible. */
	uint64_t netns;
	uint64_t host; /* hash of URNIC_HOST_ID; 0: not set */
};

struct namespace_id namespace_id_own(void);

/*
 * Inspect a process that has the slot. namespace_lookup() closes process->memory after the call.
 * Returns true to end the lookup.
 */
typedef bool namespace_visit_fn(void *context, const struct agent_process *process);

/*
 * Look up the process of a slot in all other network namespaces of this host, until `visit` returns
 * true.
 *
 * `own`  The identity of the requesting process.
 * `gid`  An address of the wanted network namespace.
 *
 * The processes come from urnicds of this user or of root. An urnicd that does not answer delays
 * the lookup by two seconds at most.
 */
void namespace_lookup(const struct namespace_id *own, uint8_t slot, const struct gid *gid,
	namespace_visit_fn *visit, void *context);

#endif
