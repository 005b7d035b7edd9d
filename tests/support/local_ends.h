/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two NICs of one host in one process: `ends[0]` executes requests at `ends[1]`.
 */
#ifndef URNIC_TESTS_LOCAL_ENDS_H
#define URNIC_TESTS_LOCAL_ENDS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/engine.h"
#include "local/local.h"
#include "support/arena_memory.h"
#include "support/permutation.h"

enum {
	ARENA_BYTES = 4 << 20,
	MEMORY_BYTES = 1 << 17,
	PD = 3,
	DEPTH = 256,
	PSN = 77,
	ACCESS = MR_LOCAL_WRITE | MR_REMOTE_ANY | MR_WINDOW_BIND | MR_FLUSH_GLOBAL,
};

#define NOW_NS 1000000000ull
#define MS     1000000ull

struct end {
	struct arena arena;
	void *arena_memory;
	struct mr_table mrs;
	struct mr_public mrs_public;
	struct lane lane;
	struct cq send_cq;
	struct cq recv_cq;
	struct srq srq; /* of shared ends */
	struct srq_table *srqs; /* of XRC ends */
	struct qp *qp;
	uint8_t memory[MEMORY_BYTES];
	uint32_t key;
	struct local_lane local_lane;
	uint64_t table_offset;
	uint64_t channel_offset;
	struct local_owner owner;
	struct peer peer; /* the other end */
	struct local_qp local;
	struct local_initiator initiator;
};

static struct end ends[2];
static bool are_shared; /* the ends receive from shared receive queues */
static enum qp_type types[2] = {QP_TYPE_RC, QP_TYPE_RC};
static uint8_t rd_atomic_max = 4; /* max_dest_rd_atomic of both ends */

enum { SRQN = 0x40007, XRCD = 2 }; /* of XRC ends */
static uint32_t kicks;
static uint32_t wakes;
static bool is_unwakeable; /* wake() fails */
static uint32_t wait_rounds; /* calls of local_owner.wait in the last wait */
static uint32_t leaves_in; /* rounds until the initiator clears its mark; 0: it is dead */

/* A channel of the tests is followed by its ring. */
enum { CHANNEL_BYTES = sizeof(struct request_channel) + sizeof(struct channel_ring) };

static inline struct request_channel *channel_of(uint32_t number)
{
	return arena_peers_side(arena_at(&ends[number].arena, ends[number].channel_offset));
}

static inline struct channel_ring *ring_of(uint32_t number)
{
	return (struct channel_ring *)(channel_of(number) + 1);
}

/* Who has not said its name is in ends[1]'s channel. */
static inline bool wait(uint32_t who, uint32_t round)
{
	wait_rounds = round + 1;
	if (leaves_in && round + 1 == leaves_in)
		channel_leave(channel_of(who != 2));
	return leaves_in != 0;
}

/* Times that an owner reads: none passes, or far too much. */
static inline uint64_t no_time(void)
{
	return 0;
}

static inline uint64_t all_time(void)
{
	return UINT64_MAX;
}

static uint32_t collects_in; /* rounds until the target collects; 0: never */

static inline void pause(uint32_t round)
{
	if (collects_in && round + 1 == collects_in)
		local_collect(&ends[1].lane, &ends[1].local_lane, NOW_NS);
}

static inline bool far_write(struct peer *peer, uint64_t to, const uint8_t *from, size_t bytes)
{
	(void)peer;
	copy_place((uint8_t *)(uintptr_t)to, from, bytes);
	return true;
}

static inline bool far_read(struct peer *peer, uint8_t *to, uint64_t from, size_t bytes)
{
	(void)peer;
	memcpy(to, (const void *)(uintptr_t)from, bytes);
	return true;
}

static inline void kick(struct peer *peer, uint32_t lane)
{
	(void)peer;
	(void)lane;
	kicks++;
}

static inline bool wake(struct peer *peer, struct waiter *waiter, enum waiter_state state)
{
	(void)peer;
	(void)waiter;
	(void)state;
	wakes += !is_unwakeable;
	return !is_unwakeable;
}

static const struct peer_ops ops = {far_write, far_read, NULL, kick, wake, NULL};

static inline uint8_t *map_all(
	struct peer *peer, const struct mr_slot *region, uint64_t address, uint64_t *bytes)
{
	(void)peer;
	(void)region;
	(void)bytes;
	return (uint8_t *)(uintptr_t)address;
}

/* All memory can be mapped. */
static const struct peer_ops mapped_ops = {far_write, far_read, map_all, kick, NULL, NULL};

static inline struct gid gid_of(uint32_t number)
{
	return gid_from_ipv4((const uint8_t[]){10, 0, 0, (uint8_t)(1 + number)});
}

