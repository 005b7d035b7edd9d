/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/packet.h"

#include <assert.h>

/* The extended headers, in their order in a packet. */
#define EXTENDED_HEADERS(HEADER)           \
	HEADER(XRCETH, xrceth)             \
	HEADER(DETH, deth)                 \
	HEADER(FETH, feth)                 \
	HEADER(RETH, reth)                 \
	HEADER(ATOMICETH, atomiceth)       \
	HEADER(AETH, aeth)                 \
	HEADER(ATOMICACKETH, atomicacketh) \
	HEADER(IMMDT, immdt)               \
	HEADER(IETH, ieth)

/* The caller has checked that info->header_bytes bytes exist. */
static void extended_decode(struct packet *packet, const uint8_t *bytes)
{
	const uint8_t *from = bytes;
	uint32_t headers = packet->info->headers;

#define DECODE(NAME, name)                          \
	if (headers & HEADER_##NAME) {              \
		name##_decode(&packet->name, from); \
		from += NAME##_BYTES;               \
	}
	EXTENDED_HEADERS(DECODE)
#undef DECODE
}

/*
 * Can the payload be legal at some path MTU? The function accepts every request, because the
 * responder refuses a request with a NAK (IBTA 9.7.4.1.6).
 */
static bool payload_is_possible(const struct opcode_info *info, size_t payload_bytes)
{
	return info->role == OPCODE_ROLE_REQUEST ||
		opcode_payload_fits(info, payload_bytes, payload_bytes);
}

/*
 * The payload of an acknowledgement must be the map of a selective NAK. Only a peer that knows
 * selective NAKs sends one, and only with a sequence error.
 */
static enum packet_fault map_decode(struct packet *packet)
{
	if (!packet->bth.is_selective || packet->aeth.kind != AETH_NAK ||
		packet->aeth.value != AETH_NAK_PSN_SEQUENCE)
		return PACKET_FAULT_PAYLOAD;
	selective_map_decode(&packet->map, packet->payload);
	return PACKET_OK;
}

enum packet_fault packet_decode(struct packet *packet, const uint8_t *bytes, size_t length)
{
	size_t rest_bytes;

	if (length < BTH_BYTES)
		return PACKET_FAULT_TOO_SHORT;
	bth_decode(&packet->bth, bytes);
	if (packet->bth.tver != BTH_TVER)
		return PACKET_FAULT_VERSION;
	packet->info = opcode_info(packet->bth.opcode);
	if (!packet->info)
		return PACKET_FAULT_OPCODE;
	if (length < packet->info->header_bytes)
		return PACKET_FAULT_TOO_SHORT;
	if (length % 4 != 0)
		return PACKET_FAULT_UNALIGNED;

	rest_bytes = length - packet->info->header_bytes;
	if (packet->bth.pad_bytes > rest_bytes)
		return PACKET_FAULT_PAD;
	if (rest_bytes - packet->bth.pad_bytes > UINT32_MAX ||
		!payload_is_possible(packet->info, rest_bytes - packet->bth.pad_bytes))
		return PACKET_FAULT_PAYLOAD;

	packet->payload = bytes + packet->info->header_bytes;
	packet->payload_bytes = (uint32_t)(rest_bytes - packet->bth.pad_bytes);
	extended_decode(packet, bytes + BTH_BYTES);
	return packet_has_map(packet) ? map_decode(packet) : PACKET_OK;
}

void packet_init(struct packet *packet, enum opcode opcode)
{
	packet->info = opcode_info((uint8_t)opcode);
	assert(packet->info);
	packet->payload = NULL;
	packet->payload_bytes = 0;
	packet->bth = (struct bth){
		.opcode = (uint8_t)opcode,
		.is_migrated = true,
		.pkey = BTH_PKEY_DEFAULT,
	};
}

void packet_set_payload(struct packet *packet, const uint8_t *payload, uint32_t payload_bytes)
{
	packet->payload = payload;
	packet->payload_bytes = payload_bytes;
	packet->bth.pad_bytes = (uint8_t)(-payload_bytes & 0x3);
}

/* Write the extended headers at `to`; returns their end. */
static uint8_t *extended_encode(const struct packet *packet, uint8_t *to)
{
	uint32_t headers = packet->info->headers;

#define ENCODE(NAME, name)                        \
	if (headers & HEADER_##NAME) {            \
		name##_encode(&packet->name, to); \
		to += NAME##_BYTES;               \
	}
	EXTENDED_HEADERS(ENCODE)
#undef ENCODE
	return to;
}

size_t packet_encode_headers(const struct packet *packet, uint8_t *to)
{
	uint8_t *end = to + BTH_BYTES;

	assert(packet->info->opcode == packet->bth.opcode);
	bth_encode(&packet->bth, to);
	if (packet->info->headers)
		end = extended_encode(packet, end);
	assert(end == to + packet->info->header_bytes);
	return (size_t)(end - to);
}
