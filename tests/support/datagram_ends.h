/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_TESTS_SUPPORT_DATAGRAM_ENDS_H
#define URNIC_TESTS_SUPPORT_DATAGRAM_ENDS_H

/*
 * Datagrams within one host: two NICs in one process, `ends[0]` sends and `ends[1]` receives. For
 * the unit tests of src/local, one program each.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/engine.h"
#include "local/datagram.h"
#include "support/arena_memory.h"
#include "support/permutation.h"

enum {
	ARENA_BYTES = 8 << 20,
	MEMORY_BYTES = 16384,
	PD = 3,
	DEPTH = 256,
	QKEY = 0x1234,
	PATH = 7,
	SENDER = 11, /* its name as a borrower */
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
	struct borrower_table *borrowers;
	struct doorbell *doorbell;
	struct local_owner owner;
	struct local_lane local_lane;
	struct ud_endpoint_table *table;
	struct ud_endpoint *endpoint;
	struct ud_endpoint_qp local;
	struct datagram_lane datagrams;
};

static struct end ends[2];
static bool is_shared; /* the receiver has a shared receive queue */
static bool is_mapped; /* its memory, by the sender */
static bool is_broken; /* nobody can write to its memory */
static struct peer peer; /* the receiver */
static struct owner_process owner_process;
static struct datagram_path path;
static struct datagram_route route;
static uint32_t lookups_requested, kicks;
static uint32_t leaves_in; /* rounds until the borrower clears its mark; 0: it is dead */
static void (*before_leaving)(void); /* what it does then; NULL: nothing */
static uint64_t now_ns;

static inline bool wait(uint32_t who, uint32_t round)
{
	struct borrower_table *borrowers = ends[1].borrowers;

	for (uint32_t i = 0; i < borrowers->used_count; i++) {
		struct request_channel *channel = &borrowers->channel[i];

		if (!leaves_in || round + 1 != leaves_in || channel->initiator != who ||
			channel->in_use == CHANNEL_IS_FREE)
			continue;
		if (before_leaving)
			before_leaving();
		channel_leave(channel);
	}
	return leaves_in != 0;
}

static inline bool is_alive(struct peer *of, uint32_t who)
{
	(void)of;
	return who == SENDER;
}

/*
 * How often the sender maps the receiver's memory before the receiver moves it; 0: it is never
 * moved. The move ends when the sender pauses.
 */
static uint32_t moves_in;

static inline void pause_round(uint32_t round)
{
	(void)round;
	mr_table_resume(&ends[1].mrs);
}

static inline uint64_t no_time(void)
{
	return 0;
}

static uint32_t
	revokes_in; /* writes until the receiver revokes the mark: what is written then is lost */

static inline bool is_revoked_now(void)
{
	bool is_now = revokes_in && --revokes_in == 0;

	if (is_now)
		atomic_fetch_or(&route.process.channel->in_use, CHANNEL_IS_REVOKED);
	return is_now;
}

static inline bool peer_write(struct peer *of, uint64_t to, const uint8_t *from, size_t bytes)
{
	(void)of;
	if (!is_broken && !is_revoked_now())
		memcpy((uint8_t *)(uintptr_t)to, from, bytes);
	return !is_broken;
}

static inline uint8_t *peer_map(
	struct peer *of, const struct mr_slot *region, uint64_t address, uint64_t *bytes)
{
	(void)of;
	(void)region;
	(void)bytes;
	if (moves_in && --moves_in == 0)
		mr_table_suspend(&ends[1].mrs);
	return is_mapped ? (uint8_t *)(uintptr_t)address : NULL;
}

static inline void kick(struct peer *of, uint32_t lane)
{
	(void)of;
	assert_int_equal(lane, 0);
	kicks++;
}

static const struct peer_ops ops = {peer_write, NULL, peer_map, kick, NULL, is_alive};

static inline void request_lookup(void)
{
	lookups_requested++;
}

static inline struct gid gid_of(uint32_t number)
{
	return gid_from_ipv4((const uint8_t[]){10, 0, 0, (uint8_t)(1 + number)});
}

