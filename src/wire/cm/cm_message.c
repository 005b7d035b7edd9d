/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/cm/cm_message.h"

#include <assert.h>
#include <string.h>

#include "base/arith.h"
#include "wire/bytes.h"
#include "wire/field.h"

/* One row of cm_message.def. */
struct field {
	enum cm_attribute attribute;
	struct wire_field field; /* a member of struct cm_message, and its bits in the MAD */
};

#define ATTRIBUTE_OF(name) attribute_##name
enum {
#define CM_MESSAGE(NAME, name, attribute) ATTRIBUTE_OF(name) = (attribute),
#include "wire/cm/cm_message.def"
};

static const struct field fields[] = {
#define CM_INT(name, type, field, byte, bit, bits) \
	{(enum cm_attribute)ATTRIBUTE_OF(name),    \
		{offsetof(struct cm_message, name.field), sizeof(type), byte, bit, bits}},
#define CM_BYTES(name, field, byte, bytes)      \
	{(enum cm_attribute)ATTRIBUTE_OF(name), \
		{offsetof(struct cm_message, name.field), bytes, byte, 0, 0}},
#include "wire/cm/cm_message.def"
};

/* Each field lies inside the MAD, and its value fits the struct's member. */
#define CM_INT(name, type, field, byte, bit, bits)                                        \
	static_assert((byte)*8 + (bit) + (bits) <= MAD_DATA_BYTES * 8, #name "." #field); \
	static_assert((bits) <= sizeof(type) * 8, #name "." #field);
#define CM_BYTES(name, field, byte, bytes) \
	static_assert((byte) + (bytes) <= MAD_DATA_BYTES, #name "." #field);
#include "wire/cm/cm_message.def"

static bool is_known(uint16_t attribute)
{
	switch (attribute) {
#define CM_MESSAGE(NAME, name, attribute) case attribute:
#include "wire/cm/cm_message.def"
		return true;
	default:
		return false;
	}
}

bool cm_message_decode(struct cm_message *message, const uint8_t mad[MAD_BYTES])
{
	const uint8_t *data = mad + MAD_HEADER_BYTES;
	struct mad_header header;

	mad_header_decode(&header, mad);
	if (header.base_version != MAD_BASE_VERSION || header.management_class != MAD_CLASS_CM ||
		header.class_version != CM_CLASS_VERSION || header.method != MAD_METHOD_SEND ||
		!is_known(header.attribute_id))
		return false;
	memset(message, 0, sizeof(*message));
	message->attribute = (enum cm_attribute)header.attribute_id;
	message->transaction_id = header.transaction_id;
	for (size_t i = 0; i < ARRAY_COUNT(fields); i++) {
		if (fields[i].attribute == message->attribute)
			wire_field_decode(&fields[i].field, message, data);
	}
	return true;
}

void cm_message_encode(const struct cm_message *message, uint8_t mad[MAD_BYTES])
{
	const struct mad_header header = {
		.base_version = MAD_BASE_VERSION,
		.management_class = MAD_CLASS_CM,
		.class_version = CM_CLASS_VERSION,
		.method = MAD_METHOD_SEND,
		.transaction_id = message->transaction_id,
		.attribute_id = (uint16_t)message->attribute,
	};
	uint8_t *data = mad + MAD_HEADER_BYTES;

	memset(mad, 0, MAD_BYTES);
	mad_header_encode(&header, mad);
	for (size_t i = 0; i < ARRAY_COUNT(fields); i++) {
		if (fields[i].attribute == message->attribute)
			wire_field_encode(&fields[i].field, message, data);
	}
}

uint32_t cm_message_sender(const struct cm_message *message)
{
	switch ((int)message->attribute) {
#define CM_SENDER(name, field)   \
	case ATTRIBUTE_OF(name): \
		return message->name.field;
#include "wire/cm/cm_message.def"
	default:
		return 0;
	}
}

uint32_t cm_message_receiver(const struct cm_message *message)
{
	switch ((int)message->attribute) {
#define CM_RECEIVER(name, field) \
	case ATTRIBUTE_OF(name): \
		return message->name.field;
#include "wire/cm/cm_message.def"
	default:
		return 0;
	}
}

struct cm_message cm_message_begin(
	enum cm_attribute attribute, uint64_t transaction_id, uint32_t sender, uint32_t receiver)
{
	struct cm_message message = {.attribute = attribute, .transaction_id = transaction_id};

	switch ((int)attribute) {
#define CM_SENDER(name, field)               \
	case ATTRIBUTE_OF(name):             \
		message.name.field = sender; \
		break;
#include "wire/cm/cm_message.def"
	}
	switch ((int)attribute) {
#define CM_RECEIVER(name, field)               \
	case ATTRIBUTE_OF(name):               \
		message.name.field = receiver; \
		break;
#include "wire/cm/cm_message.def"
	}
	return message;
}

const char *cm_reject_sentence(uint16_t reason)
{
	switch (reason) {
#define CM_REJECT(NAME, code, sentence) \
	case CM_REJECT_##NAME:          \
		return sentence;
#include "wire/cm/cm_reject.def"
#undef CM_REJECT
	default:
		return "the peer refused for a reason that has no name";
	}
}

/* --- RDMA IP CM service --- */

enum {
	IP_CM_MAJOR_VERSION =
		0, /* the upper four bits of the first byte; the minor version is ignored */
	IP_VERSION_4 = 4,
	IP_VERSION_6 = 6,
	IPV4_BYTES = 4,
};

static void address_decode(struct gid *gid, bool is_ipv4, const uint8_t from[16])
{
	if (is_ipv4)
		*gid = gid_from_ipv4(from + 16 - IPV4_BYTES);
	else
		memcpy(gid->raw, from, 16);
}

/* Write an address into 16 zeroed bytes; an IPv4 address goes into the last four of them. */
static void address_encode(const struct gid *gid, bool is_ipv4, uint8_t to[16])
{
	if (is_ipv4)
		memcpy(to + 16 - IPV4_BYTES, gid->raw + 16 - IPV4_BYTES, IPV4_BYTES);
	else
		memcpy(to, gid->raw, 16);
}

bool ip_cm_header_decode(struct ip_cm_header *header, const uint8_t from[IP_CM_HEADER_BYTES])
{
	unsigned ip_version = from[1] >> 4;

	if (from[0] >> 4 != IP_CM_MAJOR_VERSION ||
		(ip_version != IP_VERSION_4 && ip_version != IP_VERSION_6))
		return false;
	header->source_port = get_be16(from + 2);
	address_decode(&header->source, ip_version == IP_VERSION_4, from + 4);
	address_decode(&header->destination, ip_version == IP_VERSION_4, from + 20);
	return true;
}

void ip_cm_header_encode(const struct ip_cm_header *header, uint8_t to[IP_CM_HEADER_BYTES])
{
	bool is_ipv4 = gid_is_ipv4(&header->destination);

	memset(to, 0, IP_CM_HEADER_BYTES);
	to[0] = IP_CM_MAJOR_VERSION << 4;
	to[1] = (uint8_t)((is_ipv4 ? IP_VERSION_4 : IP_VERSION_6) << 4);
	put_be16(to + 2, header->source_port);
	address_encode(&header->source, is_ipv4, to + 4);
	address_encode(&header->destination, is_ipv4, to + 20);
}
