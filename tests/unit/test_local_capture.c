/* SPDX-License-Identifier: BSD-2-Clause */
/* What a capture shows of requests within one host. */
#include "support/local_captured.h"

static void short_write_is_a_packet_and_its_acknowledgement(void **state)
{
	struct shown shown;

	(void)state;
	post(WR_RDMA_WRITE, 9);
	shown = next(true, OPCODE_RC_WRITE_ONLY, 0);
	assert_payload(&shown, 9, 0x5a);
	assert_int_equal(shown.packet.bth.pad_bytes, 3);
	assert_int_equal(shown.packet.reth.va, (uintptr_t)ends[1].memory);
	assert_int_equal(shown.packet.reth.rkey, ends[1].key);
	assert_int_equal(shown.packet.reth.dma_bytes, 9);
	assert_true(shown.packet.bth.ack_requested);
	shown = next(false, OPCODE_RC_ACKNOWLEDGE, 0);
	assert_int_equal(shown.packet.aeth.kind, AETH_ACK);
	assert_int_equal(shown.packet.aeth.msn.value, 1);
	assert_is_all();
}

static void numbers_follow_each_other(void **state)
{
	(void)state;
	post(WR_RDMA_WRITE, 3 * MTU);
	next(true, OPCODE_RC_WRITE_FIRST, 0);
	next(true, OPCODE_RC_WRITE_MIDDLE, 1);
	next(true, OPCODE_RC_WRITE_LAST, 2);
	next(false, OPCODE_RC_ACKNOWLEDGE, 2);
	post(WR_RDMA_WRITE, 0);
	next(true, OPCODE_RC_WRITE_ONLY, 3);
	next(false, OPCODE_RC_ACKNOWLEDGE, 3);
	assert_is_all();
}

static void message_is_cut_by_the_path_mtu(void **state)
{
	struct shown shown;

	(void)state;
	post_receive(50);
	post(WR_SEND_WITH_IMM, 2 * MTU + 5);
	shown = next(true, OPCODE_RC_SEND_FIRST, 0);
	assert_payload(&shown, MTU, 0x5a);
	assert_false(shown.packet.bth.ack_requested);
	next(true, OPCODE_RC_SEND_MIDDLE, 1);
	shown = next(true, OPCODE_RC_SEND_LAST_IMM, 2);
	assert_payload(&shown, 5, 0x5a);
	assert_int_equal(shown.packet.immdt.data, 0xabcd);
	next(false, OPCODE_RC_ACKNOWLEDGE, 2);
	assert_is_all();
}

static void inline_bytes_are_shown(void **state)
{
	uint8_t bytes[20];
	struct sge sge = {(uintptr_t)bytes, sizeof(bytes), 0};
	struct send_wr wr = {
		.opcode = WR_RDMA_WRITE,
		.flags = SEND_INLINE,
		.rkey = ends[1].key,
		.remote_address = (uintptr_t)ends[1].memory,
		.sge = &sge,
		.sge_count = 1,
	};
	struct shown shown;
	uint32_t posted;

	(void)state;
	memset(bytes, 0x77, sizeof(bytes));
	assert_int_equal(engine_post_send(ends[0].qp, &wr, 1, &posted, NOW_NS), 0);
	shown = next(true, OPCODE_RC_WRITE_ONLY, 0);
	assert_payload(&shown, sizeof(bytes), 0x77);
}

static void read_is_a_request_and_its_responses(void **state)
{
	struct shown shown;

	(void)state;
	memset(ends[1].memory, 0x33, 3 * MTU);
	post(WR_RDMA_READ, 2 * MTU + 1);
	shown = next(true, OPCODE_RC_READ_REQUEST, 0);
	assert_int_equal(shown.packet.reth.dma_bytes, 2 * MTU + 1);
	shown = next(false, OPCODE_RC_READ_RESPONSE_FIRST, 0);
	assert_payload(&shown, MTU, 0x33);
	next(false, OPCODE_RC_READ_RESPONSE_MIDDLE, 1);
	shown = next(false, OPCODE_RC_READ_RESPONSE_LAST, 2);
	assert_payload(&shown, 1, 0x33);
	post(WR_RDMA_READ, 8);
	next(true, OPCODE_RC_READ_REQUEST, 3);
	next(false, OPCODE_RC_READ_RESPONSE_ONLY, 3);
	assert_is_all();
}

