/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Deadlocks of PFC and of credits: queues that wait for each other in a cycle.
 *
 * A paused egress queue waits for the priority group at its cable's other end. An InfiniBand queue
 * without credits waits for the buffer of its virtual lane there. The group, or the buffer, waits
 * for the egress queues of its switch that hold its frames. A queue is dead when its group or
 * buffer waits for dead queues only. So nothing in a deadlock moves again, unless frames are
 * dropped: by a watchdog, or by InfiniBand's lifetimes. A queue that a host has paused is not dead:
 * the host may let it resume.
 */
#ifndef URNIC_FABRIC_DEADLOCK_DEADLOCK_H
#define URNIC_FABRIC_DEADLOCK_DEADLOCK_H

#include "fabric/fabric.h"

enum { DEADLOCK_PORTS_MAX = 32 };

struct deadlock {
	uint32_t priority; /* InfiniBand: the virtual lane of the first port */
	uint64_t since_ps; /* when a queue of the cycle moved for the last time */
	uint32_t port_count; /* of the cycle, at most DEADLOCK_PORTS_MAX */
	uint32_t
		ports[DEADLOCK_PORTS_MAX]; /* each waits for the next one, the last for the first */
	uint8_t lanes[DEADLOCK_PORTS_MAX]; /* of each port: its priority, or virtual lane */
};

/* Find a deadlock. Returns false when there is none, or no memory to look for one. */
bool deadlock_find(const struct fabric *fabric, struct deadlock *ret_deadlock);

#endif
