/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Guards against guessing: a stranger sends packets with the peer's address, and does not know the
 * peer's source port or the numbers.
 */
#include <string.h>

#include "support/rc_script.h"

enum {
	PEER_PORT = 0xc123,
	STRANGER_PORT = 0xc124,
	FAR = GUARD_PSN_DISTANCE + 1000,
	MTU = SCRIPT_MTU_BYTES,
};

#define SECOND_NS 1000000000ull

static int setup_uc(void **state)
{
	static const struct script_options options = {.type = QP_TYPE_UC};

	(void)state;
	script_start(&script, &options);
	return 0;
}

/* One message there and back: the queue pair knows the peer's port from now on. */
static void acquaint(void)
{
	script_post(&script, WR_SEND, 1, SEND_SIGNALED);
	script_drain(&script);
	script_send_ack(&script, 0, 1, SCRIPT_UNLIMITED);
	script_expect_completion(&script, 0, WC_SUCCESS);
	script_post(&script, WR_RDMA_WRITE, 1, SEND_SIGNALED);
	script_drain(&script);
}

/* Acknowledgements of what was never sent. */
static void stranger_tries(uint32_t count)
{
	script.remote_port = STRANGER_PORT;
	for (uint32_t i = 0; i < count; i++)
		script_send_nak(&script, FAR + 64 * i, AETH_NAK_REMOTE_ACCESS);
	script.remote_port = PEER_PORT;
}

static void stranger_hits(void)
{
	script.remote_port = STRANGER_PORT;
	script_send_nak(&script, 1, AETH_NAK_REMOTE_ACCESS);
	script.remote_port = PEER_PORT;
}

static void expect_peer_is_believed(void)
{
	script_send_ack(&script, 1, 2, SCRIPT_UNLIMITED);
	script_expect_completion(&script, 1, WC_SUCCESS);
}

static void sweep_of_naks_ends_no_connection(void **state)
{
	(void)state;
	acquaint();
	stranger_tries(1000);
	stranger_hits();
	assert_int_equal(script.qp->state, QP_RTS);
	script_expect_no_completion(&script);
	/* Of those that came while the guard was up, none was looked at. */
	assert_int_equal(script_counter(&script, COUNTER_invalid_responses), GUARD_TRIES);
	assert_int_equal(script_counter(&script, COUNTER_guarded_drops), 1001 - GUARD_TRIES);
	expect_peer_is_believed();
}

/* A peer may change its port while no stranger tries numbers. */
static void port_does_not_matter_without_tries(void **state)
{
	(void)state;
	acquaint();
	script.remote_port = STRANGER_PORT;
	expect_peer_is_believed();
	assert_int_equal(script_counter(&script, COUNTER_guarded_drops), 0);
}

static void allowance_grows_back(void **state)
{
	(void)state;
	acquaint();
	stranger_tries(1000);
	script_pass(&script, SECOND_NS);
	script_drain(&script);
	script.remote_port = STRANGER_PORT;
	expect_peer_is_believed();
}

/* Eight tries and one a second: so many are looked at, however many there are. */
static void tries_are_limited_whatever_their_rate(void **state)
{
	enum { SECONDS = 50 };

	(void)state;
	acquaint();
	for (uint32_t i = 0; i < SECONDS; i++) {
		stranger_tries(100);
		script_pass(&script, SECOND_NS);
		script_drain(&script);
		if (script.qp->state == QP_ERR)
			break; /* the retries are over */
	}
	assert_in_range(
		script_counter(&script, COUNTER_invalid_responses), 1, GUARD_TRIES + SECONDS);
}

static void response_from_the_peers_port_needs_a_possible_msn(void **state)
{
	struct packet packet;

	(void)state;
	acquaint();
	stranger_tries(1000);
	packet = script_packet(&script, OPCODE_RC_ACKNOWLEDGE, 1);
	for (uint32_t msn = 3; msn < 100; msn++) {
		packet.aeth = (struct aeth){AETH_NAK, AETH_NAK_INVALID_REQUEST, msn_from(msn)};
		script_send(&script, &packet);
	}
	assert_int_equal(script.qp->state, QP_RTS);
	script_expect_no_completion(&script);
	expect_peer_is_believed();
}

/* The packets may be late ones of the queue pair's previous connection. */
static void requests_far_off_are_not_answered(void **state)
{
	(void)state;
	acquaint();
	script_post_receive(&script, 16);
	script_send_data(&script, OPCODE_RC_SEND_ONLY, FAR, 4);
	script_expect_silence(&script);
	script_send_data(&script, OPCODE_RC_SEND_ONLY, GUARD_PSN_DISTANCE, 4);
	script_expect_nak(&script, 0, AETH_NAK_PSN_SEQUENCE);
	script_send_data(&script, OPCODE_RC_SEND_ONLY, 0, 4);
	script_expect_ack(&script, 0, 1);
	for (uint32_t i = 1; i < 100; i++)
		script_send_data(&script, OPCODE_RC_SEND_ONLY, i % 2 ? FAR + i : -(FAR + i), 4);
	script_drain(&script);
	script_post_receive(&script, 16);
	script_send_data(&script, OPCODE_RC_SEND_ONLY, 1, 4);
	script_expect_ack(&script, 1, 2);
	script_send_data(&script, OPCODE_RC_SEND_ONLY, FAR, 4);
	script_send_data(&script, OPCODE_RC_SEND_ONLY, (uint32_t)-FAR, 4);
	script_expect_silence(&script);
}

