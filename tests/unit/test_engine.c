/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The lane: which packets reach a queue pair, the order in which queue pairs send, their numbers
 * and lifetimes.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "ib/rc/rc.h"
#include "support/script.h"

static struct script script;

static int setup(void **state)
{
	(void)state;
	script_start(&script, NULL);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	script_end(&script);
	return 0;
}

static uint64_t drops(enum drop drop)
{
	return script.lane.public->drops[drop];
}

static struct packet write_packet(void)
{
	struct packet packet = script_packet(&script, OPCODE_RC_WRITE_ONLY, 0);

	packet.reth = (struct reth){(uintptr_t)script.memory, script.key, 4};
	packet_set_payload(&packet, NULL, 4);
	return packet;
}

/* The packet went nowhere, and this counter says why. */
static void expect_drop(enum drop drop)
{
	assert_int_equal(drops(drop), 1);
	assert_int_equal(drops(DROP_rcvd_packets), 1);
	script_expect_silence(&script);
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(script.memory[i], i);
}

static void receive(const uint8_t *bytes, size_t length)
{
	struct packet_origin origin = {.source = &script.remote, .destination = &script.local};

	engine_receive(&script.lane, &origin, bytes, length, script.now_ns);
}

static void engine_packet_of_another_version_is_dropped(void **state)
{
	struct packet packet = write_packet();

	(void)state;
	packet.bth.tver = 1;
	script_send(&script, &packet);
	expect_drop(DROP_malformed);
}

static void engine_packet_too_short_for_its_headers_is_dropped(void **state)
{
	static const uint8_t bytes[BTH_BYTES] = {OPCODE_RC_WRITE_ONLY};

	(void)state;
	receive(bytes, sizeof(bytes));
	expect_drop(DROP_malformed);
}

static void engine_packet_with_an_unknown_opcode_is_dropped(void **state)
{
	static const uint8_t bytes[64] = {0x1f};

	(void)state;
	receive(bytes, sizeof(bytes));
	expect_drop(DROP_malformed);
}

static void engine_packet_for_a_number_that_nobody_has_is_dropped(void **state)
{
	struct packet packet = write_packet();

	(void)state;
	packet.bth.dest_qpn.value ^= 1;
	script_send(&script, &packet);
	expect_drop(DROP_unknown_qp);
}

static void engine_packet_for_another_slot_is_dropped(void **state)
{
	struct packet packet = write_packet();

	(void)state;
	packet.bth.dest_qpn.value ^= 1 << 16;
	script_send(&script, &packet);
	expect_drop(DROP_unknown_qp);
}

static void engine_packet_of_another_partition_is_dropped(void **state)
{
	struct packet packet = write_packet();

	(void)state;
	packet.bth.pkey = 0xfffe;
	script_send(&script, &packet);
	expect_drop(DROP_pkey_mismatch);
}

static void engine_packet_of_a_limited_member_is_taken(void **state)
{
	struct packet packet = write_packet();

	(void)state;
	packet.bth.pkey = 0x7fff;
	script_send(&script, &packet);
	script_expect_ack(&script, 0, 1);
}

static void engine_packet_for_a_queue_pair_that_is_not_ready_is_dropped(void **state)
{
	struct packet packet = write_packet();

	(void)state;
	qp_set_state(script.qp, QP_INIT, script.now_ns);
	script_send(&script, &packet);
	expect_drop(DROP_not_ready);
}

static void engine_packet_from_another_address_is_dropped(void **state)
{
	struct gid stranger = gid_from_ipv4((const uint8_t[]){10, 0, 0, 3});

	(void)state;
	script.remote = stranger;
	script_send_write(&script, OPCODE_RC_WRITE_ONLY, 0, 4, 4);
	script_expect_silence(&script);
	assert_int_equal(script_counter(&script, COUNTER_bad_address_drops), 1);
	assert_int_equal(script.memory[0], 0);
}

static void engine_packet_of_another_transport_is_dropped(void **state)
{
	struct packet packet = write_packet();

	(void)state;
	packet.bth.opcode = OPCODE_UC_WRITE_ONLY;
	packet.info = opcode_info(OPCODE_UC_WRITE_ONLY);
	script_send(&script, &packet);
	script_expect_silence(&script);
	assert_int_equal(script_counter(&script, COUNTER_bad_state_drops), 1);
	assert_int_equal(script.memory[0], 0);
}

