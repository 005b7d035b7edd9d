/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two NICs of one host in one process: `ends[0]` executes requests at `ends[1]`.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/engine.h"
#include "local/local.h"
#include "memory/mw.h"

enum {
	ARENA_BYTES = 4 << 20,
	MEMORY_BYTES = 1 << 16,
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
	struct qp *qp;
	uint8_t memory[MEMORY_BYTES];
	uint32_t key;
	struct local_lane local_lane;
	uint64_t table_offset;
	uint64_t inbox_offset;
	struct local_owner owner;
	struct peer peer; /* the other end */
	struct local_qp local;
};

static struct end ends[2];
static uint32_t kicks;
static uint32_t wait_rounds; /* how often the last wait was called */
static uint32_t leaves_in; /* rounds until whoever is in the inbox leaves it; 0: it is dead */

static bool wait(const struct inbox *inbox, uint32_t round)
{
	wait_rounds = round + 1;
	if (leaves_in && round + 1 == leaves_in)
		inbox_leave((struct inbox *)(uintptr_t)inbox);
	return leaves_in != 0;
}

static uint32_t collects_in; /* rounds until the target collects; 0: never */

static void pause(uint32_t round)
{
	if (collects_in && round + 1 == collects_in)
		local_collect(&ends[1].lane, &ends[1].local_lane, NOW_NS);
}

static bool far_write(struct peer *peer, uint64_t to, const uint8_t *from, size_t bytes)
{
	(void)peer;
	copy_place((uint8_t *)(uintptr_t)to, from, bytes);
	return true;
}

static bool far_read(struct peer *peer, uint8_t *to, uint64_t from, size_t bytes)
{
	(void)peer;
	memcpy(to, (const void *)(uintptr_t)from, bytes);
	return true;
}

static void kick(struct peer *peer, uint32_t lane)
{
	(void)peer;
	(void)lane;
	kicks++;
}

static const struct peer_ops ops = {far_write, far_read, NULL, kick};

static struct gid gid_of(uint32_t number)
{
	return gid_from_ipv4((const uint8_t[]){10, 0, 0, (uint8_t)(1 + number)});
}

static void end_init(struct end *end, uint32_t number)
{
	struct qp_init init = {
		.type = QP_TYPE_RC,
		.mtu_bytes = 1024,
		.pd = PD,
		.send_cq = &end->send_cq,
		.recv_cq = &end->recv_cq,
		.caps = {DEPTH, DEPTH, 4, 4, 64},
	};
	struct mr_region region = {PD, ACCESS, (uintptr_t)end->memory, MEMORY_BYTES, end->memory};

	memset(end, 0, sizeof(*end));
	end->arena_memory = calloc(1, ARENA_BYTES + 64);
	assert_non_null(end->arena_memory);
	arena_init(&end->arena, (void *)(uintptr_t)align_up_u64((uintptr_t)end->arena_memory, 64),
		ARENA_BYTES);
	assert_int_equal(mr_table_init(&end->mrs, &end->arena, 16, 1 + number, 2), 0);
	assert_int_equal(engine_lane_init(&end->lane, &end->arena, &end->mrs, 5 + number, 0), 0);
	assert_int_equal(cq_init(&end->send_cq, &end->arena, 1024), 0);
	assert_int_equal(cq_init(&end->recv_cq, &end->arena, 1024), 0);
	assert_int_equal(engine_qp_create(&end->lane, &init, 9, &end->qp), 0);
	assert_int_equal(mr_table_add(&end->mrs, &region, 0, &end->key), 0);
	end->local_lane.bell =
		arena_at(&end->arena, arena_alloc(&end->arena, sizeof(struct inbox_bell)));
	end->table_offset = arena_alloc(&end->arena, sizeof(struct inbox_table));
	end->inbox_offset = arena_alloc(&end->arena, sizeof(struct inbox));
	end->owner = (struct local_owner){wait, pause, 1 + number};
	mr_table_publish(&end->mrs, &end->arena, &end->mrs_public);
}

static struct inbox *inbox_of(uint32_t number)
{
	return arena_at(&ends[number].arena, ends[number].inbox_offset);
}

static struct inbox_bell *bell_of(uint32_t number)
{
	return ends[number].local_lane.bell;
}