/* An attacker tries all PSNs, and at last sends a request with the expected one. */
static void sweep_of_requests_executes_none(void **state)
{
	(void)state;
	acquaint();
	script_post_receive(&script, 16);
	script.remote_port = STRANGER_PORT;
	for (uint32_t i = 0; i < GUARD_TRIES; i++)
		script_send_data(&script, OPCODE_RC_SEND_ONLY, FAR + i, 4);
	script_drain(&script);
	script_send_data(&script, OPCODE_RC_SEND_ONLY, 0, 4);
	script_expect_no_completion(&script);
	script.remote_port = PEER_PORT;
	script_send_data(&script, OPCODE_RC_SEND_ONLY, 0, 4);
	script_expect_completion(&script, 1000, WC_SUCCESS);
}

/* Tries at numbers that no queue pair has count for the peer whose address they have. */
static void tries_at_queue_pair_numbers_count_for_the_peer(void **state)
{
	uint32_t qpn = script.qp->qpn;
	struct packet packet;

	(void)state;
	acquaint();
	script.remote_port = STRANGER_PORT;
	packet = script_packet(&script, OPCODE_RC_SEND_ONLY, 0);
	packet_set_payload(&packet, NULL, 4);
	for (uint32_t i = 1; i <= GUARD_PEER_TRIES; i++) {
		packet.bth.dest_qpn = qpn_from(qpn ^ i);
		script_send(&script, &packet);
	}
	stranger_hits();
	assert_int_equal(script.qp->state, QP_RTS);
	assert_int_equal(script_counter(&script, COUNTER_guarded_drops), 1);
	expect_peer_is_believed();
}

/* --- keys --- */

static uint32_t key_of_another_region(void)
{
	struct mr_region region = {
		.pd = SCRIPT_PD,
		.access = MR_LOCAL_WRITE | MR_REMOTE_WRITE,
		.iova = (uintptr_t)script.memory,
		.bytes = SCRIPT_MEMORY_BYTES,
		.address = script.memory,
	};
	uint32_t key;

	assert_int_equal(mr_table_add(&script.mrs, &region, 1, &key), 0);
	return key;
}

/* A WRITE of `bytes` by a UC peer, or a stranger; its first byte is `value`. */
static void write_with(uint32_t key, uint32_t bytes, uint8_t value)
{
	static uint32_t index;
	const uint8_t payload[4] = {value};
	struct packet packet = script_packet(&script, OPCODE_UC_WRITE_ONLY, index++);

	packet_set_payload(&packet, payload, bytes);
	packet.reth = (struct reth){(uintptr_t)script.memory, key, bytes};
	script_send(&script, &packet);
}

static void tries_at_keys(uint32_t count)
{
	for (uint32_t i = 1; i <= count; i++)
		write_with(script.key ^ i << 8, 4, 0xee);
}

static void sweep_of_keys_reaches_none(void **state)
{
	uint32_t other = key_of_another_region();

	(void)state;
	write_with(script.key, 4, 1);
	assert_int_equal(script.memory[0], 1);
	tries_at_keys(1000);
	write_with(other, 4, 2); /* the right key, by chance */
	assert_int_equal(script.memory[0], 1);
	assert_int_equal(script_counter(&script, COUNTER_resp_remote_access_errors), GUARD_TRIES);
	assert_int_equal(script_counter(&script, COUNTER_guarded_keys), 1001 - GUARD_TRIES);
	write_with(script.key, 4, 3); /* the peer goes on */
	assert_int_equal(script.memory[0], 3);
	script_pass(&script, SECOND_NS);
	write_with(other, 4, 4);
	assert_int_equal(script.memory[0], 4);
}

/* A WRITE of nothing is executed with any key, and says nothing for it. */
static void write_of_nothing_proves_no_key(void **state)
{
	uint32_t other = key_of_another_region();

	(void)state;
	write_with(script.key, 4, 1);
	write_with(other, 0, 0);
	tries_at_keys(100);
	write_with(other, 4, 2);
	assert_int_equal(script.memory[0], 1);
}

/* A stranger who does not know the peer's port does not disturb the peer. */
static void stranger_does_not_use_up_the_peers_tries_at_keys(void **state)
{
	uint32_t other = key_of_another_region();

	(void)state;
	write_with(script.key, 4, 1);
	script.remote_port = STRANGER_PORT;
	tries_at_keys(1000);
	write_with(script.key, 4, 2);
	assert_int_equal(script.memory[0], 1);
	script.remote_port = PEER_PORT;
	write_with(other, 4, 3);
	assert_int_equal(script.memory[0], 3);
}

#define TEST_UC(name) cmocka_unit_test_setup_teardown(name, setup_uc, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(sweep_of_naks_ends_no_connection),
		TEST(port_does_not_matter_without_tries),
		TEST(allowance_grows_back),
		TEST(tries_are_limited_whatever_their_rate),
		TEST(response_from_the_peers_port_needs_a_possible_msn),
		TEST(requests_far_off_are_not_answered),
		TEST(sweep_of_requests_executes_none),
		TEST(tries_at_queue_pair_numbers_count_for_the_peer),
		TEST_UC(sweep_of_keys_reaches_none),
		TEST_UC(write_of_nothing_proves_no_key),
		TEST_UC(stranger_does_not_use_up_the_peers_tries_at_keys),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
