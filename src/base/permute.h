/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A secret permutation of the 24-bit numbers.
 *
 * Keys index a table, so they must be dense; a peer must not be able to predict them. A Feistel
 * network maps one to the other. Its round functions are tables of random numbers from a
 * cryptographic source, made for each permutation. They are truly random functions, so six rounds
 * suffice: a peer that has seen far fewer than 4096 keys cannot tell them from a random permutation
 * (Patarin), whatever its computing power. Beyond that the known attacks need nearly all 2^24
 * numbers.
 *
 * docs/memory.md ("Keys") has the cost of a keyed function from a library (SipHash, AES) instead.
 * The tables take 48 KiB, of which a lookup uses six cache lines.
 *
 * A permutation has no pointers and may lie in shared memory. Its results have 24 bits whatever the
 * tables hold. So a process that overwrites them causes wrong keys, but no access outside of the
 * tables.
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

/* To make a permutation, fill all of it with random bytes. */
struct permutation {
	uint16_t round[PERMUTATION_ROUNDS][PERMUTATION_HALF_COUNT]; /* the low 12 bits of each */
};

/* `half` has 12 bits. */
static inline uint32_t permute_round(
	const struct permutation *permutation, int round, uint32_t half)
{
	return permutation->round[round][half] & PERMUTATION_HALF_MASK;
}

/* `value` has 24 bits, and so has the result. */
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
