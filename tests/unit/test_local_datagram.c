/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Datagrams within one host: two NICs in one process, `ends[0]` sends and `ends[1]` receives.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/engine.h"
#include "local/datagram.h"

enum {
	ARENA_BYTES = 8 << 20,
	MEMORY_BYTES = 16384,
	PD = 3,
	DEPTH = 256,
	QKEY = 0x1234,
	PATH = 7,
	SENDER = 11, /* its name as a guest */
	TRAFFIC_CLASS = 0x4a,
	HOP_LIMIT = 33,
};

#define NOW_NS 1000000000ull
#define MS     1000000ull

struct end {
	struct arena arena;
	void *arena_memory;
	struct mr_table mrs;
	struct mr_public mrs_public;
	struct lane lane;
	struct cq send_cq, recv_cq;
	struct srq srq;
	struct qp *qp;
	uint8_t memory[MEMORY_BYTES];
	uint32_t key;
	struct guest_table *guests;
	struct guest_bell *bell;
	struct door_owner owner;
	struct door_table *table;
	struct door *door;
	struct door_qp local;
	struct datagram_lane datagrams;
};

static struct end ends[2];
static bool is_shared; /* the receiver has a shared receive queue */
static bool is_mapped; /* its memory, by the sender */
static bool is_broken; /* nobody can write to its memory */
static struct peer peer; /* the receiver */
static struct far_host host;
static struct datagram_path path;
static struct datagram_route route;
static uint32_t asked, kicks;
static uint32_t leaves_in; /* rounds until whoever marks a seat leaves; 0: it is dead */
static uint64_t now_ns;

static bool wait(uint32_t who, uint32_t round)
{
	struct guest_table *guests = ends[1].guests;

	for (uint32_t i = 0; i < guests->used_count; i++)
		if (leaves_in && round + 1 == leaves_in && guests->seat[i].guest == who)
			guest_leave(&guests->seat[i]);
	return leaves_in != 0;
}

static bool is_alive(void *context, uint32_t who)
{
	(void)context;
	return who == SENDER;
}

static const struct far_owner far_owner = {SENDER, is_alive, NULL};

static bool far_write(struct peer *of, uint64_t to, const uint8_t *from, size_t bytes)
{
	(void)of;
	if (!is_broken)
		memcpy((uint8_t *)(uintptr_t)to, from, bytes);
	return !is_broken;
}

static uint8_t *far_map(
	struct peer *of, const struct mr_slot *region, uint64_t address, uint64_t *bytes)
{
	(void)of;
	(void)region;
	(void)bytes;
	return is_mapped ? (uint8_t *)(uintptr_t)address : NULL;
}

static void kick(struct peer *of, uint32_t lane)
{
	(void)of;
	assert_int_equal(lane, 0);
	kicks++;
}

static const struct peer_ops ops = {far_write, NULL, far_map, kick, NULL};

static void ask(void)
{
	asked++;
}

static struct gid gid_of(uint32_t number)
{
	return gid_from_ipv4((const uint8_t[]){10, 0, 0, (uint8_t)(1 + number)});
}

static void *object(struct arena *arena, uint64_t bytes, uint64_t *ret_offset)
{
	*ret_offset = arena_alloc(arena, bytes);
	assert_int_not_equal(*ret_offset, 0);
	return arena_at(arena, *ret_offset);
}

static void modify(struct qp *qp, enum qp_state to, uint32_t mask, const struct qp_attr *attr)
{
	assert_int_equal(qp_modify(qp, to, ATTR_STATE | mask, attr, now_ns), 0);
}

static void make_ready(struct qp *qp)
{
	const struct qp_attr attr = {.port = 1, .qkey = QKEY};

	modify(qp, QP_INIT, ATTR_PKEY_INDEX | ATTR_PORT | ATTR_QKEY, &attr);
	modify(qp, QP_RTR, 0, &attr);
	modify(qp, QP_RTS, ATTR_SQ_PSN, &attr);
}

