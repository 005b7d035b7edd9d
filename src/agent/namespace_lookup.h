/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_AGENT_NAMESPACE_LOOKUP_H
#define URNIC_AGENT_NAMESPACE_LOOKUP_H

/*
 * Asking the urnicds of other network namespaces of this host for a process. Where they listen is
 * agent/place.h's.
 *
 * The question has the host identity of who asks (URNIC_HOST_ID): an urnicd of another identity has
 * nobody. Nothing is asked over the network. A process that is not found here is another host's, or
 * another container's with file systems of its own.
 *
 * Who comes from another network namespace gets none of urnicd's sockets: it may ask for processes
 * (FIND in agent/agent_messages.def), of its own user, and for nothing else.
 */

#include <stdbool.h>
#include <stdint.h>

#include "agent/agent_client.h"

/* Which network namespace of which host a process is in. */
struct rendezvous_name {
	/*
	 * Number of the network namespace, which no other has that exists; 0: not known, so nobody
	 * meets
	 */
	uint64_t netns;
	uint64_t host; /* by URNIC_HOST_ID; 0: none is set */
};

struct rendezvous_name rendezvous_name(void);

/* Is told of a process; its memory is closed afterwards. True: that was the one. */
typedef bool rendezvous_visit(void *context, const struct agent_process *process);

/*
 * Ask all other network namespaces of this host for the process that has a slot there, until
 * `visit` is content.
 *
 * `own`  Who asks.
 * `gid`  An address of the network namespace.
 *
 * What `visit` is told was said by an urnicd of this user or root's. One that does not answer is
 * waited for two seconds at most.
 */
void rendezvous_ask(const struct rendezvous_name *own, uint8_t slot, const struct gid *gid,
	rendezvous_visit *visit, void *context);

#endif
