/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_RUNTIME_RENDEZVOUS_H
#define URNIC_RUNTIME_RENDEZVOUS_H

/*
 * Where the urnicds of one user in several network namespaces of this host are found.
 *
 * The name that a process finds its own urnicd by is abstract and belongs to the network namespace. A name in the file system
 * does not, so each urnicd listens on one of those, too. It is called after its network namespace and its host identity
 * (URNIC_HOST_ID), so nobody asks an urnicd that counts as another host's. Nothing is asked over the network: whoever is not found
 * here is another host's, or another container's with file systems of its own.
 *
 * Directories: /run/urnic, which is root's, /run/user/UID/urnic, and /tmp/urnic-UID. An urnicd listens in the first that is
 * its user's; a process looks in all of them. One that anybody but its user or root could write to is not used. A name whose urnicd
 * was killed stays until the next one starts in that directory; the last one to leave removes the directory.
 *
 * Who comes this way is not of urnicd's network namespace and gets none of its sockets: it may ask for
 * processes (FIND in runtime/agent_messages.def), of its own user, and for nothing else.
 */

#include <stdbool.h>
#include <stdint.h>

#include "runtime/agent_client.h"

/* What an urnicd is called there, by its environment and place; the same for a process that looks for others. */
struct rendezvous_name {
	uint64_t
		netns; /* number of the network namespace, which no other has that exists; 0: not known, so nobody meets */
	uint64_t host; /* by URNIC_HOST_ID; 0: none is set */
};

struct rendezvous_name rendezvous_name(void);

struct rendezvous {
	struct rendezvous_name name;
	int listener; /* a SOCK_SEQPACKET socket, nonblocking; -1: there is none */
	unsigned place; /* which directory */
};

/*
 * urnicd: listen, by the name of this network namespace. Who calls is the only urnicd of its user here.
 *
 * `is_system`  Every user may come.
 *
 * Returns 0; or -errno, and a rendezvous that nobody comes to.
 */
int rendezvous_listen(struct rendezvous *rendezvous, bool is_system);

/* Close it and remove the name. */
void rendezvous_leave(struct rendezvous *rendezvous);

/* Is told of a process; its memory is closed afterwards. True: that was the one. */
typedef bool rendezvous_visit(void *context, const struct agent_process *process);

/*
 * Ask all other network namespaces of this host for the process that has a slot there, until `visit` is content.
 *
 * `own`  Who asks.
 * `gid`  An address of the network namespace.
 *
 * What `visit` is told was said by an urnicd of this user or root's. One that does not answer is waited for two seconds at most.
 */
void rendezvous_ask(const struct rendezvous_name *own, uint8_t slot, const struct gid *gid,
	rendezvous_visit *visit, void *context);

#endif
