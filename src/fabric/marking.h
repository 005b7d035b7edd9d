/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The congestion point of a queue: which frames it marks. Up to `min_bytes` in the queue it marks
 * none, above `max_bytes` all, and between them with a probability that rises to `max_ppm`.
 *
 * All zero: it marks none. DCTCP's step is min_bytes = max_bytes.
 */
#ifndef URNIC_FABRIC_MARKING_H
#define URNIC_FABRIC_MARKING_H

#include "fabric/random.h"

struct marking {
	uint32_t min_bytes;
	uint32_t max_bytes; /* at least min_bytes; 0: no marks */
	uint32_t max_ppm; /* the probability at max_bytes, of a million */
};

/* The probability of a mark when the queue holds `queue_bytes`, of a million. */
static inline uint32_t marking_ppm(const struct marking *marking, uint64_t queue_bytes)
{
	if (!marking->max_bytes || queue_bytes <= marking->min_bytes)
		return 0;
	if (queue_bytes > marking->max_bytes)
		return 1000000;
	return (uint32_t)((queue_bytes - marking->min_bytes) * marking->max_ppm /
		(marking->max_bytes - marking->min_bytes));
}

/* Does the queue mark this frame? Draws a random number only if the probability is not 0 or 1. */
static inline bool marking_chooses(
	const struct marking *marking, uint64_t queue_bytes, struct fabric_random *random)
{
	uint32_t ppm = marking_ppm(marking, queue_bytes);

	return ppm >= 1000000 || fabric_random_chance(random, ppm);
}

#endif
