/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Random streams of a simulation. Each entity has a stream for each purpose, derived from the seed.
 * So one more draw of a link does not shift what another link draws.
 */
#ifndef URNIC_FABRIC_RANDOM_H
#define URNIC_FABRIC_RANDOM_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/arith.h"

enum fabric_purpose {
	FABRIC_RANDOM_MARK, /* per port: which frames get a congestion mark */
	FABRIC_RANDOM_LOSS, /* per port: which frames its link loses */
	FABRIC_RANDOM_PATH, /* per switch: the salt of its choice of paths */
	FABRIC_RANDOM_FLOW, /* per flow: its UDP source port */
	FABRIC_RANDOM_WORKLOAD, /* the whole network: who sends to whom, and when */
	FABRIC_RANDOM_KEY, /* the whole network: keys of memory */
	FABRIC_RANDOM_CONNECTION, /* per flow: numbers of its queue pairs and packets */
	FABRIC_RANDOM_CORRUPT, /* per port: which frames its link corrupts */
};

struct fabric_random {
	uint64_t state;
};

static inline struct fabric_random fabric_random_make(
	uint64_t seed, enum fabric_purpose purpose, uint32_t entity)
{
	uint64_t stream = (uint64_t)purpose << 32 | entity;

	return (struct fabric_random){mix_u64(seed) ^ mix_u64(stream + 0x9e3779b97f4a7c15u)};
}

static inline uint64_t fabric_random_next(struct fabric_random *random)
{
	return mix_u64(random->state += 0x9e3779b97f4a7c15u);
}

/* A number below `limit`, which is not 0. */
static inline uint64_t fabric_random_below(struct fabric_random *random, uint64_t limit)
{
	assert(limit);
	return fabric_random_next(random) % limit;
}

/*
 * A gap between two arrivals at random times, `mean` on average, up to 10^12: exponentially
 * distributed, by comparisons alone (von Neumann), so that every machine draws the same.
 */
static inline uint64_t fabric_random_gap(struct fabric_random *random, uint64_t mean)
{
	for (uint64_t whole = 0;; whole++) {
		uint64_t first = fabric_random_next(random) >> 48;
		uint64_t last = first;
		uint64_t next = fabric_random_next(random) >> 48;
		uint32_t falls = 0;

		for (; next < last; falls++) {
			last = next;
			next = fabric_random_next(random) >> 48;
		}
		if (!(falls & 1))
			return mean * (whole << 16 | first) >> 16;
	}
}

/* True `ppm` times out of a million. */
static inline bool fabric_random_chance(struct fabric_random *random, uint32_t ppm)
{
	return ppm && fabric_random_below(random, 1000000) < ppm;
}

#endif
