/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/infiniband/attribute.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "base/arith.h"
#include "wire/field.h"

/* The rows of each attribute as an array: node_info_fields[], ... */
#define IB_ATTRIBUTE(NAME, name, bytes) static const struct wire_field name##_fields[] = {
#define IB_INT(name, type, field, byte, bit, bits) \
	{offsetof(struct ib_##name, field), sizeof(type), byte, bit, bits},
#define IB_BYTES(name, field, byte, bytes) {offsetof(struct ib_##name, field), bytes, byte, 0, 0},
#define IB_END(name) \
	}            \
	;
#include "wire/infiniband/attribute.def"

/* Each value fits its member. */
#define IB_INT(name, type, field, byte, bit, bits) \
	static_assert((bits) <= sizeof(type) * 8, #name "." #field);
#include "wire/infiniband/attribute.def"

/* Each field lies inside of its attribute. */
#define IB_ATTRIBUTE(NAME, name, bytes) enum { BYTES_OF_##name = (bytes) };
#define IB_INT(name, type, field, byte, bit, bits) \
	static_assert((byte)*8 + (bit) + (bits) <= BYTES_OF_##name * 8, #name "." #field);
#define IB_BYTES(name, field, byte, bytes) \
	static_assert((byte) + (bytes) <= BYTES_OF_##name, #name "." #field);
#include "wire/infiniband/attribute.def"

static void fields_decode(
	const struct wire_field *fields, size_t count, void *attribute, const uint8_t *from)
{
	for (size_t i = 0; i < count; i++)
		wire_field_decode(&fields[i], attribute, from);
}

static void fields_encode(
	const struct wire_field *fields, size_t count, const void *attribute, uint8_t *to)
{
	for (size_t i = 0; i < count; i++)
		wire_field_encode(&fields[i], attribute, to);
}

#define IB_ATTRIBUTE(NAME, name, bytes)                                                    \
	void ib_##name##_decode(struct ib_##name *attribute, const uint8_t *from)          \
	{                                                                                  \
		memset(attribute, 0, sizeof(*attribute));                                  \
		fields_decode(name##_fields, ARRAY_COUNT(name##_fields), attribute, from); \
	}                                                                                  \
	void ib_##name##_encode(const struct ib_##name *attribute, uint8_t *to)            \
	{                                                                                  \
		memset(to, 0, BYTES_OF_##name);                                            \
		fields_encode(name##_fields, ARRAY_COUNT(name##_fields), attribute, to);   \
	}
#include "wire/infiniband/attribute.def"
