/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_WIRE_INFINIBAND_SA_RECORD_H
#define URNIC_WIRE_INFINIBAND_SA_RECORD_H

/*
 * Records of subnet administration as plain structs, in host order. The rows of sa_record.def
 * define the members, how each member is encoded and decoded, and the member's bit in the component
 * mask of queries. wire/infiniband/rmpp.h has the header before a record.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/export.h"

#define SA_CLASS_VERSION 2

enum sa_attribute {
	SA_ATTRIBUTE_CLASS_PORT_INFO = 0x01,
#define SA_RECORD(NAME, name, attribute, bytes) SA_ATTRIBUTE_##NAME = (attribute),
#include "wire/infiniband/sa_record.def"
};

/* Status codes of the class (IBTA 15.2.4). */
enum sa_status {
	SA_STATUS_NO_RESOURCES = 0x0100,
	SA_STATUS_INVALID = 0x0200,
	SA_STATUS_NO_RECORDS = 0x0300,
	SA_STATUS_TOO_MANY_RECORDS = 0x0400,
	SA_STATUS_INVALID_GID = 0x0500,
	SA_STATUS_INSUFFICIENT_COMPONENTS = 0x0600,
	SA_STATUS_DENIED = 0x0700,
};

/* Values of the selectors of MTU, rate and life. */
enum sa_selector {
	SA_SELECT_ABOVE = 0,
	SA_SELECT_BELOW = 1,
	SA_SELECT_EXACTLY = 2,
	SA_SELECT_LARGEST = 3,
};

/* Bits of mc_member.join_state. */
enum sa_join {
	SA_JOIN_FULL = 1,
	SA_JOIN_NON = 2,
	SA_JOIN_SEND_ONLY = 4,
	/* Only sends, but the group exists as long as this member does */
	SA_JOIN_SEND_ONLY_FULL = 8,
};

#define SA_RECORD(NAME, name, attribute, bytes) enum { SA_##NAME##_BYTES = (bytes) };
#include "wire/infiniband/sa_record.def"

#define SA_RECORD(NAME, name, attribute, bytes)               struct sa_##name {
#define SA_INT(name, type, field, byte, bit, bits, component) type field;
#define SA_BYTES(name, field, byte, bytes, component)         uint8_t field[bytes];
#define SA_END(name) \
	}            \
	;
#include "wire/infiniband/sa_record.def"

/* The bits of the component mask: sa_mask_path_dgid, ... */
#define SA_INT(name, type, field, byte, bit, bits, component)                         \
	static const uint64_t sa_mask_##name##_##field __attribute__((unused)) = 1ull \
		<< (component);
#define SA_BYTES(name, field, byte, bytes, component)                                 \
	static const uint64_t sa_mask_##name##_##field __attribute__((unused)) = 1ull \
		<< (component);
#include "wire/infiniband/sa_record.def"

/*
 * sa_<name>_decode() reads SA_<NAME>_BYTES bytes; every bit pattern is a value. sa_<name>_encode()
 * writes the same number of bytes. sa_<name>_matches() returns whether the fields that the
 * component mask names are equal in both records.
 */
#define SA_RECORD(NAME, name, attribute, bytes)                                                 \
	void sa_##name##_decode(struct sa_##name *record, const uint8_t *from)                  \
		URNIC_EXPORT_AS(sa_##name##_decode);                                            \
	void sa_##name##_encode(const struct sa_##name *record, uint8_t *to)                    \
		URNIC_EXPORT_AS(sa_##name##_encode);                                            \
	bool sa_##name##_matches(const struct sa_##name *record, const struct sa_##name *query, \
		uint64_t component_mask) URNIC_EXPORT_AS(sa_##name##_matches);
#include "wire/infiniband/sa_record.def"

#endif
