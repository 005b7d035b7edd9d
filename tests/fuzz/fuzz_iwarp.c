/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A hostile peer sends any bytes, in pieces of any length, to a queue pair that has requests under
 * way. The first two bytes of the input choose the settings. Records follow: a byte with the
 * record's kind, then its bytes. Each segment that the test makes is wrong in one field only, so
 * that the checks before that field pass. No byte outside of the memory that was granted for
 * writing, or of a posted request, may change.
 */
#include <stdlib.h>
#include <string.h>

#include "support/stream.h"

enum {
	GUARD_BYTES = 4096, /* at both ends of the memory, for nobody */
	GIVE_BYTES_MAX = 70000,
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
	const uint8_t *at;
	size_t left;
	uint64_t position; /* in the stream, of what is given next */
};

static uint32_t take(struct input *input, unsigned bytes)
{
	uint32_t value = 0;

	for (; bytes && input->left; bytes--, input->left--)
		value = value << 8 | *input->at++;
	return value;
}

static void work_post(struct stream_end *end, uint32_t choice)
{
	static const enum wr_opcode opcodes[] = {WR_SEND, WR_RDMA_WRITE, WR_RDMA_READ,
		WR_ATOMIC_FETCH_AND_ADD, WR_RDMA_WRITE_WITH_IMM, WR_RDMA_READ, WR_RDMA_READ,
		WR_ATOMIC_CMP_AND_SWP};
	enum wr_opcode opcode = opcodes[choice % 8];
	uint32_t bytes = opcode == WR_ATOMIC_FETCH_AND_ADD || opcode == WR_ATOMIC_CMP_AND_SWP
		? 8
		: choice * 131 % 60000;
	struct sge sge;
	struct send_wr wr = stream_wr(
		end, end, opcode, &sge, GUARD_BYTES + choice % 64 * 8, bytes, GUARD_BYTES);

	stream_post(end, &wr);
}

/* A segment that is mostly right. */
static size_t segment_make(struct stream_end *end, struct input *input, uint8_t *to)
{
	struct ddp_segment segment = {
		.opcode = (enum rdmap_opcode)(take(input, 1) % RDMAP_OPCODE_COUNT)};
	uint32_t bits = take(input, 1), bytes = take(input, 2), header_bytes;
	uint64_t address = (uintptr_t)end->memory + GUARD_BYTES + take(input, 2) * 8;
	uint8_t *payload;

	segment.is_last = bits & 1;
	if (rdmap_is_tagged(segment.opcode)) {
		segment.tagged.stag = bits & 2 ? end->iwarp->rx.answer_index : end->key;
		segment.tagged.offset = bits & 2 ? end->iwarp->rx.answer_bytes : address;
	} else {
		segment.untagged.queue = segment.opcode == RDMAP_TERMINATE ? DDP_QUEUE_TERMINATE
			: segment.opcode == RDMAP_ATOMIC_RESPONSE ? DDP_QUEUE_ATOMIC_RESPONSE
			: segment.opcode == RDMAP_READ_REQUEST ||
				segment.opcode == RDMAP_ATOMIC_REQUEST
			? DDP_QUEUE_READ_REQUEST
			: DDP_QUEUE_SEND;
		segment.untagged.msn = end->iwarp->rx.msn[segment.untagged.queue];
		segment.untagged.offset =
			end->iwarp->rx.has_receive ? end->iwarp->rx.send_bytes : 0;
	}
	header_bytes = ddp_encode(&segment, to + FPDU_LENGTH_BYTES);
	payload = to + FPDU_LENGTH_BYTES + header_bytes;
	switch (segment.opcode) {
	case RDMAP_READ_REQUEST:
		bytes = RDMAP_READ_REQUEST_BYTES;
		rdmap_read_request_encode(&(struct rdmap_read_request){.bytes = bits * 300,
						  .source_stag = end->key,
						  .source_offset = address},
			payload);
		break;
	case RDMAP_ATOMIC_REQUEST:
		bytes = RDMAP_ATOMIC_REQUEST_BYTES;
		rdmap_atomic_request_encode(&(struct rdmap_atomic_request){.operation = bits % 4,
						    .stag = end->key,
						    .offset = address,
						    .operand = bits},
			payload);
		break;
	case RDMAP_ATOMIC_RESPONSE:
		bytes = RDMAP_ATOMIC_RESPONSE_BYTES;
		rdmap_atomic_response_encode(
			&(struct rdmap_atomic_response){end->iwarp->rx.answer_index, bits},
			payload);
		break;
	case RDMAP_IMMEDIATE:
	case RDMAP_IMMEDIATE_SOLICITED:
		bytes = RDMAP_IMMEDIATE_BYTES;
		memset(payload, 0xdd, bytes);
		break;
	case RDMAP_WRITE:
	case RDMAP_READ_RESPONSE:
	case RDMAP_SEND:
	case RDMAP_SEND_INVALIDATE:
	case RDMAP_SEND_SOLICITED:
	case RDMAP_SEND_SOLICITED_INVALIDATE:
	case RDMAP_TERMINATE:
	case RDMAP_OPCODE_COUNT:
		bytes %= 0x10000 - DDP_UNTAGGED_BYTES;
		memset(payload, 0xdd, bytes);
		break;
	}
	return end->iwarp->settings.receives_markers
		? fpdu_seal_marked(
			  to, header_bytes + bytes, end->iwarp->settings.has_crc, input->position)
		: fpdu_seal(to, header_bytes + bytes, end->iwarp->settings.has_crc);
}