static void engine_queue_pairs_take_turns(void **state)
{
	struct qp_init init = {
		.type = QP_TYPE_RC,
		.pd = SCRIPT_PD,
		.send_cq = &script.cq,
		.recv_cq = &script.cq,
		.caps = {4, 4, 1, 1, 0},
	};
	uint8_t packet[ENGINE_PACKET_BYTES_MAX];
	struct packet_run run = {.buffer = packet};
	struct qp *first = script.qp;
	struct qp *second;

	(void)state;
	assert_int_equal(engine_qp_create(&script.lane, &init, 9, &second), 0);
	second->attr = first->attr;
	second->attr.path.id = 10;
	second->mtu_bytes = first->mtu_bytes;
	second->state = QP_RTR;
	qp_set_state(second, QP_RTS, script.now_ns);
	/* The window is not what ends a turn. */
	rc_from_qp(first)->requester.window_packets = RC_WINDOW_PACKETS_MAX;
	script_post(&script, WR_RDMA_WRITE, 64 * SCRIPT_MTU_BYTES, 0);
	script.qp = second;
	script_post(&script, WR_RDMA_WRITE, 64 * SCRIPT_MTU_BYTES, 0);
	script.qp = first;
	for (uint32_t i = 0; i < 3 * ENGINE_BURST_PACKETS; i++) {
		assert_int_not_equal(
			engine_next_packet(&script.lane, true, &run, script.now_ns), 0);
		assert_int_equal(run.path, i / ENGINE_BURST_PACKETS % 2 ? 10 : 9);
	}
	engine_qp_destroy(second);
}

static const struct qp *without_room;

static bool waits_for_room(const struct lane *lane, const struct qp *qp)
{
	assert_ptr_equal(lane, &script.lane);
	return qp == without_room;
}

/* A full route stops its own queue pairs, and no packet is lost. */
static void engine_queue_pair_without_room_lets_the_others_send(void **state)
{
	struct qp_init init = {
		.type = QP_TYPE_RC,
		.pd = SCRIPT_PD,
		.send_cq = &script.cq,
		.recv_cq = &script.cq,
		.caps = {4, 4, 1, 1, 0},
	};
	uint8_t packet[ENGINE_PACKET_BYTES_MAX];
	struct packet_run run = {.buffer = packet};
	struct qp *first = script.qp;
	struct qp *second;

	(void)state;
	assert_int_equal(engine_qp_create(&script.lane, &init, 9, &second), 0);
	second->attr = first->attr;
	second->attr.path.id = 10;
	second->mtu_bytes = first->mtu_bytes;
	second->state = QP_RTR;
	qp_set_state(second, QP_RTS, script.now_ns);
	/* An acknowledgement waits, too. */
	script_send_write(&script, OPCODE_RC_WRITE_ONLY, 0, 4, 4);
	script_post(&script, WR_RDMA_WRITE, 4, 0);
	script.qp = second;
	script_post(&script, WR_RDMA_WRITE, 4, 0);
	script.qp = first;
	script.lane.waits_for_room = waits_for_room;
	without_room = first;
	assert_int_not_equal(engine_next_packet(&script.lane, true, &run, script.now_ns), 0);
	assert_int_equal(run.path, 10);
	assert_int_equal(engine_next_packet(&script.lane, true, &run, script.now_ns), 0);
	assert_true(engine_has_packets(&script.lane, true));
	without_room = NULL;
	assert_int_not_equal(engine_next_packet(&script.lane, true, &run, script.now_ns), 0);
	assert_int_equal(packet[0], OPCODE_RC_ACKNOWLEDGE);
	assert_int_not_equal(engine_next_packet(&script.lane, true, &run, script.now_ns), 0);
	assert_int_equal(packet[0], OPCODE_RC_WRITE_ONLY);
	assert_int_equal(run.path, 9);
	script.lane.waits_for_room = NULL;
	engine_qp_destroy(second);
}

static void engine_acks_wait_until_they_are_wanted(void **state)
{
	uint8_t packet[ENGINE_PACKET_BYTES_MAX];
	struct packet_run run = {.buffer = packet};

	(void)state;
	script_send_write(&script, OPCODE_RC_WRITE_ONLY, 0, 4, 4);
	assert_false(engine_has_packets(&script.lane, false));
	assert_true(engine_has_packets(&script.lane, true));
	assert_int_equal(engine_next_packet(&script.lane, false, &run, script.now_ns), 0);
	script_expect_ack(&script, 0, 1);
}

/* The queue pair that the answer leaves by may be the one that was asked, or another. */
static void engine_ack_leaves_ahead_of_what_answers(void **state)
{
	struct qp_init init = {
		.type = QP_TYPE_RC,
		.pd = SCRIPT_PD,
		.send_cq = &script.cq,
		.recv_cq = &script.cq,
		.caps = {4, 4, 1, 1, 0},
	};
	uint8_t packet[ENGINE_PACKET_BYTES_MAX];
	struct qp *first = script.qp, *second;
	struct packet_run run = {.buffer = packet};

	(void)state;
	assert_int_equal(engine_qp_create(&script.lane, &init, 9, &second), 0);
	second->attr = first->attr;
	second->mtu_bytes = first->mtu_bytes;
	second->state = QP_RTR;
	qp_set_state(second, QP_RTS, script.now_ns);
	for (uint32_t i = 0; i < 2; i++) {
		script_send_write(&script, OPCODE_RC_WRITE_ONLY, i, 4, 4);
		script.qp = i ? second : first;
		script_post(&script, WR_RDMA_WRITE, 4, 0);
		script.qp = first;
		engine_next_packet(&script.lane, true, &run, script.now_ns);
		assert_int_equal(packet[0], OPCODE_RC_ACKNOWLEDGE);
		engine_next_packet(&script.lane, true, &run, script.now_ns);
		assert_int_equal(packet[0], OPCODE_RC_WRITE_ONLY);
		assert_int_equal(engine_next_packet(&script.lane, true, &run, script.now_ns), 0);
	}
	engine_qp_destroy(second);
}

