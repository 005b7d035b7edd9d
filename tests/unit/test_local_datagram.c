/* SPDX-License-Identifier: BSD-2-Clause */
/* What datagrams within one host bring, and what goes by packets. */
#include "support/datagram_ends.h"

#include "wire/grh.h"

/* --- delivery --- */

/* What the receiver sees is what a packet brings, to the last byte. */
static void check_same_as_packet(uint32_t bytes)
{
	uint8_t by_packet[MEMORY_BYTES];
	struct cqe packet_cqe, cqe;
	uint64_t before = dropped(COUNTER_local_bytes);

	post_receive(50, 4200);
	post_at(bytes, ends[1].qp->qpn, QKEY, SEND_SOLICITED);
	assert_false(has_packets());
	assert_int_equal(collect(), 1);
	cqe = poll_received();
	memcpy(by_packet, ends[1].memory, sizeof(by_packet));
	memset(ends[1].memory, 0, sizeof(ends[1].memory));
	datagram_path_remove(&ends[0].datagrams, &path);
	list_remove(&route.link);
	post_receive(50, 4200);
	post_at(bytes, ends[1].qp->qpn, QKEY, SEND_SOLICITED);
	assert_int_equal(carry(false), 1);
	assert_int_equal(dropped(COUNTER_local_bytes) - before, bytes);
	packet_cqe = poll_received();
	assert_memory_equal(by_packet, ends[1].memory, GRH_BYTES + bytes);
	assert_memory_equal(by_packet + GRH_BYTES, ends[0].memory, bytes);
	assert_memory_equal(&cqe, &packet_cqe, sizeof(cqe));
}

static uint64_t now(void)
{
	return now_ns;
}

static void look(void)
{
}

static const struct capture_owner capture_owner = {now, now, look};

/* The next one that was shown is the one in `packet`, but for its number. */
static void assert_shown(struct record_ring *ring, const uint8_t *packet, size_t bytes)
{
	const size_t number = 9, after = number + 3; /* of the BTH */
	uint8_t record[RECORD_BYTES_MAX];
	struct captured about;

	assert_int_equal(record_ring_take(ring, record), sizeof(about) + bytes);
	memcpy(&about, record, sizeof(about));
	assert_int_equal(about.packet_bytes, bytes);
	assert_int_equal(about.qpn, ends[0].qp->qpn);
	assert_int_equal(about.traffic_class, TRAFFIC_CLASS);
	assert_int_equal(about.hop_limit, HOP_LIMIT);
	assert_true(gid_is_equal(&about.source, &path.local));
	assert_true(gid_is_equal(&about.destination, &path.remote));
	assert_true(about.is_sent);
	assert_memory_equal(record + sizeof(about), packet, number);
	assert_memory_equal(record + sizeof(about) + after, packet + after, bytes - after);
}

static void who_captures_sees_the_packet_that_it_would_have_been(void **state)
{
	struct record_ring *ring = aligned_alloc(64, sizeof(*ring));
	struct capture_public public = {.session = 1, .snap_bytes = CAPTURED_BYTES_MAX};
	struct capture capture = {.public = &public, .ring = ring, .owner = &capture_owner};
	uint8_t packet[ENGINE_PACKET_BYTES_MAX];
	struct packet_run run = {.buffer = packet};
	size_t bytes;

	(void)state;
	assert_non_null(ring);
	memset(ring, 0, sizeof(*ring));
	ends[0].lane.capture = &capture;
	ends[0].lane.capture_public = &public;
	post_receive(50, 4200);
	post_at(99, ends[1].qp->qpn, QKEY, SEND_SOLICITED);
	assert_false(has_packets());
	assert_int_equal(collect(), 1);
	list_remove(&route.link);
	datagram_path_remove(&ends[0].datagrams, &path);
	post_at(99, ends[1].qp->qpn, QKEY, SEND_SOLICITED);
	bytes = engine_next_packet(&ends[0].lane, true, &run, now_ns);
	assert_shown(ring, packet, bytes);
	assert_int_equal(record_ring_take(ring, packet), 0);
	ends[0].lane.capture_public = &capture_nowhere;
	free(ring);
}