static void modify(struct qp *qp, enum qp_state to, uint32_t mask, const struct qp_attr *attr)
{
	assert_int_equal(qp_modify(qp, to, ATTR_STATE | mask, attr, NOW_NS), 0);
}

/* To RTR, with an inbox for the other one. */
static void meet(uint32_t number)
{
	struct end *end = &ends[number], *other = &ends[1 - number];
	struct inbox_table *table = arena_at(&end->arena, end->table_offset);
	struct local_inbox place = {inbox_of(number), end->inbox_offset, &end->local_lane};
	struct qp_attr attr = {
		.port = 1,
		.access = MR_REMOTE_ANY | MR_FLUSH_GLOBAL,
		.path = {.local = gid_of(number), .remote = gid_of(1 - number)},
		.path_mtu = 3,
		.dest_qpn = other->qp->qpn,
		.rq_psn = PSN,
		.max_dest_rd_atomic = 4,
	};

	modify(end->qp, QP_INIT, ATTR_PKEY_INDEX | ATTR_PORT | ATTR_ACCESS, &attr);
	modify(end->qp, QP_RTR,
		ATTR_AV | ATTR_PATH_MTU | ATTR_DEST_QPN | ATTR_RQ_PSN | ATTR_MAX_DEST_RD_ATOMIC |
			ATTR_MIN_RNR_TIMER,
		&attr);
	end->peer.base = other->arena.base;
	end->peer.bytes = other->arena.bytes;
	end->peer.ops = &ops;
	assert_int_equal(
		mr_table_view(&end->peer.mrs, end->peer.base, end->peer.bytes, &other->mrs_public),
		0);
	local_connect(&end->local, end->qp, &place, &end->peer,
		arena_at(&other->arena, other->table_offset), &end->owner);
	table->offset[end->qp->qpn % INBOX_TABLE_COUNT] = end->inbox_offset;
}

static void ready_to_send(uint32_t number, uint32_t sq_psn)
{
	struct qp_attr attr = {.sq_psn = sq_psn,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.max_rd_atomic = 4};

	modify(ends[number].qp, QP_RTS,
		ATTR_TIMEOUT | ATTR_RETRY_CNT | ATTR_RNR_RETRY | ATTR_SQ_PSN | ATTR_MAX_RD_ATOMIC,
		&attr);
}

static int setup(void **state)
{
	(void)state;
	kicks = 0;
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

static int teardown(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 2; i++) {
		engine_check(&ends[i].lane);
		if (ends[i].qp->local)
			assert_true(local_disconnect(&ends[i].local, NOW_NS));
		engine_qp_destroy(ends[i].qp);
		engine_lane_done(&ends[i].lane);
		mr_table_done(&ends[i].mrs);
		free(ends[i].arena_memory);
	}
	return 0;
}

static void post_at(uint32_t opcode, uint32_t bytes, uint32_t rkey, uint64_t now_ns)
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
	};
	uint32_t posted;

	memset(ends[0].memory, 0x5a, bytes);
	assert_int_equal(engine_post_send(ends[0].qp, &wr, 1, &posted, now_ns), 0);
}

static void post(uint32_t opcode, uint32_t bytes)
{
	post_at(opcode, bytes, ends[1].key, NOW_NS);
}

static void post_receive(uint64_t wr_id)
{
	struct sge sge = {(uintptr_t)ends[1].memory + 4096, 4096, ends[1].key};
	struct recv_wr wr = {wr_id, &sge, 1};

	assert_int_equal(qp_post_recv(ends[1].qp, &wr), 0);
}

static bool has_packets(uint32_t number)
{
	return engine_has_packets(&ends[number].lane, true);
}

static struct cqe poll(struct cq *cq, const struct arena *arena)
{
	struct cqe cqe;

	assert_int_equal(cq_poll(cq, arena, 1, &cqe), 1);
	return cqe;
}

static struct cqe poll_sent(void)
{
	return poll(&ends[0].send_cq, &ends[0].arena);
}

static struct cqe poll_received(void)
{
	return poll(&ends[1].recv_cq, &ends[1].arena);
}

static uint32_t collect(void)
{
	return local_collect(&ends[1].lane, &ends[1].local_lane, NOW_NS);
}

/* --- requests --- */

