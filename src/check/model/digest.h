/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Digests of the memory that a request reads.
 *
 * The digest of a full check includes each byte. That of a cheap check includes at most
 * DIGEST_SAMPLE_BYTES of an entry: all bytes of a short entry, else some bytes at its start, at its
 * end and at two places between.
 */
#ifndef URNIC_CHECK_MODEL_DIGEST_H
#define URNIC_CHECK_MODEL_DIGEST_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "check/model/region.h"

enum { DIGEST_SAMPLE_BYTES = 256 };

static inline uint64_t digest_word(uint64_t digest, uint64_t word)
{
	digest = (digest ^ word) * 0x9e3779b97f4a7c15u;
	return digest ^ digest >> 32;
}

/* digest_add() for an entry whose length is not eight bytes. */
bool digest_add_bytes(
	uint64_t *digest, const struct region *region, uintptr_t start, uint64_t bytes);

/*
 * Add the memory of an entry, which lies within its region, to a digest. Returns false if the
 * region is suspect and the memory is not mapped. If the region is not suspect, memory that is not
 * mapped causes a fault.
 */
static inline bool digest_add(
	uint64_t *digest, const struct region *region, uintptr_t start, uint64_t bytes)
{
	uint64_t word;

	if (bytes != sizeof(word) || region->is_suspect)
		return digest_add_bytes(digest, region, start, bytes);
	memcpy(&word, (const void *)start, sizeof(word));
	*digest = digest_word(*digest, word);
	return true;
}

#endif
