/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Credit loops of the forwarding tables: queues that may come to wait for each other in a cycle. A
 * subnet with a loop may deadlock (deadlock.h), one without a loop never does.
 *
 * A queue is a port with a virtual lane. It waits for the next one if some host sends packets
 * through both, to a host or to a group.
 */
#ifndef URNIC_FABRIC_DEADLOCK_LOOP_H
#define URNIC_FABRIC_DEADLOCK_LOOP_H

#include "fabric/deadlock/deadlock.h"

/*
 * Find a loop of the paths between all hosts, and of those to groups.
 *
 * `service_levels`  A bit for each of those that hosts use.
 *
 * Returns 1 and the loop, whose since_ps is 0; 0 when there is none; or -ENOMEM.
 */
int infiniband_loop_find(
	const struct fabric *fabric, uint8_t service_levels, struct deadlock *ret_loop);

#endif
