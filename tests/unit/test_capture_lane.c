/* SPDX-License-Identifier: BSD-2-Clause */
/* How urnic capture reads the ring of a lane. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/arith.h"
#include "capture/capture_lane.h"
#include "wire/packet.h"

enum { DATA_BYTES = 8, ROOM = 1 << 28 };

static struct record_ring *ring;
static struct capture_lane lane;
static bool is_broken;

static int setup(void **state)
{
	(void)state;
	ring = aligned_alloc(64, sizeof(*ring));
	assert_non_null(ring);
	memset(ring, 0, sizeof(*ring));
	memset(&lane, 0, sizeof(lane));
	lane.ring = ring;
	is_broken = false;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	capture_lane_done(&lane);
	free(ring);
	return 0;
}

static bool put(const void *record, size_t bytes)
{
	const struct record_piece piece = {record, (uint32_t)bytes};

	return record_ring_put(ring, &piece, 1);
}

/* Put a SEND of `time_ns`, as the model of this number if it is not 0. */
static bool put_packet(uint64_t time_ns, uint32_t model)
{
	struct {
		struct captured head;
		uint8_t bytes[BTH_BYTES + DATA_BYTES];
	} record = {
		.head = {.model = model ? CAPTURED_MODEL | model : 0,
			.time_ns = time_ns,
			.packet_bytes = sizeof(record.bytes),
			.captured_bytes = sizeof(record.bytes)},
		.bytes = {OPCODE_RC_SEND_ONLY},
	};

	return put(&record, sizeof(record));
}

static void put_repetition(uint64_t time_ns, uint32_t model)
{
	struct {
		struct captured_repeat repeat;
		uint8_t payload[DATA_BYTES];
	} record = {.repeat = {.psn = CAPTURED_REPEAT | 7,
			    .msn = model << U24_BITS | 3,
			    .time_ns = time_ns,
			    .bytes = DATA_BYTES}};

	put(&record, sizeof(record));
}

static void put_step(uint32_t ns, uint32_t model)
{
	struct {
		struct captured_step step;
		uint8_t payload[DATA_BYTES];
	} record = {.step = {CAPTURED_REPEAT | CAPTURED_STEP | model << CAPTURED_STEP_NS_BITS | ns,
			    16}};

	put(&record, sizeof(record));
}

/* Take the next record, which is of this time. */
static void assert_takes(uint64_t time_ns)
{
	lane.has_record = false;
	assert_true(capture_lane_fill(&lane, &is_broken));
	assert_int_equal(lane.time_ns, time_ns);
}

static void assert_has_none(void)
{
	lane.has_record = false;
	assert_false(capture_lane_fill(&lane, &is_broken));
}

static void records_wait_in_memory(void **state)
{
	uint64_t taken = 0;

	(void)state;
	assert_false(capture_lane_move(&lane, ROOM));
	for (uint64_t i = 0; i < 3; i++) {
		assert_true(put_packet(2 * i, 0));
		assert_true(put_packet(2 * i + 1, 0));
		assert_true(capture_lane_move(&lane, ROOM));
		assert_true(record_ring_is_empty(ring));
	}
	assert_int_equal(lane.held_bytes, atomic_load(&ring->written));
	for (; taken < 6; taken++)
		assert_takes(taken);
	assert_has_none();
	assert_int_equal(lane.held_bytes, 0);
	assert_false(capture_lane_move(&lane, ROOM));
	assert_false(is_broken);
}

/* The first record of each lane is needed to write records by their times. */
static void records_without_room_stay_in_the_ring(void **state)
{
	(void)state;
	assert_true(put_packet(1, 0));
	assert_false(capture_lane_move(&lane, -CAPTURE_HELD_BYTES_MAX));
	assert_true(capture_lane_move(&lane, 0));
	assert_true(record_ring_is_empty(ring));
	assert_true(put_packet(2, 0));
	assert_true(capture_lane_move(&lane, 0));
	assert_false(record_ring_is_empty(ring));
	assert_takes(1);
	assert_has_none();
	assert_true(capture_lane_move(&lane, 0));
	assert_takes(2);
}

