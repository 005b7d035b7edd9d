/* SPDX-License-Identifier: BSD-2-Clause */
#include "capture/capture_block.h"

#include <string.h>

#include "wire/bth.h"

void capture_block_keep(struct capture_block *block, const struct pcapng_packet *packet,
	const struct captured *head, const struct crc32_tables *tables)
{
	bool is_whole = head->captured_bytes == head->packet_bytes;
	uint32_t frame_bytes = head->captured_bytes + (is_whole ? ROCE_ICRC_BYTES : 0);
	const struct opcode_info *info;
	struct bth bth;

	block->count = 0;
	if (head->captured_bytes < BTH_BYTES || packet->count < frame_bytes)
		return;
	bth_decode(&bth, packet->bytes + packet->count - frame_bytes);
	info = opcode_info(bth.opcode);
	if (!info || head->captured_bytes < info->header_bytes ||
		head->packet_bytes - info->header_bytes < bth.pad_bytes)
		return;
	block->count = pcapng_packet_make(packet, block->bytes, sizeof(block->bytes));
	block->interface = packet->interface;
	block->packet_bytes = head->packet_bytes;
	block->payload_bytes = head->packet_bytes - info->header_bytes - bth.pad_bytes;
	block->payload_there =
		head->captured_bytes - info->header_bytes - (is_whole ? bth.pad_bytes : 0);
	block->bth_at = PCAPNG_PACKET_BYTES_AT + packet->count - frame_bytes;
	block->is_whole = is_whole;
	if (block->count && is_whole)
		captured_seal_init(&block->seal, head, block->bytes + block->bth_at, tables);
}

/* Seal the block's changed packet, and set its time. */
static void block_finish(struct capture_block *block, uint64_t time_ns)
{
	if (block->is_whole)
		captured_seal(&block->seal, block->bytes + block->bth_at, block->packet_bytes);
	pcapng_time_put(block->bytes + PCAPNG_PACKET_TIME_AT, time_ns);
}

bool capture_blocks_change(struct capture_blocks *blocks,
	const struct capture_repetition *repetition, uint64_t time_ns)
{
	const struct captured_model *model = repetition->model;
	struct capture_block *packet = &blocks->packet, *answer = &blocks->answer;

	/* A READ request has no payload, so its block serves for requests of any length. */
	if (!packet->count || repetition->count != packet->payload_there ||
		(packet->payload_bytes != repetition->repeat->bytes &&
			!captured_model_is_read(model)) ||
		(model->head.answer && !answer->count))
		return false;
	captured_repeat_change(model, repetition->repeat, repetition->payload, repetition->count,
		packet->bytes + packet->bth_at);
	block_finish(packet, time_ns);
	if (model->head.answer) {
		captured_answer_repeat(repetition->repeat, answer->bytes + answer->bth_at);
		block_finish(answer, time_ns);
	}
	return true;
}
