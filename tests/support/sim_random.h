/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Random numbers that a seed replays: splitmix64. For simulations, never for keys.
 *
 * A generator is a value; copying it copies its future. The caller serializes.
 */
#ifndef URNIC_TESTS_SUPPORT_SIM_RANDOM_H
#define URNIC_TESTS_SUPPORT_SIM_RANDOM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arith.h"

struct sim_random {
	uint64_t state; /* the seed: any value */
};

static inline uint64_t sim_random_next(struct sim_random *random)
{
	return mix_u64(random->state += 0x9e3779b97f4a7c15u);
}

/* A number below `limit`; 0 when `limit` is 0. */
static inline uint64_t sim_random_below(struct sim_random *random, uint64_t limit)
{
	uint64_t value = sim_random_next(random);

	return limit ? value % limit : 0;
}

/* A number from `low` to `high`, both included. */
static inline uint64_t sim_random_between(struct sim_random *random, uint64_t low, uint64_t high)
{
	return low + sim_random_below(random, high - low + 1);
}

/* True `ppm` times out of a million. */
static inline bool sim_random_chance(struct sim_random *random, uint32_t ppm)
{
	return sim_random_below(random, 1000000) < ppm;
}

#endif