/* What was dropped while the ring was full is missing behind the records that were in it. */
static void dropped_packets_are_missing_where_the_ring_was_full(void **state)
{
	uint64_t count = 0;

	(void)state;
	while (put_packet(count, 0))
		count++;
	assert_true(capture_lane_move(&lane, ROOM));
	assert_true(put_packet(count, 0));
	assert_true(capture_lane_move(&lane, ROOM));
	for (uint64_t i = 0; i < count; i++) {
		assert_takes(i);
		assert_int_equal(lane.dropped, 0);
	}
	assert_int_equal(capture_lane_dropped(&lane), 1);
	assert_takes(count);
	assert_int_equal(lane.dropped, 1);
	assert_int_equal(capture_lane_dropped(&lane), 0);
}

/* Steps of two models, each from the last repetition of its own. */
static void step_follows_the_last_repetition_of_its_model(void **state)
{
	(void)state;
	assert_true(put_packet(100, 1));
	assert_true(put_packet(200, 2));
	put_repetition(1000, 1);
	put_repetition(2000, 2);
	put_step(5, 1);
	put_step(7, 2);
	put_step(9, 1);
	assert_true(capture_lane_move(&lane, ROOM));
	assert_takes(100);
	assert_takes(200);
	assert_takes(1000);
	assert_takes(2000);
	assert_takes(1005);
	assert_true(lane.is_repetition && capture_lane_expand(&lane));
	assert_int_equal(get_be32(lane.bytes + 8) & U24_MASK, 8);
	assert_int_equal(lane.repetition.repeat->va, 16);
	assert_takes(2007);
	assert_takes(1014);
	assert_true(capture_lane_expand(&lane));
	assert_int_equal(get_be32(lane.bytes + 8) & U24_MASK, 9);
	assert_int_equal(lane.head->captured_bytes, BTH_BYTES + DATA_BYTES);
	assert_has_none();
	assert_int_equal(lane.dropped, 0);
}

static void step_of_an_unknown_model_is_dropped(void **state)
{
	const uint32_t too_short = CAPTURED_REPEAT | CAPTURED_STEP;

	(void)state;
	put_step(1, 1);
	assert_true(put_packet(1, 1));
	put_step(1, 1);
	put_step(1, 2);
	put(&too_short, sizeof(too_short));
	assert_true(capture_lane_move(&lane, ROOM));
	assert_takes(1);
	assert_int_equal(lane.dropped, 1);
	assert_has_none();
	assert_int_equal(lane.dropped, 4);
	assert_false(is_broken);
}

/* The lane's models are forgotten with the records behind the bad one. */
static void unreadable_ring_is_reported_once(void **state)
{
	(void)state;
	assert_true(put_packet(1, 1));
	put_repetition(2, 1);
	memset(ring->bytes + record_room(sizeof(struct captured) + BTH_BYTES + DATA_BYTES), 0xff,
		sizeof(struct record_head));
	assert_true(capture_lane_move(&lane, ROOM));
	assert_takes(1);
	assert_false(is_broken);
	assert_has_none();
	assert_true(is_broken);
	assert_null(lane.models);
	is_broken = false;
	assert_has_none();
	atomic_store(&ring->written, atomic_load(&ring->read) + RECORD_RING_BYTES + 8);
	assert_true(capture_lane_move(&lane, ROOM));
	assert_has_none();
	assert_true(is_broken);
	assert_false(capture_lane_move(&lane, ROOM));
	assert_true(put_packet(3, 0));
	assert_true(capture_lane_move(&lane, ROOM));
	assert_takes(3);
}

#define LANE_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		LANE_TEST(records_wait_in_memory),
		LANE_TEST(records_without_room_stay_in_the_ring),
		LANE_TEST(dropped_packets_are_missing_where_the_ring_was_full),
		LANE_TEST(step_follows_the_last_repetition_of_its_model),
		LANE_TEST(step_of_an_unknown_model_is_dropped),
		LANE_TEST(unreadable_ring_is_reported_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
