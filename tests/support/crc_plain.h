/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_TESTS_SUPPORT_CRC_PLAIN_H
#define URNIC_TESTS_SUPPORT_CRC_PLAIN_H

#include <stddef.h>
#include <stdint.h>

/* The twin of crc32_update(): one bit at a time, straight from the definition. */
static inline uint32_t crc32_plain(uint32_t crc, const void *bytes, size_t length)
{
	const uint8_t *from = bytes;
	uint32_t value = ~crc;

	for (size_t i = 0; i < length; i++) {
		value ^= from[i];
		for (int bit = 0; bit < 8; bit++)
			value = value >> 1 ^ (value & 1 ? 0xedb88320 : 0);
	}
	return ~value;
}

#endif