/* Bind a window of type 2 to the target's first bytes. */
static uint32_t window_bind(void)
{
	struct mw_bind bind = {
		.region_key = ends[1].key,
		.user = {PD, ends[1].qp->qpn},
		.access = MR_REMOTE_WRITE,
		.iova = (uintptr_t)ends[1].memory,
		.bytes = 100,
	};

	assert_int_equal(mw_add(&ends[1].mrs, PD, MR_KIND_WINDOW_2, 0, &bind.key), 0);
	assert_int_equal(mw_bind(&ends[1].mrs, &bind), MR_OK);
	return bind.key;
}

static void post_invalidation(uint32_t key)
{
	struct sge sge = {(uintptr_t)ends[0].memory, 10, ends[0].key};
	struct send_wr wr = {
		.opcode = WR_SEND_WITH_INV,
		.flags = SEND_SIGNALED,
		.imm = key,
		.sge = &sge,
		.sge_count = 1,
	};
	uint32_t posted;

	assert_int_equal(engine_post_send(ends[0].qp, &wr, 1, &posted, NOW_NS), 0);
}

static void invalidated_key_is_gone_before_its_message_completes(void **state)
{
	uint32_t key = window_bind();

	(void)state;
	post_receive(50);
	post_at(WR_RDMA_WRITE, 100, key, NOW_NS);
	assert_int_equal(poll_sent().status, WC_SUCCESS);
	post_invalidation(key);
	assert_int_equal(poll_sent().status, WC_SUCCESS);
	assert_false(has_packets(0));
	assert_int_equal(collect(), 1);
	struct cqe cqe = poll_received();
	assert_int_equal(cqe.flags, WC_WITH_INV);
	assert_int_equal(cqe.imm, key);
	assert_int_equal(
		mw_check(&ends[1].mrs, key, (struct mr_user){PD, ends[1].qp->qpn}), MR_FAULT_KEY);
	post(WR_RDMA_WRITE, 100); /* by the region's key */
	assert_false(has_packets(0));
}

static void request_after_an_invalidation_that_is_not_collected_goes_by_packets(void **state)
{
	uint32_t key = window_bind();

	(void)state;
	post_receive(50);
	post_invalidation(key);
	assert_false(has_packets(0));
	post_at(WR_RDMA_WRITE, 100, key, NOW_NS);
	assert_true(has_packets(0));
	assert_int_equal(ends[1].memory[0], 0);
}

static void key_that_may_not_be_invalidated_goes_by_packets(void **state)
{
	(void)state;
	post_receive(50);
	post_invalidation(ends[1].key); /* a region's */
	assert_true(has_packets(0));
	assert_int_equal(rq_count(ends[1].qp->rq), 1);
}

static void post_flush(uint32_t bytes, uint8_t placement)
{
	struct send_wr wr = {
		.opcode = WR_FLUSH,
		.flags = SEND_SIGNALED,
		.rkey = ends[1].key,
		.remote_address = (uintptr_t)ends[1].memory,
		.flush = {bytes, placement, FETH_SELECT_RANGE},
	};
	uint32_t posted;

	assert_int_equal(engine_post_send(ends[0].qp, &wr, 1, &posted, NOW_NS), 0);
}

static void flush_of_what_it_may_flush_is_done_at_once(void **state)
{
	(void)state;
	post_flush(MEMORY_BYTES, FETH_PLACEMENT_GLOBAL);
	assert_int_equal(poll_sent().opcode, WC_FLUSH);
	assert_false(has_packets(0));
	assert_int_equal(inbox_of(1)->flushes, 1);
}

static void flush_beyond_the_region_goes_by_packets(void **state)
{
	(void)state;
	post_flush(MEMORY_BYTES + 1, FETH_PLACEMENT_GLOBAL);
	assert_true(has_packets(0));
}

static void flush_to_persistence_goes_by_packets(void **state)
{
	(void)state;
	post_flush(1, FETH_PLACEMENT_PERSISTENT);
	assert_true(has_packets(0));
}

static uint8_t *map_all(
	struct peer *peer, const struct mr_slot *region, uint64_t address, uint64_t *bytes)
{
	(void)peer;
	(void)region;
	(void)bytes;
	return (uint8_t *)(uintptr_t)address;
}

