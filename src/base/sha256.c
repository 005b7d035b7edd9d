/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/sha256.h"

#include <endian.h>
#include <string.h>

enum {
	ROUNDS = 64,
	LENGTH_BYTES = 8, /* of the message's length, which ends its last block */
	INNER_PAD = 0x36,
	OUTER_PAD = 0x5c,
};

/* The first 32 bits of the fractions of the cube roots of the first 64 primes. */
static const uint32_t round_keys[ROUNDS] = {
	0x428a2f98,
	0x71374491,
	0xb5c0fbcf,
	0xe9b5dba5,
	0x3956c25b,
	0x59f111f1,
	0x923f82a4,
	0xab1c5ed5,
	0xd807aa98,
	0x12835b01,
	0x243185be,
	0x550c7dc3,
	0x72be5d74,
	0x80deb1fe,
	0x9bdc06a7,
	0xc19bf174,
	0xe49b69c1,
	0xefbe4786,
	0x0fc19dc6,
	0x240ca1cc,
	0x2de92c6f,
	0x4a7484aa,
	0x5cb0a9dc,
	0x76f988da,
	0x983e5152,
	0xa831c66d,
	0xb00327c8,
	0xbf597fc7,
	0xc6e00bf3,
	0xd5a79147,
	0x06ca6351,
	0x14292967,
	0x27b70a85,
	0x2e1b2138,
	0x4d2c6dfc,
	0x53380d13,
	0x650a7354,
	0x766a0abb,
	0x81c2c92e,
	0x92722c85,
	0xa2bfe8a1,
	0xa81a664b,
	0xc24b8b70,
	0xc76c51a3,
	0xd192e819,
	0xd6990624,
	0xf40e3585,
	0x106aa070,
	0x19a4c116,
	0x1e376c08,
	0x2748774c,
	0x34b0bcb5,
	0x391c0cb3,
	0x4ed8aa4a,
	0x5b9cca4f,
	0x682e6ff3,
	0x748f82ee,
	0x78a5636f,
	0x84c87814,
	0x8cc70208,
	0x90befffa,
	0xa4506ceb,
	0xbef9a3f7,
	0xc67178f2,
};

static uint32_t rotate_right(uint32_t value, unsigned count)
{
	return value >> count | value << (32 - count);
}

static void schedule_fill(uint32_t schedule[ROUNDS], const uint8_t *block)
{
	for (unsigned i = 0; i < 16; i++) {
		memcpy(&schedule[i], block + 4 * i, 4);
		schedule[i] = be32toh(schedule[i]);
	}
	for (unsigned i = 16; i < ROUNDS; i++) {
		const uint32_t early = schedule[i - 15], late = schedule[i - 2];

		schedule[i] = schedule[i - 16] + schedule[i - 7] +
			(rotate_right(early, 7) ^ rotate_right(early, 18) ^ early >> 3) +
			(rotate_right(late, 17) ^ rotate_right(late, 19) ^ late >> 10);
	}
}

/* FIPS 180-4 section 6.2.2; the variables have its names. */
static void block_process(uint32_t state[8], const uint8_t *block)
{
	uint32_t schedule[ROUNDS];
	uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
	uint32_t e = state[4], f = state[5], g = state[6], h = state[7];

	schedule_fill(schedule, block);
	for (unsigned i = 0; i < ROUNDS; i++) {
		const uint32_t t1 = h +
			(rotate_right(e, 6) ^ rotate_right(e, 11) ^ rotate_right(e, 25)) +
			((e & f) ^ (~e & g)) + round_keys[i] + schedule[i];
		const uint32_t t2 =
			(rotate_right(a, 2) ^ rotate_right(a, 13) ^ rotate_right(a, 22)) +
			((a & b) ^ (a & c) ^ (b & c));

		h = g;
		g = f;
		f = e;
		e = d + t1;
		d = c;
		c = b;
		b = a;
		a = t1 + t2;
	}
	state[0] += a;
	state[1] += b;
	state[2] += c;
	state[3] += d;
	state[4] += e;
	state[5] += f;
	state[6] += g;
	state[7] += h;
}

void sha256_init(struct sha256 *hash)
{
	*hash = (struct sha256){.state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
					0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19}};
}

void sha256_update(struct sha256 *hash, const void *bytes, size_t count)
{
	const uint8_t *from = bytes;

	while (count) {
		const size_t used = hash->bytes % SHA256_BLOCK_BYTES;
		const size_t room = SHA256_BLOCK_BYTES - used;
		const size_t part = count < room ? count : room;

		memcpy(hash->block + used, from, part);
		hash->bytes += part;
		from += part;
		count -= part;
		if (part == room)
			block_process(hash->state, hash->block);
	}
}

void sha256_finish(struct sha256 *hash, uint8_t ret_digest[SHA256_BYTES])
{
	static const uint8_t padding[SHA256_BLOCK_BYTES] = {0x80};
	const uint64_t bits = htobe64(hash->bytes * 8);
	const size_t used = (hash->bytes + LENGTH_BYTES) % SHA256_BLOCK_BYTES;

	sha256_update(hash, padding, SHA256_BLOCK_BYTES - used);
	sha256_update(hash, &bits, sizeof(bits));
	for (unsigned i = 0; i < 8; i++) {
		const uint32_t word = htobe32(hash->state[i]);

		memcpy(ret_digest + 4 * i, &word, sizeof(word));
	}
}

/* Begin a hash with the key's block, each byte of it changed by `pad`. */
static void keyed_init(struct sha256 *hash, const uint8_t block[SHA256_BLOCK_BYTES], uint8_t pad)
{
	uint8_t padded[SHA256_BLOCK_BYTES];

	for (unsigned i = 0; i < sizeof(padded); i++)
		padded[i] = block[i] ^ pad;
	sha256_init(hash);
	sha256_update(hash, padded, sizeof(padded));
}

void hmac_sha256(const void *key, size_t key_bytes, const void *message, size_t message_bytes,
	uint8_t ret_mac[SHA256_BYTES])
{
	uint8_t block[SHA256_BLOCK_BYTES] = {0}, inner[SHA256_BYTES];
	struct sha256 hash;

	if (key_bytes > sizeof(block)) {
		sha256_init(&hash);
		sha256_update(&hash, key, key_bytes);
		sha256_finish(&hash, block);
	} else {
		memcpy(block, key, key_bytes);
	}
	keyed_init(&hash, block, INNER_PAD);
	sha256_update(&hash, message, message_bytes);
	sha256_finish(&hash, inner);
	keyed_init(&hash, block, OUTER_PAD);
	sha256_update(&hash, inner, sizeof(inner));
	sha256_finish(&hash, ret_mac);
}
