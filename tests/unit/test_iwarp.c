/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two queue pairs and the stream between them: every operation, and its completion.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "memory/mw.h"
#include "support/stream.h"

enum { AT = 1000, FAR = 70000, LONG = 200001 };

static struct stream_end a, b;

static void pair_start(bool has_crc, uint32_t ready)
{
	struct stream_options options = {.settings = stream_settings(true)};

	options.settings.has_crc = has_crc;
	options.settings.ready = ready;
	stream_pair_start(&a, &b, &options);
}

static void pair_stop(void)
{
	stream_pair_stop(&a, &b);
}

static struct send_wr wr_of(enum wr_opcode opcode, uint32_t bytes)
{
	static struct sge sge;

	return stream_wr(&a, &b, opcode, &sge, AT, bytes, FAR);
}

static void post(enum wr_opcode opcode, uint32_t bytes, uint32_t flags, uint32_t imm)
{
	struct send_wr wr = wr_of(opcode, bytes);

	wr.flags = flags;
	wr.imm = imm;
	assert_int_equal(stream_post(&a, &wr), 0);
}

static struct cqe expect(struct stream_end *end, uint32_t opcode, enum wc_status status)
{
	struct cqe cqe;

	assert_true(stream_poll(end, &cqe));
	assert_int_equal(cqe.status, status);
	if (status == WC_SUCCESS)
		assert_int_equal(cqe.opcode, opcode);
	return cqe;
}

static void expect_none(struct stream_end *end)
{
	struct cqe cqe;

	assert_false(stream_poll(end, &cqe));
}

static void send_arrives_in_the_receive_request(void **state)
{
	(void)state;
	for (int has_crc = 0; has_crc <= 1; has_crc++) {
		pair_start(has_crc, 0);
		stream_post_receive(&b, 11, FAR, LONG);
		stream_post_receive(&b, 12, FAR, 100);
		post(WR_SEND, LONG, SEND_SOLICITED, 0);
		post(WR_SEND, 0, 0, 0);
		stream_run(&a, &b);
		assert_int_equal(expect(&a, WC_SEND, WC_SUCCESS).byte_count, LONG);
		expect(&a, WC_SEND, WC_SUCCESS);
		struct cqe cqe = expect(&b, WC_RECV, WC_SUCCESS);
		assert_int_equal(cqe.wr_id, 11);
		assert_int_equal(cqe.byte_count, LONG);
		assert_memory_equal(b.memory + FAR, a.memory + AT, LONG);
		assert_int_equal(expect(&b, WC_RECV, WC_SUCCESS).byte_count, 0);
		pair_stop();
	}
}

static void send_waits_for_a_receive_request(void **state)
{
	(void)state;
	pair_start(false, 0);
	post(WR_SEND, 100, 0, 0);
	post(WR_RDMA_WRITE_WITH_IMM, 100, 0, 7);
	stream_run(&a, &b);
	assert_true(iwarp_is_stalled(b.iwarp));
	expect_none(&b);
	stream_pass(&b, IWARP_STALL_NS / 2);
	stream_post_receive(&b, 1, FAR + 1000, 100);
	stream_pass(&b, IWARP_STALL_LOOK_NS);
	assert_int_equal(expect(&b, WC_RECV, WC_SUCCESS).wr_id, 1);
	assert_memory_equal(b.memory + FAR + 1000, a.memory + AT, 100);
	stream_pass(&b, IWARP_STALL_NS - 1); /* each message has its own time */
	assert_int_equal(b.qp->state, QP_RTS);
	stream_post_receive(&b, 2, FAR, 100);
	iwarp_resume(b.iwarp, b.now_ns);
	assert_int_equal(expect(&b, WC_RECV_RDMA_WITH_IMM, WC_SUCCESS).wr_id, 2);
	assert_false(iwarp_is_stalled(b.iwarp));
	pair_stop();
}

static void write_arrives_and_says_nothing(void **state)
{
	(void)state;
	for (int has_crc = 0; has_crc <= 1; has_crc++) {
		pair_start(has_crc, 0);
		post(WR_RDMA_WRITE, LONG, 0, 0);
		post(WR_RDMA_WRITE, 1, 0, 0);
		stream_run(&a, &b);
		assert_memory_equal(b.memory + FAR, a.memory + AT, LONG);
		assert_int_not_equal(b.memory[FAR + LONG], a.memory[AT + LONG]);
		expect(&a, WC_RDMA_WRITE, WC_SUCCESS);
		expect(&a, WC_RDMA_WRITE, WC_SUCCESS);
		expect_none(&b);
		pair_stop();
	}
}

