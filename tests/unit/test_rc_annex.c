/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ATOMIC WRITE and FLUSH (IBTA annex A19), as requester and as responder.
 */
#include <stdlib.h>
#include <string.h>

#include "support/rc_script.h"

static void post_flush(uint32_t flags)
{
	struct send_wr wr = {
		.wr_id = script.qp->sq->posted,
		.opcode = WR_FLUSH,
		.flags = flags,
		.rkey = 0x55667788,
		.remote_address = 0x1000,
		.flush = {300, FETH_PLACEMENT_GLOBAL, FETH_SELECT_RANGE},
	};
	uint32_t posted;

	assert_int_equal(engine_post_send(script.qp, &wr, 1, &posted, script.now_ns), 0);
	engine_check(&script.lane);
}

static void peer_writes_word(uint32_t index, uint64_t offset, uint32_t key, uint32_t bytes)
{
	struct packet packet = script_packet(&script, OPCODE_RC_ATOMIC_WRITE, index);

	packet_set_payload(&packet, NULL, 8);
	packet.reth = (struct reth){(uintptr_t)script.memory + offset, key, bytes};
	script_send(&script, &packet);
}

static void peer_flushes(uint32_t index, struct feth feth, struct reth reth)
{
	struct packet packet = script_packet(&script, OPCODE_RC_FLUSH, index);

	packet.feth = feth;
	packet.reth = reth;
	script_send(&script, &packet);
}

static const struct feth global_range = {FETH_PLACEMENT_GLOBAL, FETH_SELECT_RANGE};

static struct reth reth_of(uint64_t offset, uint32_t bytes)
{
	return (struct reth){(uintptr_t)script.memory + offset, script.key, bytes};
}

static void expect_answer(uint32_t index)
{
	const struct packet *packet = script_expect(&script, OPCODE_RC_READ_RESPONSE_ONLY, index);

	assert_int_equal(packet->payload_bytes, 0);
	assert_int_equal(packet->aeth.kind, AETH_ACK);
}

static void expect_refusal(enum aeth_nak code)
{
	script_expect_nak(&script, 0, code);
	assert_int_equal(script.qp->state, QP_ERR);
	for (uint32_t i = 0; i < 300; i++)
		assert_int_equal(script.memory[i], i % 251);
}

/*
 * --- requester ---
 */

static void atomic_write_carries_eight_bytes_and_awaits_its_answer(void **state)
{
	(void)state;
	script_post(&script, WR_ATOMIC_WRITE, 8, SEND_SIGNALED);
	const struct packet *packet = script_expect(&script, OPCODE_RC_ATOMIC_WRITE, 0);
	assert_int_equal(packet->reth.dma_bytes, 8);
	assert_int_equal(packet->reth.va, 0x1000);
	assert_int_equal(packet->reth.rkey, 0x55667788);
	assert_true(packet->bth.ack_requested);
	assert_memory_equal(packet->payload, script.memory, 8);
	script_expect_silence(&script);
	script_send_response(&script, OPCODE_RC_READ_RESPONSE_ONLY, 0, 0);
	struct cqe cqe = script_completion(&script);
	assert_int_equal(cqe.status, WC_SUCCESS);
	assert_int_equal(cqe.opcode, WC_ATOMIC_WRITE);
}

static void atomic_write_of_another_length_fails_locally(void **state)
{
	(void)state;
	script_post(&script, WR_ATOMIC_WRITE, 7, SEND_SIGNALED);
	script_expect_silence(&script);
	script_expect_completion(&script, 0, WC_LOC_LEN_ERR);
}

static void atomic_write_may_be_inline(void **state)
{
	(void)state;
	script_post(&script, WR_ATOMIC_WRITE, 8, SEND_SIGNALED | SEND_INLINE);
	assert_memory_equal(
		script_expect(&script, OPCODE_RC_ATOMIC_WRITE, 0)->payload, script.memory, 8);
}

static void flush_names_what_and_how(void **state)
{
	(void)state;
	post_flush(SEND_SIGNALED);
	const struct packet *packet = script_expect(&script, OPCODE_RC_FLUSH, 0);
	assert_int_equal(packet->feth.placement, FETH_PLACEMENT_GLOBAL);
	assert_int_equal(packet->feth.selectivity, FETH_SELECT_RANGE);
	assert_int_equal(packet->reth.dma_bytes, 300);
	assert_int_equal(packet->reth.rkey, 0x55667788);
	script_send_response(&script, OPCODE_RC_READ_RESPONSE_ONLY, 0, 0);
	struct cqe cqe = script_completion(&script);
	assert_int_equal(cqe.status, WC_SUCCESS);
	assert_int_equal(cqe.opcode, WC_FLUSH);
}

