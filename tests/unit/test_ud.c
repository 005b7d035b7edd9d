/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Unreliable datagrams, against a scripted peer.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "engine/multicast.h"
#include "ib/ud/ud.h"
#include "support/script.h"
#include "wire/grh.h"

enum { MTU = SCRIPT_MTU_BYTES };

static struct script script;

static int setup(void **state)
{
	static const struct script_options options = {.type = QP_TYPE_UD};

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

static void expect_dropped(enum counter counter)
{
	script_expect_silence(&script);
	script_expect_no_completion(&script);
	assert_int_equal(script.qp->state, QP_RTS);
	assert_int_equal(script_counter(&script, counter), 1);
}

static void post(uint32_t bytes, const struct datagram_target *target)
{
	struct sge sge = {(uintptr_t)script.memory, bytes, script.key};
	struct send_wr wr = {.opcode = WR_SEND, .datagram = *target, .sge = &sge, .sge_count = 1};
	uint32_t posted;

	assert_int_equal(engine_post_send(script.qp, &wr, 1, &posted, script.now_ns), 0);
}

/*
 * --- sending ---
 */

static void ud_datagram_says_who_sends_and_which_key(void **state)
{
	const struct packet *packet;

	(void)state;
	script_post(&script, WR_SEND_WITH_IMM, 5, SEND_SIGNALED | SEND_SOLICITED);
	packet = script_expect(&script, OPCODE_UD_SEND_ONLY_IMM, 0);
	assert_int_equal(packet->deth.qkey, 0x22222222);
	assert_int_equal(packet->deth.source_qpn.value, script.qp->qpn);
	assert_int_equal(packet->immdt.data, 0x11223344);
	assert_int_equal(packet->payload_bytes, 5);
	assert_memory_equal(packet->payload, script.memory, 5);
	assert_true(packet->bth.is_solicited);
	script_expect_completion(&script, 0, WC_SUCCESS);
	script_post(&script, WR_SEND, 0, 0);
	script_expect(&script, OPCODE_UD_SEND_ONLY, 1);
	script_expect_silence(&script);
}

static void ud_key_with_the_top_bit_stands_for_the_own(void **state)
{
	const struct packet *packet;

	(void)state;
	post(4, &(struct datagram_target){SCRIPT_PATH, SCRIPT_PEER_QPN, 0x80000000, 0});
	packet = script_expect(&script, OPCODE_UD_SEND_ONLY, 0);
	assert_int_equal(packet->deth.qkey, SCRIPT_QKEY);
}

static void ud_request_that_is_no_datagram_fails_in_its_turn(void **state)
{
	static const enum wr_opcode opcodes[] = {WR_RDMA_WRITE, WR_RDMA_WRITE_WITH_IMM,
		WR_RDMA_READ, WR_ATOMIC_CMP_AND_SWP, WR_ATOMIC_FETCH_AND_ADD, WR_SEND_WITH_INV};

	for (size_t i = 0; i < ARRAY_COUNT(opcodes); i++) {
		teardown(state);
		assert_int_equal(setup(state), 0);
		script_post(&script, WR_SEND, 5, SEND_SIGNALED);
		script_post(&script, opcodes[i], 8, SEND_SIGNALED);
		script_expect(&script, OPCODE_UD_SEND_ONLY, 0);
		script_expect_silence(&script);
		script_expect_completion(&script, 0, WC_SUCCESS);
		script_expect_completion(&script, 1, WC_LOC_QP_OP_ERR);
		assert_int_equal(script.qp->state, QP_SQE);
	}
}

static void ud_address_of_another_domain_fails_in_its_turn(void **state)
{
	struct datagram_target target = {DATAGRAM_PATH_DENIED, SCRIPT_PEER_QPN, SCRIPT_QKEY, 0};

	(void)state;
	post(4, &target);
	script_expect_silence(&script);
	script_expect_completion(&script, 0, WC_LOC_QP_OP_ERR);
	assert_int_equal(script.qp->state, QP_SQE);
}

static void ud_each_request_names_its_destination(void **state)
{
	struct packet packet;
	struct packet_run run = {.buffer = script.wire};

	(void)state;
	post(4, &(struct datagram_target){77, 0x654321, 1, 0});
	size_t bytes = engine_next_packet(&script.lane, true, &run, script.now_ns);
	assert_int_equal(packet_decode(&packet, script.wire, bytes), PACKET_OK);
	assert_int_equal(run.path, 77);
	assert_int_equal(packet.bth.dest_qpn.value, 0x654321);
}

/* A packet of 100 bytes: BTH and DETH, UDP, IPv6, ICRC, frame. */
enum { DATAGRAM_BYTES = 100 + 12 + 8 + 8 + 40 + 4 + 18 };

static void ud_static_rate_of_an_address_spaces_what_follows(void **state)
{
	/* A byte per microsecond. */
	struct datagram_target slow = {SCRIPT_PATH, SCRIPT_PEER_QPN, 1, 8000};
	struct datagram_target fast = {SCRIPT_PATH, SCRIPT_PEER_QPN, 1, 0};
	uint64_t start_ns = script.now_ns;
	uint32_t early = PACE_BURST_NS / 1000 / DATAGRAM_BYTES + 1;

	(void)state;
	for (uint32_t i = 0; i < early; i++)
		post(100, &slow);
	post(100, &fast);
	post(100, &fast);
	for (uint32_t i = 0; i < early; i++)
		script_expect(&script, OPCODE_UD_SEND_ONLY, i);
	/* The next datagram waits for the slow ones, and not for the fast one. */
	script_expect_silence(&script);
	engine_check(&script.lane);
	assert_int_equal(engine_deadline_ns(&script.lane),
		start_ns + early * DATAGRAM_BYTES * 1000ull - PACE_BURST_NS);
	script_pass(&script, early * DATAGRAM_BYTES * 1000ull - PACE_BURST_NS - 1);
	script_expect_silence(&script);
	script_pass(&script, 1);
	script_expect(&script, OPCODE_UD_SEND_ONLY, early);
	script_expect(&script, OPCODE_UD_SEND_ONLY, early + 1);
	script_expect_silence(&script);
}

static void ud_static_rate_is_kept_beside_the_limit(void **state)
{
	struct datagram_target slow = {SCRIPT_PATH, SCRIPT_PEER_QPN, 1, 8000};

	(void)state;
	assert_int_equal(qp_set_rate(script.qp, 80000, 1), 0);
	for (int i = 0; i < 10; i++)
		post(100, &slow);
	script_expect(&script, OPCODE_UD_SEND_ONLY, 0);
	script_expect_silence(&script);
	script_pass(&script, DATAGRAM_BYTES * 100);
	script_expect(&script, OPCODE_UD_SEND_ONLY, 1);
	script_expect_silence(&script);
	/* The limit alone would let all of them go in this time. */
	for (int i = 0; i < 100; i++) {
		script_pass(&script, DATAGRAM_BYTES * 20);
		script_drain(&script);
	}
	assert_in_range(script.qp->sq->completed, 7, 9);
}

static void ud_reset_forgets_the_static_rate(void **state)
{
	struct datagram_target slow = {SCRIPT_PATH, SCRIPT_PEER_QPN, 1, 8};

	(void)state;
	post(100, &slow);
	post(100, &slow);
	script_expect(&script, OPCODE_UD_SEND_ONLY, 0);
	script_expect_silence(&script);
	assert_true(engine_deadline_ns(&script.lane) != DEADLINE_NEVER);
	qp_set_state(script.qp, QP_RESET, script.now_ns);
	engine_check(&script.lane);
	assert_true(engine_deadline_ns(&script.lane) == DEADLINE_NEVER);
	assert_int_equal(container_of(script.qp, struct ud_qp, qp)->due_ns, 0);
}

static void ud_datagram_of_the_mtu_is_sent_a_longer_one_stops_the_send_queue(void **state)
{
	struct qp_attr attr = {.qkey = 7};

	(void)state;
	script_post(&script, WR_SEND, MTU, SEND_SIGNALED);
	script_expect(&script, OPCODE_UD_SEND_ONLY, 0);
	script_expect_completion(&script, 0, WC_SUCCESS);
	script_post(&script, WR_SEND, MTU + 1, 0);
	script_post(&script, WR_SEND, 1, 0);
	script_expect_silence(&script);
	script_expect_completion(&script, 1, WC_LOC_LEN_ERR);
	script_expect_completion(&script, 2, WC_WR_FLUSH_ERR);
	assert_int_equal(script.qp->state, QP_SQE);
	assert_int_equal(qp_modify(script.qp, QP_RTS, ATTR_STATE | ATTR_QKEY, &attr, 1), 0);
	script_post(&script, WR_SEND, 1, 0);
	script_expect(&script, OPCODE_UD_SEND_ONLY, 1);
}

static void ud_bad_lkey_stops_sending_not_receiving(void **state)
{
	(void)state;
	script_post_receive(&script, GRH_BYTES + 4);
	script.key ^= 0x100;
	script_post(&script, WR_SEND, 8, 0);
	script_expect_silence(&script);
	script_expect_completion(&script, 0, WC_LOC_PROT_ERR);
	assert_int_equal(script.qp->state, QP_SQE);
	script_send_data(&script, OPCODE_UD_SEND_ONLY, 0, 4);
	script_expect_completion(&script, 1000, WC_SUCCESS);
}

/*
 * --- receiving ---
 */

static void ud_datagram_is_placed_behind_its_header(void **state)
{
	struct ip_header grh;

	(void)state;
	script_post_receive(&script, GRH_BYTES + 8);
	script_send_data(&script, OPCODE_UD_SEND_ONLY_IMM, 0, 6);
	struct cqe cqe = script_completion(&script);
	assert_int_equal(cqe.wr_id, 1000);
	assert_int_equal(cqe.status, WC_SUCCESS);
	assert_int_equal(cqe.opcode, WC_RECV);
	assert_int_equal(cqe.byte_count, GRH_BYTES + 6);
	assert_int_equal(cqe.flags, WC_GRH | WC_WITH_IMM);
	assert_int_equal(cqe.imm, 0xabcdef01);
	assert_int_equal(cqe.source_qpn, 0xabcdef);
	assert_int_equal(cqe.service_level, WC_SERVICE_LEVEL_UDP_IPV4);
	assert_int_equal(script.memory[GRH_BYTES], (uint8_t)SCRIPT_RQ_PSN);
	assert_int_equal(script.memory[GRH_BYTES + 6], GRH_BYTES + 6);
	assert_true(grh_decode(&grh, script.memory));
	assert_true(gid_is_equal(&grh.sgid, &script.remote));
	assert_true(gid_is_equal(&grh.dgid, &script.local));
	assert_int_equal(grh.payload_bytes, 8 + 12 + 8 + 4 + 8 + 4); /* UDP to ICRC */
}

static void ud_header_of_an_ipv6_datagram_is_its_ip_header(void **state)
{
	struct ip_header grh;

	(void)state;
	script.local = (struct gid){{0xfd, [15] = 1}};
	script.remote = (struct gid){{0xfd, [15] = 2}};
	script_post_receive(&script, GRH_BYTES + 8);
	script_send_data(&script, OPCODE_UD_SEND_ONLY, 0, 8);
	assert_int_equal(script_completion(&script).service_level, WC_SERVICE_LEVEL_UDP_IPV6);
	assert_int_equal(script.memory[0] >> 4, 6);
	assert_true(grh_decode(&grh, script.memory));
	assert_true(gid_is_equal(&grh.sgid, &script.remote));
}

static void ud_datagrams_come_from_anybody(void **state)
{
	(void)state;
	script_post_receive(&script, GRH_BYTES + 4);
	script_post_receive(&script, GRH_BYTES + 4);
	script_send_data(&script, OPCODE_UD_SEND_ONLY, 5, 4);
	script_expect_completion(&script, 1000, WC_SUCCESS);
	script.remote.raw[14] ^= 1;
	script_send_data(&script, OPCODE_UD_SEND_ONLY, 5, 4);
	script_expect_completion(&script, 1001, WC_SUCCESS);
}

static void ud_datagram_with_another_key_is_dropped(void **state)
{
	struct packet packet = script_packet(&script, OPCODE_UD_SEND_ONLY, 0);

	(void)state;
	script_post_receive(&script, GRH_BYTES + 4);
	packet.deth.qkey ^= 1;
	script_send(&script, &packet);
	expect_dropped(COUNTER_qkey_violations);
	packet.deth.qkey ^= 1;
	script_send(&script, &packet);
	script_expect_completion(&script, 1000, WC_SUCCESS);
}

static void ud_datagram_too_long_for_its_receive_is_dropped_and_the_receive_stays(void **state)
{
	(void)state;
	script_post_receive(&script, GRH_BYTES + 4);
	script_send_data(&script, OPCODE_UD_SEND_ONLY, 0, 5);
	expect_dropped(COUNTER_resp_local_length_error);
	for (uint32_t i = 0; i < 100; i++)
		assert_int_equal(script.memory[i], i);
	script_send_data(&script, OPCODE_UD_SEND_ONLY, 0, 4);
	script_expect_completion(&script, 1000, WC_SUCCESS);
}

static void ud_receive_without_room_for_the_header_takes_nothing(void **state)
{
	(void)state;
	script_post_receive(&script, GRH_BYTES - 1);
	script_send_data(&script, OPCODE_UD_SEND_ONLY, 0, 0);
	expect_dropped(COUNTER_resp_local_length_error);
}

static void ud_without_receive_drops_the_datagram(void **state)
{
	(void)state;
	script_send_data(&script, OPCODE_UD_SEND_ONLY, 0, 4);
	expect_dropped(COUNTER_no_receive_drops);
}

static void ud_receive_with_a_bad_key_fails_the_queue_pair(void **state)
{
	(void)state;
	script_post_receive(&script, GRH_BYTES + 4);
	script_post_receive(&script, GRH_BYTES + 4);
	assert_int_equal(mr_table_remove(&script.mrs, script.key, SCRIPT_PD), 0);
	script_send_data(&script, OPCODE_UD_SEND_ONLY, 0, 4);
	script_expect_completion(&script, 1000, WC_LOC_PROT_ERR);
	script_expect_completion(&script, 1001, WC_WR_FLUSH_ERR);
	assert_int_equal(script.qp->state, QP_ERR);
}

static void ud_receive_that_was_too_short_is_flushed_once(void **state)
{
	(void)state;
	script_post_receive(&script, GRH_BYTES + 4);
	script_post_receive(&script, GRH_BYTES + 4);
	script_send_data(&script, OPCODE_UD_SEND_ONLY, 0, 5);
	qp_set_state(script.qp, QP_ERR, script.now_ns);
	script_expect_completion(&script, 1000, WC_WR_FLUSH_ERR);
	script_expect_completion(&script, 1001, WC_WR_FLUSH_ERR);
	script_expect_no_completion(&script);
	script_send_data(&script, OPCODE_UD_SEND_ONLY, 0, 4);
	script_expect_no_completion(&script);
}

static void ud_packet_of_another_transport_is_dropped(void **state)
{
	(void)state;
	script_post_receive(&script, GRH_BYTES + 4);
	script_send_data(&script, OPCODE_UC_SEND_ONLY, 0, 4);
	expect_dropped(COUNTER_bad_state_drops);
}

static void ud_datagram_to_a_multicast_address_needs_the_multicast_number(void **state)
{
	(void)state;
	script_post_receive(&script, GRH_BYTES + 4);
	script.local = gid_from_ipv4((const uint8_t[]){224, 1, 2, 3});
	script_send_data(&script, OPCODE_UD_SEND_ONLY, 0, 4);
	expect_dropped(COUNTER_bad_address_drops);
}

/* No IP packet is, but who passes packets on from process to process may say so. */
static void ud_datagram_between_two_families_is_dropped(void **state)
{
	(void)state;
	script_post_receive(&script, GRH_BYTES + 4);
	script.local = (struct gid){{0xfd, [15] = 1}};
	script_send_data(&script, OPCODE_UD_SEND_ONLY, 0, 4);
	expect_dropped(COUNTER_bad_address_drops);
}

/*
 * --- multicast ---
 */

static void send_multicast(uint8_t last)
{
	struct packet packet = script_packet(&script, OPCODE_UD_SEND_ONLY, 0);

	script.local = gid_from_ipv4((const uint8_t[]){224, 1, 2, last});
	packet.bth.dest_qpn = QPN_MULTICAST;
	script_send(&script, &packet);
}

static void ud_multicast_reaches_who_is_attached(void **state)
{
	struct gid group = gid_from_ipv4((const uint8_t[]){224, 1, 2, 3});

	(void)state;
	script_post_receive(&script, GRH_BYTES);
	script_post_receive(&script, GRH_BYTES);
	send_multicast(3);
	script_expect_no_completion(&script);
	assert_int_equal(multicast_attach(script.qp, &group, 0), 0);
	send_multicast(3);
	script_expect_completion(&script, 1000, WC_SUCCESS);
	send_multicast(4);
	script_expect_no_completion(&script);
	multicast_detach(script.qp, &group, 0);
	send_multicast(3);
	script_expect_no_completion(&script);
	assert_int_equal(script.lane.public->drops[DROP_unknown_qp], 3);
}

static void ud_multicast_of_another_interface_is_another_group(void **state)
{
	struct gid group = gid_from_ipv4((const uint8_t[]){224, 1, 2, 3});

	(void)state;
	script_post_receive(&script, GRH_BYTES);
	assert_int_equal(multicast_attach(script.qp, &group, 7), 0);
	send_multicast(3);
	script_expect_no_completion(&script);
}

/* Another queue pair of the group may be in the packet's partition. */
static void ud_multicast_of_another_partition_reaches_nobody(void **state)
{
	struct packet packet = script_packet(&script, OPCODE_UD_SEND_ONLY, 0);
	const struct gid group = gid_from_ipv4((const uint8_t[]){224, 1, 2, 3});
	struct link_origin link = {.pkey_entries = {1ull << 5, 0}};
	const struct packet_origin origin = {
		.source = &script.remote, .destination = &group, .link = &link};

	(void)state;
	script_post_receive(&script, GRH_BYTES + MTU);
	assert_int_equal(multicast_attach(script.qp, &group, 0), 0);
	packet.bth.dest_qpn = QPN_MULTICAST;
	script.qp->attr.pkey_index = 4;
	assert_false(multicast_receive(&script.lane, &packet, &origin, script.now_ns));
	script.qp->attr.pkey_index = 69;
	assert_false(multicast_receive(&script.lane, &packet, &origin, script.now_ns));
	script_expect_no_completion(&script);
	script.qp->attr.pkey_index = 5;
	assert_true(multicast_receive(&script.lane, &packet, &origin, script.now_ns));
	script_expect_completion(&script, 1000, WC_SUCCESS);
}

static void ud_multicast_reaches_nobody_who_is_not_ready(void **state)
{
	struct gid group = gid_from_ipv4((const uint8_t[]){224, 1, 2, 3});

	(void)state;
	assert_int_equal(multicast_attach(script.qp, &group, 0), 0);
	qp_set_state(script.qp, QP_RESET, script.now_ns);
	qp_set_state(script.qp, QP_INIT, script.now_ns);
	script_post_receive(&script, GRH_BYTES);
	send_multicast(3);
	script_expect_no_completion(&script);
}

static void ud_multicast_number_at_a_unicast_address_is_nobodys(void **state)
{
	struct packet packet = script_packet(&script, OPCODE_UD_SEND_ONLY, 0);

	(void)state;
	script_post_receive(&script, GRH_BYTES);
	packet.bth.dest_qpn = QPN_MULTICAST;
	script_send(&script, &packet);
	script_expect_no_completion(&script);
	assert_int_equal(script.lane.public->drops[DROP_unknown_qp], 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(ud_datagram_says_who_sends_and_which_key),
		TEST(ud_key_with_the_top_bit_stands_for_the_own),
		TEST(ud_each_request_names_its_destination),
		TEST(ud_request_that_is_no_datagram_fails_in_its_turn),
		TEST(ud_address_of_another_domain_fails_in_its_turn),
		TEST(ud_static_rate_of_an_address_spaces_what_follows),
		TEST(ud_static_rate_is_kept_beside_the_limit),
		TEST(ud_reset_forgets_the_static_rate),
		TEST(ud_datagram_of_the_mtu_is_sent_a_longer_one_stops_the_send_queue),
		TEST(ud_bad_lkey_stops_sending_not_receiving),
		TEST(ud_datagram_is_placed_behind_its_header),
		TEST(ud_header_of_an_ipv6_datagram_is_its_ip_header),
		TEST(ud_datagrams_come_from_anybody),
		TEST(ud_datagram_with_another_key_is_dropped),
		TEST(ud_datagram_too_long_for_its_receive_is_dropped_and_the_receive_stays),
		TEST(ud_receive_without_room_for_the_header_takes_nothing),
		TEST(ud_without_receive_drops_the_datagram),
		TEST(ud_receive_with_a_bad_key_fails_the_queue_pair),
		TEST(ud_receive_that_was_too_short_is_flushed_once),
		TEST(ud_packet_of_another_transport_is_dropped),
		TEST(ud_datagram_to_a_multicast_address_needs_the_multicast_number),
		TEST(ud_datagram_between_two_families_is_dropped),
		TEST(ud_multicast_reaches_who_is_attached),
		TEST(ud_multicast_of_another_interface_is_another_group),
		TEST(ud_multicast_of_another_partition_reaches_nobody),
		TEST(ud_multicast_reaches_nobody_who_is_not_ready),
		TEST(ud_multicast_number_at_a_unicast_address_is_nobodys),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
