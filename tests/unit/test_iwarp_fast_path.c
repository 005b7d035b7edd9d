/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Small messages, which take the fast path, and what makes them leave it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "support/stream.h"

enum { AT = 1000, FAR = 70000, SMALL = 100 };

static struct stream_end a, b;

static void pair_start(bool has_crc)
{
	struct stream_options options = {.settings = stream_settings(true)};

	options.settings.has_crc = has_crc;
	stream_pair_start(&a, &b, &options);
}

static void pair_stop(void)
{
	stream_pair_stop(&a, &b);
}

static void post(enum wr_opcode opcode, uint32_t bytes, uint32_t flags)
{
	struct sge sge;
	struct send_wr wr = stream_wr(&a, &b, opcode, &sge, AT, bytes, FAR);

	wr.flags = flags;
	assert_int_equal(stream_post(&a, &wr), 0);
}

static struct cqe expect(struct stream_end *end, enum wc_status status)
{
	struct cqe cqe;

	assert_true(stream_poll(end, &cqe));
	assert_int_equal(cqe.status, status);
	return cqe;
}

/* A WRITE and a SEND that have passed: the keys are known. */
static void pass_both(void)
{
	post(WR_RDMA_WRITE, SMALL, 0);
	stream_post_receive(&b, 1, 0, SMALL);
	post(WR_SEND, SMALL, 0);
	stream_run(&a, &b);
	assert_memory_equal(b.memory + FAR, a.memory + AT, SMALL);
	assert_memory_equal(b.memory, a.memory + AT, SMALL);
	memset(b.memory + FAR, 0, SMALL);
	memset(b.memory, 0, SMALL);
	expect(&a, WC_SUCCESS);
	expect(&a, WC_SUCCESS);
	assert_int_equal(expect(&b, WC_SUCCESS).byte_count, SMALL);
}

static void expect_refused(void)
{
	stream_run(&a, &b);
	assert_int_equal(b.qp->state, QP_ERR);
	assert_int_equal(b.memory[FAR], 0);
	assert_int_equal(b.memory[0], 0);
	pair_stop();
}

/* A bare WRITE or SEND, alone or behind others. Returns the bytes of all that was sent so far. */
static size_t send_one(enum wr_opcode opcode, uint32_t bytes, uint32_t flags, bool is_alone,
	uint8_t *wire, size_t sent)
{
	post(opcode, bytes, flags);
	return is_alone ? sent + stream_take(&a, wire + sent, 4096 - sent) : sent;
}

static void fpdus_are_those_of_the_long_way(void **state)
{
	/* Both times at one address, which the headers name. */
	static uint8_t wire[3][4096], far[FAR + SMALL];
	size_t bytes[3] = {0};

	(void)state;
	for (int i = 0; i < 3; i++) {
		struct stream_options options = {.settings = stream_settings(true)};

		options.settings.has_crc = true;
		options.settings.sends_markers = i == 1; /* these take the long way */
		stream_start(&a, &options);
		b.key = a.key;
		b.memory = far;
		bytes[i] = send_one(WR_RDMA_WRITE, 0, 0, i == 2, wire[i], bytes[i]);
		bytes[i] = send_one(WR_SEND, 7, SEND_INLINE, i == 2, wire[i], bytes[i]);
		bytes[i] = send_one(
			WR_SEND, 9, SEND_INLINE | SEND_SOLICITED, i == 2, wire[i], bytes[i]);
		bytes[i] = send_one(WR_RDMA_WRITE, 33, SEND_INLINE, i == 2, wire[i], bytes[i]);
		bytes[i] = send_one(WR_SEND, 0, 0, i == 2, wire[i], bytes[i]);
		bytes[i] = send_one(WR_SEND, SMALL, 0, i == 2, wire[i], bytes[i]);
		bytes[i] += stream_take(&a, wire[i] + bytes[i], 4096 - bytes[i]);
		stream_stop(&a);
	}
	assert_int_equal(bytes[1], bytes[0] + MPA_MARKER_BYTES);
	/* The first FPDU begins with the only marker, its CRC covers it. */
	assert_memory_equal(wire[0], wire[1] + MPA_MARKER_BYTES, 16);
	assert_memory_equal(wire[0] + 20, wire[1] + 20 + MPA_MARKER_BYTES, bytes[0] - 20);
	assert_int_equal(bytes[2], bytes[0]);
	assert_memory_equal(wire[2], wire[0], bytes[0]);
}

