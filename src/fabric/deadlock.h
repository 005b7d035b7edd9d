/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Deadlocks of PFC: queues that wait for each other in a cycle.
 *
 * A paused egress queue waits for the priority group at its cable's other end. The group waits for
 * the egress queues of its switch that hold its frames. A queue is dead when its group waits for
 * dead queues only. So nothing in a deadlock moves again, unless a watchdog drops frames. A queue
 * that a host has paused is not dead: the host may let it resume.
 */
#ifndef URNIC_FABRIC_DEADLOCK_H
#define URNIC_FABRIC_DEADLOCK_H

#include "fabric/fabric.h"

enum { DEADLOCK_PORTS_MAX = 32 };

struct deadlock {
	uint32_t priority;
	uint64_t since_ps; /* when the last queue of the cycle moved */
	uint32_t port_count; /* of the cycle, at most DEADLOCK_PORTS_MAX */
	uint32_t
		ports[DEADLOCK_PORTS_MAX]; /* each waits for the next one, the last for the first */
};

/* Find a deadlock. Returns false when there is none, or no memory to look for one. */
bool deadlock_find(const struct fabric *fabric, struct deadlock *ret_deadlock);

#endif
