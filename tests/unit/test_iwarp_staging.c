/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Staged bytes: markers, zero-copy payloads, and their end.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "support/stream.h"

enum { AT = 1000, FAR = 270000, LONG = 200001, LENT = 20000 };

static struct stream_end a, b;
static uint8_t wire[1 << 20];

static void pair_start(void)
{
	struct stream_options options = {.settings = stream_settings(true)};

	stream_pair_start(&a, &b, &options);
}

static void pair_stop(void)
{
	stream_pair_stop(&a, &b);
}

static void post(enum wr_opcode opcode, uint32_t bytes)
{
	struct sge sge;
	struct send_wr wr = stream_wr(&a, &b, opcode, &sge, AT, bytes, FAR);

	assert_int_equal(stream_post(&a, &wr), 0);
}

static void expect(struct stream_end *end, enum wc_status status)
{
	struct cqe cqe;

	assert_true(stream_poll(end, &cqe));
	assert_int_equal(cqe.status, status);
}

static uint32_t parts_of(struct stream_end *end, struct iwarp_part parts[IWARP_PIECES_MAX])
{
	return iwarp_output(end->iwarp, parts, end->now_ns);
}

/* --- markers --- */

static void every_operation_passes_between_markers(void **state)
{
	(void)state;
	for (int i = 0; i < 4; i++) {
		struct stream_options options = {.settings = stream_settings(true)};

		options.settings.has_crc = i & 1;
		options.settings.sends_markers = true;
		options.settings.receives_markers = true;
		options.settings.ready = i & 2 ? MPA_READY_READ : 0;
		stream_pair_start(&a, &b, &options);
		stream_post_receive(&b, 1, 0, LONG);
		post(WR_RDMA_WRITE, LONG);
		post(WR_RDMA_READ, 70001);
		post(WR_SEND, LONG);
		post(WR_ATOMIC_FETCH_AND_ADD, 8);
		stream_run(&a, &b);
		for (int request = 0; request < 4; request++)
			expect(&a, WC_SUCCESS);
		expect(&b, WC_SUCCESS);
		assert_memory_equal(b.memory, a.memory + AT, LONG);
		pair_stop();
	}
}

static void markers_point_back_to_the_length(void **state)
{
	struct stream_options options = {.settings = stream_settings(true)};

	(void)state;
	options.settings.sends_markers = true;
	options.settings.receives_markers = true;
	stream_pair_start(&a, &b, &options);
	post(WR_RDMA_WRITE, 2000);
	assert_int_equal(stream_take(&a, wire, sizeof(wire)), fpdu_marked_bytes(0, 2014));
	for (uint32_t at = 0; at < 2000; at += 512) {
		uint32_t back = at ? at - 4 : 0;

		assert_int_equal(wire[at + 2] << 8 | wire[at + 3], back);
	}
	wire[512 + 3] ^= 4;
	stream_give(&b, wire, fpdu_marked_bytes(0, 2014));
	assert_int_equal(b.qp->state, QP_ERR);
	assert_int_equal(b.memory[FAR], (uint8_t)~a.memory[FAR]);
	pair_stop();
}

/* --- borrowed payloads --- */

static void long_payload_is_not_copied(void **state)
{
	struct iwarp_part parts[IWARP_PIECES_MAX];

	(void)state;
	pair_start();
	post(WR_RDMA_WRITE, LENT);
	assert_int_equal(parts_of(&a, parts), 3);
	assert_ptr_equal(parts[1].at, a.memory + AT);
	assert_int_equal(parts[1].bytes, LENT);
	pair_stop();
}

static void everything_is_copied_with_crcs_or_markers(void **state)
{
	struct iwarp_part parts[IWARP_PIECES_MAX];

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct stream_options options = {.settings = stream_settings(true)};

		options.settings.has_crc = i == 0;
		options.settings.sends_markers = i == 1;
		stream_pair_start(&a, &b, &options);
		post(WR_RDMA_WRITE, LENT);
		assert_int_equal(parts_of(&a, parts), 1);
		pair_stop();
	}
}

/*
 * The program's queue pair stops in the middle of a FPDU: the peer gets all of that FPDU, and none
 * of the next.
 */