static void any_small_length_arrives(void **state)
{
	(void)state;
	for (int has_crc = 0; has_crc <= 1; has_crc++)
		for (uint32_t bytes = 0; bytes < 40; bytes++) {
			pair_start(has_crc);
			stream_post_receive(&b, 1, 0, bytes);
			post(WR_RDMA_WRITE, bytes, 0);
			post(WR_SEND, bytes, SEND_INLINE);
			stream_run(&a, &b);
			assert_int_equal(expect(&b, WC_SUCCESS).byte_count, bytes);
			assert_memory_equal(b.memory, a.memory + AT, bytes);
			assert_memory_equal(b.memory + FAR, a.memory + AT, bytes);
			assert_int_equal(b.memory[FAR + bytes], (uint8_t)~a.memory[FAR + bytes]);
			assert_int_equal(b.memory[bytes], (uint8_t)~a.memory[bytes]);
			pair_stop();
		}
}

static void known_key_that_goes_is_known_no_longer(void **state)
{
	(void)state;
	pair_start(true);
	pass_both();
	assert_int_equal(mr_table_remove(&b.mrs, b.key, STREAM_PD), 0);
	post(WR_RDMA_WRITE, SMALL, 0);
	expect_refused();

	pair_start(true);
	pass_both();
	stream_post_receive(&b, 2, 0, SMALL);
	assert_int_equal(mr_table_remove(&b.mrs, b.key, STREAM_PD), 0);
	post(WR_SEND, SMALL, 0);
	expect_refused();

	pair_start(true);
	pass_both();
	assert_int_equal(mr_table_remove(&a.mrs, a.key, STREAM_PD), 0);
	post(WR_RDMA_WRITE, SMALL, 0);
	stream_run(&a, &b);
	assert_int_equal(expect(&a, WC_LOC_PROT_ERR).fault, FAULT_LOCAL_KEY);
	pair_stop();
}

static void right_that_goes_is_looked_at_again(void **state)
{
	struct mr_region region = {.pd = STREAM_PD, .bytes = STREAM_MEMORY_BYTES};

	(void)state;
	pair_start(true);
	pass_both();
	b.qp->attr.access = MR_REMOTE_READ;
	post(WR_RDMA_WRITE, SMALL, 0);
	expect_refused();

	pair_start(true);
	pass_both();
	region.address = b.memory;
	region.iova = (uint64_t)(uintptr_t)b.memory;
	region.access = MR_REMOTE_READ;
	assert_int_equal(mr_table_change(&b.mrs, b.key, STREAM_PD, &region), 0);
	post(WR_RDMA_WRITE, SMALL, 0);
	expect_refused();
}

static void message_beyond_a_known_region_is_refused(void **state)
{
	struct sge sge;
	struct send_wr wr;

	(void)state;
	pair_start(true);
	pass_both();
	wr = stream_wr(&a, &b, WR_RDMA_WRITE, &sge, AT, SMALL, STREAM_MEMORY_BYTES - SMALL + 1);
	assert_int_equal(stream_post(&a, &wr), 0);
	expect_refused();
}

static void message_that_is_too_long_is_refused(void **state)
{
	(void)state;
	pair_start(true);
	pass_both();
	stream_post_receive(&b, 9, 0, SMALL - 1);
	post(WR_SEND, SMALL, 0);
	stream_run(&a, &b);
	assert_int_equal(expect(&b, WC_LOC_LEN_ERR).wr_id, 9);
	assert_int_equal(b.memory[0], 0);
	assert_int_equal(b.qp->state, QP_ERR);
	pair_stop();
}

static void message_for_a_list_is_spread_over_it(void **state)
{
	struct sge list[2];
	struct recv_wr wr = {.wr_id = 5, .sge = list, .sge_count = 2};

	(void)state;
	pair_start(true);
	list[0] = (struct sge){(uint64_t)(uintptr_t)b.memory, SMALL / 2, b.key};
	list[1] = (struct sge){(uint64_t)(uintptr_t)b.memory + 5000, SMALL / 2, b.key};
	assert_int_equal(qp_post_recv(b.qp, &wr), 0);
	post(WR_SEND, SMALL, 0);
	stream_run(&a, &b);
	assert_int_equal(expect(&b, WC_SUCCESS).byte_count, SMALL);
	assert_memory_equal(b.memory, a.memory + AT, SMALL / 2);
	assert_memory_equal(b.memory + 5000, a.memory + AT + SMALL / 2, SMALL / 2);
	pair_stop();
}