static void give_in_pieces(
	struct stream_end *end, const uint8_t *bytes, size_t count, uint32_t piece)
{
	while (count) {
		size_t step = piece && piece < count ? piece : count;

		stream_give(end, bytes, step);
		bytes += step;
		count -= step;
	}
}

static void step(struct stream_end *end, struct input *input)
{
	static uint8_t bytes[GIVE_BYTES_MAX + 256];
	uint32_t choice = take(input, 1), piece = take(input, 1) * 7;
	size_t count = 0;
	struct cqe cqe;

	switch (choice % 8) {
	case 0:
		work_post(end, take(input, 1));
		return;
	case 1:
		stream_post_receive(end, choice, GUARD_BYTES, take(input, 2));
		return;
	case 2:
		stream_take(end, bytes, take(input, 2));
		while (stream_poll(end, &cqe))
			;
		return;
	case 3:
		for (uint32_t left = take(input, 1); left && input->left; left--)
			bytes[count++] = (uint8_t)take(input, 1);
		break;
	case 4:
		stream_pass(end, take(input, 2) * 1000ull);
		return;
	default:
		count = segment_make(end, input, bytes);
		if (choice & 0x80 && count > 20)
			bytes[take(input, 1) % 20] ^= (uint8_t)take(input, 1);
		break;
	}
	input->position += count;
	give_in_pieces(end, bytes, count, piece);
}

static void check_guards(const struct stream_end *end)
{
	if (!stream_is_untouched(end, 0, GUARD_BYTES) ||
		!stream_is_untouched(end, STREAM_MEMORY_BYTES - GUARD_BYTES, GUARD_BYTES))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct stream_options options = {.settings = stream_settings(false)};
	struct input input = {.at = data, .left = size};
	struct mr_region region;
	struct stream_end end;
	uint32_t choice = take(&input, 1), markers = take(&input, 1);

	options.settings.sends_markers = markers & 1;
	options.settings.receives_markers = markers & 2;
	options.settings.has_crc = choice & 1;
	options.settings.is_initiator = choice & 2;
	options.settings.ready = choice & 4 ? 1u << (choice >> 3) % 3 : 0;
	options.cq_entries = choice & 0x40 ? 4 : 0;
	stream_start(&end, &options);
	/* A key for less than all of the memory. */
	region = (struct mr_region){STREAM_PD, MR_LOCAL_WRITE | MR_REMOTE_ANY,
		(uintptr_t)end.memory + GUARD_BYTES, STREAM_MEMORY_BYTES - 2 * GUARD_BYTES,
		end.memory + GUARD_BYTES};
	mr_table_remove(&end.mrs, end.key, STREAM_PD);
	if (mr_table_add(&end.mrs, &region, 9, &end.key))
		abort();
	while (input.left && !end.is_closed)
		step(&end, &input);
	if (choice & 0x80)
		stream_give_end(&end, choice & 0x20);
	check_guards(&end);
	stream_stop(&end);
	return 0;
}
