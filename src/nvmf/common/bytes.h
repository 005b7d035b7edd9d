/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_NVMF_COMMON_BYTES_H
#define URNIC_NVMF_COMMON_BYTES_H

/*
 * Little-endian numbers in byte strings, at any alignment. All fields of NVMe are little-endian
 * (NVMe base 2.0, section 1.4.2).
 */

#include <stdint.h>

static inline uint16_t le16_get(const void *bytes)
{
	const uint8_t *p = bytes;

	return (uint16_t)(p[0] | p[1] << 8);
}

static inline uint32_t le24_get(const void *bytes)
{
	const uint8_t *p = bytes;

	return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16;
}

static inline uint32_t le32_get(const void *bytes)
{
	const uint8_t *p = bytes;

	return (uint32_t)le16_get(p) | (uint32_t)le16_get(p + 2) << 16;
}

static inline uint64_t le64_get(const void *bytes)
{
	return (uint64_t)le32_get(bytes) | (uint64_t)le32_get((const uint8_t *)bytes + 4) << 32;
}

static inline void le16_put(void *bytes, uint16_t value)
{
	uint8_t *p = bytes;

	p[0] = (uint8_t)value;
	p[1] = (uint8_t)(value >> 8);
}

static inline void le24_put(void *bytes, uint32_t value)
{
	uint8_t *p = bytes;

	le16_put(p, (uint16_t)value);
	p[2] = (uint8_t)(value >> 16);
}

static inline void le32_put(void *bytes, uint32_t value)
{
	uint8_t *p = bytes;

	le16_put(p, (uint16_t)value);
	le16_put(p + 2, (uint16_t)(value >> 16));
}

static inline void le64_put(void *bytes, uint64_t value)
{
	uint8_t *p = bytes;

	le32_put(p, (uint32_t)value);
	le32_put(p + 4, (uint32_t)(value >> 32));
}

#endif
