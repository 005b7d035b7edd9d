/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Permutations for tests: equal seeds give equal permutations, so that a failure is repeatable.
 */
#ifndef URNIC_TESTS_PERMUTATION_H
#define URNIC_TESTS_PERMUTATION_H

#include "base/permute.h"

/* Borrowed until the next call of this thread. */
static inline const struct permutation *test_permutation(uint64_t seed)
{
	static _Thread_local struct permutation permutation;
	static _Thread_local uint64_t seed_made = UINT64_MAX;

	if (seed == seed_made)
		return &permutation;
	seed_made = seed;
	for (int i = 0; i < PERMUTATION_ROUNDS; i++)
		for (int j = 0; j < PERMUTATION_HALF_COUNT; j++) {
			seed = seed * 6364136223846793005ull + 1442695040888963407ull;
			permutation.round[i][j] = (uint16_t)(seed >> 48);
		}
	return &permutation;
}

#endif
