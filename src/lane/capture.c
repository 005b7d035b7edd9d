/* SPDX-License-Identifier: BSD-2-Clause */
#include "lane/capture.h"

#include <assert.h>

#include "base/arith.h"

#define LOOK_INTERVAL_NS 1000000000u

static_assert(
	sizeof(struct captured) + CAPTURED_BYTES_MAX <= RECORD_BYTES_MAX, "a packet is a record");

const struct capture_public capture_nowhere;

void capture_put(
	struct capture *capture, struct captured *about, const uint8_t *bytes, uint32_t count)
{
	struct record_piece pieces[] = {{about, sizeof(*about)}, {bytes, count}};

	pieces[1].count = min_u32(min_u32(count, CAPTURED_BYTES_MAX),
		atomic_load_explicit(&capture->public->snap_bytes, memory_order_relaxed));
	about->captured_bytes = pieces[1].count;
	record_ring_put(capture->ring, pieces, ARRAY_COUNT(pieces));
	if (!capture->looked_ns) {
		capture->looked_ns = about->time_ns;
	} else if (about->time_ns - capture->looked_ns >= LOOK_INTERVAL_NS) {
		capture->looked_ns = about->time_ns;
		capture->owner->look();
	}
}