static void datagram_fills_the_receive_request_as_a_packet_does(void **state)
{
	(void)state;
	check_same_as_packet(99);
}

static void datagram_of_a_whole_mtu_too(void **state)
{
	(void)state;
	check_same_as_packet(4096);
}

static void datagram_to_memory_that_is_not_mapped_too(void **state)
{
	(void)state;
	is_mapped = false;
	check_same_as_packet(1000);
}

static void receiver_that_moves_its_memory_meanwhile_is_waited_for(void **state)
{
	(void)state;
	post_receive(50, 4200);
	is_mapped = false;
	moves_in = 2; /* when the request is found, and when it is filled */
	post_at(99, ends[1].qp->qpn, QKEY, 0);
	assert_int_equal(moves_in, 0);
	assert_false(has_packets());
	assert_int_equal(collect(), 1);
	assert_int_equal(poll_received().fault, FAULT_NONE);
	assert_memory_equal(ends[1].memory + GRH_BYTES, ends[0].memory, 99);
}

static void datagram_is_written_again_when_its_mark_was_revoked(void **state)
{
	(void)state;
	post_receive(50, 4200);
	is_mapped = false;
	revokes_in = 1;
	post_at(99, ends[1].qp->qpn, QKEY, 0);
	assert_int_equal(revokes_in, 0);
	assert_int_equal(collect(), 1);
	assert_int_equal(poll_received().fault, FAULT_NONE);
	assert_memory_equal(ends[1].memory + GRH_BYTES, ends[0].memory, 99);
	assert_int_equal(atomic_load(&route.process.channel->in_use), CHANNEL_IS_FREE);
}

static void datagram_takes_from_a_shared_receive_queue(void **state)
{
	(void)state;
	check_same_as_packet(10);
}

static void datagrams_complete_in_their_order(void **state)
{
	(void)state;
	for (uint64_t i = 0; i < 20; i++)
		post_receive(i, 100);
	for (uint32_t i = 0; i < 20; i++)
		post(10);
	assert_false(has_packets());
	assert_int_equal(collect(), 20);
	for (uint64_t i = 0; i < 20; i++) {
		assert_int_equal(poll_received().wr_id, i);
		assert_int_equal(poll_of(&ends[0], &ends[0].send_cq).status, WC_SUCCESS);
	}
}

static void receiver_that_sleeps_is_woken(void **state)
{
	(void)state;
	post_receive(1, 100);
	post_receive(2, 100);
	cq_arm(&ends[1].recv_cq, CQ_ARM_SOLICITED);
	post(10);
	assert_int_equal(kicks, 0);
	post_at(10, ends[1].qp->qpn, QKEY, SEND_SOLICITED);
	assert_int_equal(kicks, 1);
}

/* --- what goes by packets --- */

static void first_datagrams_ask_and_go_by_packets(void **state)
{
	(void)state;
	post_receive(1, 100);
	post_receive(2, 100);
	post(10);
	post(10);
	assert_int_equal(lookups_requested, 1);
	assert_int_equal(carry(true), 2);
	answer();
	assert_int_equal(route.packets, 2);
}

static void datagram_on_another_path_goes_by_packets(void **state)
{
	struct sge sge = {(uintptr_t)ends[0].memory, 10, ends[0].key};
	struct send_wr wr = {.opcode = WR_SEND,
		.sge = &sge,
		.sge_count = 1,
		.datagram = {PATH + 1, ends[1].qp->qpn, QKEY, 0}};
	uint32_t posted;

	(void)state;
	assert_int_equal(engine_post_send(ends[0].qp, &wr, 1, &posted, now_ns), 0);
	assert_true(has_packets());
	assert_int_equal(lookups_requested, 1); /* for the other one */
}

static void datagram_with_another_key_is_dropped_by_the_receiver(void **state)
{
	(void)state;
	post_receive(1, 100);
	post_at(10, ends[1].qp->qpn, QKEY + 1, 0);
	assert_int_equal(carry(false), 1);
	assert_int_equal(dropped(COUNTER_qkey_violations), 1);
	post(10);
	assert_false(has_packets());
	assert_int_equal(collect(), 1);
}