/* A target that has a shared receive queue, and a directory to find it. */
static inline void xrc_init(struct end *end, struct qp_init *init)
{
	const struct srq_init shared = {.number = SRQN,
		.pd = PD,
		.xrcd = XRCD,
		.cq = &end->recv_cq,
		.depth = DEPTH,
		.sge_count_max = 4,
		.serial = 77};

	end->srqs = calloc(1, sizeof(*end->srqs));
	assert_non_null(end->srqs);
	end->srqs->directory =
		arena_at(&end->arena, arena_alloc(&end->arena, sizeof(struct srq_directory)));
	end->lane.srqs = end->srqs;
	assert_int_equal(srq_init(&end->srq, &end->arena, &shared), 0);
	srq_table_add(end->srqs, &end->srq);
	init->xrcd = XRCD;
	init->pd = 0;
	init->send_cq = NULL;
	init->recv_cq = NULL;
}

static inline bool has_own_queue(uint32_t number)
{
	return !are_shared && types[number] != QP_TYPE_XRC_RECV;
}

static inline void end_init(struct end *end, uint32_t number)
{
	struct qp_init init = {
		.type = types[number],
		.mtu_bytes = 1024,
		.pd = PD,
		.send_cq = &end->send_cq,
		.recv_cq = &end->recv_cq,
		.caps = {DEPTH, DEPTH, 4, 4, 64},
	};
	struct mr_region region = {PD, ACCESS, (uintptr_t)end->memory, MEMORY_BYTES, end->memory};

	memset(end, 0, sizeof(*end));
	end->arena_memory = arena_memory_new(ARENA_BYTES);
	arena_init(&end->arena, end->arena_memory, ARENA_BYTES);
	assert_int_equal(
		mr_table_init(&end->mrs, &end->arena, 16, test_permutation(1 + number)), 0);
	assert_int_equal(engine_lane_init(&end->lane, &end->arena, &end->mrs, 5 + number, 0), 0);
	assert_int_equal(cq_init(&end->send_cq, &end->arena, 1024), 0);
	assert_int_equal(cq_init(&end->recv_cq, &end->arena, 1024), 0);
	if (are_shared) {
		const struct srq_init shared = {
			.number = 1, .pd = PD, .depth = DEPTH, .sge_count_max = 4};

		assert_int_equal(srq_init(&end->srq, &end->arena, &shared), 0);
		init.srq = &end->srq;
	}
	if (types[number] == QP_TYPE_XRC_RECV)
		xrc_init(end, &init);
	if (types[number] == QP_TYPE_XRC_SEND)
		init.recv_cq = NULL;
	assert_int_equal(engine_qp_create(&end->lane, &init, 9, &end->qp), 0);
	assert_int_equal(mr_table_add(&end->mrs, &region, 0, &end->key), 0);
	end->local_lane.doorbell = arena_peers_side(
		arena_at(&end->arena, arena_alloc(&end->arena, sizeof(struct doorbell))));
	end->table_offset = arena_alloc(&end->arena, sizeof(struct channel_table));
	end->channel_offset = arena_alloc(&end->arena, CHANNEL_BYTES);
	end->owner = (struct local_owner){wait, pause, no_time, 1 + number, NULL, 0};
	end->local_lane.owner = &end->owner;
	mr_table_publish(&end->mrs, &end->arena, &end->mrs_public);
}

static inline struct doorbell *doorbell_of(uint32_t number)
{
	return ends[number].local_lane.doorbell;
}

static inline void modify(
	struct qp *qp, enum qp_state to, uint32_t mask, const struct qp_attr *attr)
{
	assert_int_equal(qp_modify(qp, to, ATTR_STATE | mask, attr, NOW_NS), 0);
}

/* To RTR, with a channel for the other one. */
static inline void meet(uint32_t number)
{
	struct end *end = &ends[number], *other = &ends[1 - number];
	struct channel_table *table = arena_at(&end->arena, end->table_offset);
	struct local_channel place = {
		.channel = channel_of(number),
		.ring = ring_of(number),
		.offset = end->channel_offset,
		.ring_offset = end->channel_offset + sizeof(struct request_channel),
		.lane = &end->local_lane,
	};
	struct qp_attr attr = {
		.port = 1,
		.access = MR_REMOTE_ANY | MR_FLUSH_GLOBAL,
		.path = {.local = gid_of(number), .remote = gid_of(1 - number)},
		.path_mtu = 3,
		.dest_qpn = other->qp->qpn,
		.rq_psn = PSN,
		.max_dest_rd_atomic = rd_atomic_max,
	};

	modify(end->qp, QP_INIT, ATTR_PKEY_INDEX | ATTR_PORT | ATTR_ACCESS, &attr);
	modify(end->qp, QP_RTR,
		ATTR_AV | ATTR_PATH_MTU | ATTR_DEST_QPN | ATTR_RQ_PSN |
			(types[number] == QP_TYPE_UC || types[number] == QP_TYPE_XRC_SEND
					? 0
					: ATTR_MAX_DEST_RD_ATOMIC | ATTR_MIN_RNR_TIMER),
		&attr);
	if (end->srqs)
		place.srqs_offset = arena_offset(&end->arena, end->srqs->directory);
	end->peer.base = other->arena.base;
	end->peer.bytes = other->arena.bytes;
	end->peer.ops = &ops;
	assert_int_equal(
		mr_table_view(&end->peer.mrs, end->peer.base, end->peer.bytes, &other->mrs_public),
		0);
	local_connect(&end->local, &end->initiator, end->qp, &place, &end->peer,
		arena_at(&other->arena, other->table_offset));
	table->offset[end->qp->qpn % CHANNEL_TABLE_COUNT] = end->channel_offset;
}

