/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_WORKER_WORKER_PORT_H
#define URNIC_WORKER_WORKER_PORT_H

/* The kinds of ports, for the files of this room. */

#include "worker/worker.h"

extern const struct worker_port_kind worker_port_udp;
extern const struct worker_port_kind worker_port_ib;

/*
 * Tell the port whether a thread may sleep on its descriptors: the lane's thread, a waiter, or a
 * program with a visited channel. Call it after each change of that. The worker is locked.
 */
static inline void worker_watch_update(struct worker *worker)
{
	if (worker->kind->watch)
		worker->kind->watch(worker,
			worker->is_watching_sockets || atomic_load(&worker->wait.is_assigned) ||
				atomic_load(&worker->wait.set) >= 0);
}

/* Make the next receive read every address. A port of InfiniBand always does. */
static inline void worker_look_everywhere(struct worker *worker)
{
	if (worker->port)
		port_udp_look_everywhere(worker->port);
}

#endif
