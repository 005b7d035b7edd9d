/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/captured.h"

#include "wire/credit.h"
#include "wire/packet.h"
#include "wire/roce_frame.h"

enum {
	HOP_LIMIT = 64,
	BTH_PAD_SHIFT = 4, /* the position of the pad count in the second byte of a BTH */
	BTH_PAD_MASK = 3 << BTH_PAD_SHIFT,
	BTH_PSN = 8, /* offset in the BTH of the word with the PSN */
	SHORT_BYTES = 40, /* up to this length, tables are the faster way to compute an ICRC */
};

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
	 * roce_frame_headers_write() has written the sum of the pseudo-header to the checksum
	 * field.
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

void captured_seal_init(struct captured_seal *seal, const struct captured *captured,
	const uint8_t *packet, const struct crc32_tables *tables)
{
	const uint8_t *checksum = packet - ROCE_UDP_BYTES + ROCE_FRAME_UDP_CHECKSUM;
	uint32_t rest_bytes = captured->packet_bytes - CAPTURED_SEALED_BYTES + ROCE_ICRC_BYTES;
	uint16_t rest = ip_sum_fold(ip_sum_add(0, packet + CAPTURED_SEALED_BYTES, rest_bytes));
	struct icrc_flow flow;

	icrc_flow_init(&flow, captured->source.raw, captured->destination.raw,
		captured->source_port, ROCE_UDP_PORT);
	seal->tables = tables;
	seal->crc = icrc_prefix(
		&flow, 0, ICRC_IPV4_DF, packet, captured->packet_bytes, CAPTURED_SEALED_BYTES);
	/*
	 * The sum of all words is the complement of the checksum. Subtract the words that may
	 * change.
	 */
	seal->sum = (uint16_t)~get_be16(checksum) + (uint32_t)(uint16_t)~rest;
}

void captured_seal(const struct captured_seal *seal, uint8_t *packet, uint32_t packet_bytes)
{
	uint8_t *rest = packet + CAPTURED_SEALED_BYTES;
	uint32_t rest_bytes = packet_bytes - CAPTURED_SEALED_BYTES;
	uint16_t sum;

	put_le32(rest + rest_bytes,
		rest_bytes <= SHORT_BYTES
			? crc32_update_by(seal->tables, seal->crc, rest, rest_bytes)
			: crc32_update(seal->crc, rest, rest_bytes));
	sum = (uint16_t)~ip_sum_fold(ip_sum_add(seal->sum, rest, rest_bytes + ROCE_ICRC_BYTES));
	put_be16(packet - ROCE_UDP_BYTES + ROCE_FRAME_UDP_CHECKSUM, sum ? sum : 0xffff);
}

/* --- repetitions --- */

/*
 * A model has at most one of these headers, behind its BTH. A repetition replaces the fields of
 * that header.
 */
#define CHANGING (HEADER_RETH | HEADER_AETH)

void captured_model_keep(
	struct captured_model *model, const struct captured *captured, const uint8_t *bytes)
{
	const struct opcode_info *info =
		captured->captured_bytes >= BTH_BYTES ? opcode_info(bytes[0]) : NULL;

	model->head.model = 0;
	model->last.psn = 0;
	if (!info || !is_sound(captured) || captured->captured_bytes < info->header_bytes ||
		(info->headers & ~(CHANGING)) || info->headers == CHANGING)
		return;
	model->head = *captured;
	memcpy(model->headers, bytes, info->header_bytes);
}

static void headers_repeat(
	const struct opcode_info *info, const struct captured_repeat *repeat, uint8_t *bytes)
{
	uint8_t *extended = bytes + BTH_BYTES;

	put_be32(bytes + BTH_PSN, (uint32_t)bytes[BTH_PSN] << U24_BITS | (repeat->psn & U24_MASK));
	if (info->headers & HEADER_RETH)
		reth_encode(&(struct reth){repeat->va, repeat->rkey, repeat->bytes}, extended);
	if (info->headers & HEADER_AETH)
		put_be32(extended, (uint32_t)extended[0] << U24_BITS | (repeat->msn & U24_MASK));
}

bool captured_repeat_make(const struct captured_model *model, const struct captured_repeat *repeat,
	const uint8_t *payload, uint32_t count, struct captured *ret_captured, uint8_t *ret_bytes)
{
	const struct opcode_info *info = opcode_info(model->headers[0]);
	uint32_t whole, pad_bytes;

	if (!model->head.model || !info)
		return false;
	whole = info->payload == PAYLOAD_NONE ? 0 : repeat->bytes;
	if (count > whole || whole > CAPTURED_BYTES_MAX - OPCODE_HEADER_BYTES_MAX)
		return false;
	pad_bytes = -whole & 3;
	*ret_captured = model->head;
	ret_captured->time_ns = repeat->time_ns;
	ret_captured->packet_bytes = info->header_bytes + whole + pad_bytes;
	ret_captured->captured_bytes =
		info->header_bytes + count + (count == whole ? pad_bytes : 0);
	if (model->head.answer)
		ret_captured->answer = CAPTURED_ACKED | (repeat->msn & U24_MASK);
	memcpy(ret_bytes, model->headers, info->header_bytes);
	ret_bytes[1] = (uint8_t)((ret_bytes[1] & ~BTH_PAD_MASK) | pad_bytes << BTH_PAD_SHIFT);
	headers_repeat(info, repeat, ret_bytes);
	memcpy(ret_bytes + info->header_bytes, payload, count);
	memset(ret_bytes + info->header_bytes + count, 0, pad_bytes);
	return true;
}

void captured_repeat_change(const struct captured_model *model,
	const struct captured_repeat *repeat, const uint8_t *payload, uint32_t count,
	uint8_t *packet)
{
	const struct opcode_info *info = opcode_info(model->headers[0]);

	headers_repeat(info, repeat, packet);
	if (count == sizeof(uint64_t))
		/* A constant length, so that the compiler makes no call */
		memcpy(packet + info->header_bytes, payload, sizeof(uint64_t));
	else
		memcpy(packet + info->header_bytes, payload, count);
}

/* --- acknowledgements --- */

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

void captured_answer_repeat(
	const struct captured_repeat *repeat, uint8_t answer[CAPTURED_ANSWER_BYTES])
{
	uint8_t *aeth = answer + BTH_BYTES;

	put_be32(answer + BTH_PSN, repeat->psn & U24_MASK);
	put_be32(aeth, (uint32_t)aeth[0] << U24_BITS | (repeat->msn & U24_MASK));
}
