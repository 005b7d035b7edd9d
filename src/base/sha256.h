/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_BASE_SHA256_H
#define URNIC_BASE_SHA256_H

/*
 * SHA-256 (FIPS 180-4) and its keyed form, HMAC-SHA-256 (RFC 2104). The functions have no state but
 * their arguments, so any thread may call them. They are for a few hundred bytes: they use no
 * instruction of the processor for SHA.
 */

#include <stddef.h>
#include <stdint.h>

enum {
	SHA256_BYTES = 32,
	SHA256_BLOCK_BYTES = 64,
};

struct sha256 {
	uint32_t state[8];
	uint64_t bytes; /* of the message so far */
	uint8_t block[SHA256_BLOCK_BYTES]; /* its last bytes, which fill no block yet */
};

void sha256_init(struct sha256 *hash);
/* Continue the message with `count` bytes, which may be 0. */
void sha256_update(struct sha256 *hash, const void *bytes, size_t count);
/* End the message. */
void sha256_finish(struct sha256 *hash, uint8_t ret_digest[SHA256_BYTES]);

/* The HMAC of one message. */
void hmac_sha256(const void *key, size_t key_bytes, const void *message, size_t message_bytes,
	uint8_t ret_mac[SHA256_BYTES]);

#endif
