/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The unreliable connection, against a scripted peer.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "ib/uc/uc.h"
#include "memory/mw.h"
#include "support/script.h"

enum { MTU = SCRIPT_MTU_BYTES };

static struct script script;

static int setup(void **state)
{
	static const struct script_options options = {.type = QP_TYPE_UC};

	(void)state;
	script_start(&script, &options);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	script_end(&script);
	return 0;
}

static void expect_received(uint64_t wr_id, uint32_t bytes)
{
	struct cqe cqe = script_completion(&script);

	assert_int_equal(cqe.wr_id, wr_id);
	assert_int_equal(cqe.status, WC_SUCCESS);
	assert_int_equal(cqe.byte_count, bytes);
	script_expect_silence(&script);
}

/* The queue pair sends nothing and completes nothing, and has counted the drop. */
static void expect_dropped(enum counter counter)
{
	script_expect_silence(&script);
	script_expect_no_completion(&script);
	assert_int_equal(script.qp->state, QP_RTS);
	assert_int_equal(script_counter(&script, counter), 1);
}

/*
 * --- requester ---
 */

static void uc_message_completes_when_its_last_packet_is_sent(void **state)
{
	const struct packet *packet;

	(void)state;
	script_post(&script, WR_SEND_WITH_IMM, 2 * MTU + 5, SEND_SIGNALED | SEND_SOLICITED);
	packet = script_expect(&script, OPCODE_UC_SEND_FIRST, 0);
	assert_memory_equal(packet->payload, script.memory, MTU);
	assert_false(packet->bth.ack_requested);
	assert_false(packet->bth.is_solicited);
	script_expect(&script, OPCODE_UC_SEND_MIDDLE, 1);
	script_expect_no_completion(&script);
	packet = script_expect(&script, OPCODE_UC_SEND_LAST_IMM, 2);
	assert_int_equal(packet->payload_bytes, 5);
	assert_int_equal(packet->immdt.data, 0x11223344);
	assert_true(packet->bth.is_solicited);
	script_expect_completion(&script, 0, WC_SUCCESS);
	script_expect_silence(&script);
}

static void uc_write_names_its_range_in_the_first_packet(void **state)
{
	const struct packet *packet;

	(void)state;
	script_post(&script, WR_RDMA_WRITE, MTU + 1, SEND_SIGNALED);
	packet = script_expect(&script, OPCODE_UC_WRITE_FIRST, 0);
	assert_int_equal(packet->reth.va, 0x1000);
	assert_int_equal(packet->reth.rkey, 0x55667788);
	assert_int_equal(packet->reth.dma_bytes, MTU + 1);
	script_expect(&script, OPCODE_UC_WRITE_LAST, 1);
	script_expect_completion(&script, 0, WC_SUCCESS);
}

static void uc_has_no_reads_and_atomics(void **state)
{
	struct send_wr wr = {.opcode = WR_RDMA_READ};

	(void)state;
	assert_int_equal(qp_post_send(script.qp, &wr), -EINVAL);
	wr.opcode = WR_ATOMIC_FETCH_AND_ADD;
	assert_int_equal(qp_post_send(script.qp, &wr), -EINVAL);
}

/* A request that cannot be sent stops sending, not receiving; the program may begin again. */
static void uc_binds_and_invalidates_windows_in_their_turn(void **state)
{
	struct packet write = script_packet(&script, OPCODE_UC_WRITE_ONLY, 0);
	struct send_wr wr = {
		.wr_id = 5,
		.opcode = WR_BIND_MW,
		.flags = SEND_SIGNALED,
		.remote_address = (uintptr_t)script.memory + 512,
		.bind = {64, script.key, MR_REMOTE_WRITE},
	};
	uint32_t posted;

	(void)state;
	assert_int_equal(mw_add(&script.mrs, SCRIPT_PD, MR_KIND_WINDOW_2, 0, &wr.rkey), 0);
	assert_int_equal(engine_post_send(script.qp, &wr, 1, &posted, script.now_ns), 0);
	script_post(&script, WR_SEND, 8, 0);
	script_expect(&script, OPCODE_UC_SEND_ONLY, 0);
	script_expect_completion(&script, 5, WC_SUCCESS);
	packet_set_payload(&write, NULL, 8);
	write.reth = (struct reth){wr.remote_address, wr.rkey, 8};
	memset(script.memory + 512, 0xee, 8);
	script_send(&script, &write);
	assert_int_not_equal(script.memory[519], 0xee);

	wr.opcode = WR_LOCAL_INV;
	wr.imm = wr.rkey;
	assert_int_equal(engine_post_send(script.qp, &wr, 1, &posted, script.now_ns), 0);
	script_expect_silence(&script);
	script_expect_completion(&script, 5, WC_SUCCESS);
	assert_int_equal(mw_check(&script.mrs, wr.rkey, qp_mr_user(script.qp)), MR_FAULT_KEY);
	/* A second time it is an error of the send queue. */
	assert_int_equal(engine_post_send(script.qp, &wr, 1, &posted, script.now_ns), 0);
	script_expect_silence(&script);
	script_expect_completion(&script, 5, WC_MW_BIND_ERR);
	assert_int_equal(script.qp->state, QP_SQE);
}