static void atomic_write_is_one_store_where_memory_is_mapped(void **state)
{
	static const struct peer_ops mapped = {far_write, far_read, map_all, kick};

	(void)state;
	ends[0].peer.ops = &mapped;
	post(WR_ATOMIC_WRITE, 8);
	assert_int_equal(poll_sent().opcode, WC_ATOMIC_WRITE);
	assert_memory_equal(ends[1].memory, ends[0].memory, 8);
	assert_int_equal(inbox_of(1)->atomic_writes, 1);
	post(WR_ATOMIC_WRITE, 16); /* which is refused there */
	assert_true(has_packets(0));
	assert_int_equal(inbox_of(1)->atomic_writes, 1);
}

static void atomic_write_elsewhere_goes_by_packets(void **state)
{
	(void)state;
	post(WR_ATOMIC_WRITE, 8);
	assert_true(has_packets(0));
	assert_int_equal(ends[1].memory[0], 0);
}

static void write_is_there_when_posting_returns(void **state)
{
	(void)state;
	post(WR_RDMA_WRITE, 3000);
	assert_memory_equal(ends[1].memory, ends[0].memory, 3000);
	assert_int_equal(poll_sent().status, WC_SUCCESS);
	assert_false(has_packets(0));
	assert_int_equal(inbox_of(1)->writes, 1);
}

static void message_completes_at_the_target_when_it_collects(void **state)
{
	(void)state;
	post_receive(50);
	post(WR_SEND_WITH_IMM, 100);
	assert_int_equal(poll_sent().status, WC_SUCCESS);
	assert_true(cq_is_empty(&ends[1].recv_cq));
	assert_int_equal(collect(), 1);
	struct cqe cqe = poll_received();
	assert_int_equal(cqe.wr_id, 50);
	assert_int_equal(cqe.byte_count, 100);
	assert_int_equal(cqe.imm, 0xabcd);
	assert_int_equal(cqe.flags, WC_WITH_IMM);
	assert_memory_equal(ends[1].memory + 4096, ends[0].memory, 100);
	assert_int_equal(collect(), 0);
}

static void refused_request_goes_by_packets_and_changes_nothing(void **state)
{
	(void)state;
	post_at(WR_RDMA_WRITE, 100, ends[1].key ^ 1, NOW_NS);
	assert_true(has_packets(0));
	assert_int_equal(ends[1].memory[0], 0);
	assert_true(cq_is_empty(&ends[0].send_cq));
}

static void message_longer_than_its_receive_goes_by_packets_and_takes_none(void **state)
{
	(void)state;
	post_receive(50);
	post(WR_SEND, 5000);
	assert_true(has_packets(0));
	assert_int_equal(rq_count(ends[1].qp->rq), 1);
	assert_int_equal(ends[1].memory[4096], 0);
}

static void message_without_a_receive_waits_a_while_then_goes_by_packets(void **state)
{
	uint64_t at_ns;

	(void)state;
	post(WR_SEND, 10);
	assert_false(has_packets(0));
	at_ns = engine_deadline_ns(&ends[0].lane);
	assert_in_range(at_ns, NOW_NS + 1, NOW_NS + MS);
	engine_expire(&ends[0].lane, at_ns);
	uint8_t buffer[ENGINE_PACKET_BYTES_MAX];
	uint32_t path;
	assert_int_equal(engine_next_packet(&ends[0].lane, true, buffer, &path, at_ns), 0);
	engine_expire(&ends[0].lane, at_ns + 20 * MS);
	assert_true(engine_next_packet(&ends[0].lane, true, buffer, &path, at_ns + 20 * MS) > 0);
}

static void message_whose_receive_comes_in_time_needs_no_packet(void **state)
{
	uint8_t buffer[ENGINE_PACKET_BYTES_MAX];
	uint32_t path;

	(void)state;
	post(WR_SEND, 10);
	post_receive(50);
	engine_expire(&ends[0].lane, NOW_NS + MS);
	assert_int_equal(engine_next_packet(&ends[0].lane, true, buffer, &path, NOW_NS + MS), 0);
	assert_int_equal(poll_sent().status, WC_SUCCESS);
	assert_int_equal(collect(), 1);
}

