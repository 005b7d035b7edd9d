/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_BASE_SIPHASH_H
#define URNIC_BASE_SIPHASH_H

/*
 * SipHash-2-4: a keyed hash of a message, with a result of 64 bits. A sender without the key
 * guesses the result with a probability of 2^-64. The hash takes some 1.5 cycles per byte. Any
 * thread may call.
 */

#include <stddef.h>
#include <stdint.h>

struct siphash_key {
	uint64_t words[2];
};

uint64_t siphash(const struct siphash_key *key, const void *bytes, size_t count);

#endif
