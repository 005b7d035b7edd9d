/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Extended reliable connections, one half at a time, against a scripted peer. The tests of reliable
 * connections cover the common part. This file tests the differences: opcodes, the number of the
 * shared receive queue, its domain and completion queue, and queues that are created and destroyed.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "ib/rc/rc.h"
#include "support/script.h"
#include "wire/credit.h"

enum { OTHER_PD = SCRIPT_PD + 1, OTHER_SRQN = SCRIPT_SRQN + 1 };

static struct script script;
static struct srq
	other; /* a second queue, of the domain OTHER_PD, with a completion queue of its own */
static struct cq other_cq;
static uint32_t other_key; /* of the same memory in OTHER_PD */

static void other_make(uint32_t xrcd)
{
	struct srq_init init = {
		.number = OTHER_SRQN,
		.pd = OTHER_PD,
		.xrcd = xrcd,
		.cq = &other_cq,
		.depth = 8,
		.sge_count_max = 1,
	};
	struct mr_region region = {OTHER_PD, MR_LOCAL_WRITE | MR_REMOTE_ANY,
		(uintptr_t)script.memory, SCRIPT_MEMORY_BYTES, script.memory};

	assert_int_equal(cq_init(&other_cq, &script.arena, 16), 0);
	assert_int_equal(srq_init(&other, &script.arena, &init), 0);
	srq_table_add(script.srqs, &other);
	assert_int_equal(mr_table_add(&script.mrs, &region, 0, &other_key), 0);
}

/* As the runtime does it. */
static void srq_unmake(struct srq *srq)
{
	srq_table_remove(script.srqs, srq);
	engine_srq_forget(&script.lane, srq);
	srq_done(srq, &script.arena);
}

static int setup_target(void **state)
{
	static const struct script_options options = {.type = QP_TYPE_XRC_RECV};

	(void)state;
	script_start(&script, &options);
	return 0;
}