static void uc_bad_lkey_stops_the_send_queue_until_it_is_restarted(void **state)
{
	struct qp_attr attr = {.cur_state = QP_SQE};

	(void)state;
	script.key ^= 0x100;
	script_post(&script, WR_SEND, 8, 0);
	script.key ^= 0x100;
	script_post(&script, WR_SEND, 8, 0);
	script_expect_silence(&script);
	assert_int_equal(script.qp->state, QP_SQE);
	script_expect_completion(&script, 0, WC_LOC_PROT_ERR);
	script_expect_completion(&script, 1, WC_WR_FLUSH_ERR);
	script_post(&script, WR_SEND, 8, 0);
	script_expect_completion(&script, 2, WC_WR_FLUSH_ERR);

	script_post_receive(&script, 8);
	script_send_data(&script, OPCODE_UC_SEND_ONLY, 0, 8);
	expect_received(1000, 8);

	assert_int_equal(qp_modify(script.qp, QP_RTS, ATTR_STATE | ATTR_CUR_STATE, &attr, 1), 0);
	script_post(&script, WR_SEND, 8, SEND_SIGNALED);
	script_expect(&script, OPCODE_UC_SEND_ONLY, 0);
	script_expect_completion(&script, 3, WC_SUCCESS);
}

static void uc_region_that_goes_away_stops_the_message_in_its_middle(void **state)
{
	(void)state;
	script_post(&script, WR_SEND, 3 * MTU, 0);
	script_expect(&script, OPCODE_UC_SEND_FIRST, 0);
	assert_int_equal(mr_table_remove(&script.mrs, script.key, SCRIPT_PD), 0);
	script_expect_silence(&script);
	script_expect_completion(&script, 0, WC_LOC_PROT_ERR);
	assert_int_equal(script.qp->state, QP_SQE);
}

/*
 * --- responder ---
 */

static void uc_message_in_order_fills_a_receive_request_without_an_answer(void **state)
{
	(void)state;
	script_post_receive(&script, 3 * MTU);
	script_send_data(&script, OPCODE_UC_SEND_FIRST, 0, MTU);
	script_send_data(&script, OPCODE_UC_SEND_MIDDLE, 1, MTU);
	script_expect_no_completion(&script);
	script_send_data(&script, OPCODE_UC_SEND_LAST, 2, 7);
	expect_received(1000, 2 * MTU + 7);
	assert_int_equal(script.memory[2 * MTU], (uint8_t)(SCRIPT_RQ_PSN + 2));
}

static void uc_lost_packet_drops_the_message_and_its_receive_serves_the_next(void **state)
{
	(void)state;
	script_post_receive(&script, 3 * MTU);
	script_send_data(&script, OPCODE_UC_SEND_FIRST, 0, MTU);
	script_send_data(&script, OPCODE_UC_SEND_LAST, 2, 7);
	expect_dropped(COUNTER_dropped_messages);
	script_send_data(&script, OPCODE_UC_SEND_ONLY, 3, 9);
	expect_received(1000, 9);
	assert_int_equal(script.memory[0], (uint8_t)(SCRIPT_RQ_PSN + 3));
}

static void uc_lost_first_packet_drops_the_rest(void **state)
{
	(void)state;
	script_post_receive(&script, 3 * MTU);
	script_send_data(&script, OPCODE_UC_SEND_MIDDLE, 1, MTU);
	script_send_data(&script, OPCODE_UC_SEND_LAST, 2, 7);
	script_expect_no_completion(&script);
	script_send_data(&script, OPCODE_UC_SEND_FIRST, 3, MTU);
	script_send_data(&script, OPCODE_UC_SEND_LAST, 4, 1);
	expect_received(1000, MTU + 1);
}

/* The Last of one message must not end another. */
static void uc_two_lost_packets_do_not_join_two_messages(void **state)
{
	(void)state;
	script_post_receive(&script, 3 * MTU);
	script_send_data(&script, OPCODE_UC_SEND_FIRST, 0, MTU);
	script_send_data(&script, OPCODE_UC_SEND_LAST, 3, 7);
	expect_dropped(COUNTER_dropped_messages);
}