static void write_with_immediate_takes_a_receive_request(void **state)
{
	(void)state;
	pair_start(false, 0);
	stream_post_receive(&b, 21, 0, 0);
	post(WR_RDMA_WRITE_WITH_IMM, 5000, 0, 0x11223344);
	stream_run(&a, &b);
	struct cqe cqe = expect(&b, WC_RECV_RDMA_WITH_IMM, WC_SUCCESS);
	assert_int_equal(cqe.imm, 0x11223344);
	assert_int_equal(cqe.flags, WC_WITH_IMM);
	assert_int_equal(cqe.byte_count, 5000);
	expect(&a, WC_RDMA_WRITE, WC_SUCCESS);
	assert_memory_equal(b.memory + FAR, a.memory + AT, 5000);
	stream_post_receive(&b, 22, 0, 0);
	post(WR_RDMA_WRITE_WITH_IMM, 70, 0, 1);
	stream_run(&a, &b);
	assert_int_equal(expect(&b, WC_RECV_RDMA_WITH_IMM, WC_SUCCESS).byte_count, 70);
	pair_stop();
}

/* Programs watch the last byte of a WRITE. */
static void last_bytes_of_a_long_segment_are_placed_last(void **state)
{
	enum { BYTES = 9000 };
	static uint8_t bytes[2 * BYTES];
	size_t count;

	(void)state;
	pair_start(false, 0);
	post(WR_RDMA_WRITE, BYTES, 0, 0);
	count = stream_take(&a, bytes, sizeof(bytes));
	stream_give(&b, bytes, count - 1);
	assert_memory_equal(b.memory + FAR, a.memory + AT, BYTES / 2);
	assert_int_equal(b.memory[FAR + BYTES - 1], (uint8_t)~a.memory[FAR + BYTES - 1]);
	stream_give(&b, bytes + count - 1, 1);
	assert_memory_equal(b.memory + FAR, a.memory + AT, BYTES);
	pair_stop();
}

static void read_fills_the_list(void **state)
{
	(void)state;
	for (int has_crc = 0; has_crc <= 1; has_crc++) {
		pair_start(has_crc, 0);
		struct sge list[3] = {
			{(uintptr_t)a.memory + 10, 7000, a.key},
			{(uintptr_t)a.memory + 50000, 0, a.key},
			{(uintptr_t)a.memory + 100000, LONG - 7000, a.key},
		};
		struct send_wr wr = wr_of(WR_RDMA_READ, 0);
		wr.sge = list;
		wr.sge_count = 3;
		assert_int_equal(stream_post(&a, &wr), 0);
		post(WR_RDMA_READ, 0, 0, 0);
		stream_run(&a, &b);
		assert_int_equal(expect(&a, WC_RDMA_READ, WC_SUCCESS).byte_count, LONG);
		expect(&a, WC_RDMA_READ, WC_SUCCESS);
		assert_memory_equal(a.memory + 10, b.memory + FAR, 7000);
		assert_memory_equal(a.memory + 100000, b.memory + FAR + 7000, LONG - 7000);
		expect_none(&b);
		pair_stop();
	}
}

static void atomics_return_what_was_there(void **state)
{
	uint64_t value = 41, original;

	(void)state;
	pair_start(false, 0);
	memcpy(b.memory + FAR, &value, sizeof(value));
	struct send_wr wr = wr_of(WR_ATOMIC_FETCH_AND_ADD, 8);
	wr.compare_add = 2;
	assert_int_equal(stream_post(&a, &wr), 0);
	stream_run(&a, &b);
	expect(&a, WC_FETCH_ADD, WC_SUCCESS);
	memcpy(&original, a.memory + AT, sizeof(original));
	assert_int_equal(original, 41);

	wr = wr_of(WR_ATOMIC_CMP_AND_SWP, 8);
	wr.compare_add = 43;
	wr.swap = 99;
	assert_int_equal(stream_post(&a, &wr), 0);
	assert_int_equal(stream_post(&a, &wr), 0);
	stream_run(&a, &b);
	expect(&a, WC_COMP_SWAP, WC_SUCCESS);
	expect(&a, WC_COMP_SWAP, WC_SUCCESS);
	memcpy(&original, a.memory + AT, sizeof(original));
	assert_int_equal(original, 99);
	memcpy(&value, b.memory + FAR, sizeof(value));
	assert_int_equal(value, 99);
	pair_stop();
}

