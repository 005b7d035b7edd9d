/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/infiniband/sa_record.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "base/arith.h"
#include "wire/field.h"

struct sa_field {
	struct wire_field field;
	uint8_t component;
};

/* The rows of each record as an array: path_fields[], ... */
#define SA_RECORD(NAME, name, attribute, bytes) static const struct sa_field name##_fields[] = {
#define SA_INT(name, type, field, byte, bit, bits, component) \
	{{offsetof(struct sa_##name, field), sizeof(type), byte, bit, bits}, component},
#define SA_BYTES(name, field, byte, bytes, component) \
	{{offsetof(struct sa_##name, field), bytes, byte, 0, 0}, component},
#define SA_END(name) \
	}            \
	;
#include "wire/infiniband/sa_record.def"

/* Each value fits its member, and each field lies inside of its record. */
#define SA_RECORD(NAME, name, attribute, bytes) enum { BYTES_OF_##name = (bytes) };
#define SA_INT(name, type, field, byte, bit, bits, component)        \
	static_assert((bits) <= sizeof(type) * 8, #name "." #field); \
	static_assert((byte)*8 + (bit) + (bits) <= BYTES_OF_##name * 8, #name "." #field);
#define SA_BYTES(name, field, byte, bytes, component) \
	static_assert((byte) + (bytes) <= BYTES_OF_##name, #name "." #field);
#include "wire/infiniband/sa_record.def"

static void fields_decode(
	const struct sa_field *fields, size_t count, void *record, const uint8_t *from)
{
	for (size_t i = 0; i < count; i++)
		wire_field_decode(&fields[i].field, record, from);
}

static void fields_encode(
	const struct sa_field *fields, size_t count, const void *record, uint8_t *to)
{
	for (size_t i = 0; i < count; i++)
		wire_field_encode(&fields[i].field, record, to);
}

static bool fields_match(const struct sa_field *fields, size_t count, const void *record,
	const void *query, uint64_t component_mask)
{
	for (size_t i = 0; i < count; i++) {
		const struct wire_field *field = &fields[i].field;

		if (component_mask >> fields[i].component & 1 &&
			memcmp((const uint8_t *)record + field->offset,
				(const uint8_t *)query + field->offset, field->size) != 0)
			return false;
	}
	return true;
}

#define SA_RECORD(NAME, name, attribute, bytes)                                                    \
	void sa_##name##_decode(struct sa_##name *record, const uint8_t *from)                     \
	{                                                                                          \
		memset(record, 0, sizeof(*record));                                                \
		fields_decode(name##_fields, ARRAY_COUNT(name##_fields), record, from);            \
	}                                                                                          \
	void sa_##name##_encode(const struct sa_##name *record, uint8_t *to)                       \
	{                                                                                          \
		memset(to, 0, BYTES_OF_##name);                                                    \
		fields_encode(name##_fields, ARRAY_COUNT(name##_fields), record, to);              \
	}                                                                                          \
	bool sa_##name##_matches(const struct sa_##name *record, const struct sa_##name *query,    \
		uint64_t component_mask)                                                           \
	{                                                                                          \
		return fields_match(                                                               \
			name##_fields, ARRAY_COUNT(name##_fields), record, query, component_mask); \
	}
#include "wire/infiniband/sa_record.def"
