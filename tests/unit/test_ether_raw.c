/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Raw packet queue pairs without an interface: the test takes the frames that they send, and
 * delivers frames to them.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdlib.h>

#include "engine/engine.h"
#include "ether/raw.h"
#include "support/arena_memory.h"
#include "support/frames.h"
#include "support/permutation.h"

enum { ARENA_BYTES = 8 << 20, MEMORY_BYTES = 4096, PD = 3, IFINDEX = 2, FRAME_MAX = 1518 };

static void *arena_memory;
static struct arena arena;
static uint64_t live_bytes; /* without a lane */
static struct mr_table mrs;
static struct lane lane;
static struct cq cq;
static struct qp *qp;
static struct raw_qp *raw;
static uint8_t memory[MEMORY_BYTES];
static uint32_t key;
static uint64_t now_ns;
static struct flow_rule rule;
static struct flow_table *table;
static uint8_t wire[FRAME_MAX];

static void modify(enum qp_state to, uint32_t mask)
{
	struct qp_attr attr = {.port = 1};

	assert_int_equal(qp_modify(qp, to, mask | ATTR_STATE, &attr, now_ns), 0);
}

static int setup(void **state)
{
	struct mr_region region = {PD, MR_LOCAL_WRITE, (uintptr_t)memory, MEMORY_BYTES, memory};
	struct qp_init init = {
		.type = QP_TYPE_RAW_PACKET,
		.pd = PD,
		.send_cq = &cq,
		.recv_cq = &cq,
		.caps = {8, 8, 2, 2, 64},
		.is_all_signaled = true,
	};

	(void)state;
	arena_memory = arena_memory_new(ARENA_BYTES);
	arena_init(&arena, arena_memory, ARENA_BYTES);
	assert_int_equal(mr_table_init(&mrs, &arena, 16, test_permutation(1)), 0);
	live_bytes = arena.live_bytes;
	assert_int_equal(engine_lane_init(&lane, &arena, &mrs, 5, 0), 0);
	assert_int_equal(cq_init(&cq, &arena, 64), 0);
	assert_int_equal(mr_table_add(&mrs, &region, 9, &key), 0);
	assert_int_equal(engine_qp_create(&lane, &init, 77, &qp), 0);
	raw = raw_from_qp(qp);
	raw_attach(raw, IFINDEX, FRAME_MAX);
	rule = (struct flow_rule){.kind = FLOW_ALL_DEFAULT, .ifindex = IFINDEX, .owner = qp};
	table = flow_table_with(NULL, &rule);
	for (uint32_t i = 0; i < MEMORY_BYTES; i++)
		memory[i] = (uint8_t)i;
	modify(QP_INIT, ATTR_PORT);
	modify(QP_RTR, 0);
	modify(QP_RTS, 0);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	if (qp)
		engine_qp_destroy(qp);
	free(table);
	cq_done(&cq, &arena);
	engine_lane_done(&lane);
	mr_table_done(&mrs);
	assert_int_equal(arena.live_bytes, live_bytes);
	arena_memory_free(arena_memory, ARENA_BYTES);
	return 0;
}

static int post_send(uint64_t wr_id, uint32_t offset, uint32_t bytes, uint32_t flags)
{
	struct sge sge = {(uintptr_t)memory + offset, bytes, key};
	struct send_wr wr = {
		.wr_id = wr_id, .opcode = WR_SEND, .flags = flags, .sge = &sge, .sge_count = 1};
	uint32_t posted;
	int error = engine_post_send(qp, &wr, 1, &posted, now_ns);

	engine_check(&lane);
	return error;
}

static void post_receive(uint64_t wr_id, uint32_t bytes)
{
	struct sge sge = {(uintptr_t)memory, bytes, key};
	struct recv_wr wr = {wr_id, &sge, 1};

	assert_int_equal(qp_post_recv(qp, &wr), 0);
}

static void receive(const uint8_t *bytes, uint32_t count)
{
	raw_receive(raw, table, bytes, count, false, now_ns);
	engine_check(&lane);
}

