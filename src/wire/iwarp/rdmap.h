/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_WIRE_RDMAP_H
#define URNIC_WIRE_RDMAP_H

/*
 * DDP segments (RFC 5041) with the RDMAP messages in them (RFC 5040, RFC 7306).
 *
 * A ULPDU is a segment of a message: a header and payload. A tagged header names advertised memory
 * by a key (STag) and an offset. An untagged header names a queue, a message number, and an offset
 * into that message. rdmap_opcode.def has the messages. rdmap_error.def has the errors, in the
 * words of the Terminate message.
 *
 * The functions keep no state, so any thread may call them.
 */

#include <stdbool.h>
#include <stdint.h>

#include "wire/bytes.h"

enum rdmap_opcode {
#define RDMAP(name, opcode, model, queue, least, most) RDMAP_##name = (opcode),
#include "wire/iwarp/rdmap_opcode.def"
#undef RDMAP
	RDMAP_OPCODE_COUNT
};

enum rdmap_error {
	RDMAP_OK,
#define RDMAP_ERROR(name, layer, type, code, fault, signal, sentence) RDMAP_ERROR_##name,
#include "wire/iwarp/rdmap_error.def"
#undef RDMAP_ERROR
	RDMAP_ERROR_COUNT
};

/* The queues of untagged messages. */
enum ddp_queue {
	DDP_QUEUE_SEND,
	DDP_QUEUE_READ_REQUEST, /* READ requests and atomic requests */
	DDP_QUEUE_TERMINATE,
	DDP_QUEUE_ATOMIC_RESPONSE,
	DDP_QUEUE_COUNT
};

enum {
	DDP_TAGGED_BYTES = 14, /* lengths of headers */
	DDP_UNTAGGED_BYTES = 18,
	RDMAP_READ_REQUEST_BYTES = 28, /* lengths of payloads */
	RDMAP_ATOMIC_REQUEST_BYTES = 52,
	RDMAP_ATOMIC_RESPONSE_BYTES = 12,
	RDMAP_IMMEDIATE_BYTES = 8,
	RDMAP_TERMINATE_BYTES_MAX = 4 + 2 + DDP_UNTAGGED_BYTES + RDMAP_READ_REQUEST_BYTES,
};

struct ddp_segment {
	enum rdmap_opcode opcode;
	bool is_last; /* the segment is the last of its message */
	union {
		struct { /* tagged */
			uint32_t stag;
			uint64_t offset; /* the Tagged Offset (TO) */
		} tagged;
		struct {
			/* The key to invalidate; 0 in a message that invalidates none */
			uint32_t invalidate_stag;
			uint32_t queue; /* the queue number (QN) */
			uint32_t msn; /* the message number (MSN), which counts from 1 */
			uint32_t offset; /* the message offset (MO) */
		} untagged;
	};
	const uint8_t *payload; /* borrowed */
	uint32_t payload_bytes;
};

/* The two control bytes at the beginning of every segment. */
enum {
	DDP_TAGGED = 0x80, /* bits of the first byte */
	DDP_LAST = 0x40,
	DDP_VERSION_MASK = 0x03,
	DDP_VERSION = 0x01,
	RDMAP_VERSION_SHIFT = 6, /* bits of the second byte */
	RDMAP_VERSION = 1,
	RDMAP_OPCODE_MASK = 0x0f,
};

bool rdmap_is_tagged(enum rdmap_opcode opcode);
bool rdmap_is_solicited(enum rdmap_opcode opcode);
bool rdmap_has_invalidate(enum rdmap_opcode opcode);

static inline uint32_t ddp_header_bytes(bool is_tagged)
{
	return is_tagged ? DDP_TAGGED_BYTES : DDP_UNTAGGED_BYTES;
}

/*
 * Decode the header of a segment of `ulpdu_bytes` bytes. `ulpdu` has at least the header; if the
 * segment is shorter than a header, it has the whole segment. The payload may be incomplete.
 * Returns RDMAP_OK, or the error in version, opcode, model, queue or length.
 */
enum rdmap_error ddp_decode(
	struct ddp_segment *segment, const uint8_t *ulpdu, uint32_t ulpdu_bytes);

/* Encode a header. Returns its length; the payload follows it. */
uint32_t ddp_encode(const struct ddp_segment *segment, uint8_t *to);

/* Both control bytes, the first one in the upper half. */
static inline uint16_t ddp_control(enum rdmap_opcode opcode, bool is_tagged, bool is_last)
{
	return (uint16_t)(((is_tagged ? DDP_TAGGED : 0) | (is_last ? DDP_LAST : 0) | DDP_VERSION)
			<< 8 |
		RDMAP_VERSION << RDMAP_VERSION_SHIFT | opcode);
}

