/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_WIRE_BYTES_H
#define URNIC_WIRE_BYTES_H

/*
 * Integers in byte arrays, at any alignment.
 *
 * All integers of InfiniBand on the wire are big-endian, except the ICRC. All accesses to them use
 * these functions; a compiler turns each of them into a load or store and a byte swap. The caller
 * checks that the bytes exist.
 */

#include <endian.h>
#include <stdint.h>
#include <string.h>

/* Define get_<order><bits>() and put_<order><bits>(), such as get_be32() and put_be32(). */
#define BYTES_ACCESS(order, bits)                                               \
	static inline uint##bits##_t get_##order##bits(const uint8_t *from)     \
	{                                                                       \
		uint##bits##_t value;                                           \
                                                                                \
		memcpy(&value, from, sizeof(value));                            \
		return order##bits##toh(value);                                 \
	}                                                                       \
	static inline void put_##order##bits(uint8_t *to, uint##bits##_t value) \
	{                                                                       \
		value = hto##order##bits(value);                                \
		memcpy(to, &value, sizeof(value));                              \
	}
BYTES_ACCESS(be, 16)
BYTES_ACCESS(be, 32)
BYTES_ACCESS(be, 64)
BYTES_ACCESS(le, 32) /* for CRCs, which are the only little-endian integers on the wire */
#undef BYTES_ACCESS

static inline uint32_t get_be24(const uint8_t *from)
{
	return (uint32_t)from[0] << 16 | (uint32_t)from[1] << 8 | from[2];
}

/*
 * Define name_decode() and name_encode() for a header of NAME_BYTES bytes that consists of whole
 * integers. The macro NAME_FIELDS(FIELD) lists the integers: it has a FIELD(bits, offset, name) for
 * each of them.
 */
#define HEADER_DECODE_FIELD(bits, at, name) header->name = get_be##bits(from + (at));
#define HEADER_ENCODE_FIELD(bits, at, name) put_be##bits(to + (at), header->name);
#define HEADER_CODEC(name, NAME)                                                                \
	static inline void name##_decode(struct name *header, const uint8_t from[NAME##_BYTES]) \
	{                                                                                       \
		NAME##_FIELDS(HEADER_DECODE_FIELD)                                              \
	}                                                                                       \
	static inline void name##_encode(const struct name *header, uint8_t to[NAME##_BYTES])   \
	{                                                                                       \
		NAME##_FIELDS(HEADER_ENCODE_FIELD)                                              \
	}

#endif