static void requests_complete_in_the_order_they_were_posted(void **state)
{
	uint8_t bytes[4096];
	size_t count;

	(void)state;
	pair_start(false, 0);
	stream_post_receive(&b, 1, FAR, 100);
	post(WR_RDMA_READ, 8, 0, 0);
	post(WR_SEND, 8, 0, 0);
	while ((count = stream_take(&a, bytes, sizeof(bytes))))
		assert_int_equal(stream_give(&b, bytes, count), count);
	expect(&b, WC_RECV, WC_SUCCESS);
	expect_none(&a); /* the SEND is gone, but the READ before it is not answered */
	stream_run(&a, &b);
	expect(&a, WC_RDMA_READ, WC_SUCCESS);
	expect(&a, WC_SEND, WC_SUCCESS);
	pair_stop();
}

static void fenced_request_waits_for_reads(void **state)
{
	uint8_t bytes[4096];
	size_t count;

	(void)state;
	pair_start(false, 0);
	post(WR_RDMA_READ, 8, 0, 0);
	post(WR_RDMA_WRITE, 8, SEND_FENCE, 0);
	count = stream_take(&a, bytes, sizeof(bytes));
	assert_int_equal(count, fpdu_bytes(DDP_UNTAGGED_BYTES + RDMAP_READ_REQUEST_BYTES));
	stream_give(&b, bytes, count);
	stream_run(&a, &b);
	expect(&a, WC_RDMA_READ, WC_SUCCESS);
	expect(&a, WC_RDMA_WRITE, WC_SUCCESS);
	pair_stop();
}

static void reads_beyond_what_the_peer_serves_wait(void **state)
{
	struct stream_options options = {.settings = stream_settings(true)};
	uint8_t bytes[4096];
	size_t count;

	(void)state;
	options.settings.ord = 2;
	stream_start(&a, &options);
	options.settings = stream_settings(false);
	options.settings.ird = 2;
	stream_start(&b, &options);
	for (int i = 0; i < 5; i++)
		post(WR_RDMA_READ, 100, 0, 0);
	count = stream_take(&a, bytes, sizeof(bytes));
	assert_int_equal(count, 2 * fpdu_bytes(DDP_UNTAGGED_BYTES + RDMAP_READ_REQUEST_BYTES));
	stream_give(&b, bytes, count);
	stream_run(&a, &b);
	for (int i = 0; i < 5; i++)
		expect(&a, WC_RDMA_READ, WC_SUCCESS);
	pair_stop();
}

static void read_without_any_outstanding_allowed_fails(void **state)
{
	struct stream_options options = {.settings = stream_settings(true)};

	(void)state;
	options.settings.ord = 0;
	stream_start(&a, &options);
	stream_start(&b, &options);
	post(WR_RDMA_READ, 100, 0, 0);
	stream_run(&a, &b);
	assert_int_equal(expect(&a, 0, WC_LOC_QP_OP_ERR).fault, FAULT_NO_RD_ATOMIC);
	pair_stop();
}

static void send_with_invalidate_revokes_a_window(void **state)
{
	uint32_t key;

	(void)state;
	pair_start(false, 0);
	assert_int_equal(mw_add(&b.mrs, STREAM_PD, MR_KIND_WINDOW_2, 1, &key), 0);
	struct send_wr bind = {
		.opcode = WR_BIND_MW,
		.rkey = key,
		.remote_address = (uintptr_t)b.memory + FAR,
		.bind = {.bytes = 100, .region_key = b.key, .access = MR_REMOTE_WRITE},
	};
	assert_int_equal(stream_post(&b, &bind), 0);
	stream_run(&a, &b);
	expect(&b, WC_BIND_MW, WC_SUCCESS);

	struct send_wr wr = wr_of(WR_RDMA_WRITE, 100);
	wr.rkey = key;
	assert_int_equal(stream_post(&a, &wr), 0);
	stream_run(&a, &b);
	assert_memory_equal(b.memory + FAR, a.memory + AT, 100);
	stream_post_receive(&b, 1, 0, 0);
	post(WR_SEND_WITH_INV, 0, 0, key);
	stream_run(&a, &b);
	struct cqe cqe = expect(&b, WC_RECV, WC_SUCCESS);
	assert_int_equal(cqe.flags, WC_WITH_INV);
	assert_int_equal(cqe.imm, key);
	wr = wr_of(WR_RDMA_WRITE, 100);
	wr.rkey = key;
	assert_int_equal(stream_post(&a, &wr), 0);
	stream_run(&a, &b);
	assert_int_equal(a.qp->state, QP_ERR);
	assert_int_equal(b.qp->state, QP_ERR);
	pair_stop();
}

