/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/iwarp/rdmap.h"

#include <assert.h>
#include <string.h>

#include "wire/bytes.h"

enum {
	TAGGED = 1,
	UNTAGGED = 0,
};

static const struct info {
	bool is_tagged;
	uint8_t queue;
	uint32_t least_bytes, most_bytes;
} table[RDMAP_OPCODE_COUNT] = {
#define RDMAP(name, opcode, model, queue, least, most) [opcode] = {model, queue, least, most},
#include "wire/iwarp/rdmap_opcode.def"
#undef RDMAP
};

static const struct error_info {
	const char *sentence;
	uint8_t layer, type, code;
} errors[RDMAP_ERROR_COUNT] = {
	[RDMAP_OK] = {.sentence = "nothing"},
#define RDMAP_ERROR(name, layer, type, code, fault, signal, sentence) \
	[RDMAP_ERROR_##name] = {sentence, layer, type, code},
#include "wire/iwarp/rdmap_error.def"
#undef RDMAP_ERROR
};

bool rdmap_is_tagged(enum rdmap_opcode opcode)
{
	return table[opcode].is_tagged;
}

bool rdmap_is_solicited(enum rdmap_opcode opcode)
{
	return opcode == RDMAP_SEND_SOLICITED || opcode == RDMAP_SEND_SOLICITED_INVALIDATE ||
		opcode == RDMAP_IMMEDIATE_SOLICITED;
}

bool rdmap_has_invalidate(enum rdmap_opcode opcode)
{
	return opcode == RDMAP_SEND_INVALIDATE || opcode == RDMAP_SEND_SOLICITED_INVALIDATE;
}

/* --- segments --- */

/* The length of a segment's header. The segment's first byte says whether the segment is tagged. */
static uint32_t ddp_header_bytes_of(const uint8_t *bytes)
{
	return ddp_header_bytes((bytes[0] & DDP_TAGGED) != 0);
}

/*
 * The RFCs have no error code for a segment that is shorter than its header, or than its type of
 * message requires. So the function returns the error of an unexpected opcode.
 */
enum rdmap_error ddp_decode(struct ddp_segment *segment, const uint8_t *ulpdu, uint32_t ulpdu_bytes)
{
	bool is_tagged;
	uint8_t opcode;

	if (ulpdu_bytes < DDP_TAGGED_BYTES || ulpdu_bytes < ddp_header_bytes_of(ulpdu))
		return RDMAP_ERROR_UNEXPECTED_OPCODE;
	is_tagged = (ulpdu[0] & DDP_TAGGED) != 0;
	if ((ulpdu[0] & DDP_VERSION_MASK) != DDP_VERSION)
		return is_tagged ? RDMAP_ERROR_TAGGED_VERSION : RDMAP_ERROR_UNTAGGED_VERSION;
	if (ulpdu[1] >> RDMAP_VERSION_SHIFT != RDMAP_VERSION)
		return RDMAP_ERROR_RDMAP_VERSION;
	opcode = ulpdu[1] & RDMAP_OPCODE_MASK;
	if (opcode >= RDMAP_OPCODE_COUNT || table[opcode].is_tagged != is_tagged)
		return RDMAP_ERROR_UNEXPECTED_OPCODE;
	segment->opcode = (enum rdmap_opcode)opcode;
	segment->is_last = (ulpdu[0] & DDP_LAST) != 0;
	segment->payload = ulpdu + ddp_header_bytes(is_tagged);
	segment->payload_bytes = ulpdu_bytes - ddp_header_bytes(is_tagged);
	if (is_tagged) {
		ddp_tagged_decode(segment, ulpdu);
		return RDMAP_OK;
	}
	ddp_untagged_decode(segment, ulpdu);
	if (segment->untagged.queue >= DDP_QUEUE_COUNT)
		return RDMAP_ERROR_UNTAGGED_QUEUE;
	if (segment->untagged.queue != table[opcode].queue ||
		segment->payload_bytes < table[opcode].least_bytes)
		return RDMAP_ERROR_UNEXPECTED_OPCODE;
	return segment->payload_bytes > table[opcode].most_bytes ? RDMAP_ERROR_UNTAGGED_TOO_LONG
								 : RDMAP_OK;
}

uint32_t ddp_encode(const struct ddp_segment *segment, uint8_t *to)
{
	bool is_tagged = table[segment->opcode].is_tagged;

	put_be16(to, ddp_control(segment->opcode, is_tagged, segment->is_last));
	if (is_tagged)
		ddp_tagged_encode(segment, to);
	else
		ddp_untagged_encode(segment, to);
	return ddp_header_bytes(is_tagged);
}

/* --- Terminate --- */

enum {
	HAS_LENGTH = 0x80, /* the bits of the field HdrCt, which is in the third byte */
	HAS_DDP = 0x40,
	HAS_RDMAP = 0x20,
	SIW_HAS_ANY = 0x07,
	TERMINATE_HEAD_BYTES = 4,

	LAYER_RDMA = 0,
	TYPE_LOCAL_CATASTROPHIC = 0,
	TYPE_REMOTE_PROTECTION = 1,
};

const char *rdmap_error_sentence(enum rdmap_error error)
{
	return errors[error].sentence;
}

uint32_t rdmap_terminate_encode(
	enum rdmap_error error, const uint8_t *ulpdu, uint32_t ulpdu_bytes, uint8_t *to)
{
	const struct error_info *info = &errors[error];
	uint32_t header_bytes, bytes = TERMINATE_HEAD_BYTES;

	assert(error != RDMAP_OK);
	put_be32(to,
		(uint32_t)info->layer << 28 | (uint32_t)info->type << 24 |
			(uint32_t)info->code << 16);
	if (!ulpdu || ulpdu_bytes < DDP_TAGGED_BYTES || ulpdu_bytes < ddp_header_bytes_of(ulpdu))
		return bytes;
	header_bytes = ddp_header_bytes_of(ulpdu);
	to[2] = HAS_LENGTH | HAS_DDP;
	put_be16(to + bytes, (uint16_t)ulpdu_bytes);
	bytes += 2;
	memcpy(to + bytes, ulpdu, header_bytes);
	bytes += header_bytes;
	if (info->layer == LAYER_RDMA && info->type == TYPE_REMOTE_PROTECTION &&
		(ulpdu[1] & RDMAP_OPCODE_MASK) == RDMAP_READ_REQUEST &&
		header_bytes == DDP_UNTAGGED_BYTES &&
		ulpdu_bytes >= header_bytes + RDMAP_READ_REQUEST_BYTES) {
		to[2] |= HAS_RDMAP;
		memcpy(to + bytes, ulpdu + header_bytes, RDMAP_READ_REQUEST_BYTES);
		bytes += RDMAP_READ_REQUEST_BYTES;
	}
	return bytes;
}

static enum rdmap_error error_find(uint8_t layer, uint8_t type, uint8_t code)
{
	if (layer == LAYER_RDMA && type == TYPE_LOCAL_CATASTROPHIC)
		return RDMAP_ERROR_LOCAL_CATASTROPHIC; /* this error type has no codes */
	for (uint32_t i = RDMAP_OK + 1; i < RDMAP_ERROR_COUNT; i++)
		if (errors[i].layer == layer && errors[i].type == type && errors[i].code == code)
			return (enum rdmap_error)i;
	return RDMAP_OK;
}

void rdmap_terminate_decode(
	struct rdmap_terminate *terminate, const uint8_t *payload, uint32_t bytes)
{
	uint8_t layer = payload[0] >> 4, type = payload[0] & 0xf;
	bool is_siw = (payload[2] & SIW_HAS_ANY) && !(payload[2] & ~SIW_HAS_ANY);
	const uint8_t *ulpdu = payload + TERMINATE_HEAD_BYTES + 2;
	uint8_t opcode;

	*terminate = (struct rdmap_terminate){
		.error = error_find(is_siw ? type : layer, is_siw ? layer : type, payload[1])};
	if (!(payload[2] & (is_siw ? 2 : HAS_DDP)) ||
		bytes < TERMINATE_HEAD_BYTES + 2 + DDP_TAGGED_BYTES)
		return;
	opcode = ulpdu[1] & RDMAP_OPCODE_MASK;
	terminate->is_about_read = opcode == RDMAP_READ_REQUEST || opcode == RDMAP_ATOMIC_REQUEST;
}