static inline void *object(struct arena *arena, uint64_t bytes, uint64_t *ret_offset)
{
	*ret_offset = arena_alloc(arena, bytes);
	assert_int_not_equal(*ret_offset, 0);
	return arena_at(arena, *ret_offset);
}

static inline void modify(
	struct qp *qp, enum qp_state to, uint32_t mask, const struct qp_attr *attr)
{
	assert_int_equal(qp_modify(qp, to, ATTR_STATE | mask, attr, now_ns), 0);
}

static inline void make_ready(struct qp *qp)
{
	const struct qp_attr attr = {.port = 1, .qkey = QKEY};

	modify(qp, QP_INIT, ATTR_PKEY_INDEX | ATTR_PORT | ATTR_QKEY, &attr);
	modify(qp, QP_RTR, 0, &attr);
	modify(qp, QP_RTS, ATTR_SQ_PSN, &attr);
}

static inline void end_init(struct end *end, uint32_t number)
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
	struct ud_endpoint_place place = {.lane = &end->local_lane};
	struct gid own = gid_of(number);
	uint64_t offset;

	memset(end, 0, sizeof(*end));
	end->arena_memory = arena_memory_new(ARENA_BYTES);
	arena_init(&end->arena, end->arena_memory, ARENA_BYTES);
	assert_int_equal(
		mr_table_init(&end->mrs, &end->arena, 16, test_permutation(1 + number)), 0);
	assert_int_equal(engine_lane_init(&end->lane, &end->arena, &end->mrs, 5 + number, 0), 0);
	assert_int_equal(cq_init(&end->send_cq, &end->arena, 1024), 0);
	assert_int_equal(cq_init(&end->recv_cq, &end->arena, 1024), 0);
	assert_int_equal(mr_table_add(&end->mrs, &region, 0, &end->key), 0);
	mr_table_publish(&end->mrs, &end->arena, &end->mrs_public);
	if (number == 1 && is_shared) {
		assert_int_equal(srq_init(&end->srq, &end->arena, &shared), 0);
		init.srq = &end->srq;
	}
	end->borrowers = arena_peers_side(object(&end->arena, sizeof(*end->borrowers), &offset));
	end->doorbell = arena_peers_side(object(&end->arena, sizeof(*end->doorbell), &offset));
	end->table = object(&end->arena, sizeof(*end->table), &offset);
	end->owner = (struct local_owner){wait, pause_round, no_time, SENDER, end->borrowers, 0};
	end->local_lane = (struct local_lane){.doorbell = end->doorbell, .owner = &end->owner};
	datagram_lane_init(&end->datagrams, request_lookup);
	assert_int_equal(engine_qp_create(&end->lane, &init, 9, &end->qp), 0);
	end->endpoint = object(&end->arena, sizeof(*end->endpoint), &place.offset);
	place.endpoint = end->endpoint;
	place.table = end->table;
	ud_endpoint_add_address(end->endpoint, &own);
	ud_endpoint_add(&end->local, end->qp, &place, &end->datagrams);
	make_ready(end->qp);
}

/* The sender's first datagram asks; this is the answer. */
static inline void answer(void)
{
	struct datagram_process *process = &route.process;

	memset(&route, 0, sizeof(route));
	process->owner = &owner_process;
	process->endpoints = ends[1].table;
	process->doorbell = ends[1].doorbell;
	process->channel = owner_channel(&owner_process, 0, 0);
	assert_non_null(process->channel);
	datagram_lookup_done(&ends[0].datagrams, &route);
}

static inline void post_at(uint32_t bytes, uint32_t qpn, uint32_t qkey, uint32_t flags)
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

static inline void post(uint32_t bytes)
{
	post_at(bytes, ends[1].qp->qpn, QKEY, 0);
}

/* In two pieces, the first one shorter than the header. */
static inline void post_receive(uint64_t wr_id, uint32_t bytes)
{
	struct sge sge[] = {{(uintptr_t)ends[1].memory, 30, ends[1].key},
		{(uintptr_t)ends[1].memory + 30, bytes - 30, ends[1].key}};
	struct recv_wr wr = {wr_id, sge, 2};

	if (is_shared)
		assert_int_equal(srq_post(&ends[1].srq, &wr), 0);
	else
		assert_int_equal(qp_post_recv(ends[1].qp, &wr), 0);
}