static void annex_requests_count_against_max_rd_atomic(void **state)
{
	(void)state;
	restart(&(struct script_options){.max_rd_atomic = 2});
	script_post(&script, WR_ATOMIC_WRITE, 8, 0);
	post_flush(0);
	script_post(&script, WR_ATOMIC_WRITE, 8, SEND_SIGNALED);
	script_expect(&script, OPCODE_RC_ATOMIC_WRITE, 0);
	script_expect(&script, OPCODE_RC_FLUSH, 1);
	script_expect_silence(&script);
	script_send_response(&script, OPCODE_RC_READ_RESPONSE_ONLY, 0, 0);
	script_expect(&script, OPCODE_RC_ATOMIC_WRITE, 2);
}

static void annex_requests_hold_back_a_fenced_one(void **state)
{
	(void)state;
	post_flush(0);
	script_post(&script, WR_SEND, 10, SEND_FENCE);
	script_expect(&script, OPCODE_RC_FLUSH, 0);
	script_expect_silence(&script);
	script_send_response(&script, OPCODE_RC_READ_RESPONSE_ONLY, 0, 0);
	script_expect(&script, OPCODE_RC_SEND_ONLY, 1);
}

static void annex_answer_with_data_fails_the_request(void **state)
{
	(void)state;
	script_post(&script, WR_ATOMIC_WRITE, 8, SEND_SIGNALED);
	script_expect(&script, OPCODE_RC_ATOMIC_WRITE, 0);
	script_send_response(&script, OPCODE_RC_READ_RESPONSE_ONLY, 0, 8);
	script_expect_completion(&script, 0, WC_BAD_RESP_ERR);
}

static void annex_answer_of_another_kind_is_ignored(void **state)
{
	(void)state;
	post_flush(SEND_SIGNALED);
	script_expect(&script, OPCODE_RC_FLUSH, 0);
	script_send_original(&script, 0, 7);
	script_expect_no_completion(&script);
	script_send_ack(&script, 0, 1, SCRIPT_UNLIMITED);
	script_expect_no_completion(&script);
	assert_int_equal(script.qp->state, QP_RTS);
}

/*
 * --- responder ---
 */

static void atomic_write_is_placed_as_it_came_and_answered(void **state)
{
	(void)state;
	peer_writes_word(0, 64, script.key, 8);
	for (uint32_t i = 0; i < 8; i++)
		assert_int_equal(script.memory[64 + i], (uint8_t)(SCRIPT_RQ_PSN + i));
	expect_answer(0);
	assert_int_equal(script_counter(&script, COUNTER_rdma_atomic_writes), 1);
}

static void atomic_write_again_is_answered_not_executed(void **state)
{
	(void)state;
	peer_writes_word(0, 64, script.key, 8);
	expect_answer(0);
	memset(script.memory + 64, 0xee, 8);
	peer_writes_word(0, 64, script.key, 8);
	expect_answer(0);
	assert_int_equal(script.memory[64], 0xee);
}

static void atomic_write_that_is_misaligned_or_of_another_length_is_invalid(void **state)
{
	(void)state;
	peer_writes_word(0, 65, script.key, 8);
	expect_refusal(AETH_NAK_INVALID_REQUEST);
	restart(NULL);
	peer_writes_word(0, 64, script.key, 4);
	expect_refusal(AETH_NAK_INVALID_REQUEST);
	restart(NULL);
	peer_writes_word(0, 64, script.key, 16);
	expect_refusal(AETH_NAK_INVALID_REQUEST);
}

/* The peer's address decides, not where the region happens to lie. */
static void atomic_write_is_aligned_as_the_peer_counts(void **state)
{
	struct mr_region odd = {SCRIPT_PD, MR_LOCAL_WRITE | MR_REMOTE_ANY, 3, 100, script.memory};
	struct packet packet = script_packet(&script, OPCODE_RC_ATOMIC_WRITE, 0);

	(void)state;
	packet_set_payload(&packet, NULL, 8);
	packet.reth = (struct reth){3, 0, 8};
	assert_int_equal(mr_table_add(&script.mrs, &odd, 0, &packet.reth.rkey), 0);
	script_send(&script, &packet);
	expect_refusal(AETH_NAK_INVALID_REQUEST);
}

static void atomic_write_needs_key_range_and_right(void **state)
{
	(void)state;
	peer_writes_word(0, 64, script.key ^ 1, 8);
	expect_refusal(AETH_NAK_REMOTE_ACCESS);
	restart(NULL);
	peer_writes_word(0, SCRIPT_MEMORY_BYTES, script.key, 8);
	expect_refusal(AETH_NAK_REMOTE_ACCESS);
	restart(&(struct script_options){.access = MR_REMOTE_ATOMIC | MR_REMOTE_READ});
	peer_writes_word(0, 64, script.key, 8);
	expect_refusal(AETH_NAK_INVALID_REQUEST);
}