static void messages_stop_when_nobody_collects(void **state)
{
	(void)state;
	for (uint32_t i = 0; i <= INBOX_RECORD_COUNT; i++)
		post_receive(i);
	for (uint32_t i = 0; i <= INBOX_RECORD_COUNT; i++)
		post(WR_SEND, 1);
	assert_int_equal(rq_count(ends[1].qp->rq), 1);
	assert_int_equal(kicks > 0, 1);
	assert_int_equal(collect(), INBOX_RECORD_COUNT);
	for (uint32_t i = 0; i < INBOX_RECORD_COUNT; i++)
		assert_int_equal(poll_received().wr_id, i);
}

static void sleeping_target_is_kicked_when_its_queue_is_armed(void **state)
{
	(void)state;
	ready_to_send(1, PSN); /* it wants to hear of no first request any more */
	post_receive(1);
	post_receive(2);
	post(WR_SEND, 1);
	assert_int_equal(kicks, 0);
	cq_arm(&ends[1].recv_cq, CQ_ARM_NEXT);
	post(WR_SEND, 1);
	assert_int_equal(kicks, 1);
}

/* The first message rings; from then on the inbox is watched. */
static void watched(void)
{
	ready_to_send(1, PSN);
	post_receive(1);
	post(WR_SEND, 1);
	assert_int_equal(collect(), 1);
	poll_received();
	poll_sent();
	assert_true(inbox_of(1)->is_watched);
}

static void inbox_that_is_watched_needs_no_bell(void **state)
{
	(void)state;
	watched();
	for (uint32_t i = 2; i < 2 + 2 * INBOX_RECORD_COUNT; i++) {
		assert_false(local_has_news(&ends[1].local_lane));
		post_receive(i);
		post(WR_SEND, 1);
		assert_int_equal(bell_of(1)->first_offset, 0);
		assert_true(local_has_news(&ends[1].local_lane));
		assert_int_equal(collect(), 1);
		assert_int_equal(poll_received().wr_id, i);
		poll_sent();
	}
}

static void receive_request_is_free_when_its_record_was_collected(void **state)
{
	struct recv_wr wr = {9, NULL, 0};
	struct recv_queue *rq = ends[1].qp->rq;

	(void)state;
	for (uint32_t i = 0; i < DEPTH; i++)
		post_receive(i);
	post(WR_SEND, 1);
	atomic_store(&rq->taken, 0); /* the initiator is not that far yet */
	assert_int_not_equal(qp_post_recv(ends[1].qp, &wr), 0);
	assert_int_equal(collect(), 1);
	assert_int_equal(qp_post_recv(ends[1].qp, &wr), 0);
	assert_int_not_equal(qp_post_recv(ends[1].qp, &wr), 0);
	atomic_store(&rq->taken, 1);
}

static void first_request_tells_that_the_connection_is_established(void **state)
{
	uint32_t news = 0;

	(void)state;
	post(WR_RDMA_WRITE, 1);
	assert_int_equal(kicks, 1);
	collect();
	assert_ptr_equal(signal_take(&ends[1].lane.signals, &news), &ends[1].qp->signal);
	assert_int_equal(news, SIGNAL_QP_ESTABLISHED);
	post(WR_RDMA_WRITE, 1);
	assert_int_equal(kicks, 1);
}

/* --- who may enter --- */

static void inbox_of_another_connection_is_not_entered(void **state)
{
	(void)state;
	inbox_of(1)->rq_psn = PSN + 1;
	post(WR_RDMA_WRITE, 1);
	assert_true(has_packets(0));
	inbox_of(1)->rq_psn = PSN;
	inbox_of(1)->remote = gid_of(7);
	assert_false(local_attach(&ends[0].local));
	inbox_of(1)->remote = gid_of(0);
	inbox_of(1)->cq_offset = ARENA_BYTES;
	assert_false(local_attach(&ends[0].local));
	inbox_of(1)->cq_offset = arena_offset(&ends[1].arena, ends[1].recv_cq.ring);
	assert_true(local_attach(&ends[0].local));
}