static void engine_numbers_are_the_slot_and_are_all_different(void **state)
{
	struct qp_init init = {
		.type = QP_TYPE_RC,
		.pd = SCRIPT_PD,
		.send_cq = &script.cq,
		.recv_cq = &script.cq,
		.caps = {1, 1, 1, 1, 0},
	};
	struct qp *qps[50];

	(void)state;
	for (uint32_t i = 0; i < 50; i++) {
		/* The same random number each time: the worst of luck. */
		assert_int_equal(engine_qp_create(&script.lane, &init, 65535, &qps[i]), 0);
		assert_int_equal(qps[i]->qpn >> 16, 5);
		assert_ptr_equal(engine_qp_find(&script.lane, qps[i]->qpn), qps[i]);
		engine_check(&script.lane);
	}
	for (uint32_t i = 0; i < 50; i++) {
		uint32_t qpn = qps[i * 7 % 50]->qpn;

		engine_qp_destroy(qps[i * 7 % 50]);
		assert_null(engine_qp_find(&script.lane, qpn));
		engine_check(&script.lane);
	}
}

static void engine_queue_pair_that_is_destroyed_leaves_nothing_behind(void **state)
{
	struct qp_init init = {
		.type = QP_TYPE_RC,
		.pd = SCRIPT_PD,
		.send_cq = &script.cq,
		.recv_cq = &script.cq,
		.caps = {4, 4, 1, 1, 0},
	};
	uint64_t live_bytes = script.arena.live_bytes;
	struct recv_wr wr = {0};
	struct qp *qp;
	uint32_t events;

	(void)state;
	assert_int_equal(engine_qp_create(&script.lane, &init, 9, &qp), 0);
	qp_set_state(qp, QP_INIT, script.now_ns);
	assert_int_equal(qp_post_recv(qp, &wr), 0);
	qp_set_state(qp, QP_ERR, script.now_ns);
	assert_false(cq_is_empty(&script.cq));
	signal_raise(&script.lane.signals, &qp->signal, SIGNAL_QP_ACCESS);
	signal_raise(&script.lane.signals, &script.cq.signal, SIGNAL_COMPLETION);
	engine_qp_destroy(qp);
	assert_ptr_equal(signal_take(&script.lane.signals, &events), &script.cq.signal);
	assert_null(signal_take(&script.lane.signals, &events));
	assert_true(cq_is_empty(&script.cq));
	assert_int_equal(script.arena.live_bytes, live_bytes);
}

static void engine_without_memory_makes_no_queue_pair(void **state)
{
	struct qp_init init = {
		.type = QP_TYPE_RC,
		.pd = SCRIPT_PD,
		.send_cq = &script.cq,
		.recv_cq = &script.cq,
		.caps = {4, 1 << 20, 1, 1, 0},
	};
	uint64_t live_bytes = script.arena.live_bytes;
	struct qp *qp;

	(void)state;
	assert_int_not_equal(engine_qp_create(&script.lane, &init, 9, &qp), 0);
	assert_int_equal(script.arena.live_bytes, live_bytes);
	init.type = QP_TYPE_COUNT;
	assert_int_equal(engine_qp_create(&script.lane, &init, 9, &qp), -EOPNOTSUPP);
	engine_check(&script.lane);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(engine_packet_of_another_version_is_dropped),
		TEST(engine_packet_too_short_for_its_headers_is_dropped),
		TEST(engine_packet_with_an_unknown_opcode_is_dropped),
		TEST(engine_packet_for_a_number_that_nobody_has_is_dropped),
		TEST(engine_packet_for_another_slot_is_dropped),
		TEST(engine_packet_of_another_partition_is_dropped),
		TEST(engine_packet_of_a_limited_member_is_taken),
		TEST(engine_packet_for_a_queue_pair_that_is_not_ready_is_dropped),
		TEST(engine_packet_from_another_address_is_dropped),
		TEST(engine_packet_of_another_transport_is_dropped),
		TEST(engine_queue_pairs_take_turns),
		TEST(engine_queue_pair_without_room_lets_the_others_send),
		TEST(engine_acks_wait_until_they_are_wanted),
		TEST(engine_ack_leaves_ahead_of_what_answers),
		TEST(engine_numbers_are_the_slot_and_are_all_different),
		TEST(engine_queue_pair_that_is_destroyed_leaves_nothing_behind),
		TEST(engine_without_memory_makes_no_queue_pair),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
