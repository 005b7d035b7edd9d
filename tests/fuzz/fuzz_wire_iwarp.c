/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Any bytes are a MPA frame, a DDP segment, a Terminate message, or refused; a decoded value
 * encodes to bytes that decode to an equal value.
 */
#include <stdlib.h>
#include <string.h>

#include "wire/iwarp/mpa_frame.h"
#include "wire/iwarp/rdmap.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void frame_try(const uint8_t *data, size_t size, bool is_reply)
{
	uint8_t bytes[MPA_FRAME_BYTES + MPA_PRIVATE_BYTES_MAX] = {0};
	uint8_t again[sizeof(bytes)], third[sizeof(bytes)];
	struct mpa_frame frame;
	size_t length;

	memcpy(bytes, data, size < sizeof(bytes) ? size : sizeof(bytes));
	if (bytes[0] & 1)
		memcpy(bytes, is_reply ? "MPA ID Rep Frame" : "MPA ID Req Frame", 16);
	if (mpa_frame_follow_bytes(bytes, is_reply) < 0 || !mpa_frame_decode(&frame, bytes))
		return;
	length = mpa_frame_encode(&frame, again);
	if (mpa_frame_follow_bytes(again, is_reply) < 0 || !mpa_frame_decode(&frame, again) ||
		mpa_frame_encode(&frame, third) != length || memcmp(again, third, length) != 0)
		abort();
}

static void segment_try(const uint8_t *data, uint32_t size)
{
	uint8_t header[DDP_UNTAGGED_BYTES], terminate[RDMAP_TERMINATE_BYTES_MAX];
	struct ddp_segment segment, decoded;
	enum rdmap_error error = ddp_decode(&segment, data, size);
	uint8_t again[sizeof(header) + 64] = {0};
	uint32_t header_bytes;

	if (error) {
		if (rdmap_terminate_encode(error, data, size, terminate) > sizeof(terminate))
			abort();
		return;
	}
	header_bytes = ddp_encode(&segment, header);
	if (header_bytes + segment.payload_bytes != size)
		abort();
	if (segment.payload_bytes > 64)
		return;
	memcpy(again, header, header_bytes);
	if (ddp_decode(&decoded, again, size) != RDMAP_OK || decoded.opcode != segment.opcode ||
		decoded.payload_bytes != segment.payload_bytes)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct rdmap_terminate terminate;

	frame_try(data, size, false);
	frame_try(data, size, true);
	segment_try(data, (uint32_t)size);
	if (size >= 4)
		rdmap_terminate_decode(&terminate, data, (uint32_t)size);
	return 0;
}