static void expect_completion(uint64_t wr_id, enum fault fault)
{
	struct cqe cqe;

	assert_int_equal(cq_poll(&cq, &arena, 1, &cqe), 1);
	assert_int_equal(cqe.wr_id, wr_id);
	assert_int_equal(cqe.fault, fault);
	assert_int_equal(cqe.qpn, qp->qpn);
}

static void expect_no_completion(void)
{
	struct cqe cqe;

	assert_int_equal(cq_poll(&cq, &arena, 1, &cqe), 0);
}

static void raw_sends_whole_frames_in_order(void **state)
{
	(void)state;
	assert_null(raw_first(&lane));
	assert_int_equal(post_send(1, 100, 60, 0), 0);
	assert_int_equal(post_send(2, 200, FRAME_MAX, 0), 0);
	assert_int_equal(post_send(3, 300, 64, SEND_INLINE), 0);
	memset(memory + 300, 0, 64);
	assert_ptr_equal(raw_first(&lane), raw);
	assert_int_equal(raw_next_frame(raw, wire, now_ns), 60);
	assert_memory_equal(wire, memory + 100, 60);
	assert_int_equal(raw_next_frame(raw, wire, now_ns), FRAME_MAX);
	assert_int_equal(raw_next_frame(raw, wire, now_ns), 64);
	assert_int_equal(wire[0], 300 & 0xff);
	assert_int_equal(raw_next_frame(raw, wire, now_ns), 0);
	expect_no_completion();
	raw_frames_sent(raw, 3, now_ns);
	for (uint64_t wr_id = 1; wr_id <= 3; wr_id++)
		expect_completion(wr_id, FAULT_NONE);
	assert_int_equal(raw_next_frame(raw, wire, now_ns), 0);
	assert_null(raw_first(&lane));
	engine_check(&lane);
}

static void raw_gives_out_again_what_was_not_sent(void **state)
{
	(void)state;
	post_send(1, 0, 60, 0);
	post_send(2, 0, 70, 0);
	assert_int_equal(raw_next_frame(raw, wire, now_ns), 60);
	assert_int_equal(raw_next_frame(raw, wire, now_ns), 70);
	raw_frames_sent(raw, 1, now_ns);
	expect_completion(1, FAULT_NONE);
	expect_no_completion();
	assert_int_equal(raw_next_frame(raw, wire, now_ns), 70);
	raw_frames_sent(raw, 0, now_ns);
	raw_frame_dropped(raw, now_ns);
	expect_completion(2, FAULT_NONE);
	assert_int_equal(counter_read(qp->counters, COUNTER_sent_pkts), 1);
	assert_int_equal(counter_read(qp->counters, COUNTER_tx_refused_frames), 1);
}

static void raw_blocked_comes_back_after_a_moment(void **state)
{
	(void)state;
	post_send(1, 0, 60, 0);
	assert_int_equal(raw_next_frame(raw, wire, now_ns), 60);
	raw_frames_sent(raw, 0, now_ns);
	raw_frames_blocked(raw, now_ns);
	engine_check(&lane);
	assert_null(raw_first(&lane));
	post_send(2, 0, 60, 0);
	assert_null(raw_first(&lane));
	assert_int_equal(engine_deadline_ns(&lane), now_ns + RAW_BLOCKED_NS);
	now_ns += RAW_BLOCKED_NS;
	engine_expire(&lane, now_ns);
	engine_check(&lane);
	assert_ptr_equal(raw_first(&lane), raw);
}

static void raw_overrun_ends_sending(void **state)
{
	enum { ROOM = 4, FRAMES = 7 };

	(void)state;
	assert_int_equal(cq_resize(&cq, &arena, ROOM), 0);
	for (uint64_t id = 0; id < FRAMES; id++)
		post_send(id, 0, 60, 0);
	for (int i = 0; i < FRAMES; i++)
		assert_int_equal(raw_next_frame(raw, wire, now_ns), 60);
	raw_frames_sent(raw, FRAMES, now_ns);
	assert_int_equal(qp->state, QP_ERR);
	engine_check(&lane);
	assert_int_equal(raw_next_frame(raw, wire, now_ns), 0);
}

