/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_NVMF_COMMON_DIGEST_H
#define URNIC_NVMF_COMMON_DIGEST_H

/*
 * CRC-32C, the digest of headers and data (NVMe/TCP transport 1.0, section 3.3.1.1). Begin with
 * DIGEST_INITIAL, pass each result to the next call, and complement the last one. No state: any
 * thread.
 */

#include <stddef.h>
#include <stdint.h>

enum { DIGEST_BYTES = 4 };
#define DIGEST_INITIAL 0xffffffffu

uint32_t digest_update(uint32_t crc, const void *bytes, size_t length);

/* The digest of all bytes at once. */
static inline uint32_t digest_of(const void *bytes, size_t length)
{
	return ~digest_update(DIGEST_INITIAL, bytes, length);
}

#endif