static void end_init(struct end *end, uint32_t number)
{
	struct qp_init init = {
		.type = QP_TYPE_UD,
		.mtu_bytes = 4096,
		.pd = PD,
		.send_cq = &end->send_cq,
		.recv_cq = &end->recv_cq,
		.caps = {DEPTH, DEPTH, 4, 4, 64},
	};
	struct mr_region region = {
		PD, MR_LOCAL_WRITE, (uintptr_t)end->memory, MEMORY_BYTES, end->memory};
	const struct srq_init shared = {.number = 1, .pd = PD, .depth = DEPTH, .sge_count_max = 4};
	struct door_place place = {.owner = &end->owner};
	struct gid own = gid_of(number);
	uint64_t offset;

	memset(end, 0, sizeof(*end));
	end->arena_memory = calloc(1, ARENA_BYTES + 64);
	assert_non_null(end->arena_memory);
	arena_init(&end->arena, (void *)(uintptr_t)align_up_u64((uintptr_t)end->arena_memory, 64),
		ARENA_BYTES);
	assert_int_equal(mr_table_init(&end->mrs, &end->arena, 16, 1 + number, 2), 0);
	assert_int_equal(engine_lane_init(&end->lane, &end->arena, &end->mrs, 5 + number, 0), 0);
	assert_int_equal(cq_init(&end->send_cq, &end->arena, 1024), 0);
	assert_int_equal(cq_init(&end->recv_cq, &end->arena, 1024), 0);
	assert_int_equal(mr_table_add(&end->mrs, &region, 0, &end->key), 0);
	mr_table_publish(&end->mrs, &end->arena, &end->mrs_public);
	if (number == 1 && is_shared) {
		assert_int_equal(srq_init(&end->srq, &end->arena, &shared), 0);
		init.srq = &end->srq;
	}
	end->guests = object(&end->arena, sizeof(*end->guests), &offset);
	end->bell = object(&end->arena, sizeof(*end->bell), &offset);
	end->table = object(&end->arena, sizeof(*end->table), &offset);
	end->owner = (struct door_owner){end->guests, wait, 0};
	datagram_lane_init(&end->datagrams, ask);
	assert_int_equal(engine_qp_create(&end->lane, &init, 9, &end->qp), 0);
	end->door = object(&end->arena, sizeof(*end->door), &place.offset);
	place.door = end->door;
	place.table = end->table;
	place.bell = end->bell;
	door_add_address(end->door, &own);
	door_add(&end->local, end->qp, &place, &end->datagrams);
	make_ready(end->qp);
}

/* The sender's first datagram asks; this is the answer. */
static void answer(void)
{
	struct datagram_process *process = &route.process;

	memset(&route, 0, sizeof(route));
	process->host = &host;
	process->doors = ends[1].table;
	process->bell = ends[1].bell;
	process->seat = far_seat(&host, 0, 0);
	assert_non_null(process->seat);
	process->seat_offset = arena_offset(&ends[1].arena, process->seat);
	datagram_answer(&ends[0].datagrams, &route);
}

static void post_at(uint32_t bytes, uint32_t qpn, uint32_t qkey, uint32_t flags)
{
	struct sge sge[] = {{(uintptr_t)ends[0].memory, bytes / 2, ends[0].key},
		{(uintptr_t)ends[0].memory + bytes / 2, bytes - bytes / 2, ends[0].key}};
	struct send_wr wr = {
		.wr_id = 40,
		.opcode = WR_SEND_WITH_IMM,
		.flags = SEND_SIGNALED | flags,
		.imm = 0xabcd,
		.sge = sge,
		.sge_count = 2,
		.datagram = {PATH, qpn, qkey, 0},
	};
	uint32_t posted;

	for (uint32_t i = 0; i < bytes; i++)
		ends[0].memory[i] = (uint8_t)(i * 7);
	assert_int_equal(engine_post_send(ends[0].qp, &wr, 1, &posted, now_ns), 0);
}

static void post(uint32_t bytes)
{
	post_at(bytes, ends[1].qp->qpn, QKEY, 0);
}

/* In two pieces, the first one shorter than the header. */
static void post_receive(uint64_t wr_id, uint32_t bytes)
{
	struct sge sge[] = {{(uintptr_t)ends[1].memory, 30, ends[1].key},
		{(uintptr_t)ends[1].memory + 30, bytes - 30, ends[1].key}};
	struct recv_wr wr = {wr_id, sge, 2};

	if (is_shared)
		assert_int_equal(srq_post(&ends[1].srq, &wr), 0);
	else
		assert_int_equal(qp_post_recv(ends[1].qp, &wr), 0);
}

