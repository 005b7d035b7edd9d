/* SPDX-License-Identifier: BSD-2-Clause */
/* Which records of a capture repeat an earlier packet, and what they show. */
#include "support/local_captured.h"

/* Requests of other lengths repeat the model; requests of another kind do not. */
static void repetition_shows_what_differs(void **state)
{
	static const uint32_t bytes[] = {8, 0, 1, 2, 3, MTU, 9};
	struct shown shown;
	uint32_t number = 0;

	(void)state;
	for (uint32_t i = 0; i < ARRAY_COUNT(bytes); i++) {
		post(WR_RDMA_WRITE, bytes[i]);
		shown = next(true, OPCODE_RC_WRITE_ONLY, number);
		assert_payload(&shown, bytes[i], 0x5a);
		assert_int_equal(shown.packet.reth.dma_bytes, bytes[i]);
		assert_int_equal(shown.packet.reth.va, (uintptr_t)ends[1].memory);
		assert_int_equal(shown.packet.reth.rkey, ends[1].key);
		next(false, OPCODE_RC_ACKNOWLEDGE, number++);
	}
	assert_int_equal(repetitions, ARRAY_COUNT(bytes) - 1);
	post(WR_RDMA_WRITE, MTU + 1);
	next(true, OPCODE_RC_WRITE_FIRST, number++);
	next(true, OPCODE_RC_WRITE_LAST, number);
	next(false, OPCODE_RC_ACKNOWLEDGE, number++);
	memset(ends[1].memory, 0x33, 8);
	for (uint32_t i = 0; i < 2; i++) {
		post(WR_RDMA_READ, 8);
		shown = next(true, OPCODE_RC_READ_REQUEST, number);
		assert_int_equal(shown.packet.reth.dma_bytes, 8);
		shown = next(false, OPCODE_RC_READ_RESPONSE_ONLY, number++);
		assert_payload(&shown, 8, 0x33);
		assert_int_equal(shown.packet.aeth.msn.value, ARRAY_COUNT(bytes) + 2 + i);
	}
	assert_int_equal(repetitions, ARRAY_COUNT(bytes) + 1);
	assert_is_all();
}

/* A WRITE of these bytes, that many bytes behind the start of the peer's memory. */
static void check_write(uint32_t number, uint32_t bytes, uint32_t offset, uint32_t steps_then)
{
	struct sge sge = {(uintptr_t)ends[0].memory, bytes, ends[0].key};
	struct send_wr wr = {
		.opcode = WR_RDMA_WRITE,
		.rkey = ends[1].key,
		.remote_address = (uintptr_t)ends[1].memory + offset,
		.sge = &sge,
		.sge_count = 1,
	};
	uint64_t then_ns = now_ns;
	struct shown shown;
	uint32_t posted;

	memset(ends[0].memory, (int)number, bytes);
	assert_int_equal(engine_post_send(ends[0].qp, &wr, 1, &posted, NOW_NS), 0);
	shown = next(true, OPCODE_RC_WRITE_ONLY, number);
	assert_payload(&shown, bytes, (uint8_t)number);
	assert_int_equal(shown.packet.reth.va, (uintptr_t)ends[1].memory + offset);
	assert_int_equal(shown.packet.reth.dma_bytes, bytes);
	assert_int_equal(shown.head.time_ns, then_ns);
	shown = next(false, OPCODE_RC_ACKNOWLEDGE, number);
	assert_int_equal(shown.packet.aeth.msn.value, number + 1);
	assert_int_equal(steps, steps_then);
}

/* A step has the next numbers, the same length and an address and a time that are near. */
static void repetition_after_another_is_a_step(void **state)
{
	(void)state;
	check_write(0, 8, 0, 0);
	check_write(1, 8, 0, 0);
	check_write(2, 8, 64, 1);
	check_write(3, 8, 0, 2);
	check_write(4, 9, 0, 2);
	check_write(5, 9, 8, 3);
	now_ns += 1u << CAPTURED_STEP_NS_BITS;
	check_write(6, 9, 8, 3);
	check_write(7, 9, 8, 4);
	assert_is_all();
}

/* A request of which only some packets are shown takes numbers that are no step's. */
static void repetition_after_dropped_requests_is_no_step(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 3; i++)
		check_write(i, 8, 0, i / 2);
	atomic_store(&capture.ring->read, atomic_load(&capture.ring->written) - RECORD_RING_BYTES);
	capture.ring->read_seen = atomic_load(&capture.ring->read);
	post(WR_RDMA_WRITE, 8);
	record_ring_skip(capture.ring);
	check_write(4, 8, 0, 1);
	check_write(5, 8, 0, 2);
}

static void steps_of_reads_have_their_payload(void **state)
{
	struct shown shown;

	(void)state;
	for (uint32_t i = 0; i < 4; i++) {
		memset(ends[1].memory, (int)i, 8);
		post(WR_RDMA_READ, 8);
		shown = next(true, OPCODE_RC_READ_REQUEST, i);
		assert_int_equal(shown.packet.reth.dma_bytes, 8);
		shown = next(false, OPCODE_RC_READ_RESPONSE_ONLY, i);
		assert_payload(&shown, 8, (uint8_t)i);
		assert_int_equal(shown.packet.aeth.msn.value, i + 1);
	}
	assert_int_equal(steps, 4);
	assert_is_all();
}

/* The reader of another capture has not read the model. */
static void new_capture_gets_a_new_model(void **state)
{
	(void)state;
	post(WR_RDMA_WRITE, 8);
	post(WR_RDMA_WRITE, 8);
	record_ring_skip(capture.ring);
	memset(models, 0, sizeof(models));
	atomic_store(&public.session, 2);
	post(WR_RDMA_WRITE, 8);
	next(true, OPCODE_RC_WRITE_ONLY, 2);
	next(false, OPCODE_RC_ACKNOWLEDGE, 2);
	assert_int_equal(repetitions, 0);
	post(WR_RDMA_WRITE, 8);
	next(true, OPCODE_RC_WRITE_ONLY, 3);
	assert_int_equal(repetitions, 1);
}

/* The lane has begun so many other models that the number has another meaning. */
static void model_is_forgotten_after_others(void **state)
{
	(void)state;
	post(WR_RDMA_WRITE, 8);
	capture.model_count += CAPTURED_MODELS - 1;
	post(WR_RDMA_WRITE, 8);
	capture.model_count++;
	post(WR_RDMA_WRITE, 8);
	for (uint32_t i = 0; i < 3; i++) {
		next(true, OPCODE_RC_WRITE_ONLY, i);
		next(false, OPCODE_RC_ACKNOWLEDGE, i);
	}
	assert_int_equal(repetitions, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CAPTURE_TEST(repetition_shows_what_differs),
		CAPTURE_TEST(repetition_after_another_is_a_step),
		CAPTURE_TEST(repetition_after_dropped_requests_is_no_step),
		CAPTURE_TEST(steps_of_reads_have_their_payload),
		CAPTURE_TEST(new_capture_gets_a_new_model),
		CAPTURE_TEST(model_is_forgotten_after_others),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
