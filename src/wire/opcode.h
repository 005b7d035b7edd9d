/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_WIRE_OPCODE_H
#define URNIC_WIRE_OPCODE_H

/*
 * The BTH opcodes, and the properties of their packets.
 *
 * opcode.def has a row per opcode; the enum, names, header lengths and payload rules are expanded
 * from it. An opcode is a class in its top three bits and an operation in its low five. An
 * operation has the same number in each class that has it: OPCODE_CLASS_UC | OPCODE_RC_SEND_FIRST
 * is OPCODE_UC_SEND_FIRST. The requesters compute opcodes in this way.
 *
 * All of this is constant data, so any thread may use it at any time.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum opcode {
#define OPCODE(class, value, name, role, operation, position, payload, headers) \
	OPCODE_##class##_##name = (value),
#include "wire/opcode.def"
};

/* The transport service: the top three bits of an opcode. */
enum __attribute__((packed)) opcode_class {
	OPCODE_CLASS_RC = 0x00,
	OPCODE_CLASS_UC = 0x20,
	OPCODE_CLASS_UD = 0x60,
	OPCODE_CLASS_CNP = 0x80,
	OPCODE_CLASS_XRC = 0xa0,
};
#define OPCODE_CLASS_MASK 0xe0

/* The half of a queue pair that receives the packet. */
enum __attribute__((packed)) opcode_role {
	OPCODE_ROLE_REQUEST, /* from a requester to the responder */
	OPCODE_ROLE_RESPONSE, /* from a responder to the requester */
	/*
	 * From the receiver of a packet that a switch has marked, to the congestion control of the
	 * packet's sender
	 */
	OPCODE_ROLE_CONGESTION,
};

enum __attribute__((packed)) opcode_operation {
	OPERATION_SEND,
	OPERATION_WRITE,
	OPERATION_READ,
	OPERATION_READ_RESPONSE,
	OPERATION_ACKNOWLEDGE, /* an ACK or a NAK, as the AETH says */
	OPERATION_ATOMIC_ACK,
	OPERATION_COMPARE_SWAP,
	OPERATION_FETCH_ADD,
	OPERATION_ATOMIC_WRITE,
	OPERATION_FLUSH,
	OPERATION_CNP,
	OPERATION_NONE, /* for work requests that send no packet */
};

/* The position of a packet in its message. */
enum __attribute__((packed)) opcode_position {
	POSITION_FIRST,
	POSITION_MIDDLE,
	POSITION_LAST,
	POSITION_ONLY,
};

/* The payload bytes of an opcode, without pad (IBTA 9.7.4.1.6). */
enum __attribute__((packed)) opcode_payload {
	PAYLOAD_NONE, /* 0 */
	PAYLOAD_MTU, /* exactly the path MTU */
	PAYLOAD_SOME, /* 1 .. path MTU */
	PAYLOAD_ANY, /* 0 .. path MTU */
	PAYLOAD_EIGHT, /* exactly 8 */
	PAYLOAD_SIXTEEN, /* exactly 16 */
	PAYLOAD_MAP, /* 0, or the map of a selective NAK (wire/selective.h) */
};

/* Extended headers, as bits. On the wire the headers follow the BTH in the order of their bits. */
#define HEADER_XRCETH       (1u << 0)
#define HEADER_DETH         (1u << 1)
#define HEADER_FETH         (1u << 2)
#define HEADER_RETH         (1u << 3)
#define HEADER_ATOMICETH    (1u << 4)
#define HEADER_AETH         (1u << 5)
#define HEADER_ATOMICACKETH (1u << 6)
#define HEADER_IMMDT        (1u << 7)
#define HEADER_IETH         (1u << 8)

/* The longest BTH with extended headers: the headers of an XRC atomic. */
#define OPCODE_HEADER_BYTES_MAX 44

struct opcode_info {
	const char *name; /* "RC_SEND_FIRST" */
	uint16_t headers; /* HEADER_ bits */
	uint8_t header_bytes; /* BTH and extended headers, 12 .. OPCODE_HEADER_BYTES_MAX */
	uint8_t opcode; /* the value of enum opcode that this row is for */
	enum opcode_role role;
	enum opcode_operation operation;
	enum opcode_position position;
	enum opcode_payload payload;
};

extern const struct opcode_info opcode_table[256];

/* The row of `opcode`, which may have any value; NULL when opcode.def has no such row. */
static inline const struct opcode_info *opcode_info(uint8_t opcode)
{
	const struct opcode_info *info = &opcode_table[opcode];

	return info->name ? info : NULL;
}

static inline enum opcode_class opcode_class(const struct opcode_info *info)
{
	return (enum opcode_class)(info->opcode & OPCODE_CLASS_MASK);
}

static inline bool opcode_has_immediate(const struct opcode_info *info)
{
	return info->headers & HEADER_IMMDT;
}

static inline bool opcode_has_invalidate(const struct opcode_info *info)
{
	return info->headers & HEADER_IETH;
}

static inline bool opcode_begins_message(const struct opcode_info *info)
{
	return info->position == POSITION_FIRST || info->position == POSITION_ONLY;
}

static inline bool opcode_ends_message(const struct opcode_info *info)
{
	return info->position == POSITION_LAST || info->position == POSITION_ONLY;
}

/*
 * Does a payload have a length that its opcode allows (IBTA 9.7.4.1.6)?
 *
 * `payload_bytes`  Without the pad; any value.
 * `mtu_bytes`      The path MTU of the queue pair: 256, 512, 1024, 2048 or 4096.
 */
bool opcode_payload_fits(const struct opcode_info *info, size_t payload_bytes, size_t mtu_bytes);

#endif
