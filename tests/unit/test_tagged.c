/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tagged messages on the wire: a scripted peer sends them, and answers the READ of a rendezvous.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "queue/tags.h"
#include "support/script.h"
#include "wire/tag_header.h"

enum {
	MTU = SCRIPT_MTU_BYTES,
	TAG = 0x1234,
	PLAIN_AT = 1024, /* where ordinary requests lie in the memory */
	PEER_VA = 0x70000,
	PEER_RKEY = 0x4444,
};

static struct script script;
static uint8_t payload[MTU];

static int setup(void **state)
{
	static const struct script_options options = {.srq_pd = SCRIPT_PD, .tag_count = 4};

	(void)state;
	script_start(&script, &options);
	memset(script.memory, 0, 4096);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	tags_check(script.srq.tags);
	script_end(&script);
	return 0;
}

static void add(uint64_t wr_id, uint64_t tag, uint32_t bytes)
{
	struct sge sge[2] = {{(uintptr_t)script.memory, bytes / 2, script.key},
		{(uintptr_t)script.memory + bytes / 2, bytes - bytes / 2, script.key}};
	struct tag_wr wr = {.operation = TAG_ADD,
		.recv_wr_id = wr_id,
		.tag = tag,
		.mask = ~0ull,
		.sge = sge,
		.sge_count = 2};
	struct cqe cqe;

	assert_int_equal(tags_execute(script.srq.tags, &wr, &cqe), 0);
}

static void post_plain(uint64_t wr_id)
{
	struct sge sge = {(uintptr_t)script.memory + PLAIN_AT, 2048, script.key};
	struct recv_wr wr = {wr_id, &sge, 1};

	assert_int_equal(srq_post(&script.srq, &wr), 0);
}

/* The peer sends a packet of a SEND that begins with this tag header. */
static void send_tagged(enum opcode opcode, uint32_t index, enum tmh_opcode kind, uint32_t bytes)
{
	struct packet packet = script_packet(&script, opcode, index);

	for (uint32_t i = 0; i < MTU; i++)
		payload[i] = (uint8_t)(i + 1);
	if (opcode_begins_message(packet.info)) {
		memset(payload, 0, TMH_BYTES);
		payload[0] = (uint8_t)kind;
		put_be32(payload + 4, 77);
		put_be64(payload + 8, TAG);
	}
	packet_set_payload(&packet, payload, bytes);
	packet.bth.ack_requested = true;
	script_send(&script, &packet);
}

static void send_rendezvous(uint32_t index, uint32_t whole_bytes, uint32_t bytes)
{
	struct packet packet = script_packet(&script, OPCODE_RC_SEND_ONLY, index);

	memset(payload, 0, sizeof(payload));
	payload[0] = TMH_RENDEZVOUS;
	put_be64(payload + 8, TAG);
	put_be64(payload + 16, PEER_VA);
	put_be32(payload + 24, PEER_RKEY);
	put_be32(payload + 28, whole_bytes);
	packet_set_payload(&packet, payload, bytes);
	packet.bth.ack_requested = true;
	script_send(&script, &packet);
}

static struct cqe expect(uint64_t wr_id, uint32_t opcode, uint32_t flags)
{
	struct cqe cqe = script_completion(&script);

	assert_int_equal(cqe.wr_id, wr_id);
	assert_int_equal(cqe.status, WC_SUCCESS);
	assert_int_equal(cqe.opcode, opcode);
	assert_int_equal(cqe.flags, flags);
	if (flags & WC_TM_MATCH) {
		assert_int_equal(cqe_tag(&cqe), TAG);
	}
	return cqe;
}

static void tagged_eager_message_loses_its_header(void **state)
{
	(void)state;
	add(5, TAG, 100);
	post_plain(6);
	send_tagged(OPCODE_RC_SEND_ONLY, 0, TMH_EAGER, 60);
	struct cqe cqe = expect(5, WC_TM_RECV, WC_TM_MATCH | WC_TM_DATA_VALID);
	assert_int_equal(cqe.byte_count, 60 - TMH_BYTES);
	assert_int_equal(cqe.tag_context, 77);
	assert_memory_equal(script.memory, payload + TMH_BYTES, 60 - TMH_BYTES);
	script_expect_ack(&script, 0, 1);
	script_expect_no_completion(&script);
}