static void annex_requests_need_a_place_to_be_remembered(void **state)
{
	(void)state;
	restart(&(struct script_options){.has_no_rd_atomic = true});
	peer_writes_word(0, 64, script.key, 8);
	expect_refusal(AETH_NAK_INVALID_REQUEST);
	restart(&(struct script_options){.has_no_rd_atomic = true});
	peer_flushes(0, global_range, reth_of(0, 10));
	expect_refusal(AETH_NAK_INVALID_REQUEST);
}

static void flush_of_a_range_or_region_is_answered_after_what_is_before_it(void **state)
{
	struct reth anywhere = {12345, script.key, 99};

	(void)state;
	script_send_read(&script, 0, 0, 10);
	script_send_write(&script, OPCODE_RC_WRITE_ONLY, 1, 5, 5);
	peer_flushes(2, global_range, reth_of(0, 5));
	peer_flushes(3, (struct feth){FETH_PLACEMENT_GLOBAL, FETH_SELECT_REGION}, anywhere);
	script_expect(&script, OPCODE_RC_READ_RESPONSE_ONLY, 0);
	expect_answer(2);
	expect_answer(3);
	assert_int_equal(script_counter(&script, COUNTER_rdma_flushes), 2);
	peer_flushes(3, (struct feth){FETH_PLACEMENT_GLOBAL, FETH_SELECT_REGION}, anywhere);
	expect_answer(3);
	assert_int_equal(script_counter(&script, COUNTER_rdma_flushes), 2);
}

static void flush_that_makes_no_sense_is_invalid(void **state)
{
	static const struct feth bad[] = {
		{0, FETH_SELECT_RANGE}, {FETH_PLACEMENT_GLOBAL, 2}, {FETH_PLACEMENT_GLOBAL, 3}};

	(void)state;
	for (uint32_t i = 0; i < 3; i++) {
		restart(NULL);
		peer_flushes(0, bad[i], reth_of(0, 5));
		expect_refusal(AETH_NAK_INVALID_REQUEST);
	}
}

static void flush_needs_key_range_and_right(void **state)
{
	struct mr_region plain = {SCRIPT_PD, MR_LOCAL_WRITE | MR_REMOTE_ANY, 0, 100, &script};
	struct reth reth = {0, 0, 10};

	(void)state;
	peer_flushes(0, global_range, reth_of(SCRIPT_MEMORY_BYTES - 4, 5));
	expect_refusal(AETH_NAK_REMOTE_ACCESS);
	restart(NULL);
	assert_int_equal(mr_table_add(&script.mrs, &plain, 0, &reth.rkey), 0);
	peer_flushes(0, global_range, reth);
	expect_refusal(AETH_NAK_REMOTE_ACCESS);
	restart(NULL);
	assert_int_equal(mr_table_add(&script.mrs, &plain, 0, &reth.rkey), 0);
	peer_flushes(0, (struct feth){FETH_PLACEMENT_GLOBAL, FETH_SELECT_REGION}, reth);
	expect_refusal(AETH_NAK_REMOTE_ACCESS);
	restart(&(struct script_options){.access = MR_REMOTE_ANY});
	peer_flushes(0, global_range, reth_of(0, 5));
	expect_refusal(AETH_NAK_INVALID_REQUEST);
}

static void flush_to_persistence_is_not_promised(void **state)
{
	(void)state;
	for (uint8_t with_global = 0; with_global < 2; with_global++) {
		restart(NULL);
		peer_flushes(0,
			(struct feth){FETH_PLACEMENT_PERSISTENT | with_global, FETH_SELECT_RANGE},
			reth_of(0, 5));
		expect_refusal(AETH_NAK_REMOTE_ACCESS);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(atomic_write_carries_eight_bytes_and_awaits_its_answer),
		TEST(atomic_write_of_another_length_fails_locally),
		TEST(atomic_write_may_be_inline),
		TEST(flush_names_what_and_how),
		TEST(annex_requests_count_against_max_rd_atomic),
		TEST(annex_requests_hold_back_a_fenced_one),
		TEST(annex_answer_with_data_fails_the_request),
		TEST(annex_answer_of_another_kind_is_ignored),
		TEST(atomic_write_is_placed_as_it_came_and_answered),
		TEST(atomic_write_again_is_answered_not_executed),
		TEST(atomic_write_that_is_misaligned_or_of_another_length_is_invalid),
		TEST(atomic_write_is_aligned_as_the_peer_counts),
		TEST(atomic_write_needs_key_range_and_right),
		TEST(annex_requests_need_a_place_to_be_remembered),
		TEST(flush_of_a_range_or_region_is_answered_after_what_is_before_it),
		TEST(flush_that_makes_no_sense_is_invalid),
		TEST(flush_needs_key_range_and_right),
		TEST(flush_to_persistence_is_not_promised),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