static void inbox_that_was_closed_and_opened_is_another_one(void **state)
{
	struct inbox *inbox = inbox_of(1);
	uint32_t generation = inbox_generation(inbox);
	struct inbox_record record = {0};

	(void)state;
	assert_true(inbox_enter(inbox, generation, INBOX_PUBLISHES));
	assert_false(inbox_enter(inbox, generation, INBOX_PUBLISHES));
	inbox_close(inbox);
	assert_false(inbox_publish(inbox, generation, &record));
	inbox_leave(inbox);
	assert_false(inbox_enter(inbox, generation, INBOX_PUBLISHES));
	inbox_open(inbox);
	assert_false(inbox_enter(inbox, generation, INBOX_PUBLISHES));
	assert_true(inbox_enter(inbox, generation + 2, INBOX_PUBLISHES));
	inbox_leave(inbox);
}

static void record_is_published_or_the_inbox_is_closed_before_it(void **state)
{
	struct inbox *inbox = inbox_of(1);
	uint32_t generation = inbox_generation(inbox);
	struct inbox_record record = {.wr_id = 5};

	(void)state;
	assert_true(inbox_enter(inbox, generation, INBOX_PUBLISHES));
	assert_true(inbox_publish(inbox, generation, &record));
	inbox_close(inbox);
	assert_false(inbox_publish(inbox, generation, &record));
	assert_int_equal(inbox_next(inbox)->wr_id, 5);
	inbox_collected(inbox);
	assert_null(inbox_next(inbox));
	inbox_leave(inbox);
	inbox_open(inbox);
	assert_null(inbox_next(inbox));
	assert_false(inbox_publish(inbox, generation, &record));
	assert_true(inbox_publish(inbox, generation + 2, &record));
	inbox_close(inbox);
	assert_int_equal(inbox_next(inbox)->wr_id, 5);
	inbox_collected(inbox);
}

static void inbox_is_listed_once_however_often_it_is_rung(void **state)
{
	(void)state;
	inbox_ring(inbox_of(1), bell_of(1), ends[1].inbox_offset);
	inbox_ring(inbox_of(1), bell_of(1), ends[1].inbox_offset);
	assert_int_equal(bell_of(1)->first_offset, ends[1].inbox_offset);
	assert_int_equal(inbox_of(1)->next_offset, 0);
	collect();
	assert_int_equal(bell_of(1)->first_offset, 0);
	inbox_ring(inbox_of(1), bell_of(1), ends[1].inbox_offset);
	assert_int_equal(bell_of(1)->first_offset, ends[1].inbox_offset);
}

/* --- the end --- */

static void error_state_flushes_what_was_not_taken(void **state)
{
	(void)state;
	post_receive(1);
	post_receive(2);
	post(WR_SEND, 1);
	qp_set_state(ends[1].qp, QP_ERR, NOW_NS);
	struct cqe cqe = poll_received();
	assert_int_equal(cqe.wr_id, 1);
	assert_int_equal(cqe.status, WC_SUCCESS);
	cqe = poll_received();
	assert_int_equal(cqe.wr_id, 2);
	assert_int_equal(cqe.status, WC_WR_FLUSH_ERR);
	post(WR_RDMA_WRITE, 1);
	assert_true(has_packets(0));
}

static void close_waits_for_who_is_inside(void **state)
{
	(void)state;
	assert_true(inbox_enter(inbox_of(1), inbox_generation(inbox_of(1)), INBOX_PUBLISHES));
	leaves_in = 5;
	qp_set_state(ends[1].qp, QP_ERR, NOW_NS);
	assert_int_equal(wait_rounds, 5);
}

static void close_does_not_wait_for_the_dead(void **state)
{
	(void)state;
	assert_true(inbox_enter(inbox_of(1), inbox_generation(inbox_of(1)), INBOX_PUBLISHES));
	atomic_store(&inbox_of(1)->is_rung, 1); /* it died before the inbox was on the list */
	leaves_in = 0;
	qp_set_state(ends[1].qp, QP_ERR, NOW_NS);
	assert_int_equal(wait_rounds, 1);
	assert_true(local_disconnect(&ends[1].local, NOW_NS));
	assert_int_equal(inbox_of(1)->is_rung, 0);
}

static void inbox_in_which_somebody_stands_still_is_not_used_again(void **state)
{
	(void)state;
	assert_true(inbox_enter(inbox_of(1), inbox_generation(inbox_of(1)), INBOX_PUBLISHES));
	leaves_in = UINT32_MAX;
	assert_false(local_disconnect(&ends[1].local, NOW_NS));
}