static void words_are_shown_with_what_they_were(void **state)
{
	struct sge sge = {(uintptr_t)ends[0].memory, 8, ends[0].key};
	struct send_wr wr = {
		.opcode = WR_ATOMIC_CMP_AND_SWP,
		.rkey = ends[1].key,
		.remote_address = (uintptr_t)ends[1].memory,
		.compare_add = 5,
		.swap = 6,
		.sge = &sge,
		.sge_count = 1,
	};
	const uint64_t before = 0x1122334455667788;
	struct shown shown;
	uint32_t posted;

	(void)state;
	ends[0].peer.ops = &mapped_ops;
	memcpy(ends[1].memory, &before, sizeof(before));
	assert_int_equal(engine_post_send(ends[0].qp, &wr, 1, &posted, NOW_NS), 0);
	shown = next(true, OPCODE_RC_COMPARE_SWAP, 0);
	assert_int_equal(shown.packet.atomiceth.compare, 5);
	assert_int_equal(shown.packet.atomiceth.swap_add, 6);
	shown = next(false, OPCODE_RC_ATOMIC_ACKNOWLEDGE, 0);
	assert_int_equal(shown.packet.atomicacketh.original, before);
	wr.opcode = WR_ATOMIC_FETCH_AND_ADD;
	assert_int_equal(engine_post_send(ends[0].qp, &wr, 1, &posted, NOW_NS), 0);
	shown = next(true, OPCODE_RC_FETCH_ADD, 1);
	assert_int_equal(shown.packet.atomiceth.swap_add, 5);
	next(false, OPCODE_RC_ATOMIC_ACKNOWLEDGE, 1);
	wr.opcode = WR_ATOMIC_WRITE;
	assert_int_equal(engine_post_send(ends[0].qp, &wr, 1, &posted, NOW_NS), 0);
	shown = next(true, OPCODE_RC_ATOMIC_WRITE, 2);
	assert_int_equal(shown.packet.payload_bytes, 8);
	next(false, OPCODE_RC_READ_RESPONSE_ONLY, 2);
	assert_is_all();
}

/* Ten requests that are posted at once, and one more of the kind that is posted alone. */
static void check_row(enum wr_opcode opcode, uint8_t shown_as)
{
	struct sge sge = {(uintptr_t)ends[0].memory, 8, ends[0].key};
	struct send_wr wrs[10];
	uint32_t posted;

	memset(ends[0].memory, 0x5a, 8);
	ends[0].peer.ops = &mapped_ops;
	for (uint32_t i = 0; i < 10; i++)
		wrs[i] = (struct send_wr){
			.opcode = opcode,
			.rkey = ends[1].key,
			.remote_address = (uintptr_t)ends[1].memory,
			.sge = &sge,
			.sge_count = 1,
		};
	assert_int_equal(engine_post_send(ends[0].qp, wrs, 10, &posted, NOW_NS), 0);
	assert_int_equal(engine_post_send(ends[0].qp, wrs, 1, &posted, NOW_NS), 0);
	for (uint32_t i = 0; i < 11; i++) {
		struct shown shown = next(true, shown_as, i);

		assert_payload(&shown, 8, 0x5a);
		/* The ten were executed at one time. */
		assert_int_equal(shown.head.time_ns, NOW_NS + i / 10);
		shown = next(false, OPCODE_RC_ACKNOWLEDGE, i);
		assert_int_equal(shown.packet.aeth.msn.value, i + 1);
		assert_int_equal(shown.head.time_ns, NOW_NS + i / 10);
	}
	assert_is_all();
	assert_int_equal(repetitions, 10);
}

static void writes_in_a_row_are_all_shown(void **state)
{
	(void)state;
	check_row(WR_RDMA_WRITE, OPCODE_RC_WRITE_ONLY);
}

static void messages_in_a_row_are_all_shown(void **state)
{
	(void)state;
	for (uint64_t i = 0; i < 11; i++)
		post_receive(i);
	check_row(WR_SEND, OPCODE_RC_SEND_ONLY);
}

static void what_goes_by_packets_is_not_shown_twice(void **state)
{
	(void)state;
	post_at(WR_RDMA_WRITE, 8, ends[1].key + 1, NOW_NS);
	assert_true(has_packets(0));
	assert_is_all();
}