/* The functions below decode and encode the fields behind the two control bytes. */
static inline void ddp_tagged_decode(struct ddp_segment *segment, const uint8_t *from)
{
	segment->tagged.stag = get_be32(from + 2);
	segment->tagged.offset = get_be64(from + 6);
}

static inline void ddp_untagged_decode(struct ddp_segment *segment, const uint8_t *from)
{
	segment->untagged.invalidate_stag = get_be32(from + 2);
	segment->untagged.queue = get_be32(from + 6);
	segment->untagged.msn = get_be32(from + 10);
	segment->untagged.offset = get_be32(from + 14);
}

static inline void ddp_tagged_encode(const struct ddp_segment *segment, uint8_t *to)
{
	put_be32(to + 2, segment->tagged.stag);
	put_be64(to + 6, segment->tagged.offset);
}

static inline void ddp_untagged_encode(const struct ddp_segment *segment, uint8_t *to)
{
	put_be32(to + 2, segment->untagged.invalidate_stag);
	put_be32(to + 6, segment->untagged.queue);
	put_be32(to + 10, segment->untagged.msn);
	put_be32(to + 14, segment->untagged.offset);
}

/* --- payloads of messages --- */

struct rdmap_read_request {
	uint32_t sink_stag; /* the response's destination */
	uint64_t sink_offset;
	uint32_t bytes;
	uint32_t source_stag;
	uint64_t source_offset;
};

#define RDMAP_READ_REQUEST_FIELDS(FIELD) \
	FIELD(32, 0, sink_stag)          \
	FIELD(64, 4, sink_offset)        \
	FIELD(32, 12, bytes)             \
	FIELD(32, 16, source_stag)       \
	FIELD(64, 20, source_offset)
HEADER_CODEC(rdmap_read_request, RDMAP_READ_REQUEST)

enum rdmap_atomic {
	RDMAP_FETCH_ADD = 0,
	RDMAP_COMPARE_SWAP = 2, /* 1 is reserved */
	/* The other bits of the field `operation` are reserved (RFC 7306 section 5.2.1) */
	RDMAP_ATOMIC_MASK = 0xf,
};

struct rdmap_atomic_request {
	/* Under RDMAP_ATOMIC_MASK: enum rdmap_atomic, or another value that the peer sent */
	uint32_t operation;
	uint32_t id; /* the response has the same ID */
	uint32_t stag;
	uint64_t offset;
	uint64_t operand; /* the addend, or the new value */
	/*
	 * FETCH_ADD: each set bit is the highest one of a field; COMPARE_SWAP: the bits to replace.
	 */
	uint64_t operand_mask;
	uint64_t compare;
	uint64_t compare_mask; /* bits that are compared */
};

#define RDMAP_ATOMIC_REQUEST_FIELDS(FIELD) \
	FIELD(32, 0, operation)            \
	FIELD(32, 4, id)                   \
	FIELD(32, 8, stag)                 \
	FIELD(64, 12, offset)              \
	FIELD(64, 20, operand)             \
	FIELD(64, 28, operand_mask)        \
	FIELD(64, 36, compare)             \
	FIELD(64, 44, compare_mask)
HEADER_CODEC(rdmap_atomic_request, RDMAP_ATOMIC_REQUEST)

struct rdmap_atomic_response {
	uint32_t id;
	uint64_t original;
};

#define RDMAP_ATOMIC_RESPONSE_FIELDS(FIELD) \
	FIELD(32, 0, id)                    \
	FIELD(64, 4, original)
HEADER_CODEC(rdmap_atomic_response, RDMAP_ATOMIC_RESPONSE)

/* --- Terminate --- */

const char *rdmap_error_sentence(enum rdmap_error error);

/*
 * Write the payload of a Terminate message.
 *
 * `ulpdu`  The refused segment; NULL: none. The message quotes the segment's header, and the whole
 *          READ request if the request's memory was refused (RFC 5040 section 4.8, figure 10).
 *
 * Returns the payload's length.
 */
uint32_t rdmap_terminate_encode(
	enum rdmap_error error, const uint8_t *ulpdu, uint32_t ulpdu_bytes, uint8_t *to);

/* The contents of a Terminate message. */
struct rdmap_terminate {
	enum rdmap_error error; /* RDMAP_OK for an unknown code */
	bool is_about_read; /* the peer refused a READ or atomic request of this end */
};

/*
 * Decode the payload of a Terminate message; `bytes` is at least 4. Linux' siw swaps the layer and
 * the error type in the first byte; the function accepts this form, too.
 */
void rdmap_terminate_decode(
	struct rdmap_terminate *terminate, const uint8_t *payload, uint32_t bytes);

#endif