static void raw_frame_of_a_wrong_length_fails_after_those_before_it(void **state)
{
	static const uint32_t wrong[] = {0, 13, FRAME_MAX + 1};

	(void)state;
	for (size_t i = 0; i < ARRAY_COUNT(wrong); i++) {
		post_send(1, 0, 60, 0);
		post_send(2, 0, wrong[i], 0);
		post_send(3, 0, 60, 0);
		assert_int_equal(raw_next_frame(raw, wire, now_ns), 60);
		assert_int_equal(raw_next_frame(raw, wire, now_ns), 0);
		raw_frames_sent(raw, 1, now_ns);
		assert_int_equal(raw_next_frame(raw, wire, now_ns), 0);
		expect_completion(1, FAULT_NONE);
		expect_completion(2, FAULT_FRAME_LENGTH);
		expect_completion(3, FAULT_FLUSHED);
		assert_int_equal(qp->state, QP_ERR);
		assert_null(raw_first(&lane));
		engine_check(&lane);
		modify(QP_RESET, 0);
		modify(QP_INIT, ATTR_PORT);
		modify(QP_RTR, 0);
		modify(QP_RTS, 0);
	}
}

static void raw_send_from_unregistered_memory_fails(void **state)
{
	(void)state;
	post_send(1, MEMORY_BYTES - 20, 60, 0);
	assert_int_equal(raw_next_frame(raw, wire, now_ns), 0);
	expect_completion(1, FAULT_LOCAL_BOUNDS);
}

static void raw_takes_sends_only(void **state)
{
	struct send_wr wr = {.opcode = WR_RDMA_WRITE};
	uint32_t posted;

	(void)state;
	assert_int_equal(engine_post_send(qp, &wr, 1, &posted, now_ns), -EINVAL);
}

/* No capability says that it would compute checksums: a frame without them must not go out. */
static void raw_send_that_asks_for_checksums_is_refused(void **state)
{
	(void)state;
	assert_int_equal(post_send(1, 0, 60, SEND_IP_CSUM), -EINVAL);
	assert_null(raw_first(&lane));
}

/* 8 Mbit/s: a byte per microsecond. A frame of 96 bytes is 100 on the wire. */
enum { RATE_KBPS = 8000, PACED_BYTES = 96, PACED_NS = 100 * 1000 };

/* Takes what may go now. */
static uint32_t send_all(void)
{
	uint32_t sent = 0;

	while (raw_first(&lane)) {
		uint32_t count = 0;

		while (count < 3 && raw_next_frame(raw, wire, now_ns))
			count++;
		if (count)
			raw_frames_sent(raw, count, now_ns);
		sent += count;
		engine_check(&lane);
	}
	return sent;
}

static void pass(uint64_t ns)
{
	now_ns += ns;
	engine_expire(&lane, now_ns);
	engine_check(&lane);
}

static void raw_frames_keep_to_the_rate(void **state)
{
	(void)state;
	assert_int_equal(qp_set_rate(qp, RATE_KBPS, 1), 0);
	for (uint64_t i = 0; i < 8; i++)
		post_send(i, 0, PACED_BYTES, 0);
	assert_int_equal(send_all(), 1);
	assert_int_equal(engine_deadline_ns(&lane), now_ns + PACED_NS);
	pass(PACED_NS - 1);
	assert_int_equal(send_all(), 0);
	pass(1);
	assert_int_equal(send_all(), 1);
	/* A burst of four. */
	assert_int_equal(qp_set_rate(qp, RATE_KBPS, qp->mtu_bytes + 4 + 300), 0);
	assert_int_equal(send_all(), 4);
	pass(PACED_NS);
	assert_int_equal(send_all(), 1);
	assert_int_equal(qp_set_rate(qp, 0, 0), 0);
	assert_int_equal(send_all(), 1);
	assert_true(engine_deadline_ns(&lane) == DEADLINE_NEVER);
}