static void tagged_eager_message_of_many_packets_is_told_twice(void **state)
{
	(void)state;
	add(5, TAG, 2 * MTU);
	send_tagged(OPCODE_RC_SEND_FIRST, 0, TMH_EAGER, MTU);
	expect(5, WC_TM_RECV, WC_TM_MATCH);
	send_tagged(OPCODE_RC_SEND_LAST, 1, TMH_EAGER, 44);
	struct cqe cqe = expect(5, WC_TM_RECV, WC_TM_DATA_VALID);
	assert_int_equal(cqe.byte_count, MTU - TMH_BYTES + 44);
	assert_int_equal(script.memory[MTU - TMH_BYTES], 1);
	assert_int_equal(script.memory[MTU - TMH_BYTES + 43], 44);
	assert_int_equal(script.memory[MTU - TMH_BYTES + 44], 0);
}

static void tagged_message_without_a_buffer_comes_whole(void **state)
{
	(void)state;
	add(5, TAG + 1, 100);
	post_plain(6);
	send_tagged(OPCODE_RC_SEND_ONLY, 0, TMH_EAGER, 60);
	struct cqe cqe = expect(6, WC_TM_RECV, 0);
	assert_int_equal(cqe.byte_count, 60);
	assert_memory_equal(script.memory + PLAIN_AT, payload, 60);
	script_expect_ack(&script, 0, 1);
	send_tagged(OPCODE_RC_SEND_ONLY, 1, TMH_EAGER, 60);
	script_expect_rnr(&script, 1);
}

static void tagged_message_without_a_tag_is_the_programs(void **state)
{
	(void)state;
	add(5, TAG, 100);
	post_plain(6);
	post_plain(7);
	post_plain(8);
	send_tagged(OPCODE_RC_SEND_ONLY, 0, TMH_NO_TAG, 60);
	expect(6, WC_TM_NO_TAG, 0);
	send_tagged(OPCODE_RC_SEND_ONLY, 1, TMH_EAGER, TMH_BYTES - 1);
	expect(7, WC_TM_NO_TAG, 0);
	send_tagged(OPCODE_RC_SEND_ONLY, 2, TMH_FINISHED, 32);
	expect(8, WC_TM_NO_TAG, 0);
	/* None of them counts as unexpected: what is added is active. */
	add(9, TAG, 100);
	send_tagged(OPCODE_RC_SEND_ONLY, 3, TMH_EAGER, 60);
	expect(5, WC_TM_RECV, WC_TM_MATCH | WC_TM_DATA_VALID);
	send_tagged(OPCODE_RC_SEND_ONLY, 4, TMH_EAGER, 60);
	expect(9, WC_TM_RECV, WC_TM_MATCH | WC_TM_DATA_VALID);
}

static void tagged_message_longer_than_its_buffer_fails_the_connection(void **state)
{
	(void)state;
	add(5, TAG, 43);
	send_tagged(OPCODE_RC_SEND_ONLY, 0, TMH_EAGER, 60);
	script_expect_completion(&script, 5, WC_LOC_LEN_ERR);
	script_expect_nak(&script, 0, AETH_NAK_INVALID_REQUEST);
	assert_int_equal(script.qp->state, QP_ERR);
	assert_int_equal(script.memory[0], 0);
}

static void tagged_rendezvous_is_read_and_finished(void **state)
{
	const struct packet *packet;

	(void)state;
	add(5, TAG, 200);
	send_rendezvous(0, 150, 40);
	expect(5, WC_TM_RECV, WC_TM_MATCH);
	script_expect_ack(&script, 0, 1);
	packet = script_expect(&script, OPCODE_RC_READ_REQUEST, 0);
	assert_int_equal(packet->reth.va, PEER_VA);
	assert_int_equal(packet->reth.rkey, PEER_RKEY);
	assert_int_equal(packet->reth.dma_bytes, 150);
	script_expect_silence(&script);
	script_expect_no_completion(&script);
	script_send_response(&script, OPCODE_RC_READ_RESPONSE_ONLY, 0, 150);
	struct cqe cqe = expect(5, WC_TM_RECV, WC_TM_DATA_VALID);
	assert_int_equal(cqe.byte_count, 150);
	assert_int_equal((uint8_t)(script.memory[149] - script.memory[0]), 149);
	assert_int_equal(script.memory[150], 0);
	packet = script_expect(&script, OPCODE_RC_SEND_ONLY, 1);
	assert_int_equal(packet->payload_bytes, TMH_BYTES + RVH_BYTES);
	assert_int_equal(packet->payload[0], TMH_FINISHED);
	assert_memory_equal(packet->payload + 1, payload + 1, TMH_BYTES + RVH_BYTES - 1);
	script_send_ack(&script, 1, 1, SCRIPT_UNLIMITED);
	script_expect_no_completion(&script);
	assert_int_equal(script.qp->sq->posted, script.qp->sq->completed);
}

