/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Changes of connections during their work: send queues that are drained and go on with other
 * attributes, rates that change, migration to a second path and back, and a primary path that is
 * cut for good once both ends are armed. The work must go on without errors.
 */
#ifndef URNIC_TESTS_SIM_STATES_H
#define URNIC_TESTS_SIM_STATES_H

#include <stdbool.h>
#include <stdint.h>

#include "world.h"

enum { STATES_CONNECTION_COUNT_MAX = 4 };

struct states {
	struct world *world;
	uint32_t other[WORLD_HOST_COUNT]; /* the number of each host's second address */
	struct gid address[WORLD_HOST_COUNT];
	bool may_cut;
	bool is_cut;
	bool was_drained; /* the program has requested the event */
	uint32_t connection_count;
	struct qp *qp[STATES_CONNECTION_COUNT_MAX][WORLD_HOST_COUNT];
	uint64_t actions[4]; /* drains, rates, rearms, migrations that were asked for */
};

/* Give each host of the world a second address. Its links are those between states->other. */
void states_init(struct states *states, struct world *world);

/* One more connection, in RTS. */
void states_add(struct states *states, struct qp *a, struct qp *b);

/* Perhaps change the state of one of the queue pairs. */
void states_act(struct states *states);

/* The work is done. */
void states_check_final(const struct states *states);

#endif