static void null_region_takes_nothing(void **state)
{
	struct sge sge;
	struct recv_wr wr = {.sge = &sge, .sge_count = 1};
	uint32_t key;

	(void)state;
	pair_start(true);
	assert_int_equal(mr_table_add_null(&b.mrs, STREAM_PD, 1, &key), 0);
	for (int i = 0; i < 2; i++) {
		sge = (struct sge){(uint64_t)(uintptr_t)b.memory, SMALL, key};
		assert_int_equal(qp_post_recv(b.qp, &wr), 0);
		post(WR_SEND, SMALL, 0);
		stream_run(&a, &b);
		assert_int_equal(expect(&b, WC_SUCCESS).byte_count, SMALL);
	}
	assert_int_equal(b.memory[0], (uint8_t)~a.memory[0]);
	pair_stop();
}

static void receive_request_that_may_not_be_written_takes_nothing(void **state)
{
	struct mr_region region = {.pd = STREAM_PD, .access = MR_REMOTE_READ, .bytes = 4096};
	struct sge sge = {0, SMALL, 0};
	struct recv_wr wr = {.wr_id = 6, .sge = &sge, .sge_count = 1};

	(void)state;
	pair_start(true);
	pass_both();
	region.address = b.memory;
	assert_int_equal(mr_table_add(&b.mrs, &region, 1, &sge.lkey), 0);
	assert_int_equal(qp_post_recv(b.qp, &wr), 0);
	post(WR_SEND, SMALL, 0);
	stream_run(&a, &b);
	assert_int_equal(expect(&b, WC_LOC_PROT_ERR).wr_id, 6);
	assert_int_equal(b.memory[0], 0);
	assert_int_equal(b.qp->state, QP_ERR);
	pair_stop();
}

/* A payload of which only a part is there begins like a SEND. */
static void payload_that_looks_like_a_message_is_none(void **state)
{
	enum { LONG = 9000, PART = 3000 };
	const struct ddp_segment send = {.opcode = RDMAP_SEND,
		.is_last = true,
		.untagged = {.queue = DDP_QUEUE_SEND, .msn = 2}};
	static uint8_t wire[2 * LONG];
	struct cqe cqe;
	size_t bytes;

	(void)state;
	pair_start(false);
	pass_both();
	stream_post_receive(&b, 2, 0, SMALL);
	fpdu_seal(a.memory + AT, ddp_encode(&send, a.memory + AT + FPDU_LENGTH_BYTES), false);
	post(WR_RDMA_WRITE, LONG, 0);
	bytes = stream_take(&a, wire, sizeof(wire));
	stream_give(&b, wire, PART);
	stream_give(&b, wire + PART, bytes - PART);
	assert_memory_equal(b.memory + FAR, a.memory + AT, LONG);
	assert_false(stream_poll(&b, &cqe));
	assert_int_equal(b.qp->state, QP_RTS);
	pair_stop();
}

static void give_with_a_bit_changed(enum wr_opcode opcode, uint32_t at)
{
	uint8_t wire[512];
	size_t bytes;

	pass_both();
	stream_post_receive(&b, 2, 0, SMALL);
	post(opcode, SMALL, 0);
	bytes = stream_take(&a, wire, sizeof(wire));
	wire[at] ^= 1;
	stream_give(&b, wire, bytes);
}

static void damaged_message_is_refused(void **state)
{
	(void)state;
	pair_start(true);
	give_with_a_bit_changed(WR_RDMA_WRITE, FPDU_LENGTH_BYTES + DDP_TAGGED_BYTES);
	expect_refused();
	pair_start(true);
	give_with_a_bit_changed(WR_SEND, FPDU_LENGTH_BYTES + DDP_UNTAGGED_BYTES);
	expect_refused();
}

/* Queue, message number and offset of a SEND. */
static void message_out_of_turn_is_refused(void **state)
{
	(void)state;
	for (uint32_t field = 6; field < DDP_UNTAGGED_BYTES; field += 4) {
		pair_start(false);
		give_with_a_bit_changed(WR_SEND, FPDU_LENGTH_BYTES + field + 3);
		expect_refused();
	}
}