static void bad_key_of_a_write_ends_the_stream(void **state)
{
	(void)state;
	pair_start(false, 0);
	stream_post_receive(&b, 7, 0, 100);
	struct send_wr wr = wr_of(WR_RDMA_WRITE, 100);
	wr.rkey ^= 1;
	assert_int_equal(stream_post(&a, &wr), 0);
	stream_run(&a, &b);
	expect(&a, WC_RDMA_WRITE, WC_SUCCESS); /* all that a WRITE promises */
	assert_int_equal(expect(&b, 0, WC_WR_FLUSH_ERR).wr_id, 7);
	assert_true(b.events & SIGNAL_QP_ACCESS);
	assert_true(a.events & SIGNAL_QP_FATAL);
	assert_true(a.is_closed && b.is_closed);
	assert_true((a.events & SIGNAL_QP_DISCONNECTED) && (b.events & SIGNAL_QP_DISCONNECTED));
	pair_stop();
}

static void bad_key_of_a_read_fails_the_read(void **state)
{
	(void)state;
	pair_start(true, 0);
	struct send_wr wr = wr_of(WR_RDMA_READ, 100);
	wr.rkey ^= 1;
	assert_int_equal(stream_post(&a, &wr), 0);
	post(WR_RDMA_WRITE, 100, 0, 0);
	stream_run(&a, &b);
	expect(&a, 0, WC_REM_ACCESS_ERR);
	expect(&a, 0, WC_WR_FLUSH_ERR);
	assert_int_equal(a.qp->state, QP_ERR);
	assert_true(a.is_closed && b.is_closed);
	pair_stop();
}

static void send_longer_than_the_receive_request_ends_the_stream(void **state)
{
	(void)state;
	pair_start(false, 0);
	stream_post_receive(&b, 3, FAR, 99);
	post(WR_SEND, 100, 0, 0);
	stream_run(&a, &b);
	expect(&b, 0, WC_LOC_LEN_ERR);
	assert_int_equal(b.memory[FAR], (uint8_t)~a.memory[FAR]);
	assert_true(a.is_closed && b.is_closed);
	pair_stop();
}

static void bad_lkey_fails_after_the_requests_before_it(void **state)
{
	(void)state;
	pair_start(false, 0);
	stream_post_receive(&b, 3, FAR, 100);
	post(WR_RDMA_READ, 8, 0, 0);
	struct send_wr wr = wr_of(WR_SEND, 100);
	((struct sge *)(uintptr_t)wr.sge)->lkey ^= 1;
	assert_int_equal(stream_post(&a, &wr), 0);
	stream_run(&a, &b);
	expect(&a, WC_RDMA_READ, WC_SUCCESS);
	assert_int_equal(expect(&a, 0, WC_LOC_PROT_ERR).fault, FAULT_LOCAL_KEY);
	assert_true(a.is_closed && b.is_closed);
	pair_stop();
}

static void closing_flushes_both_ends(void **state)
{
	(void)state;
	pair_start(false, 0);
	stream_post_receive(&a, 1, 0, 10);
	stream_post_receive(&b, 2, 0, 10);
	assert_int_equal(qp_modify(a.qp, QP_ERR, ATTR_STATE, &(struct qp_attr){0}, 0), 0);
	stream_run(&a, &b);
	expect(&a, 0, WC_WR_FLUSH_ERR);
	expect(&b, 0, WC_WR_FLUSH_ERR);
	assert_true(a.is_closed && b.is_closed);
	assert_int_equal(b.qp->state, QP_ERR);
	pair_stop();
}

