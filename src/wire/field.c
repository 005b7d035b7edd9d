/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/field.h"

#include <string.h>

/* Read an integer of up to 64 bits at any bit offset. */
static uint64_t bits_get(const uint8_t *from, unsigned byte, unsigned bit, unsigned bits)
{
	uint64_t value = 0;

	for (unsigned i = byte * 8 + bit; i < byte * 8 + bit + bits;) {
		unsigned left_in_byte = 8 - i % 8;
		unsigned wanted = byte * 8 + bit + bits - i;
		unsigned take = wanted < left_in_byte ? wanted : left_in_byte;
		uint8_t chunk = (uint8_t)(from[i / 8] >> (left_in_byte - take));

		value = value << take | (chunk & ((1u << take) - 1));
		i += take;
	}
	return value;
}

/* Write an integer at any bit offset, into zeroed bytes. */
static void bits_put(uint8_t *to, unsigned byte, unsigned bit, unsigned bits, uint64_t value)
{
	unsigned end = byte * 8 + bit + bits;

	for (unsigned i = end; i > byte * 8 + bit;) {
		unsigned used_in_byte = i % 8 ? i % 8 : 8;
		unsigned wanted = i - (byte * 8 + bit);
		unsigned take = wanted < used_in_byte ? wanted : used_in_byte;

		to[(i - 1) / 8] |= (uint8_t)((value & ((1u << take) - 1)) << (8 - used_in_byte));
		value >>= take;
		i -= take;
	}
}

static void member_set(void *member, uint8_t size, uint64_t value)
{
	switch (size) {
	case 1:
		*(uint8_t *)member = (uint8_t)value;
		break;
	case 2:
		*(uint16_t *)member = (uint16_t)value;
		break;
	case 4:
		*(uint32_t *)member = (uint32_t)value;
		break;
	default:
		*(uint64_t *)member = value;
		break;
	}
}

static uint64_t member_get(const void *member, uint8_t size)
{
	switch (size) {
	case 1:
		return *(const uint8_t *)member;
	case 2:
		return *(const uint16_t *)member;
	case 4:
		return *(const uint32_t *)member;
	default:
		return *(const uint64_t *)member;
	}
}

void wire_field_decode(const struct wire_field *field, void *to_struct, const uint8_t *from)
{
	void *member = (uint8_t *)to_struct + field->offset;

	if (field->bits == 0)
		memcpy(member, from + field->byte, field->size);
	else
		member_set(
			member, field->size, bits_get(from, field->byte, field->bit, field->bits));
}

void wire_field_encode(const struct wire_field *field, const void *from_struct, uint8_t *to)
{
	const void *member = (const uint8_t *)from_struct + field->offset;

	if (field->bits == 0)
		memcpy(to + field->byte, member, field->size);
	else
		bits_put(to, field->byte, field->bit, field->bits, member_get(member, field->size));
}