/* Byte by byte, so that it is never there as a whole before its last one. */
static void message_that_drips_arrives_the_same(void **state)
{
	uint8_t wire[512];
	size_t bytes;

	(void)state;
	for (int has_crc = 0; has_crc <= 1; has_crc++) {
		pair_start(has_crc);
		pass_both();
		stream_post_receive(&b, 2, 0, SMALL);
		post(WR_RDMA_WRITE, SMALL, 0);
		post(WR_SEND, SMALL, 0);
		bytes = stream_take(&a, wire, sizeof(wire));
		for (size_t i = 0; i < bytes; i++)
			assert_int_equal(stream_give(&b, wire + i, 1), 1);
		assert_int_equal(expect(&b, WC_SUCCESS).wr_id, 2);
		assert_memory_equal(b.memory + FAR, a.memory + AT, SMALL);
		assert_memory_equal(b.memory, a.memory + AT, SMALL);
		pair_stop();
	}
}

/* The kernel takes what it likes, and the next request is posted meanwhile. */
static void request_behind_one_on_its_way_follows_it(void **state)
{
	uint8_t wire[512];
	size_t bytes;

	(void)state;
	pair_start(true);
	for (uint64_t i = 0; i < 2; i++)
		stream_post_receive(&b, i, i * SMALL, SMALL);
	post(WR_SEND, SMALL, 0);
	bytes = stream_take(&a, wire, 10);
	post(WR_SEND, SMALL, SEND_INLINE);
	bytes += stream_take(&a, wire + bytes, sizeof(wire) - bytes);
	assert_int_equal(stream_give(&b, wire, bytes), bytes);
	for (uint64_t i = 0; i < 2; i++) {
		assert_int_equal(expect(&b, WC_SUCCESS).wr_id, i);
		assert_memory_equal(b.memory + i * SMALL, a.memory + AT, SMALL);
	}
	pair_stop();
}

/*
 * Completions do not wait in the queue: they go straight to the thread that drives the lane and
 * polls. No slot of the send queue stays in use by that.
 */
static void completions_go_directly_to_the_polling_thread(void **state)
{
	struct cqe sent[1], received[1];
	struct cq_taker sender = {&a.cq, sent, 1, 0}, receiver = {&b.cq, received, 1, 0};

	(void)state;
	pair_start(true);
	a.lane.taker = &sender;
	b.lane.taker = &receiver;
	for (uint64_t i = 0; i < 2; i++) {
		stream_post_receive(&b, 7 + i, 0, SMALL);
		post(WR_SEND, SMALL, SEND_SIGNALED);
		stream_run(&a, &b);
	}
	assert_int_equal(sender.taken, 1);
	assert_int_equal(sent[0].opcode, WC_SEND);
	assert_int_equal(a.qp->sq->released, 1);
	expect(&a, WC_SUCCESS);
	assert_int_equal(a.qp->sq->released, 2);
	assert_int_equal(receiver.taken, 1);
	assert_int_equal(received[0].wr_id, 7);
	assert_int_equal(received[0].status, WC_SUCCESS);
	assert_int_equal(received[0].byte_count, SMALL);
	assert_int_equal(received[0].qpn, b.qp->qpn);
	assert_int_equal(expect(&b, WC_SUCCESS).wr_id, 8);
	assert_int_equal(counter_read(b.qp->counters, COUNTER_completions), 2);
	a.lane.taker = NULL;
	b.lane.taker = NULL;
	pair_stop();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fpdus_are_those_of_the_long_way),
		cmocka_unit_test(any_small_length_arrives),
		cmocka_unit_test(known_key_that_goes_is_known_no_longer),
		cmocka_unit_test(right_that_goes_is_looked_at_again),
		cmocka_unit_test(message_beyond_a_known_region_is_refused),
		cmocka_unit_test(message_that_is_too_long_is_refused),
		cmocka_unit_test(message_for_a_list_is_spread_over_it),
		cmocka_unit_test(null_region_takes_nothing),
		cmocka_unit_test(receive_request_that_may_not_be_written_takes_nothing),
		cmocka_unit_test(payload_that_looks_like_a_message_is_none),
		cmocka_unit_test(damaged_message_is_refused),
		cmocka_unit_test(message_out_of_turn_is_refused),
		cmocka_unit_test(message_that_drips_arrives_the_same),
		cmocka_unit_test(request_behind_one_on_its_way_follows_it),
		cmocka_unit_test(completions_go_directly_to_the_polling_thread),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
