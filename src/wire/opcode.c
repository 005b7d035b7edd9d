/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/opcode.h"

#include <assert.h>

#include "wire/bth.h"
#include "wire/headers.h"
#include "wire/selective.h"

/* A macro, because static_assert() needs a constant expression. */
#define HEADER_BYTES(headers)                                              \
	(BTH_BYTES + ((headers)&HEADER_XRCETH ? XRCETH_BYTES : 0) +        \
		((headers)&HEADER_DETH ? DETH_BYTES : 0) +                 \
		((headers)&HEADER_FETH ? FETH_BYTES : 0) +                 \
		((headers)&HEADER_RETH ? RETH_BYTES : 0) +                 \
		((headers)&HEADER_ATOMICETH ? ATOMICETH_BYTES : 0) +       \
		((headers)&HEADER_AETH ? AETH_BYTES : 0) +                 \
		((headers)&HEADER_ATOMICACKETH ? ATOMICACKETH_BYTES : 0) + \
		((headers)&HEADER_IMMDT ? IMMDT_BYTES : 0) +               \
		((headers)&HEADER_IETH ? IETH_BYTES : 0))

/*
 * Check of each row: the top three bits of the value are the class, and the headers fit the room
 * that senders reserve.
 */
#define OPCODE(class_, value, name_, role_, operation_, position_, payload_, headers_)       \
	static_assert(((value)&OPCODE_CLASS_MASK) == OPCODE_CLASS_##class_, #class_ #name_); \
	static_assert(HEADER_BYTES(headers_) <= OPCODE_HEADER_BYTES_MAX, #class_ #name_);
#include "wire/opcode.def"

const struct opcode_info opcode_table[256] = {
#define OPCODE(class_, value, name_, role_, operation_, position_, payload_, headers_) \
	[value] = {                                                                    \
		.name = #class_ "_" #name_,                                            \
		.headers = (headers_),                                                 \
		.header_bytes = HEADER_BYTES(headers_),                                \
		.opcode = (value),                                                     \
		.role = OPCODE_ROLE_##role_,                                           \
		.operation = OPERATION_##operation_,                                   \
		.position = POSITION_##position_,                                      \
		.payload = PAYLOAD_##payload_,                                         \
	},
#include "wire/opcode.def"
};

bool opcode_payload_fits(const struct opcode_info *info, size_t payload_bytes, size_t mtu_bytes)
{
	switch (info->payload) {
	case PAYLOAD_NONE:
		return payload_bytes == 0;
	case PAYLOAD_MTU:
		return payload_bytes == mtu_bytes;
	case PAYLOAD_SOME:
		return payload_bytes > 0 && payload_bytes <= mtu_bytes;
	case PAYLOAD_ANY:
		return payload_bytes <= mtu_bytes;
	case PAYLOAD_EIGHT:
		return payload_bytes == 8;
	case PAYLOAD_SIXTEEN:
		return payload_bytes == 16;
	case PAYLOAD_MAP:
		return payload_bytes == 0 || payload_bytes == SELECTIVE_MAP_BYTES;
	}
	return false;
}