static void uc_peer_that_starts_anew_is_followed(void **state)
{
	(void)state;
	script_post_receive(&script, MTU);
	script_post_receive(&script, MTU);
	script_send_data(&script, OPCODE_UC_SEND_FIRST, 0, MTU);
	script_send_data(&script, OPCODE_UC_SEND_ONLY, 1, 5);
	expect_received(1000, 5);
	assert_int_equal(script_counter(&script, COUNTER_dropped_messages), 1);
	/* Far away in either direction. */
	script_send_data(&script, OPCODE_UC_SEND_ONLY, 1 + (1 << 22), 6);
	expect_received(1001, 6);
	script_post_receive(&script, MTU);
	script_send_data(&script, OPCODE_UC_SEND_ONLY, 1, 7);
	expect_received(1002, 7);
}

static void uc_first_packet_ever_may_be_before_the_expected_one(void **state)
{
	(void)state;
	script_post_receive(&script, MTU);
	script_send_data(&script, OPCODE_UC_SEND_ONLY, -3u, 5);
	expect_received(1000, 5);
}

static void uc_duplicate_and_late_messages_are_not_delivered(void **state)
{
	(void)state;
	script_post_receive(&script, MTU);
	script_post_receive(&script, MTU);
	script_send_data(&script, OPCODE_UC_SEND_ONLY, 1, 5);
	expect_received(1000, 5);
	script_send_data(&script, OPCODE_UC_SEND_ONLY, 1, 5);
	expect_dropped(COUNTER_duplicate_request);
	script_send_data(&script, OPCODE_UC_SEND_ONLY, 0, 5);
	script_expect_no_completion(&script);
	script_send_data(&script, OPCODE_UC_SEND_ONLY, 2, 6);
	expect_received(1001, 6);
}

static void uc_duplicate_within_a_message_does_not_disturb_it(void **state)
{
	(void)state;
	script_post_receive(&script, 3 * MTU);
	script_send_data(&script, OPCODE_UC_SEND_FIRST, 0, MTU);
	script_send_data(&script, OPCODE_UC_SEND_MIDDLE, 1, MTU);
	script_send_data(&script, OPCODE_UC_SEND_FIRST, 0, MTU);
	script_send_data(&script, OPCODE_UC_SEND_MIDDLE, 1, MTU);
	script_send_data(&script, OPCODE_UC_SEND_LAST, 2, 3);
	expect_received(1000, 2 * MTU + 3);
}

static void uc_without_receive_drops_the_message(void **state)
{
	(void)state;
	script_send_data(&script, OPCODE_UC_SEND_FIRST, 0, MTU);
	script_post_receive(&script, 2 * MTU);
	script_send_data(&script, OPCODE_UC_SEND_LAST, 1, 5);
	expect_dropped(COUNTER_no_receive_drops);
	script_send_data(&script, OPCODE_UC_SEND_ONLY, 2, 5);
	expect_received(1000, 5);
}

static void uc_message_longer_than_its_receive_is_dropped(void **state)
{
	(void)state;
	script_post_receive(&script, MTU + 4);
	script_send_data(&script, OPCODE_UC_SEND_FIRST, 0, MTU);
	script_send_data(&script, OPCODE_UC_SEND_LAST, 1, 5);
	expect_dropped(COUNTER_resp_local_length_error);
	assert_int_equal(script.memory[MTU], MTU % 251);
	script_send_data(&script, OPCODE_UC_SEND_ONLY, 2, 5);
	expect_received(1000, 5);
}

static void uc_write_places_its_bytes(void **state)
{
	(void)state;
	script_send_write(&script, OPCODE_UC_WRITE_FIRST, 0, MTU, MTU + 2);
	script_send_write(&script, OPCODE_UC_WRITE_LAST, 1, 2, 0);
	script_expect_silence(&script);
	assert_int_equal(script.memory[0], (uint8_t)SCRIPT_RQ_PSN);
	assert_int_equal(script.memory[MTU], (uint8_t)(SCRIPT_RQ_PSN + 1));
	assert_int_equal(script_counter(&script, COUNTER_rdma_writes), 1);
}

static void uc_write_with_imm_takes_the_receive_that_a_lost_send_left(void **state)
{
	(void)state;
	script_post_receive(&script, 2 * MTU);
	script_send_data(&script, OPCODE_UC_SEND_FIRST, 0, MTU);
	script_send_write(&script, OPCODE_UC_WRITE_ONLY_IMM, 2, 4, 4);
	struct cqe cqe = script_completion(&script);
	assert_int_equal(cqe.wr_id, 1000);
	assert_int_equal(cqe.opcode, WC_RECV_RDMA_WITH_IMM);
	assert_int_equal(cqe.byte_count, 4);
	script_expect_no_completion(&script);
}

