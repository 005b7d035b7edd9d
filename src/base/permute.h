/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A secret permutation of the 24-bit numbers.
 *
 * Keys must be dense for us (they index a table) and unpredictable for a peer. A four-round Feistel
 * network under a secret maps one to the other in a few nanoseconds. It hides the order in which
 * keys were made; it is not meant to resist somebody who sees many keys and computes for long, and
 * need not: every wrong guess costs the guesser a connection.
 */
#ifndef URNIC_BASE_PERMUTE_H
#define URNIC_BASE_PERMUTE_H

#include <stdint.h>

struct permutation {
	uint32_t round_key[4];
};

static inline uint32_t permute_round(uint32_t half, uint32_t round_key)
{
	uint32_t mixed = (half + round_key) * 0x9e3779b1u;

	mixed ^= mixed >> 15;
	mixed *= round_key | 1;
	return (mixed >> 12) & 0xfff;
}

static inline void permutation_init(
	struct permutation *permutation, uint64_t secret_a, uint64_t secret_b)
{
	permutation->round_key[0] = (uint32_t)secret_a;
	permutation->round_key[1] = (uint32_t)(secret_a >> 32);
	permutation->round_key[2] = (uint32_t)secret_b;
	permutation->round_key[3] = (uint32_t)(secret_b >> 32);
}

static inline uint32_t permute_forward(const struct permutation *permutation, uint32_t value)
{
	uint32_t left = value >> 12, right = value & 0xfff;

	for (int i = 0; i < 4; i++) {
		uint32_t next = left ^ permute_round(right, permutation->round_key[i]);
		left = right;
		right = next;
	}
	return left << 12 | right;
}

static inline uint32_t permute_back(const struct permutation *permutation, uint32_t value)
{
	uint32_t left = value >> 12, right = value & 0xfff;

	for (int i = 3; i >= 0; i--) {
		uint32_t previous = right ^ permute_round(left, permutation->round_key[i]);
		right = left;
		left = previous;
	}
	return left << 12 | right;
}

#endif