static bool has_packets(void)
{
	return engine_has_packets(&ends[0].lane, true);
}

/* Packets of the sender's arrive, or are lost. */
static uint32_t carry(bool are_lost)
{
	uint8_t buffer[ENGINE_PACKET_BYTES_MAX];
	const struct gid source = gid_of(0), destination = gid_of(1);
	const struct packet_origin origin = {
		.source = &source,
		.destination = &destination,
		.traffic_class = TRAFFIC_CLASS,
		.hop_limit = HOP_LIMIT,
	};
	uint32_t id, count = 0;
	size_t bytes;

	while ((bytes = engine_next_packet(&ends[0].lane, true, buffer, &id, now_ns))) {
		assert_int_equal(id, PATH);
		count++;
		if (!are_lost)
			engine_receive(&ends[1].lane, &origin, buffer, (uint32_t)bytes, now_ns);
	}
	return count;
}

static struct cqe poll_of(struct end *end, struct cq *cq)
{
	struct cqe cqe;

	assert_int_equal(cq_poll(cq, &end->arena, 1, &cqe), 1);
	return cqe;
}

static struct cqe poll_received(void)
{
	return poll_of(&ends[1], &ends[1].recv_cq);
}

static uint32_t collect(void)
{
	return guest_collect(&ends[1].lane, ends[1].bell, now_ns);
}

static uint64_t dropped(enum counter counter)
{
	return counter_read(&ends[1].qp->public->counters, counter);
}

/* A route, and nothing under way. */
static void meet(void)
{
	post_receive(1, 100);
	post(10);
	assert_int_equal(carry(false), 1);
	answer();
	poll_received();
	poll_of(&ends[0], &ends[0].send_cq);
}

static int setup_ends(void **state)
{
	(void)state;
	asked = 0;
	kicks = 0;
	leaves_in = 1;
	is_mapped = true;
	is_broken = false;
	now_ns = NOW_NS;
	end_init(&ends[0], 0);
	end_init(&ends[1], 1);
	peer = (struct peer){.base = ends[1].arena.base, .bytes = ends[1].arena.bytes, .ops = &ops};
	assert_int_equal(mr_table_view(&peer.mrs, peer.base, peer.bytes, &ends[1].mrs_public), 0);
	memset(&host, 0, sizeof(host));
	host.peer = &peer;
	host.guests = ends[1].guests;
	host.owner = &far_owner;
	path = (struct datagram_path){
		.id = PATH,
		.local = gid_of(0),
		.remote = gid_of(1),
		.traffic_class = TRAFFIC_CLASS,
		.hop_limit = HOP_LIMIT,
	};
	datagram_path_add(&ends[0].datagrams, &path);
	return 0;
}

static int setup(void **state)
{
	is_shared = false;
	setup_ends(state);
	meet();
	return 0;
}

static int setup_shared(void **state)
{
	is_shared = true;
	setup_ends(state);
	meet();
	return 0;
}

static int setup_strangers(void **state)
{
	is_shared = false;
	return setup_ends(state);
}

static int teardown(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 2; i++) {
		engine_check(&ends[i].lane);
		door_remove(&ends[i].local, now_ns);
		engine_qp_destroy(ends[i].qp);
		if (i == 1 && is_shared)
			srq_done(&ends[i].srq, &ends[i].arena);
		engine_lane_done(&ends[i].lane);
		mr_table_done(&ends[i].mrs);
		free(ends[i].arena_memory);
	}
	return 0;
}

/* --- delivery --- */