static void payload_may_be_left_out(void **state)
{
	struct shown shown = {.head = {.packet_bytes = 0}};

	(void)state;
	atomic_store(&public.snap_bytes, 28);
	post(WR_RDMA_WRITE, 2 * MTU);
	for (uint32_t i = 0; i < 2; i++) {
		assert_true(take(&shown));
		assert_int_equal(shown.head.captured_bytes, i ? BTH_BYTES + 16 : 28);
		assert_int_equal(shown.head.packet_bytes, i ? BTH_BYTES + MTU : 28 + MTU);
	}
}

static void headers_alone_are_shown_without_payload(void **state)
{
	struct shown shown = {.head = {.packet_bytes = 0}};

	(void)state;
	atomic_store(&public.snap_bytes, CAPTURE_HEADERS);
	post(WR_RDMA_WRITE, 8);
	assert_true(take(&shown));
	assert_int_equal(shown.head.captured_bytes, BTH_BYTES + RETH_BYTES);
	assert_int_equal(shown.head.packet_bytes, BTH_BYTES + RETH_BYTES + 8);
	next(false, OPCODE_RC_ACKNOWLEDGE, 0);
	assert_is_all();
}

/* Once two readings of the clock give the rate of the ticks, these tell the time in between. */
static void ticks_tell_the_time_between_readings_of_the_clock(void **state)
{
	(void)state;
	post(WR_RDMA_WRITE, 8);
	next(true, OPCODE_RC_WRITE_ONLY, 0);
	next(false, OPCODE_RC_ACKNOWLEDGE, 0);
	now_ns = NOW_NS + 200000;
	tick_count = 400000;
	post(WR_RDMA_WRITE, 8);
	next(true, OPCODE_RC_WRITE_ONLY, 1);
	next(false, OPCODE_RC_ACKNOWLEDGE, 1);
	now_ns += 1000000;
	tick_count += 2 * 5000;
	post(WR_RDMA_WRITE, 8);
	assert_int_equal(next(true, OPCODE_RC_WRITE_ONLY, 2).head.time_ns, NOW_NS + 205000);
	next(false, OPCODE_RC_ACKNOWLEDGE, 2);
	tick_count += 2 * CAPTURE_TICKS_NS;
	post(WR_RDMA_WRITE, 8);
	assert_int_equal(next(true, OPCODE_RC_WRITE_ONLY, 3).head.time_ns, NOW_NS + 1200001);
	next(false, OPCODE_RC_ACKNOWLEDGE, 3);
	tick_count = 0;
	now_ns = NOW_NS;
	post(WR_RDMA_WRITE, 8);
	assert_int_equal(next(true, OPCODE_RC_WRITE_ONLY, 4).head.time_ns, NOW_NS + 1200001);
}

static struct captured_event next_event(void)
{
	struct shown shown = {0};
	struct captured_event event;

	assert_true(take(&shown));
	assert_int_equal(shown.head.packet_bytes, 0);
	assert_int_equal(shown.head.captured_bytes, sizeof(event));
	assert_int_equal(shown.head.qpn, ends[0].qp->qpn);
	memcpy(&event, shown.bytes, sizeof(event));
	return event;
}

static void events_are_shown_to_who_asks_for_them(void **state)
{
	struct captured_event event;

	(void)state;
	atomic_store(&public.with_events, 1);
	post(WR_RDMA_WRITE, 8);
	event = next_event();
	assert_int_equal(event.kind, CAPTURED_POST);
	assert_int_equal(event.number, WR_RDMA_WRITE);
	assert_int_equal(event.bytes, 8);
	assert_int_equal(event.count, 1);
	next(true, OPCODE_RC_WRITE_ONLY, 0);
	next(false, OPCODE_RC_ACKNOWLEDGE, 0);
	event = next_event();
	assert_int_equal(event.kind, CAPTURED_COMPLETION);
	assert_int_equal(event.number, WC_SUCCESS);
	assert_is_all();
	qp_set_state(ends[0].qp, QP_ERR, NOW_NS);
	event = next_event();
	assert_int_equal(event.kind, CAPTURED_STATE);
	assert_int_equal(event.count, QP_RTS);
	assert_int_equal(event.number, QP_ERR);
}