static inline void ready_to_send(uint32_t number, uint32_t sq_psn)
{
	struct qp_attr attr = {.sq_psn = sq_psn,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.max_rd_atomic = 4};

	uint32_t mask = ATTR_SQ_PSN;

	if (types[number] != QP_TYPE_UC)
		mask |= ATTR_TIMEOUT;
	if (types[number] == QP_TYPE_RC || types[number] == QP_TYPE_XRC_SEND)
		mask |= ATTR_RETRY_CNT | ATTR_RNR_RETRY | ATTR_MAX_RD_ATOMIC;
	modify(ends[number].qp, QP_RTS, mask, &attr);
}

static inline int setup(void **state)
{
	(void)state;
	kicks = 0;
	wakes = 0;
	wait_rounds = 0;
	leaves_in = 1;
	collects_in = 0;
	end_init(&ends[0], 0);
	end_init(&ends[1], 1);
	meet(0);
	meet(1);
	ready_to_send(0, PSN);
	return 0;
}

static inline int teardown(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 2; i++) {
		engine_check(&ends[i].lane);
		if (ends[i].qp->local)
			assert_true(local_disconnect(&ends[i].local, NOW_NS));
		engine_qp_destroy(ends[i].qp);
		if (!has_own_queue(i))
			srq_done(&ends[i].srq, &ends[i].arena);
		engine_lane_done(&ends[i].lane);
		mr_table_done(&ends[i].mrs);
		free(ends[i].srqs);
		arena_memory_free(ends[i].arena_memory, ARENA_BYTES);
	}
	return 0;
}

static inline void post_at(uint32_t opcode, uint32_t bytes, uint32_t rkey, uint64_t now_ns)
{
	struct sge sge = {(uintptr_t)ends[0].memory, bytes, ends[0].key};
	struct send_wr wr = {
		.wr_id = 40,
		.opcode = opcode,
		.flags = SEND_SIGNALED,
		.imm = 0xabcd,
		.rkey = rkey,
		.remote_address = (uintptr_t)ends[1].memory,
		.sge = &sge,
		.sge_count = 1,
		.srqn = SRQN,
		.flush = {bytes, FETH_PLACEMENT_GLOBAL, FETH_SELECT_RANGE},
	};
	uint32_t posted;

	memset(ends[0].memory, 0x5a, bytes);
	assert_int_equal(engine_post_send(ends[0].qp, &wr, 1, &posted, now_ns), 0);
}

static inline void post(uint32_t opcode, uint32_t bytes)
{
	post_at(opcode, bytes, ends[1].key, NOW_NS);
}

static inline void post_receive(uint64_t wr_id)
{
	struct sge sge = {(uintptr_t)ends[1].memory + 4096, 4096, ends[1].key};
	struct recv_wr wr = {wr_id, &sge, 1};

	if (!has_own_queue(1))
		assert_int_equal(srq_post(&ends[1].srq, &wr), 0);
	else
		assert_int_equal(qp_post_recv(ends[1].qp, &wr), 0);
}

static inline bool has_packets(uint32_t number)
{
	return engine_has_packets(&ends[number].lane, true);
}

static inline struct cqe poll(struct cq *cq, const struct arena *arena)
{
	struct cqe cqe;

	assert_int_equal(cq_poll(cq, arena, 1, &cqe), 1);
	return cqe;
}

static inline struct cqe poll_sent(void)
{
	return poll(&ends[0].send_cq, &ends[0].arena);
}

static inline struct cqe poll_received(void)
{
	return poll(&ends[1].recv_cq, &ends[1].arena);
}

static inline uint32_t collect(void)
{
	return local_collect(&ends[1].lane, &ends[1].local_lane, NOW_NS);
}

/* Let all packets of one end arrive at the other. */
static inline void carry(uint32_t from)
{
	uint8_t buffer[ENGINE_PACKET_BYTES_MAX];
	const struct gid source = gid_of(from), destination = gid_of(1 - from);
	const struct packet_origin origin = {.source = &source, .destination = &destination};
	struct packet_run run = {.buffer = buffer};
	size_t bytes;

	while ((bytes = engine_next_packet(&ends[from].lane, true, &run, NOW_NS)))
		engine_receive(&ends[1 - from].lane, &origin, buffer, (uint32_t)bytes, NOW_NS);
}

static inline void exchange(void)
{
	while (has_packets(0) || has_packets(1)) {
		carry(0);
		carry(1);
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

#endif