static void raw_frame_that_was_not_sent_costs_no_time(void **state)
{
	(void)state;
	assert_int_equal(qp_set_rate(qp, RATE_KBPS, 1), 0);
	post_send(1, 0, PACED_BYTES, 0);
	post_send(2, 0, PACED_BYTES, 0);
	assert_int_equal(raw_next_frame(raw, wire, now_ns), PACED_BYTES);
	raw_frames_sent(raw, 0, now_ns);
	raw_frames_blocked(raw, now_ns);
	engine_check(&lane);
	pass(RAW_BLOCKED_NS);
	assert_int_equal(send_all(), 1);
	assert_int_equal(engine_deadline_ns(&lane), now_ns + PACED_NS);
	/* A queue pair that waits for its rate and is reset is on no list. */
	modify(QP_RESET, 0);
	assert_true(engine_deadline_ns(&lane) == DEADLINE_NEVER);
	engine_check(&lane);
}

static void raw_in_sqd_sends_nothing(void **state)
{
	(void)state;
	modify(QP_SQD, 0);
	post_send(1, 0, 60, 0);
	assert_null(raw_first(&lane));
	modify(QP_RTS, 0);
	assert_ptr_equal(raw_first(&lane), raw);
}

static void raw_receives_what_is_steered_to_it(void **state)
{
	struct frame frame = frame_ethernet();

	(void)state;
	frame_add_ipv4(&frame, 17);
	frame_add_ports(&frame);
	post_receive(8, 256);
	raw_receive(raw, NULL, frame.bytes, frame.count, false, now_ns);
	raw_receive(raw, table, frame.bytes, frame.count, true, now_ns);
	expect_no_completion();
	receive(frame.bytes, frame.count);
	expect_completion(8, FAULT_NONE);
	assert_memory_equal(memory, frame.bytes, frame.count);
	assert_int_equal(memory[frame.count], frame.count);
}

static void raw_without_a_receive_request_drops_and_counts(void **state)
{
	struct frame frame = frame_ethernet();

	(void)state;
	FRAME_ADD(&frame, 0x12, 0x34);
	receive(frame.bytes, frame.count);
	expect_no_completion();
	assert_int_equal(counter_read(qp->counters, COUNTER_no_receive_drops), 1);
}

static void raw_frame_longer_than_its_request_stops_nobody(void **state)
{
	(void)state;
	post_receive(1, 59);
	post_receive(2, 60);
	memset(wire, 0xee, 60);
	receive(wire, 60);
	expect_completion(1, FAULT_FRAME_TOO_LONG);
	assert_int_equal(memory[0], 0);
	assert_int_equal(qp->state, QP_RTS);
	receive(wire, 60);
	expect_completion(2, FAULT_NONE);
	assert_int_equal(memory[0], 0xee);
}

static void raw_receive_into_bad_memory_fails_the_queue_pair(void **state)
{
	struct sge sge = {(uintptr_t)memory, 100, key + 1};
	struct recv_wr wr = {1, &sge, 1};

	(void)state;
	assert_int_equal(qp_post_recv(qp, &wr), 0);
	post_receive(2, 100);
	receive(wire, 60);
	expect_completion(1, FAULT_LOCAL_KEY);
	expect_completion(2, FAULT_FLUSHED);
	assert_int_equal(qp->state, QP_ERR);
}

static void raw_receives_nothing_before_rtr(void **state)
{
	(void)state;
	modify(QP_RESET, 0);
	modify(QP_INIT, ATTR_PORT);
	post_receive(1, 100);
	receive(wire, 60);
	expect_no_completion();
	modify(QP_RTR, 0);
	receive(wire, 60);
	expect_completion(1, FAULT_NONE);
}

