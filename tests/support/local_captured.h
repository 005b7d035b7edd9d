/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_SUPPORT_LOCAL_CAPTURED_H
#define TESTS_SUPPORT_LOCAL_CAPTURED_H

/*
 * A captured queue pair: that of the first of two ends (local_ends.h), and a reader of the records
 * that its lane writes.
 */
#include "ib/message.h"
#include "support/local_ends.h"

enum { MTU = 1024 };

static struct capture_public public;
static struct capture capture;
static uint64_t now_ns, tick_count;
static uint32_t looks;

static uint64_t now(void)
{
	return now_ns++;
}

static void look(void)
{
	looks++;
}

static uint64_t ticks(void)
{
	return tick_count;
}

static const struct capture_owner owner = {now, ticks, look};

static bool has_answer;

/* The models of the lane, as a reader keeps them, and how many records have repeated one. */
static struct captured_model models[CAPTURED_MODELS];
static uint32_t repetitions, steps;

static int begin(void **state)
{
	struct record_ring *ring = aligned_alloc(64, sizeof(*ring));

	assert_non_null(ring);
	memset(ring, 0, sizeof(*ring));
	now_ns = NOW_NS;
	looks = 0;
	capture = (struct capture){.public = &public, .ring = ring, .owner = &owner};
	tick_count = 0;
	has_answer = false;
	memset(models, 0, sizeof(models));
	repetitions = steps = 0;
	atomic_store(&public.session, 1);
	atomic_store(&public.snap_bytes, CAPTURED_BYTES_MAX);
	atomic_store(&public.with_events, 0);
	setup(state);
	ends[0].lane.capture = &capture;
	ends[0].lane.capture_public = &public;
	return 0;
}

static int end(void **state)
{
	free(capture.ring);
	return teardown(state);
}

/* A packet that was shown. */
struct shown {
	struct captured head;
	uint8_t bytes[RECORD_BYTES_MAX];
	struct packet packet;
};

/* The acknowledgement of the packet that was taken last, which is the next packet. */
static struct shown answer;

/* Make the packet of the last repetition of a model. */
static void repetition_make(
	const struct captured_model *model, const uint8_t *payload, int count, struct shown *shown)
{
	assert_true(captured_repeat_make(
		model, &model->last, payload, (uint32_t)count, &shown->head, shown->bytes));
	repetitions++;
}

/* Read a record that repeats a packet. */
static void repetition_read(const uint8_t *record, int count, struct shown *shown)
{
	struct captured_repeat repeat;
	struct captured_model *model;

	memcpy(&repeat, record, sizeof(repeat));
	model = &models[repeat.msn >> U24_BITS];
	model->last = repeat;
	repetition_make(model, record + sizeof(repeat), count - (int)sizeof(repeat), shown);
}

static void step_read(const uint8_t *record, int count, struct shown *shown)
{
	struct captured_step step;
	struct captured_model *model;

	memcpy(&step, record, sizeof(step));
	model = &models[captured_step_model(&step)];
	assert_true(captured_step_take(model, &step));
	repetition_make(model, record + sizeof(step), count - (int)sizeof(step), shown);
	steps++;
}

static void packet_read(const uint8_t *record, int count, struct shown *shown)
{
	assert_true(count >= (int)sizeof(shown->head));
	memcpy(&shown->head, record, sizeof(shown->head));
	assert_int_equal(shown->head.captured_bytes, count - (int)sizeof(shown->head));
	memcpy(shown->bytes, record + sizeof(shown->head), shown->head.captured_bytes);
	if (shown->head.model & CAPTURED_MODEL)
		captured_model_keep(
			&models[shown->head.model % CAPTURED_MODELS], &shown->head, shown->bytes);
}

static bool take(struct shown *shown)
{
	uint8_t record[RECORD_BYTES_MAX];
	uint32_t word;
	int count;

	if (has_answer) {
		has_answer = false;
		*shown = answer;
		return true;
	}
	count = record_ring_take(capture.ring, record);
	if (!count)
		return false;
	memcpy(&word, record, sizeof(word));
	if (!(word & CAPTURED_REPEAT))
		packet_read(record, count, shown);
	else
		(word & CAPTURED_STEP ? step_read : repetition_read)(record, count, shown);
	has_answer = captured_answer_make(&shown->head, shown->bytes, &answer.head, answer.bytes);
	return true;
}

/*
 * Take the next captured packet, which is whole and has this opcode and number. `is_request`: this
 * end has sent it. The payload is valid until the next call.
 */
static struct shown next(bool is_request, uint8_t opcode, uint32_t number)
{
	static struct shown shown;
	uint32_t from = is_request ? 0 : 1;
	const struct gid source = gid_of(from), destination = gid_of(1 - from);

	assert_true(take(&shown));
	assert_int_equal(shown.head.is_sent, is_request);
	assert_int_equal(shown.head.captured_bytes, shown.head.packet_bytes);
	assert_int_equal(shown.head.qpn, ends[0].qp->qpn);
	assert_true(gid_is_equal(&shown.head.source, &source));
	assert_true(gid_is_equal(&shown.head.destination, &destination));
	assert_true(shown.head.source_port >= ROCE_SOURCE_PORT_MIN);
	assert_int_equal(
		packet_decode(&shown.packet, shown.bytes, shown.head.packet_bytes), PACKET_OK);
	assert_int_equal(shown.packet.bth.opcode, opcode);
	assert_int_equal(shown.packet.bth.psn.value, PSN + number);
	assert_int_equal(shown.packet.bth.dest_qpn.value, ends[1 - from].qp->qpn);
	return shown;
}

static void assert_is_all(void)
{
	struct shown shown;

	assert_false(take(&shown));
	assert_int_equal(atomic_load(&capture.ring->dropped), 0);
}

static void assert_payload(const struct shown *shown, uint32_t bytes, uint8_t value)
{
	assert_int_equal(shown->packet.payload_bytes, bytes);
	for (uint32_t i = 0; i < bytes; i++)
		assert_int_equal(shown->packet.payload[i], value);
}

#define CAPTURE_TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

#endif
