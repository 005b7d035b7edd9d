/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The scheduler of a port: enhanced transmission selection (IEEE 802.1Qaz). Strict priorities send
 * first, the highest before the others. The other priorities share the rest by deficit weighted
 * round robin. No capacity is left idle: the share of a priority that has nothing to send goes to
 * the others.
 *
 * All zero: eight priorities with equal shares.
 */
#ifndef URNIC_FABRIC_SCHEDULER_H
#define URNIC_FABRIC_SCHEDULER_H

#include <stdbool.h>
#include <stdint.h>

#include "fabric/units.h"

enum {
	/* What a priority of weight 1 may send in each round. */
	SCHEDULER_QUANTUM_BYTES = 64,
	SCHEDULER_WEIGHT_MAX = 100,
};

struct scheduler {
	uint8_t strict; /* a bit for each strict priority */
	uint8_t weight[FABRIC_PRIORITY_COUNT]; /* of the others; 0 counts as 1 */
	uint8_t turn;
	bool has_begun; /* the priority whose turn it is has got its quantum */
	uint32_t deficit_bytes[FABRIC_PRIORITY_COUNT];
};

/*
 * Choose the priority that sends next.
 *
 * `ready`       A bit for each priority that has a frame and may send it; not 0.
 * `head_bytes`  The length of each such frame.
 */
uint32_t scheduler_choose(struct scheduler *scheduler, uint8_t ready,
	const uint32_t head_bytes[FABRIC_PRIORITY_COUNT]);

#endif