/* What the receiver sees is what a packet brings, to the last byte. */
static void check_same_as_packet(uint32_t bytes)
{
	uint8_t by_packet[MEMORY_BYTES];
	struct cqe packet_cqe, cqe;

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

static const struct capture_owner capture_owner = {now, look};

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
	struct capture_public public = {.is_on = 1, .snap_bytes = CAPTURED_BYTES_MAX};
	struct capture capture = {&public, ring, &capture_owner, 0};
	uint8_t packet[ENGINE_PACKET_BYTES_MAX];
	uint32_t id;
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
	bytes = engine_next_packet(&ends[0].lane, true, packet, &id, now_ns);
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
	assert_int_equal(asked, 1);
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
	assert_int_equal(asked, 1); /* for the other one */
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

/* Time passes until the datagram goes by packets. */
static uint64_t wait_for_packets(void)
{
	uint64_t start_ns = now_ns;

	while (!has_packets()) {
		now_ns = engine_deadline_ns(&ends[0].lane);
		assert_true(now_ns < start_ns + 20 * MS);
		engine_expire(&ends[0].lane, now_ns);
	}
	return now_ns - start_ns;
}

static void datagram_without_a_receive_request_waits_for_one(void **state)
{
	(void)state;
	post(10);
	assert_false(has_packets());
	assert_int_equal(collect(), 0);
	post_receive(1, 100);
	now_ns = engine_deadline_ns(&ends[0].lane);
	engine_expire(&ends[0].lane, now_ns);
	assert_false(has_packets());
	assert_int_equal(collect(), 1);
}

static void datagram_that_waits_in_vain_is_dropped_and_the_next_one_waits_less(void **state)
{
	uint64_t waited_ns;

	(void)state;
	post(10);
	waited_ns = wait_for_packets();
	assert_int_equal(carry(false), 1);
	assert_int_equal(dropped(COUNTER_no_receive_drops), 1);
	post(10);
	assert_true(has_packets());
	assert_int_equal(carry(false), 1);
	post_receive(1, 100);
	post(10);
	assert_int_equal(collect(), 1);
	post(10);
	assert_true(wait_for_packets() < waited_ns * 2 / 3);
}

static void datagram_does_not_overtake_packets(void **state)
{
	uint8_t buffer[ENGINE_PACKET_BYTES_MAX];
	const struct gid source = gid_of(0), destination = gid_of(1);
	const struct packet_origin origin = {.source = &source, .destination = &destination};
	uint32_t id;
	size_t bytes;

	(void)state;
	post_receive(1, 100);
	post_at(10, ends[1].qp->qpn, QKEY + 1, 0);
	bytes = engine_next_packet(&ends[0].lane, true, buffer, &id, now_ns);
	assert_true(bytes > 0);
	post(10);
	assert_int_equal(carry(false), 0);
	assert_int_equal(collect(), 0);
	engine_receive(&ends[1].lane, &origin, buffer, (uint32_t)bytes, now_ns);
	now_ns = engine_deadline_ns(&ends[0].lane);
	engine_expire(&ends[0].lane, now_ns);
	assert_false(has_packets());
	assert_int_equal(collect(), 1);
}

static void datagram_does_not_wait_for_ever_for_packets_that_were_lost(void **state)
{
	uint64_t start_ns = now_ns;

	(void)state;
	post_receive(1, 100);
	post_at(10, ends[1].qp->qpn, QKEY + 1, 0);
	assert_int_equal(carry(true), 1);
	post(10);
	while (!collect()) {
		now_ns = engine_deadline_ns(&ends[0].lane);
		assert_true(now_ns < start_ns + 20 * MS);
		engine_expire(&ends[0].lane, now_ns);
		assert_false(has_packets());
	}
}

static void seat_that_nobody_collects_from_fills_and_the_receiver_is_woken(void **state)
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

/* --- ends --- */

static void door_is_closed_in_error_and_what_came_before_completes_first(void **state)
{
	(void)state;
	post_receive(1, 100);
	post_receive(2, 100);
	post(10);
	modify(ends[1].qp, QP_ERR, 0, &(struct qp_attr){0});
	assert_int_equal(poll_received().status, WC_SUCCESS);
	assert_int_equal(poll_received().status, WC_WR_FLUSH_ERR);
	post(10);
	assert_true(has_packets());
}

static void door_opens_anew_after_reset(void **state)
{
	struct cqe cqe;

	(void)state;
	post_receive(1, 100);
	post(10);
	modify(ends[1].qp, QP_RESET, 0, &(struct qp_attr){0});
	collect();
	assert_int_equal(cq_poll(&ends[1].recv_cq, &ends[1].arena, 1, &cqe), 0);
	make_ready(ends[1].qp);
	post_receive(2, 100);
	post(10);
	assert_false(has_packets());
	assert_int_equal(collect(), 1);
	assert_int_equal(poll_received().wr_id, 2);
}

static void record_for_an_earlier_queue_pair_is_thrown_away(void **state)
{
	const struct guest_record record = {.opcode = WC_RECV,
		.qpn = ends[1].qp->qpn,
		.serial = ends[1].local.serial + 1,
		.byte_count = GRH_BYTES};
	struct cqe cqe;

	(void)state;
	guest_publish(route.process.seat, ends[1].bell, route.process.seat_offset, &record);
	collect();
	assert_int_equal(cq_poll(&ends[1].recv_cq, &ends[1].arena, 1, &cqe), 0);
}

static void closing_waits_for_whoever_is_inside(void **state)
{
	(void)state;
	post_receive(1, 100);
	post(10);
	guest_enter(route.process.seat, INBOX_PUBLISHES);
	leaves_in = 3;
	modify(ends[1].qp, QP_ERR, 0, &(struct qp_attr){0});
	assert_int_equal(atomic_load(&route.process.seat->in_use), INBOX_IS_FREE);
	assert_false(ends[1].local.is_stood_on);
}

static void whoever_stands_still_inside_keeps_the_receive_queue(void **state)
{
	(void)state;
	post_receive(1, 100);
	post(10);
	guest_enter(route.process.seat, INBOX_PUBLISHES);
	leaves_in = UINT32_MAX;
	modify(ends[1].qp, QP_ERR, 0, &(struct qp_attr){0});
	assert_true(ends[1].local.is_stood_on);
}

static void reset_takes_away_what_was_only_looked_at(void **state)
{
	struct recv_wqe wqe;
	uint32_t posted_seen = rq_taken(ends[1].qp->rq);
	uint64_t taken;

	(void)state;
	post_receive(1, 100);
	assert_true(
		rq_peek_afar(ends[1].qp->rq, peer.base, peer.bytes, &posted_seen, &wqe, &taken));
	modify(ends[1].qp, QP_RESET, 0, &(struct qp_attr){0});
	make_ready(ends[1].qp);
	for (uint64_t i = 0; i < 3; i++)
		post_receive(i, 100);
	while (rq_taken(ends[1].qp->rq) != (uint32_t)taken)
		assert_true(rq_take(ends[1].qp->rq, &wqe));
	assert_false(rq_take_peeked(ends[1].qp->rq, taken));
}

static void process_that_has_ended_is_reached_by_packets(void **state)
{
	(void)state;
	post_receive(1, 100);
	atomic_store(&host.is_gone, true);
	post(10);
	assert_true(has_packets());
}

#define TEST(name)          cmocka_unit_test_setup_teardown(name, setup, teardown)
#define TEST_SHARED(name)   cmocka_unit_test_setup_teardown(name, setup_shared, teardown)
#define TEST_STRANGER(name) cmocka_unit_test_setup_teardown(name, setup_strangers, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(datagram_fills_the_receive_request_as_a_packet_does),
		TEST(who_captures_sees_the_packet_that_it_would_have_been),
		TEST(datagram_of_a_whole_mtu_too),
		TEST(datagram_to_memory_that_is_not_mapped_too),
		TEST_SHARED(datagram_takes_from_a_shared_receive_queue),
		TEST(datagrams_complete_in_their_order),
		TEST(receiver_that_sleeps_is_woken),
		TEST_STRANGER(first_datagrams_ask_and_go_by_packets),
		TEST(datagram_on_another_path_goes_by_packets),
		TEST(datagram_with_another_key_is_dropped_by_the_receiver),
		TEST(datagram_that_is_too_long_is_dropped_by_the_receiver),
		TEST(datagram_for_memory_that_was_deregistered_is_the_receivers_to_complain),
		TEST(memory_that_fails_while_it_is_filled_is_the_receivers_error),
		TEST(datagram_without_a_receive_request_waits_for_one),
		TEST(datagram_that_waits_in_vain_is_dropped_and_the_next_one_waits_less),
		TEST(datagram_does_not_overtake_packets),
		TEST(datagram_does_not_wait_for_ever_for_packets_that_were_lost),
		TEST(seat_that_nobody_collects_from_fills_and_the_receiver_is_woken),
		TEST(door_is_closed_in_error_and_what_came_before_completes_first),
		TEST(door_opens_anew_after_reset),
		TEST(record_for_an_earlier_queue_pair_is_thrown_away),
		TEST(closing_waits_for_whoever_is_inside),
		TEST(whoever_stands_still_inside_keeps_the_receive_queue),
		TEST(reset_takes_away_what_was_only_looked_at),
		TEST(process_that_has_ended_is_reached_by_packets),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