static void fpdu_on_its_way_is_finished_by_a_copy(void **state)
{
	size_t taken, rest;

	(void)state;
	pair_start();
	post(WR_RDMA_WRITE, LENT);
	post(WR_RDMA_WRITE, LENT);
	taken = stream_take(&a, wire, 1000);
	assert_int_equal(qp_modify(a.qp, QP_ERR, ATTR_STATE, &(struct qp_attr){0}, 0), 0);
	memset(wire + taken, 0, sizeof(wire) - taken);
	memset(a.memory + AT, 0x11, LENT); /* it is the program's again */
	rest = stream_take(&a, wire + taken, sizeof(wire) - taken);
	assert_int_equal(taken + rest, fpdu_bytes(DDP_TAGGED_BYTES + LENT));
	stream_give(&b, wire, taken + rest);
	for (uint32_t i = 0; i < LENT; i++)
		assert_int_equal(b.memory[FAR + i], (AT + i) % 251);
	expect(&a, WC_WR_FLUSH_ERR);
	expect(&a, WC_WR_FLUSH_ERR);
	pair_stop();
}

static void fpdu_that_has_not_begun_is_not_sent(void **state)
{
	(void)state;
	pair_start();
	post(WR_RDMA_WRITE, LENT);
	struct iwarp_part parts[IWARP_PIECES_MAX];
	assert_int_equal(parts_of(&a, parts), 3);
	assert_int_equal(qp_modify(a.qp, QP_ERR, ATTR_STATE, &(struct qp_attr){0}, 0), 0);
	assert_int_equal(stream_take(&a, wire, sizeof(wire)), 0);
	expect(&a, WC_WR_FLUSH_ERR);
	pair_stop();
}

static void memory_that_goes_while_it_is_borrowed_ends_the_stream(void **state)
{
	(void)state;
	for (size_t already = 0; already <= 1000; already += 500) {
		pair_start();
		post(WR_RDMA_WRITE, LENT);
		if (already)
			assert_int_equal(stream_take(&a, wire, already), already);
		else
			parts_of(&a, (struct iwarp_part[IWARP_PIECES_MAX]){{0}});
		mr_table_remove(&a.mrs, a.key, STREAM_PD);
		assert_int_equal(stream_take(&a, wire, sizeof(wire)), 0);
		expect(&a, WC_WR_FLUSH_ERR);
		assert_true(a.is_closed);
		pair_stop();
	}
}

static void what_a_peer_reads_is_borrowed_with_its_right(void **state)
{
	(void)state;
	pair_start();
	post(WR_RDMA_READ, LONG);
	stream_give(&b, wire, stream_take(&a, wire, sizeof(wire)));
	size_t taken = stream_take(&b, wire, 70000);
	assert_int_equal(taken, 70000);
	mr_table_remove(&b.mrs, b.key, STREAM_PD);
	assert_int_equal(stream_take(&b, wire, sizeof(wire)), 0);
	assert_true(b.is_closed);
	pair_stop();
}

/*
 * Entries of a list too short for zero-copy are collected; a long one is sent zero-copy, whatever
 * is around it.
 */
static void lists_of_any_lengths_arrive(void **state)
{
	static const uint32_t lengths[][4] = {{100, 9000, 100, 5000}, {4096, 4095, 1, 70000},
		{1, 1, 1, 1}, {64704, 64705, 10, 4096}};

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		struct sge list[4];
		struct send_wr wr;
		uint64_t at = 0;

		pair_start();
		wr = stream_wr(&a, &b, WR_RDMA_WRITE, list, 0, 0, FAR);
		wr.sge_count = 4;
		for (unsigned entry = 0; entry < 4; entry++) {
			list[entry] =
				(struct sge){(uintptr_t)a.memory + at, lengths[i][entry], a.key};
			at += lengths[i][entry] + 64;
		}
		assert_int_equal(stream_post(&a, &wr), 0);
		stream_run(&a, &b);
		expect(&a, WC_SUCCESS);
		const uint8_t *to = b.memory + FAR;
		for (unsigned entry = 0; entry < 4; entry++) {
			assert_memory_equal(to,
				a.memory + (list[entry].address - (uintptr_t)a.memory),
				list[entry].bytes);
			to += list[entry].bytes;
		}
		pair_stop();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_operation_passes_between_markers),
		cmocka_unit_test(markers_point_back_to_the_length),
		cmocka_unit_test(long_payload_is_not_copied),
		cmocka_unit_test(everything_is_copied_with_crcs_or_markers),
		cmocka_unit_test(fpdu_on_its_way_is_finished_by_a_copy),
		cmocka_unit_test(fpdu_that_has_not_begun_is_not_sent),
		cmocka_unit_test(memory_that_goes_while_it_is_borrowed_ends_the_stream),
		cmocka_unit_test(what_a_peer_reads_is_borrowed_with_its_right),
		cmocka_unit_test(lists_of_any_lengths_arrive),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