static inline bool has_packets(void)
{
	return engine_has_packets(&ends[0].lane, true);
}

/* Packets of the sender's arrive, or are lost. */
static inline uint32_t carry(bool are_lost)
{
	uint8_t buffer[ENGINE_PACKET_BYTES_MAX];
	const struct gid source = gid_of(0), destination = gid_of(1);
	const struct packet_origin origin = {
		.source = &source,
		.destination = &destination,
		.traffic_class = TRAFFIC_CLASS,
		.hop_limit = HOP_LIMIT,
	};
	struct packet_run run = {.buffer = buffer};
	uint32_t count = 0;
	size_t bytes;

	while ((bytes = engine_next_packet(&ends[0].lane, true, &run, now_ns))) {
		assert_int_equal(run.path, PATH);
		count++;
		if (!are_lost)
			engine_receive(&ends[1].lane, &origin, buffer, (uint32_t)bytes, now_ns);
	}
	return count;
}

static inline struct cqe poll_of(struct end *end, struct cq *cq)
{
	struct cqe cqe;

	assert_int_equal(cq_poll(cq, &end->arena, 1, &cqe), 1);
	return cqe;
}

static inline struct cqe poll_received(void)
{
	return poll_of(&ends[1], &ends[1].recv_cq);
}

static inline uint32_t collect(void)
{
	return local_collect(&ends[1].lane, &ends[1].local_lane, now_ns);
}

static inline uint64_t dropped(enum counter counter)
{
	return counter_read(ends[1].qp->counters, counter);
}

/* Send one datagram as a packet, so that there is a route, and complete it. */
static inline void meet(void)
{
	post_receive(1, 100);
	post(10);
	assert_int_equal(carry(false), 1);
	answer();
	poll_received();
	poll_of(&ends[0], &ends[0].send_cq);
}

static inline int setup_ends(void **state)
{
	(void)state;
	lookups_requested = 0;
	kicks = 0;
	leaves_in = 1;
	before_leaving = NULL;
	is_mapped = true;
	is_broken = false;
	moves_in = 0;
	now_ns = NOW_NS;
	end_init(&ends[0], 0);
	end_init(&ends[1], 1);
	peer = (struct peer){.base = ends[1].arena.base, .bytes = ends[1].arena.bytes, .ops = &ops};
	assert_int_equal(mr_table_view(&peer.mrs, peer.base, peer.bytes, &ends[1].mrs_public), 0);
	memset(&owner_process, 0, sizeof(owner_process));
	owner_process.peer = &peer;
	owner_process.borrowers = ends[1].borrowers;
	owner_process.self = &ends[0].owner;
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

static inline int setup(void **state)
{
	is_shared = false;
	setup_ends(state);
	meet();
	return 0;
}

static inline int setup_shared(void **state)
{
	is_shared = true;
	setup_ends(state);
	meet();
	return 0;
}

static inline int setup_strangers(void **state)
{
	is_shared = false;
	return setup_ends(state);
}

static inline int teardown(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 2; i++) {
		engine_check(&ends[i].lane);
		ud_endpoint_remove(&ends[i].local, now_ns);
		engine_qp_destroy(ends[i].qp);
		if (i == 1 && is_shared)
			srq_done(&ends[i].srq, &ends[i].arena);
		engine_lane_done(&ends[i].lane);
		mr_table_done(&ends[i].mrs);
		arena_memory_free(ends[i].arena_memory, ARENA_BYTES);
	}
	return 0;
}

#define TEST(name)          cmocka_unit_test_setup_teardown(name, setup, teardown)
#define TEST_SHARED(name)   cmocka_unit_test_setup_teardown(name, setup_shared, teardown)
#define TEST_STRANGER(name) cmocka_unit_test_setup_teardown(name, setup_strangers, teardown)

#endif