static void datagram_that_is_too_long_is_dropped_by_the_receiver(void **state)
{
	(void)state;
	post_receive(1, GRH_BYTES + 50);
	post(51);
	assert_int_equal(carry(false), 1);
	assert_int_equal(dropped(COUNTER_resp_local_length_error), 1);
	post_receive(2, GRH_BYTES + 50);
	post(50);
	assert_false(has_packets());
	assert_int_equal(collect(), 1);
}

static void datagram_for_memory_that_was_deregistered_is_the_receivers_to_complain(void **state)
{
	(void)state;
	post_receive(1, 100);
	assert_int_equal(mr_table_remove(&ends[1].mrs, ends[1].key, PD), 0);
	post(10);
	assert_int_equal(carry(false), 1);
	assert_int_equal(poll_received().status, WC_LOC_PROT_ERR);
	assert_int_equal(ends[1].qp->state, QP_ERR);
}

static void memory_that_fails_while_it_is_filled_is_the_receivers_error(void **state)
{
	(void)state;
	is_mapped = false;
	is_broken = true;
	post_receive(1, 100);
	post_receive(2, 100);
	post(10);
	assert_int_equal(kicks, 1);
	collect();
	assert_int_equal(poll_received().status, WC_LOC_PROT_ERR);
	assert_int_equal(ends[1].qp->state, QP_ERR);
	assert_int_equal(poll_received().status, WC_WR_FLUSH_ERR);
}

/* --- waiting --- */

/* As on an adapter, the sender's completion says at once that the datagram was sent. */
static void datagram_to_who_does_not_receive_yet_is_dropped_at_once(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 3; i++) {
		post(10);
		assert_int_equal(carry(false), 1);
		poll_of(&ends[0], &ends[0].send_cq);
	}
	assert_int_equal(dropped(COUNTER_no_receive_drops), 3);
	post_receive(1, 100);
	post(10);
	assert_false(has_packets());
	assert_int_equal(collect(), 1);
}

/* From here on the receiver is known to receive. */
static void fill_one(void)
{
	post_receive(1, 100);
	post(10);
	assert_int_equal(collect(), 1);
	poll_received();
}

static void datagram_without_a_receive_request_waits_for_one(void **state)
{
	(void)state;
	fill_one();
	post(10);
	assert_false(has_packets());
	assert_int_equal(collect(), 0);
	post_receive(1, 100);
	now_ns = engine_deadline_ns(&ends[0].lane);
	engine_expire(&ends[0].lane, now_ns);
	assert_false(has_packets());
	assert_int_equal(collect(), 1);
}

/* Time passes until the datagram goes by packets, or was delivered. */
static uint64_t wait_for_datagram(void)
{
	uint64_t start_ns = now_ns;

	while (!has_packets() && !collect()) {
		now_ns = engine_deadline_ns(&ends[0].lane);
		assert_true(now_ns < start_ns + 20 * MS);
		engine_expire(&ends[0].lane, now_ns);
	}
	return now_ns - start_ns;
}

static void datagram_that_waits_in_vain_is_dropped_and_the_next_one_waits_less(void **state)
{
	uint64_t waited_ns;

	(void)state;
	fill_one();
	post(10);
	waited_ns = wait_for_datagram();
	assert_int_equal(carry(false), 1);
	assert_int_equal(dropped(COUNTER_no_receive_drops), 1);
	post(10);
	assert_true(has_packets());
	assert_int_equal(carry(false), 1);
	fill_one();
	post(10);
	assert_true(wait_for_datagram() < waited_ns * 2 / 3);
	assert_true(has_packets());
}