static void tagged_rendezvous_longer_than_its_buffer_is_the_programs(void **state)
{
	struct cqe cqe;

	(void)state;
	add(5, TAG, 149);
	send_rendezvous(0, 150, 40);
	cqe = script_completion(&script);
	assert_int_equal(cqe.wr_id, 5);
	assert_int_equal(cqe.status, WC_TM_RNDV_INCOMPLETE);
	assert_int_equal(cqe.fault, FAULT_RENDEZVOUS_TOO_LONG);
	assert_memory_equal(script.memory, payload, TMH_BYTES + RVH_BYTES);
	script_expect_ack(&script, 0, 1);
	script_expect_silence(&script);
	assert_int_equal(script.qp->state, QP_RTS);
}

static void tagged_rendezvous_with_a_long_request_is_unexpected(void **state)
{
	(void)state;
	post_plain(6);
	post_plain(7);
	add(5, TAG, 200);
	send_rendezvous(0, 150, TAGS_RENDEZVOUS_BYTES_MAX + 1);
	expect(6, WC_TM_NO_TAG, 0);
	send_rendezvous(1, 150, TMH_BYTES + RVH_BYTES - 1);
	expect(7, WC_TM_NO_TAG, 0);
}

static void tagged_rendezvous_that_is_refused_completes_its_buffer(void **state)
{
	(void)state;
	add(5, TAG, 200);
	send_rendezvous(0, 150, 32);
	expect(5, WC_TM_RECV, WC_TM_MATCH);
	script_drain(&script);
	script_send_nak(&script, 0, AETH_NAK_REMOTE_ACCESS);
	script_expect_completion(&script, 5, WC_REM_ACCESS_ERR);
	script_expect_no_completion(&script);
	assert_int_equal(script.qp->state, QP_ERR);
}

/* A peer that does not let itself be read from fills the send queue, and then has to wait. */
static void tagged_rendezvous_without_room_to_answer_waits(void **state)
{
	uint32_t index = 0;

	(void)state;
	for (; index < TAGS_SEND_DEPTH / 2; index++) {
		add(index, TAG, 200);
		send_rendezvous(index, 10, 32);
		expect(index, WC_TM_RECV, WC_TM_MATCH);
	}
	add(99, TAG, 200);
	post_plain(6);
	script_drain(&script);
	send_rendezvous(index, 10, 32);
	script_expect_rnr(&script, index);
	script_expect_no_completion(&script);
	/* An eager one needs no answer. */
	send_tagged(OPCODE_RC_SEND_ONLY, index, TMH_EAGER, 60);
	expect(99, WC_TM_RECV, WC_TM_MATCH | WC_TM_DATA_VALID);
}

static void tagged_queue_pair_takes_no_requests_of_the_program(void **state)
{
	struct send_wr wr = {.opcode = WR_SEND};

	(void)state;
	assert_int_not_equal(qp_post_send(script.qp, &wr), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(tagged_eager_message_loses_its_header),
		TEST(tagged_eager_message_of_many_packets_is_told_twice),
		TEST(tagged_message_without_a_buffer_comes_whole),
		TEST(tagged_message_without_a_tag_is_the_programs),
		TEST(tagged_message_longer_than_its_buffer_fails_the_connection),
		TEST(tagged_rendezvous_is_read_and_finished),
		TEST(tagged_rendezvous_longer_than_its_buffer_is_the_programs),
		TEST(tagged_rendezvous_with_a_long_request_is_unexpected),
		TEST(tagged_rendezvous_that_is_refused_completes_its_buffer),
		TEST(tagged_rendezvous_without_room_to_answer_waits),
		TEST(tagged_queue_pair_takes_no_requests_of_the_program),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