static void peer_that_does_not_close_is_left_after_a_while(void **state)
{
	uint8_t bytes[64];

	(void)state;
	pair_start(false, 0);
	assert_int_equal(qp_modify(a.qp, QP_ERR, ATTR_STATE, &(struct qp_attr){0}, 0), 0);
	assert_int_equal(stream_take(&a, bytes, sizeof(bytes)), 0);
	assert_true(a.has_said_end && !a.is_closed);
	stream_pass(&a, IWARP_CLOSE_NS);
	assert_true(a.is_closed);
	pair_stop();
}

static void lost_connection_flushes_what_is_under_way(void **state)
{
	(void)state;
	pair_start(false, 0);
	post(WR_RDMA_READ, 100, 0, 0);
	stream_give_end(&a, true);
	expect(&a, 0, WC_WR_FLUSH_ERR);
	assert_true(a.is_closed);
	assert_true(a.events & SIGNAL_QP_DISCONNECTED);
	pair_stop();
}

/* One READ may be outstanding, and the one that says "ready" is. */
static void read_posted_before_the_initiator_is_ready_is_sent_afterwards(void **state)
{
	struct stream_options options = {.settings = stream_settings(true)};

	(void)state;
	options.settings.ready = MPA_READY_READ;
	options.settings.ird = 1;
	options.settings.ord = 1;
	stream_pair_start(&a, &b, &options);
	post(WR_RDMA_READ, 5000, 0, 0);
	stream_run(&a, &b);
	expect(&a, WC_RDMA_READ, WC_SUCCESS);
	pair_stop();
}

static void responder_waits_until_the_initiator_is_ready(void **state)
{
	static const uint32_t ways[] = {0, MPA_READY_SEND, MPA_READY_WRITE, MPA_READY_READ};
	uint8_t bytes[256];

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		pair_start(true, ways[i]);
		stream_post_receive(&a, 1, FAR, 100);
		struct sge sge;
		struct send_wr wr = stream_wr(&b, &a, WR_SEND, &sge, AT, 10, 0);
		assert_int_equal(stream_post(&b, &wr), 0);
		assert_int_equal(stream_take(&b, bytes, sizeof(bytes)), 0);
		post(WR_RDMA_READ, 50, 0, 0);
		stream_run(&a, &b);
		expect(&b, WC_SEND, WC_SUCCESS);
		struct cqe first, second;
		assert_true(stream_poll(&a, &first));
		assert_true(stream_poll(&a, &second));
		assert_int_equal(first.status, WC_SUCCESS);
		assert_int_equal(second.status, WC_SUCCESS);
		expect_none(&a);
		expect_none(&b);
		pair_stop();
	}
}

static void responder_without_peer_to_peer_waits_only_so_long(void **state)
{
	uint8_t bytes[256];
	struct sge sge;

	(void)state;
	pair_start(false, 0);
	stream_post_receive(&a, 1, FAR, 100);
	struct send_wr wr = stream_wr(&b, &a, WR_SEND, &sge, AT, 10, 0);
	assert_int_equal(stream_post(&b, &wr), 0);
	stream_pass(&b, IWARP_HOLD_NS - 1);
	assert_int_equal(stream_take(&b, bytes, sizeof(bytes)), 0);
	stream_pass(&b, 1);
	stream_run(&a, &b);
	expect(&a, WC_RECV, WC_SUCCESS);
	pair_stop();

	pair_start(false, MPA_READY_WRITE);
	wr = stream_wr(&b, &a, WR_SEND, &sge, AT, 10, 0);
	assert_int_equal(stream_post(&b, &wr), 0);
	stream_pass(&b, 10 * IWARP_HOLD_NS);
	assert_int_equal(stream_take(&b, bytes, sizeof(bytes)), 0);
	pair_stop();
}

/* A message that stalls is one, too: the responder may speak. */
static void responder_waits_no_longer_when_a_message_stalls(void **state)
{
	uint8_t bytes[256];
	struct sge sge;

	(void)state;
	pair_start(false, 0);
	post(WR_SEND, 10, 0, 0);
	struct send_wr wr = stream_wr(&b, &a, WR_SEND, &sge, AT, 10, 0);
	assert_int_equal(stream_post(&b, &wr), 0);
	size_t count = stream_take(&a, bytes, sizeof(bytes));
	stream_give(&b, bytes, count);
	assert_true(iwarp_is_stalled(b.iwarp));
	assert_int_not_equal(stream_take(&b, bytes, sizeof(bytes)), 0);
	pair_stop();
}

