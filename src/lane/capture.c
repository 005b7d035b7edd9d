/* SPDX-License-Identifier: BSD-2-Clause */
#include "lane/capture.h"

#include <assert.h>

#include "base/arith.h"

static_assert(
	sizeof(struct captured) + CAPTURED_BYTES_MAX <= RECORD_BYTES_MAX, "a packet is a record");

const struct capture_public capture_nowhere;

/* Two readings of the clock give the rate of ticks, if the time between them is in this range. */
#define RATE_NS_MIN 100000u
#define RATE_NS_MAX 1000000000u

static void rate_learn(struct capture_clock *clock, uint64_t now_ns, uint64_t ticks)
{
	uint64_t ns = now_ns - clock->read_ns, passed = ticks - clock->read_ticks;

	if (!clock->read_ns || ns < RATE_NS_MIN || ns > RATE_NS_MAX || !passed ||
		passed > UINT32_MAX)
		return;
	clock->ns_per_tick = (ns << 32) / passed;
	clock->ticks_max = passed * CAPTURE_TICKS_NS / ns;
}

static uint64_t clock_read(struct capture *capture, uint64_t ticks)
{
	struct capture_clock *clock = &capture->clock;
	uint64_t now_ns = capture->owner->now_ns();

	/* Keep the first reading until the rate is known: the rate needs two readings far apart. */
	rate_learn(clock, now_ns, ticks);
	if (clock->ticks_max || !clock->read_ns || now_ns - clock->read_ns > RATE_NS_MAX) {
		clock->read_ns = now_ns;
		clock->read_ticks = ticks;
	}
	return now_ns;
}

uint64_t capture_now_ns(struct capture *capture)
{
	struct capture_clock *clock = &capture->clock;
	uint64_t ticks = capture->owner->ticks(), passed = ticks - clock->read_ticks, now_ns;

	if (passed < clock->ticks_max)
		now_ns = clock->read_ns + (passed * clock->ns_per_tick >> 32);
	else
		now_ns = clock_read(capture, ticks);
	clock->last_ns = max_u64(clock->last_ns, now_ns);
	return clock->last_ns;
}

void capture_reader_check(struct capture *capture, uint64_t now_ns)
{
	bool is_first = !capture->looked_ns;

	capture->looked_ns = now_ns;
	if (!is_first)
		capture->owner->look();
}

bool capture_drops(struct capture *capture, uint32_t packets, uint64_t now_ns)
{
	if (!record_ring_drops(capture->ring, packets))
		return false;
	capture_reader_look(capture, now_ns);
	return true;
}

bool capture_put(
	struct capture *capture, struct captured *about, const uint8_t *bytes, uint32_t count)
{
	struct record_piece pieces[] = {{about, sizeof(*about)}, {bytes, count}};
	bool is_put;
	uint32_t snap_bytes =
		atomic_load_explicit(&capture->public->snap_bytes, memory_order_relaxed);

	pieces[1].count = min_u32(count, CAPTURED_BYTES_MAX);
	if (snap_bytes != CAPTURE_HEADERS)
		pieces[1].count = min_u32(pieces[1].count, snap_bytes);
	about->captured_bytes = pieces[1].count;
	is_put = record_ring_put(capture->ring, pieces, ARRAY_COUNT(pieces));
	capture_reader_look(capture, about->time_ns);
	return is_put;
}

struct captured *capture_place(struct capture *capture, uint32_t count)
{
	return record_ring_place(capture->ring,
		(uint32_t)sizeof(struct captured) + min_u32(count, CAPTURED_BYTES_MAX));
}

void capture_put_placed(
	struct capture *capture, struct captured *place, uint32_t count, uint64_t now_ns)
{
	uint32_t snap_bytes =
		atomic_load_explicit(&capture->public->snap_bytes, memory_order_relaxed);

	if (snap_bytes != CAPTURE_HEADERS)
		count = min_u32(count, snap_bytes);
	place->captured_bytes = count;
	record_ring_commit(capture->ring, place, (uint32_t)sizeof(*place) + count);
	capture_reader_look(capture, now_ns);
}

void capture_event_put(
	struct capture *capture, struct captured *about, const struct captured_event *event)
{
	const struct record_piece pieces[] = {{about, sizeof(*about)}, {event, sizeof(*event)}};

	about->time_ns = capture_now_ns(capture);
	about->packet_bytes = 0;
	about->captured_bytes = sizeof(*event);
	record_ring_put(capture->ring, pieces, ARRAY_COUNT(pieces));
	capture_reader_look(capture, about->time_ns);
}