/* The PSNs of dropped packets count. */
static void dropped_request_takes_its_numbers(void **state)
{
	uint32_t count = 0;
	struct shown shown = {.head = {.packet_bytes = 0}};

	(void)state;
	while (!atomic_load(&capture.ring->dropped)) {
		post(WR_RDMA_WRITE, 8);
		assert_int_equal(poll_sent().status, WC_SUCCESS);
		count++;
	}
	assert_int_equal(atomic_load(&capture.ring->dropped), 2);
	while (take(&shown))
		continue;
	post(WR_RDMA_WRITE, 8);
	next(true, OPCODE_RC_WRITE_ONLY, count);
}

static void nobody_who_captures_sees_nothing(void **state)
{
	(void)state;
	atomic_store(&public.session, 0);
	post(WR_RDMA_WRITE, 8);
	assert_is_all();
	atomic_store(&public.session, 1);
	post(WR_RDMA_WRITE, 8);
	next(true, OPCODE_RC_WRITE_ONLY, 0);
}

static void owner_looks_once_a_second(void **state)
{
	(void)state;
	post(WR_RDMA_WRITE, 8);
	assert_int_equal(looks, 0);
	now_ns += 1000000000;
	post(WR_RDMA_WRITE, 8);
	assert_int_equal(looks, 1);
}

static void full_ring_holds_nobody_up(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 300; i++) {
		post(WR_RDMA_WRITE, 32 * MTU);
		assert_int_equal(poll_sent().status, WC_SUCCESS);
	}
	assert_true(atomic_load(&capture.ring->dropped) > 100);
}

static void unreliable_connection_has_no_answers(void **state)
{
	struct shown shown;

	(void)state;
	post_receive(50);
	post(WR_SEND, MTU + 1);
	shown = next(true, OPCODE_UC_SEND_FIRST, 0);
	assert_false(shown.packet.bth.ack_requested);
	next(true, OPCODE_UC_SEND_LAST, 1);
	assert_is_all();
}

static int begin_uc(void **state)
{
	types[0] = types[1] = QP_TYPE_UC;
	return begin(state);
}

static void extended_connection_names_the_queue(void **state)
{
	struct shown shown;

	(void)state;
	post_receive(50);
	post(WR_SEND, 8);
	shown = next(true, OPCODE_CLASS_XRC | OPCODE_RC_SEND_ONLY, 0);
	assert_int_equal(shown.packet.xrceth.srqn, SRQN);
	next(false, OPCODE_CLASS_XRC | OPCODE_RC_ACKNOWLEDGE, 0);
	assert_is_all();
}

static int begin_xrc(void **state)
{
	types[0] = QP_TYPE_XRC_SEND;
	types[1] = QP_TYPE_XRC_RECV;
	return begin(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CAPTURE_TEST(short_write_is_a_packet_and_its_acknowledgement),
		CAPTURE_TEST(numbers_follow_each_other),
		CAPTURE_TEST(message_is_cut_by_the_path_mtu),
		CAPTURE_TEST(inline_bytes_are_shown),
		CAPTURE_TEST(read_is_a_request_and_its_responses),
		CAPTURE_TEST(words_are_shown_with_what_they_were),
		CAPTURE_TEST(writes_in_a_row_are_all_shown),
		CAPTURE_TEST(messages_in_a_row_are_all_shown),
		CAPTURE_TEST(what_goes_by_packets_is_not_shown_twice),
		CAPTURE_TEST(payload_may_be_left_out),
		CAPTURE_TEST(headers_alone_are_shown_without_payload),
		CAPTURE_TEST(ticks_tell_the_time_between_readings_of_the_clock),
		CAPTURE_TEST(dropped_request_takes_its_numbers),
		CAPTURE_TEST(events_are_shown_to_who_asks_for_them),
		CAPTURE_TEST(nobody_who_captures_sees_nothing),
		CAPTURE_TEST(owner_looks_once_a_second),
		CAPTURE_TEST(full_ring_holds_nobody_up),
		cmocka_unit_test_setup_teardown(
			unreliable_connection_has_no_answers, begin_uc, end),
		cmocka_unit_test_setup_teardown(
			extended_connection_names_the_queue, begin_xrc, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
