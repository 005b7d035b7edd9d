/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/siphash.h"

#include <endian.h>
#include <string.h>

enum {
	ROUNDS_PER_WORD = 2,
	ROUNDS_AT_END = 4,
};

static uint64_t rotate_left(uint64_t value, unsigned count)
{
	return value << count | value >> (64 - count);
}

static inline void rounds_run(uint64_t v[4], unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		v[0] += v[1];
		v[2] += v[3];
		v[1] = rotate_left(v[1], 13) ^ v[0];
		v[3] = rotate_left(v[3], 16) ^ v[2];
		v[0] = rotate_left(v[0], 32);
		v[2] += v[1];
		v[0] += v[3];
		v[1] = rotate_left(v[1], 17) ^ v[2];
		v[3] = rotate_left(v[3], 21) ^ v[0];
		v[2] = rotate_left(v[2], 32);
	}
}

static inline void word_absorb(uint64_t v[4], uint64_t word)
{
	v[3] ^= word;
	rounds_run(v, ROUNDS_PER_WORD);
	v[0] ^= word;
}

uint64_t siphash(const struct siphash_key *key, const void *bytes, size_t count)
{
	const uint8_t *from = bytes;
	uint64_t v[4] = {key->words[0] ^ 0x736f6d6570736575u, key->words[1] ^ 0x646f72616e646f6du,
		key->words[0] ^ 0x6c7967656e657261u, key->words[1] ^ 0x7465646279746573u};
	uint64_t last = (uint64_t)count << 56, word;

	for (size_t left = count; left >= sizeof(word); left -= sizeof(word)) {
		memcpy(&word, from, sizeof(word));
		word_absorb(v, le64toh(word));
		from += sizeof(word);
	}
	for (size_t i = 0; i < count % sizeof(word); i++)
		last |= (uint64_t)from[i] << 8 * i;
	word_absorb(v, last);
	v[2] ^= 0xff;
	rounds_run(v, ROUNDS_AT_END);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}
