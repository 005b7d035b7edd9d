/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A secret permutation of the 24-bit numbers.
 *
 * The indices of a table are dense, but the keys that a peer sees must not be predictable. A
 * Feistel network maps an index to a key, and back. Its round functions are tables of random
 * numbers, which the caller draws from a cryptographic source for each permutation. Because the
 * round functions are truly random, six rounds suffice. A peer that has seen far fewer than 4096
 * keys cannot distinguish them from those of a random permutation (Patarin), whatever its computing
 * power. The known attacks need nearly all 2^24 keys.
 *
 * docs/memory.md ("Keys") compares the cost with that of a keyed function from a library (SipHash,
 * AES). The tables take 48 KiB, of which a lookup reads six cache lines.
 *
 * A permutation has no pointers and may lie in shared memory. Its results have 24 bits whatever the
 * tables contain. So a process that overwrites the tables causes wrong keys, but no access outside
 * of the tables.
 */
#ifndef URNIC_BASE_PERMUTE_H
#define URNIC_BASE_PERMUTE_H

#include <stdint.h>

enum {
	PERMUTATION_ROUNDS = 6,
	PERMUTATION_HALF_BITS = 12,
	PERMUTATION_HALF_COUNT = 1 << PERMUTATION_HALF_BITS,
	PERMUTATION_HALF_MASK = PERMUTATION_HALF_COUNT - 1,
};

/* To make a permutation, fill the whole struct with random bytes. */
struct permutation {
	uint16_t round[PERMUTATION_ROUNDS][PERMUTATION_HALF_COUNT]; /* only the low 12 bits count */
};

/* `half` has 12 bits. */
static inline uint32_t permute_round(
	const struct permutation *permutation, int round, uint32_t half)
{
	return permutation->round[round][half] & PERMUTATION_HALF_MASK;
}

/* `value` and the result have 24 bits. */
static inline uint32_t permute_forward(const struct permutation *permutation, uint32_t value)
{
	uint32_t left = value >> PERMUTATION_HALF_BITS, right = value & PERMUTATION_HALF_MASK;

	for (int i = 0; i < PERMUTATION_ROUNDS; i++) {
		uint32_t next = left ^ permute_round(permutation, i, right);
		left = right;
		right = next;
	}
	return left << PERMUTATION_HALF_BITS | right;
}

static inline uint32_t permute_back(const struct permutation *permutation, uint32_t value)
{
	uint32_t left = value >> PERMUTATION_HALF_BITS, right = value & PERMUTATION_HALF_MASK;

	for (int i = PERMUTATION_ROUNDS - 1; i >= 0; i--) {
		uint32_t previous = right ^ permute_round(permutation, i, left);
		right = left;
		left = previous;
	}
	return left << PERMUTATION_HALF_BITS | right;
}

#endif
