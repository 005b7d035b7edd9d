/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Any bytes are an Ethernet frame. If it is read as RoCE, the packet lies within the frame, and
 * headers that are written from the result are read as equal.
 */
#include <stdlib.h>
#include <string.h>

#include "wire/roce_frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void again_check(const struct roce_frame *frame, const uint8_t *macs)
{
	static uint8_t bytes[ROCE_FRAME_HEADER_BYTES_MAX + (1 << 16)];
	struct roce_frame_headers headers;
	struct roce_frame again;

	roce_frame_headers_init(&headers, &frame->sgid, &frame->dgid, frame->source_port,
		frame->tos, frame->hop_limit, 0);
	roce_frame_headers_write(&headers, macs, frame->data_bytes, bytes);
	if (!roce_frame_decode(&again, bytes, headers.count + frame->data_bytes) ||
		!gid_is_equal(&again.sgid, &frame->sgid) ||
		!gid_is_equal(&again.dgid, &frame->dgid) ||
		again.source_port != frame->source_port || again.tos != frame->tos ||
		again.hop_limit != frame->hop_limit || again.data_bytes != frame->data_bytes)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *exact = malloc(size ? size : 1); /* so that a read past the end is seen */
	struct roce_frame frame;

	if (!exact)
		abort();
	memcpy(exact, data, size);
	if (roce_frame_decode(&frame, exact, size)) {
		if (frame.data < exact || frame.data_bytes > (size_t)(exact + size - frame.data))
			abort();
		again_check(&frame, exact);
	}
	free(exact);
	return 0;
}
