/* SPDX-License-Identifier: BSD-2-Clause */
#include "queue/capture.h"

#include <assert.h>

#include "base/arith.h"

#define LOOK_INTERVAL_NS 1000000000u

static_assert(
	sizeof(struct captured) + CAPTURED_BYTES_MAX <= RECORD_BYTES_MAX, "a packet is a record");

const struct capture_public capture_nowhere;

void capture_put(struct capture *capture, const struct captured *about,
	const struct record_piece *pieces, uint32_t count)
{
	struct captured head = *about;
	struct record_piece all[1 + CAPTURE_PIECES_MAX] = {{&head, sizeof(head)}};
	uint32_t left = min_u32(CAPTURED_BYTES_MAX,
		atomic_load_explicit(&capture->public->snap_bytes, memory_order_relaxed));

	assert(count <= CAPTURE_PIECES_MAX);
	head.time_ns = capture->owner->now_ns();
	head.captured_bytes = 0;
	for (uint32_t i = 0; i < count; i++) {
		uint32_t bytes = min_u32(pieces[i].count, left);

		all[1 + i] = (struct record_piece){pieces[i].bytes, bytes};
		head.captured_bytes += bytes;
		left -= bytes;
	}
	record_ring_put(capture->ring, all, 1 + count);
	if (!capture->looked_ns) {
		capture->looked_ns = head.time_ns;
	} else if (head.time_ns - capture->looked_ns >= LOOK_INTERVAL_NS) {
		capture->looked_ns = head.time_ns;
		capture->owner->look();
	}
}