static void datagram_follows_packets_by_packets(void **state)
{
	uint8_t buffer[2][ENGINE_PACKET_BYTES_MAX];
	const struct gid source = gid_of(0), destination = gid_of(1);
	const struct packet_origin origin = {.source = &source, .destination = &destination};
	struct packet_run run = {0};
	size_t bytes[2];

	(void)state;
	post_receive(1, 100);
	post_receive(2, 100);
	post_at(10, ends[1].qp->qpn, QKEY + 1, 0);
	post(10);
	for (uint32_t i = 0; i < 2; i++) {
		run.buffer = buffer[i];
		bytes[i] = engine_next_packet(&ends[0].lane, true, &run, now_ns);
		assert_true(bytes[i] > 0);
	}
	assert_int_equal(collect(), 0);
	for (uint32_t i = 0; i < 2; i++)
		engine_receive(&ends[1].lane, &origin, buffer[i], (uint32_t)bytes[i], now_ns);
	assert_int_equal(poll_received().wr_id, 1);
	post(10);
	assert_int_equal(carry(false), 0);
	assert_int_equal(collect(), 1);
}

/* The first one, and as many behind it as do not wait. */
static void lose_packets(void)
{
	uint32_t lost = 0;

	for (post_at(10, ends[1].qp->qpn, QKEY + 1, 0); has_packets(); post(10)) {
		assert_true(lost++ < DEPTH);
		assert_int_equal(carry(true), 1);
	}
	assert_true(lost > 1);
}

static void datagram_does_not_wait_for_ever_for_packets_that_were_lost(void **state)
{
	uint64_t waited_ns;

	(void)state;
	post_receive(1, 100);
	lose_packets();
	waited_ns = wait_for_datagram();
	assert_true(waited_ns > MS);
	assert_false(has_packets());
	post_receive(2, 100);
	lose_packets();
	assert_true(wait_for_datagram() < waited_ns * 2 / 3);
	assert_false(has_packets());
}

static void channel_that_nobody_collects_from_fills_and_the_receiver_is_woken(void **state)
{
	uint32_t sent = 0;

	(void)state;
	for (uint64_t i = 0; i < DEPTH; i++)
		post_receive(i, 100);
	while (engine_deadline_ns(&ends[0].lane) == DEADLINE_NEVER) {
		assert_false(has_packets());
		assert_true(sent++ < DEPTH);
		post(10);
	}
	assert_int_equal(kicks, 0); /* mostly it polls */
	now_ns = engine_deadline_ns(&ends[0].lane);
	engine_expire(&ends[0].lane, now_ns);
	assert_int_equal(kicks, 1);
	assert_int_equal(collect(), sent - 1);
	now_ns = engine_deadline_ns(&ends[0].lane);
	engine_expire(&ends[0].lane, now_ns);
	assert_int_equal(collect(), 1);
	assert_int_equal(kicks, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(datagram_fills_the_receive_request_as_a_packet_does),
		TEST(who_captures_sees_the_packet_that_it_would_have_been),
		TEST(datagram_of_a_whole_mtu_too),
		TEST(datagram_to_memory_that_is_not_mapped_too),
		TEST(datagram_is_written_again_when_its_mark_was_revoked),
		TEST(receiver_that_moves_its_memory_meanwhile_is_waited_for),
		TEST_SHARED(datagram_takes_from_a_shared_receive_queue),
		TEST(datagrams_complete_in_their_order),
		TEST(receiver_that_sleeps_is_woken),
		TEST_STRANGER(first_datagrams_ask_and_go_by_packets),
		TEST(datagram_on_another_path_goes_by_packets),
		TEST(datagram_with_another_key_is_dropped_by_the_receiver),
		TEST(datagram_that_is_too_long_is_dropped_by_the_receiver),
		TEST(datagram_for_memory_that_was_deregistered_is_the_receivers_to_complain),
		TEST(memory_that_fails_while_it_is_filled_is_the_receivers_error),
		TEST(datagram_to_who_does_not_receive_yet_is_dropped_at_once),
		TEST(datagram_without_a_receive_request_waits_for_one),
		TEST(datagram_that_waits_in_vain_is_dropped_and_the_next_one_waits_less),
		TEST(datagram_follows_packets_by_packets),
		TEST(datagram_does_not_wait_for_ever_for_packets_that_were_lost),
		TEST(channel_that_nobody_collects_from_fills_and_the_receiver_is_woken),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