static void uc_write_without_right_or_bounds_is_dropped_in_silence(void **state)
{
	struct packet packet = script_packet(&script, OPCODE_UC_WRITE_ONLY, 0);

	(void)state;
	packet_set_payload(&packet, NULL, 4);
	packet.reth =
		(struct reth){(uintptr_t)script.memory + SCRIPT_MEMORY_BYTES - 3, script.key, 4};
	script_send(&script, &packet);
	expect_dropped(COUNTER_resp_remote_access_errors);
	script_send_write(&script, OPCODE_UC_WRITE_LAST, 1, 2, 0);
	for (uint32_t i = 0; i < SCRIPT_MEMORY_BYTES; i++)
		assert_int_equal(script.memory[i], i % 251);
	script_send_write(&script, OPCODE_UC_WRITE_ONLY, 2, 4, 4);
	assert_int_equal(script_counter(&script, COUNTER_rdma_writes), 1);
}

static void uc_write_of_another_length_than_announced_is_dropped(void **state)
{
	(void)state;
	script_send_write(&script, OPCODE_UC_WRITE_ONLY, 0, 8, 4);
	expect_dropped(COUNTER_resp_invalid_request);
	assert_int_equal(script.memory[0], 0);
}

static void uc_write_in_the_middle_of_a_send_is_dropped_with_it(void **state)
{
	(void)state;
	script_post_receive(&script, 3 * MTU);
	script_send_data(&script, OPCODE_UC_SEND_FIRST, 0, MTU);
	script_send_write(&script, OPCODE_UC_WRITE_LAST, 1, 4, 4);
	expect_dropped(COUNTER_resp_invalid_request);
	script_send_data(&script, OPCODE_UC_SEND_LAST, 2, 4);
	script_expect_no_completion(&script);
}

static void uc_receive_with_a_bad_key_fails_the_queue_pair(void **state)
{
	(void)state;
	script_post_receive(&script, MTU);
	assert_int_equal(mr_table_remove(&script.mrs, script.key, SCRIPT_PD), 0);
	script_send_data(&script, OPCODE_UC_SEND_ONLY, 0, 4);
	script_expect_completion(&script, 1000, WC_LOC_PROT_ERR);
	assert_int_equal(script.qp->state, QP_ERR);
	script_expect_silence(&script);
}

static void uc_receive_of_a_lost_message_is_flushed_in_the_error_state(void **state)
{
	(void)state;
	script_post_receive(&script, 2 * MTU);
	script_post_receive(&script, 2 * MTU);
	script_send_data(&script, OPCODE_UC_SEND_FIRST, 0, MTU);
	qp_set_state(script.qp, QP_ERR, script.now_ns);
	script_expect_completion(&script, 1000, WC_WR_FLUSH_ERR);
	script_expect_completion(&script, 1001, WC_WR_FLUSH_ERR);
	script_expect_no_completion(&script);
}

static void uc_packet_of_another_transport_or_address_is_dropped(void **state)
{
	(void)state;
	script_post_receive(&script, MTU);
	script_send_data(&script, OPCODE_RC_SEND_ONLY, 0, 4);
	expect_dropped(COUNTER_bad_state_drops);
	script.remote.raw[15] ^= 1;
	script_send_data(&script, OPCODE_UC_SEND_ONLY, 0, 4);
	expect_dropped(COUNTER_bad_address_drops);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(uc_message_completes_when_its_last_packet_is_sent),
		TEST(uc_write_names_its_range_in_the_first_packet),
		TEST(uc_has_no_reads_and_atomics),
		TEST(uc_binds_and_invalidates_windows_in_their_turn),
		TEST(uc_bad_lkey_stops_the_send_queue_until_it_is_restarted),
		TEST(uc_region_that_goes_away_stops_the_message_in_its_middle),
		TEST(uc_message_in_order_fills_a_receive_request_without_an_answer),
		TEST(uc_lost_packet_drops_the_message_and_its_receive_serves_the_next),
		TEST(uc_lost_first_packet_drops_the_rest),
		TEST(uc_two_lost_packets_do_not_join_two_messages),
		TEST(uc_peer_that_starts_anew_is_followed),
		TEST(uc_first_packet_ever_may_be_before_the_expected_one),
		TEST(uc_duplicate_and_late_messages_are_not_delivered),
		TEST(uc_duplicate_within_a_message_does_not_disturb_it),
		TEST(uc_without_receive_drops_the_message),
		TEST(uc_message_longer_than_its_receive_is_dropped),
		TEST(uc_write_places_its_bytes),
		TEST(uc_write_with_imm_takes_the_receive_that_a_lost_send_left),
		TEST(uc_write_without_right_or_bounds_is_dropped_in_silence),
		TEST(uc_write_of_another_length_than_announced_is_dropped),
		TEST(uc_write_in_the_middle_of_a_send_is_dropped_with_it),
		TEST(uc_receive_with_a_bad_key_fails_the_queue_pair),
		TEST(uc_receive_of_a_lost_message_is_flushed_in_the_error_state),
		TEST(uc_packet_of_another_transport_or_address_is_dropped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
