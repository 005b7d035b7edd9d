/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/captured.h"

#include "wire/credit.h"
#include "wire/packet.h"
#include "wire/roce_frame.h"

enum { HOP_LIMIT = 64 };

static bool is_sound(const struct captured *captured)
{
	return captured->packet_bytes >= BTH_BYTES &&
		captured->packet_bytes <= CAPTURED_BYTES_MAX &&
		captured->captured_bytes <= captured->packet_bytes &&
		gid_is_ipv4(&captured->source) == gid_is_ipv4(&captured->destination);
}

/* Add the ICRC and the UDP checksum to a packet that was captured as a whole. */
static void frame_complete(
	const struct captured *captured, struct captured_frame *frame, uint32_t header_bytes)
{
	uint8_t *packet = frame->bytes + header_bytes;
	uint8_t *checksum = packet - ROCE_UDP_BYTES + ROCE_FRAME_UDP_CHECKSUM;
	struct icrc_flow flow;
	uint16_t sum;

	icrc_flow_init(&flow, captured->source.raw, captured->destination.raw,
		captured->source_port, ROCE_UDP_PORT);
	icrc_seal(&flow, 0, packet, captured->packet_bytes);
	/*
	 * The checksum field holds the sum of the pseudo-header, from roce_frame_headers_write().
	 */
	sum = (uint16_t)~ip_sum_fold(ip_sum_add(
		0, packet - ROCE_UDP_BYTES, frame->whole - header_bytes + ROCE_UDP_BYTES));
	put_be16(checksum, sum ? sum : 0xffff);
}

bool captured_frame_make(
	const struct captured *captured, const uint8_t *bytes, struct captured_frame *ret_frame)
{
	static const uint8_t no_macs[ROCE_MACS_BYTES];
	uint8_t made[ROCE_FRAME_HEADER_BYTES_MAX];
	struct roce_frame_headers headers;
	uint32_t header_bytes;

	if (!is_sound(captured))
		return false;
	roce_frame_headers_init(&headers, &captured->source, &captured->destination,
		captured->source_port, captured->traffic_class,
		captured->hop_limit ? captured->hop_limit : HOP_LIMIT, captured->flow_label);
	roce_frame_headers_write(&headers, no_macs, captured->packet_bytes + ROCE_ICRC_BYTES, made);
	header_bytes = headers.count - ROCE_ETHERNET_BYTES;
	memcpy(ret_frame->bytes, made + ROCE_ETHERNET_BYTES, header_bytes);
	memcpy(ret_frame->bytes + header_bytes, bytes, captured->captured_bytes);
	ret_frame->count = header_bytes + captured->captured_bytes;
	ret_frame->whole = header_bytes + captured->packet_bytes + ROCE_ICRC_BYTES;
	if (captured->captured_bytes < captured->packet_bytes) {
		/* A UDP checksum of zero says that the sender computed none. */
		put_be16(ret_frame->bytes + header_bytes - ROCE_UDP_BYTES + ROCE_FRAME_UDP_CHECKSUM,
			0);
		return true;
	}
	ret_frame->count = ret_frame->whole;
	frame_complete(captured, ret_frame, header_bytes);
	return true;
}

bool captured_answer_make(const struct captured *captured, const uint8_t *bytes,
	struct captured *ret_captured, uint8_t ret_bytes[CAPTURED_ANSWER_BYTES])
{
	struct packet answer;
	struct bth bth;

	if (!(captured->answer & CAPTURED_ACKED) || !is_sound(captured) ||
		captured->captured_bytes < BTH_BYTES)
		return false;
	bth_decode(&bth, bytes);
	packet_init(&answer,
		(bth.opcode & OPCODE_CLASS_MASK) == OPCODE_CLASS_XRC ? OPCODE_XRC_ACKNOWLEDGE
								     : OPCODE_RC_ACKNOWLEDGE);
	answer.bth.dest_qpn = qpn_from(captured->qpn);
	answer.bth.psn = bth.psn;
	answer.aeth = (struct aeth){.kind = AETH_ACK,
		.value = CREDIT_CODE_UNLIMITED,
		.msn = msn_from(captured->answer)};
	packet_encode_headers(&answer, ret_bytes);
	*ret_captured = *captured;
	ret_captured->source = captured->destination;
	ret_captured->destination = captured->source;
	ret_captured->source_port = captured_port(bth.dest_qpn.value);
	ret_captured->packet_bytes = CAPTURED_ANSWER_BYTES;
	ret_captured->captured_bytes = CAPTURED_ANSWER_BYTES;
	ret_captured->is_sent = 0;
	ret_captured->answer = 0;
	return true;
}
