/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_NVMF_COMMON_DIGEST_H
#define URNIC_NVMF_COMMON_DIGEST_H

/*
 * CRC-32C, the digest of headers and data (NVMe/TCP transport 1.0, section 3.3.1.1). The caller
 * begins with DIGEST_INITIAL, passes each result to the next call, and complements the last result.
 * The functions have no state, so any thread may call them.
 */

#include <stddef.h>
#include <stdint.h>

enum { DIGEST_BYTES = 4 };
#define DIGEST_INITIAL 0xffffffffu

uint32_t digest_update(uint32_t crc, const void *bytes, size_t length);

/* The whole digest of `length` bytes, by one call. */
static inline uint32_t digest_of(const void *bytes, size_t length)
{
	return ~digest_update(DIGEST_INITIAL, bytes, length);
}

#endif