static void request_that_was_published_is_taken_though_the_initiator_died(void **state)
{
	struct recv_queue *rq = ends[1].qp->rq;

	(void)state;
	post_receive(1);
	post_receive(2);
	post(WR_SEND, 1);
	atomic_store(&rq->taken, 0); /* as if it had not come so far */
	qp_set_state(ends[1].qp, QP_ERR, NOW_NS);
	assert_int_equal(poll_received().wr_id, 1);
	assert_int_equal(poll_received().wr_id, 2);
	assert_true(cq_is_empty(&ends[1].recv_cq));
}

static void deregistration_waits_for_who_uses_the_key_and_for_nobody_else(void **state)
{
	struct mr_region region = {PD, ACCESS, 0, 16, ends[1].memory};
	uint32_t generation, other;

	(void)state;
	assert_int_equal(mr_table_add(&ends[1].mrs, &region, 9, &other), 0);
	generation = inbox_generation(inbox_of(1));
	assert_true(inbox_enter(inbox_of(1), generation, INBOX_USES_KEY | other));
	leaves_in = 3;
	local_quiesce(&ends[1].local, &ends[1].mrs, ends[1].key);
	assert_int_equal(wait_rounds, 0);
	local_quiesce(&ends[1].local, &ends[1].mrs, other);
	assert_int_equal(wait_rounds, 3);
}

static void last_message_is_collected_before_the_connection_ends(void **state)
{
	(void)state;
	post_receive(1);
	post(WR_SEND, 1);
	collects_in = 3;
	kicks = 0;
	qp_set_state(ends[0].qp, QP_ERR, NOW_NS);
	assert_int_equal(kicks, 1);
	assert_int_equal(poll_received().wr_id, 1);
}

static void peer_that_is_gone_is_not_touched(void **state)
{
	(void)state;
	post(WR_RDMA_WRITE, 8);
	assert_false(has_packets(0));
	local_forget_peer(&ends[0].local);
	post(WR_RDMA_WRITE, 8);
	assert_true(has_packets(0));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(write_is_there_when_posting_returns),
		TEST(invalidated_key_is_gone_before_its_message_completes),
		TEST(request_after_an_invalidation_that_is_not_collected_goes_by_packets),
		TEST(key_that_may_not_be_invalidated_goes_by_packets),
		TEST(flush_of_what_it_may_flush_is_done_at_once),
		TEST(flush_beyond_the_region_goes_by_packets),
		TEST(flush_to_persistence_goes_by_packets),
		TEST(atomic_write_is_one_store_where_memory_is_mapped),
		TEST(atomic_write_elsewhere_goes_by_packets),
		TEST(message_completes_at_the_target_when_it_collects),
		TEST(refused_request_goes_by_packets_and_changes_nothing),
		TEST(message_longer_than_its_receive_goes_by_packets_and_takes_none),
		TEST(message_without_a_receive_waits_a_while_then_goes_by_packets),
		TEST(message_whose_receive_comes_in_time_needs_no_packet),
		TEST(messages_stop_when_nobody_collects),
		TEST(sleeping_target_is_kicked_when_its_queue_is_armed),
		TEST(inbox_that_is_watched_needs_no_bell),
		TEST(receive_request_is_free_when_its_record_was_collected),
		TEST(first_request_tells_that_the_connection_is_established),
		TEST(inbox_of_another_connection_is_not_entered),
		TEST(inbox_that_was_closed_and_opened_is_another_one),
		TEST(record_is_published_or_the_inbox_is_closed_before_it),
		TEST(inbox_is_listed_once_however_often_it_is_rung),
		TEST(error_state_flushes_what_was_not_taken),
		TEST(close_waits_for_who_is_inside),
		TEST(close_does_not_wait_for_the_dead),
		TEST(inbox_in_which_somebody_stands_still_is_not_used_again),
		TEST(request_that_was_published_is_taken_though_the_initiator_died),
		TEST(deregistration_waits_for_who_uses_the_key_and_for_nobody_else),
		TEST(last_message_is_collected_before_the_connection_ends),
		TEST(peer_that_is_gone_is_not_touched),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
