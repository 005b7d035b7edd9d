/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_WIRE_BYTES_H
#define URNIC_WIRE_BYTES_H

/*
 * Big-endian integers in byte arrays, at any alignment.
 *
 * Everything that InfiniBand puts on the wire is big-endian, except the ICRC. All accesses to wire
 * integers use these functions; compilers turn each into a load or store and a byte swap. The
 * caller checks that the bytes exist.
 */

#include <endian.h>
#include <stdint.h>
#include <string.h>

static inline uint16_t get_be16(const uint8_t *from)
{
	uint16_t value;

	memcpy(&value, from, sizeof(value));
	return be16toh(value);
}

static inline uint32_t get_be24(const uint8_t *from)
{
	return (uint32_t)from[0] << 16 | (uint32_t)from[1] << 8 | from[2];
}

static inline uint32_t get_be32(const uint8_t *from)
{
	uint32_t value;

	memcpy(&value, from, sizeof(value));
	return be32toh(value);
}

static inline uint64_t get_be64(const uint8_t *from)
{
	uint64_t value;

	memcpy(&value, from, sizeof(value));
	return be64toh(value);
}

static inline void put_be16(uint8_t *to, uint16_t value)
{
	value = htobe16(value);
	memcpy(to, &value, sizeof(value));
}

static inline void put_be32(uint8_t *to, uint32_t value)
{
	value = htobe32(value);
	memcpy(to, &value, sizeof(value));
}

static inline void put_be64(uint8_t *to, uint64_t value)
{
	value = htobe64(value);
	memcpy(to, &value, sizeof(value));
}

/* The only little-endian integer on the wire: the ICRC. */
static inline uint32_t get_le32(const uint8_t *from)
{
	uint32_t value;

	memcpy(&value, from, sizeof(value));
	return le32toh(value);
}

static inline void put_le32(uint8_t *to, uint32_t value)
{
	value = htole32(value);
	memcpy(to, &value, sizeof(value));
}

#endif