static void queue_pair_that_was_reset_has_another_stream(void **state)
{
	struct iwarp_settings settings = stream_settings(true);
	struct qp_attr attr = {.access = MR_REMOTE_ANY};

	(void)state;
	pair_start(false, 0);
	assert_int_equal(iwarp_open(a.iwarp, &settings, 0), -22);
	assert_int_equal(qp_modify(a.qp, QP_RESET, ATTR_STATE, &attr, 0), 0);
	assert_int_equal(qp_modify(a.qp, QP_INIT, ATTR_STATE | ATTR_ACCESS, &attr, 0), 0);
	assert_int_equal(iwarp_open(a.iwarp, &settings, 0), 0);
	stream_stop(&b);
	struct stream_options options = {.settings = stream_settings(false)};
	stream_start(&b, &options);
	post(WR_RDMA_WRITE, 100, 0, 0);
	stream_run(&a, &b);
	expect(&a, WC_RDMA_WRITE, WC_SUCCESS);
	pair_stop();
}

static void send_queue_drains_in_sqd(void **state)
{
	struct qp_attr attr = {.has_drain_event = true};

	(void)state;
	pair_start(false, 0);
	post(WR_RDMA_READ, 100, 0, 0);
	uint8_t bytes[256];
	stream_give(&b, bytes, stream_take(&a, bytes, sizeof(bytes)));
	assert_int_equal(qp_modify(a.qp, QP_SQD, ATTR_STATE | ATTR_SQD_NOTIFY, &attr, 0), 0);
	post(WR_RDMA_WRITE, 100, 0, 0);
	assert_true(a.qp->is_sq_draining);
	stream_run(&a, &b);
	assert_false(a.qp->is_sq_draining);
	assert_true(a.events & SIGNAL_QP_DRAINED);
	expect(&a, WC_RDMA_READ, WC_SUCCESS);
	expect_none(&a);
	assert_int_equal(qp_modify(a.qp, QP_RTS, ATTR_STATE, &attr, 0), 0);
	stream_run(&a, &b);
	expect(&a, WC_RDMA_WRITE, WC_SUCCESS);
	pair_stop();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(send_arrives_in_the_receive_request),
		cmocka_unit_test(send_waits_for_a_receive_request),
		cmocka_unit_test(write_arrives_and_says_nothing),
		cmocka_unit_test(write_with_immediate_takes_a_receive_request),
		cmocka_unit_test(last_bytes_of_a_long_segment_are_placed_last),
		cmocka_unit_test(read_fills_the_list),
		cmocka_unit_test(atomics_return_what_was_there),
		cmocka_unit_test(requests_complete_in_the_order_they_were_posted),
		cmocka_unit_test(fenced_request_waits_for_reads),
		cmocka_unit_test(reads_beyond_what_the_peer_serves_wait),
		cmocka_unit_test(read_without_any_outstanding_allowed_fails),
		cmocka_unit_test(send_with_invalidate_revokes_a_window),
		cmocka_unit_test(bad_key_of_a_write_ends_the_stream),
		cmocka_unit_test(bad_key_of_a_read_fails_the_read),
		cmocka_unit_test(send_longer_than_the_receive_request_ends_the_stream),
		cmocka_unit_test(bad_lkey_fails_after_the_requests_before_it),
		cmocka_unit_test(closing_flushes_both_ends),
		cmocka_unit_test(peer_that_does_not_close_is_left_after_a_while),
		cmocka_unit_test(lost_connection_flushes_what_is_under_way),
		cmocka_unit_test(read_posted_before_the_initiator_is_ready_is_sent_afterwards),
		cmocka_unit_test(responder_waits_until_the_initiator_is_ready),
		cmocka_unit_test(responder_without_peer_to_peer_waits_only_so_long),
		cmocka_unit_test(responder_waits_no_longer_when_a_message_stalls),
		cmocka_unit_test(queue_pair_that_was_reset_has_another_stream),
		cmocka_unit_test(send_queue_drains_in_sqd),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