static void raw_is_no_target_of_roce_packets(void **state)
{
	static const uint8_t bth[] = {0x04, 0, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0};
	uint8_t packet[sizeof(bth)];
	struct gid gid = {{1}};
	struct packet_origin origin = {.source = &gid, .destination = &gid};

	(void)state;
	memcpy(packet, bth, sizeof(bth));
	packet[5] = (uint8_t)(qp->qpn >> 16);
	packet[6] = (uint8_t)(qp->qpn >> 8);
	packet[7] = (uint8_t)qp->qpn;
	post_receive(1, 100);
	engine_receive(&lane, &origin, packet, sizeof(packet), now_ns);
	expect_no_completion();
	assert_int_equal(counter_read(qp->counters, COUNTER_bad_state_drops), 1);
}

static void raw_with_a_table_spreads_over_its_queues(void **state)
{
	struct frame frame = frame_ethernet();
	struct wq wqs[2] = {{.number = 1, .pd = PD}, {.number = 2, .pd = PD}};
	struct sge sge = {(uintptr_t)memory, 256, key};
	struct recv_wr wr = {5, &sge, 1};
	uint32_t seen[3] = {0};
	struct cqe cqe;

	(void)state;
	for (int i = 0; i < 2; i++) {
		assert_int_equal(wq_init(&wqs[i], &arena, &cq, 64, 1), 0);
		assert_int_equal(wq_post_recv(&wqs[i], &wr), -EINVAL);
		wqs[i].state = WQ_READY;
		for (int j = 0; j < 64; j++)
			assert_int_equal(wq_post_recv(&wqs[i], &wr), 0);
	}
	raw->spread = (struct raw_spread){.count = 2,
		.fields = RSS_SRC_IPV4,

		.table = {&wqs[0], &wqs[1]}};
	for (uint32_t i = 0; i < RSS_KEY_BYTES; i++)
		raw->spread.key[i] = (uint8_t)(i * i * 11 + 0x5d);
	frame_add_ipv4(&frame, 17);
	for (uint32_t i = 0; i < 32; i++) {
		frame.bytes[14 + 12] = (uint8_t)i;
		frame.bytes[14 + 15] = (uint8_t)(i * 7);
		receive(frame.bytes, frame.count);
		assert_int_equal(cq_poll(&cq, &arena, 1, &cqe), 1);
		assert_int_equal(cqe.fault, FAULT_NONE);
		seen[cqe.qpn]++;
		/* An equal frame takes the same work queue. */
		receive(frame.bytes, frame.count);
		uint32_t first = cqe.qpn;
		assert_int_equal(cq_poll(&cq, &arena, 1, &cqe), 1);
		assert_int_equal(cqe.qpn, first);
	}
	assert_true(seen[1] > 4 && seen[2] > 4);
	wqs[0].state = WQ_ERROR;
	wq_flush(&wqs[0], &lane, now_ns);
	assert_int_equal(cq_poll(&cq, &arena, 1, &cqe), 1);
	assert_int_equal(cqe.status, WC_WR_FLUSH_ERR);
	engine_qp_destroy(qp);
	qp = NULL;
	for (int i = 0; i < 2; i++)
		wq_done(&wqs[i], &arena);
	expect_no_completion();
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(raw_sends_whole_frames_in_order),
		TEST(raw_gives_out_again_what_was_not_sent),
		TEST(raw_blocked_comes_back_after_a_moment),
		TEST(raw_overrun_ends_sending),
		TEST(raw_frame_of_a_wrong_length_fails_after_those_before_it),
		TEST(raw_send_from_unregistered_memory_fails),
		TEST(raw_takes_sends_only),
		TEST(raw_send_that_asks_for_checksums_is_refused),
		TEST(raw_frames_keep_to_the_rate),
		TEST(raw_frame_that_was_not_sent_costs_no_time),
		TEST(raw_in_sqd_sends_nothing),
		TEST(raw_receives_what_is_steered_to_it),
		TEST(raw_without_a_receive_request_drops_and_counts),
		TEST(raw_frame_longer_than_its_request_stops_nobody),
		TEST(raw_receive_into_bad_memory_fails_the_queue_pair),
		TEST(raw_receives_nothing_before_rtr),
		TEST(raw_is_no_target_of_roce_packets),
		TEST(raw_with_a_table_spreads_over_its_queues),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