static int setup_initiator(void **state)
{
	static const struct script_options options = {.type = QP_TYPE_XRC_SEND};

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

static void post_other(uint64_t wr_id, uint32_t bytes)
{
	struct sge sge = {(uintptr_t)script.memory, bytes, other_key};
	struct recv_wr wr = {wr_id, &sge, 1};

	assert_int_equal(srq_post(&other, &wr), 0);
}

static void expect_invalid(uint32_t index)
{
	script_expect_nak(&script, index, AETH_NAK_INVALID_REQUEST);
	assert_int_equal(script.qp->state, QP_ERR);
}

/*
 * --- the sending half ---
 */

static void xrc_requests_name_the_shared_receive_queue(void **state)
{
	static const struct {
		enum wr_opcode wr;
		enum opcode opcode;
		uint32_t bytes;
	} requests[] = {
		{WR_SEND, OPCODE_RC_SEND_ONLY, 10},
		{WR_SEND_WITH_IMM, OPCODE_RC_SEND_ONLY_IMM, 10},
		{WR_RDMA_WRITE, OPCODE_RC_WRITE_ONLY, 10},
		{WR_RDMA_WRITE_WITH_IMM, OPCODE_RC_WRITE_ONLY_IMM, 10},
		{WR_RDMA_READ, OPCODE_RC_READ_REQUEST, 10},
		{WR_ATOMIC_CMP_AND_SWP, OPCODE_RC_COMPARE_SWAP, 8},
		{WR_ATOMIC_FETCH_AND_ADD, OPCODE_RC_FETCH_ADD, 8},
		{WR_ATOMIC_WRITE, OPCODE_RC_ATOMIC_WRITE, 8},
	};

	(void)state;
	for (uint32_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
		script.srqn = 0x010203 + i;
		script_post(&script, requests[i].wr, requests[i].bytes, SEND_SIGNALED);
		const struct packet *packet = script_expect(&script, requests[i].opcode, 0);
		assert_int_equal(opcode_class(packet->info), OPCODE_CLASS_XRC);
		assert_int_equal(packet->xrceth.srqn, 0x010203 + i);
		teardown(state);
		setup_initiator(state);
	}
}

static void xrc_every_packet_of_a_message_names_the_queue(void **state)
{
	(void)state;
	script_post(&script, WR_SEND, 2 * SCRIPT_MTU_BYTES + 1, SEND_SIGNALED);
	assert_int_equal(script_expect(&script, OPCODE_RC_SEND_FIRST, 0)->xrceth.srqn, SCRIPT_SRQN);
	assert_int_equal(
		script_expect(&script, OPCODE_RC_SEND_MIDDLE, 1)->xrceth.srqn, SCRIPT_SRQN);
	assert_int_equal(script_expect(&script, OPCODE_RC_SEND_LAST, 2)->xrceth.srqn, SCRIPT_SRQN);
	script_send_ack(&script, 2, 1, SCRIPT_UNLIMITED);
	script_expect_completion(&script, 0, WC_SUCCESS);
}

static void xrc_initiator_takes_its_own_class_of_responses_only(void **state)
{
	struct packet packet;

	(void)state;
	script_post(&script, WR_SEND, 10, SEND_SIGNALED);
	script_expect(&script, OPCODE_RC_SEND_ONLY, 0);
	packet = script_packet(&script, OPCODE_RC_ACKNOWLEDGE, 0);
	packet_init(&packet, OPCODE_RC_ACKNOWLEDGE);
	packet.bth.dest_qpn = qpn_from(script.qp->qpn);
	packet.bth.psn = script_sent_psn(0);
	packet.aeth = (struct aeth){AETH_ACK, SCRIPT_UNLIMITED, {1}};
	script_send(&script, &packet);
	script_expect_no_completion(&script);
	assert_int_equal(script_counter(&script, COUNTER_bad_state_drops), 1);
}

static void xrc_initiator_executes_no_requests(void **state)
{
	(void)state;
	script_send_data(&script, OPCODE_RC_SEND_ONLY, 0, 10);
	script_send_write(&script, OPCODE_RC_WRITE_ONLY, 0, 10, 10);
	script_expect_silence(&script);
	script_expect_no_completion(&script);
	assert_int_equal(script_counter(&script, COUNTER_bad_state_drops), 2);
}

static void xrc_initiator_has_no_receive_queue(void **state)
{
	struct recv_wr wr = {0};

	(void)state;
	assert_int_equal(qp_post_recv(script.qp, &wr), -EINVAL);
	assert_int_equal(qp_modify(script.qp, QP_ERR, ATTR_STATE, NULL, script.now_ns), 0);
}

/*
 * --- the receiving half ---
 */

static void xrc_send_completes_in_the_queue_of_the_shared_receive_queue(void **state)
{
	struct cqe cqe;

	(void)state;
	other_make(SCRIPT_XRCD);
	script_post_receive(&script, 100);
	post_other(7, 100);
	script_send_data(&script, OPCODE_RC_SEND_ONLY, 0, 5);
	script.srqn = OTHER_SRQN;
	script_send_data(&script, OPCODE_RC_SEND_ONLY_IMM, 1, 6);

	cqe = script_completion(&script);
	assert_int_equal(cqe.wr_id, 1000);
	assert_int_equal(cqe.qpn, script.qp->qpn);
	assert_int_equal(cqe.byte_count, 5);
	script_expect_no_completion(&script);
	assert_int_equal(cq_poll(&other_cq, &script.arena, 1, &cqe), 1);
	assert_int_equal(cqe.wr_id, 7);
	assert_int_equal(cqe.qpn, script.qp->qpn);
	assert_int_equal(cqe.byte_count, 6);
	assert_int_equal(cqe.flags, WC_WITH_IMM);
	script_expect_ack(&script, 1, 2);
	assert_int_equal(script.packet.aeth.value, CREDIT_CODE_UNLIMITED);
}

static void xrc_keys_are_of_the_domain_of_the_shared_receive_queue(void **state)
{
	(void)state;
	other_make(SCRIPT_XRCD);
	script_send_write(&script, OPCODE_RC_WRITE_ONLY, 0, 10, 10);
	script_send_atomic(&script, OPCODE_RC_FETCH_ADD, 1, 64, 1, 0);
	script_drain(&script);
	/* The other queue's keys with this queue's number. */
	script.key = other_key;
	script_send_write(&script, OPCODE_RC_WRITE_ONLY, 2, 10, 10);
	script_expect_nak(&script, 2, AETH_NAK_REMOTE_ACCESS);
}

static void xrc_read_goes_on_in_the_domain_it_began_in(void **state)
{
	(void)state;
	other_make(SCRIPT_XRCD);
	post_other(1, 10);
	script_send_read(&script, 0, 0, 2 * SCRIPT_MTU_BYTES);
	script_expect(&script, OPCODE_RC_READ_RESPONSE_FIRST, 0);
	script.srqn = OTHER_SRQN;
	script_send_data(&script, OPCODE_RC_SEND_ONLY, 2, 5);
	script_expect(&script, OPCODE_RC_READ_RESPONSE_LAST, 1);
	script_expect_ack(&script, 2, 2);
}

static void xrc_number_that_is_none_is_an_invalid_request(void **state)
{
	(void)state;
	script_post_receive(&script, 100);
	script.srqn = OTHER_SRQN;
	script_send_data(&script, OPCODE_RC_SEND_ONLY, 0, 5);
	expect_invalid(0);
	script_expect_no_completion(&script);
	assert_int_equal(rq_count(script.srq.rq), 1);
}

static void xrc_write_needs_the_number_too(void **state)
{
	(void)state;
	script.srqn = OTHER_SRQN;
	script_send_write(&script, OPCODE_RC_WRITE_ONLY, 0, 10, 10);
	expect_invalid(0);
	for (uint32_t i = 0; i < 10; i++)
		assert_int_equal(script.memory[i], i);
}

static void xrc_queue_of_another_domain_is_an_invalid_request(void **state)
{
	(void)state;
	other_make(SCRIPT_XRCD + 1);
	post_other(1, 10);
	script.srqn = OTHER_SRQN;
	script_send_data(&script, OPCODE_RC_SEND_ONLY, 0, 5);
	expect_invalid(0);
	assert_int_equal(rq_count(other.rq), 1);
}

static void xrc_queue_that_is_no_xrc_queue_is_an_invalid_request(void **state)
{
	(void)state;
	other_make(0);
	post_other(1, 10);
	script.srqn = OTHER_SRQN;
	script_send_data(&script, OPCODE_RC_SEND_ONLY, 0, 5);
	expect_invalid(0);
}

static void xrc_message_stays_with_its_queue(void **state)
{
	(void)state;
	other_make(SCRIPT_XRCD);
	script_post_receive(&script, 1000);
	script_send_data(&script, OPCODE_RC_SEND_FIRST, 0, SCRIPT_MTU_BYTES);
	script.srqn = OTHER_SRQN;
	script_send_data(&script, OPCODE_RC_SEND_LAST, 1, 5);
	expect_invalid(1);
	script_expect_completion(&script, 1000, WC_REM_ABORT_ERR);
	assert_true(cq_is_empty(&other_cq));
}

static void xrc_duplicate_for_another_queue_is_acknowledged(void **state)
{
	(void)state;
	other_make(SCRIPT_XRCD);
	script_post_receive(&script, 1000);
	post_other(1, 10);
	script.srqn = OTHER_SRQN;
	script_send_data(&script, OPCODE_RC_SEND_ONLY, 0, 5);
	script.srqn = SCRIPT_SRQN;
	script_send_data(&script, OPCODE_RC_SEND_FIRST, 1, SCRIPT_MTU_BYTES);
	script_drain(&script);
	script.srqn = OTHER_SRQN;
	script_send_data(&script, OPCODE_RC_SEND_ONLY, 0, 5); /* again */
	script_expect_ack(&script, 1, 1);
	script.srqn = SCRIPT_SRQN;
	script_send_data(&script, OPCODE_RC_SEND_LAST, 2, 5);
	script_expect_completion(&script, 1000, WC_SUCCESS);
}

static void xrc_empty_queue_is_not_ready(void **state)
{
	(void)state;
	script_send_data(&script, OPCODE_RC_SEND_ONLY, 0, 5);
	script_expect_rnr(&script, 0);
	script_post_receive(&script, 10);
	script_send_data(&script, OPCODE_RC_SEND_ONLY, 0, 5);
	script_expect_completion(&script, 1000, WC_SUCCESS);
}

static void xrc_target_takes_its_own_class_of_requests_only(void **state)
{
	struct packet packet;

	(void)state;
	script_post_receive(&script, 10);
	packet_init(&packet, OPCODE_RC_SEND_ONLY);
	packet.bth.dest_qpn = qpn_from(script.qp->qpn);
	packet.bth.psn = script_received_psn(0);
	packet_set_payload(&packet, NULL, 5);
	script_send(&script, &packet);
	script_expect_silence(&script);
	script_expect_no_completion(&script);
	assert_int_equal(script_counter(&script, COUNTER_bad_state_drops), 1);
}

static void xrc_target_has_no_queues(void **state)
{
	struct send_wr send = {.opcode = WR_SEND};
	struct recv_wr recv = {0};

	(void)state;
	assert_int_equal(qp_post_send(script.qp, &send), -EINVAL);
	assert_int_equal(qp_post_recv(script.qp, &recv), -EINVAL);
	script_send_ack(&script, 0, 0, 0);
	assert_int_equal(script_counter(&script, COUNTER_bad_state_drops), 1);
}

/*
 * --- queues that go ---
 */

static void xrc_queue_that_went_is_an_invalid_request(void **state)
{
	(void)state;
	other_make(SCRIPT_XRCD);
	post_other(1, 10);
	script.srqn = OTHER_SRQN;
	script_send_data(&script, OPCODE_RC_SEND_ONLY, 0, 5);
	script_drain(&script);
	srq_unmake(&other);
	script_send_data(&script, OPCODE_RC_SEND_ONLY, 1, 5);
	expect_invalid(1);
}

static void xrc_queue_that_went_in_mid_message_completes_nothing(void **state)
{
	(void)state;
	other_make(SCRIPT_XRCD);
	post_other(1, 1000);
	script.srqn = OTHER_SRQN;
	script_send_data(&script, OPCODE_RC_SEND_FIRST, 0, SCRIPT_MTU_BYTES);
	srq_unmake(&other);
	assert_null(script.qp->srq);
	/* One of the same number is another queue. */
	other_make(SCRIPT_XRCD);
	post_other(2, 1000);
	script_send_data(&script, OPCODE_RC_SEND_LAST, 1, 5);
	expect_invalid(1);
	assert_true(cq_is_empty(&other_cq));
	assert_int_equal(rq_count(other.rq), 1);
}

static void xrc_queue_that_went_leaves_answers_pending(void **state)
{
	(void)state;
	other_make(SCRIPT_XRCD);
	post_other(1, 10);
	script.srqn = OTHER_SRQN;
	script_send_data(&script, OPCODE_RC_SEND_ONLY, 0, 5);
	srq_unmake(&other);
	script_expect_ack(&script, 0, 1);
	assert_int_equal(qp_modify(script.qp, QP_ERR, ATTR_STATE, NULL, script.now_ns), 0);
}

#define TARGET(name)    cmocka_unit_test_setup_teardown(name, setup_target, teardown)
#define INITIATOR(name) cmocka_unit_test_setup_teardown(name, setup_initiator, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		INITIATOR(xrc_requests_name_the_shared_receive_queue),
		INITIATOR(xrc_every_packet_of_a_message_names_the_queue),
		INITIATOR(xrc_initiator_takes_its_own_class_of_responses_only),
		INITIATOR(xrc_initiator_executes_no_requests),
		INITIATOR(xrc_initiator_has_no_receive_queue),
		TARGET(xrc_send_completes_in_the_queue_of_the_shared_receive_queue),
		TARGET(xrc_keys_are_of_the_domain_of_the_shared_receive_queue),
		TARGET(xrc_read_goes_on_in_the_domain_it_began_in),
		TARGET(xrc_number_that_is_none_is_an_invalid_request),
		TARGET(xrc_write_needs_the_number_too),
		TARGET(xrc_queue_of_another_domain_is_an_invalid_request),
		TARGET(xrc_queue_that_is_no_xrc_queue_is_an_invalid_request),
		TARGET(xrc_message_stays_with_its_queue),
		TARGET(xrc_duplicate_for_another_queue_is_acknowledged),
		TARGET(xrc_empty_queue_is_not_ready),
		TARGET(xrc_target_takes_its_own_class_of_requests_only),
		TARGET(xrc_target_has_no_queues),
		TARGET(xrc_queue_that_went_is_an_invalid_request),
		TARGET(xrc_queue_that_went_in_mid_message_completes_nothing),
		TARGET(xrc_queue_that_went_leaves_answers_pending),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
