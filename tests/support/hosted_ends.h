/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_TESTS_SUPPORT_HOSTED_ENDS_H
#define URNIC_TESTS_SUPPORT_HOSTED_ENDS_H

/*
 * A connection within one host to an XRC target (local_ends.h) whose requests name a shared receive queue of a third process, the
 * host. The target is a guest of that process, as is the initiator.
 */
#include "local/hosted.h"
#include "support/arena_memory.h"
#include "support/local_ends.h"
#include "support/permutation.h"

enum {
	HOST_SRQN = 0x09aaaa,
	OTHER_SRQN = 0x09aaab,
	HOST_PD = 77,
	PD_HERE = 5, /* what it is called at the target's */
	HOST_LANE = 1,
	HOST_BYTES = 8192,
	HOST_ARENA_BYTES = 16 << 20,
};

/* A process and its queues. */
static struct arena arena;
static void *arena_memory;
static struct mr_table mrs;
static struct mr_public mrs_public;
static struct lane lane;
static struct cq cq;
static struct srq srqs[2]; /* HOST_SRQN, OTHER_SRQN */
static struct srq_table *srq_table;
static struct guest_table *guests;
static struct guest_bell *bell;
static uint8_t memory[HOST_BYTES];
static uint32_t key;
static uint32_t host_kicks;
static uint64_t marks_seen; /* while bytes were moved */

/* How a guest sees it. */
struct guest {
	struct peer peer;
	struct far_host far;
	struct far_owner owner;
};

static struct guest target, initiator;
static struct far_srq target_srq; /* HOST_SRQN */
static struct far_domain target_domain;
static struct srq_hosted *told;
static struct hosted_srq hosted[2];

static inline uint64_t marks(void)
{
	uint64_t all = 0;

	for (uint32_t i = 0; i < guests->used_count; i++)
		all |= atomic_load(&guests->seat[i].in_use);
	return all;
}

static inline bool host_write(struct peer *peer, uint64_t to, const uint8_t *from, size_t bytes)
{
	marks_seen = marks();
	return far_write(peer, to, from, bytes);
}

static inline bool host_read(struct peer *peer, uint8_t *to, uint64_t from, size_t bytes)
{
	marks_seen = marks();
	return far_read(peer, to, from, bytes);
}

static inline void host_kick(struct peer *peer, uint32_t index)
{
	(void)peer;
	assert_int_equal(index, HOST_LANE);
	host_kicks++;
}

static const struct peer_ops host_ops = {host_write, host_read, NULL, host_kick, NULL};
static const struct peer_ops host_mapped_ops = {host_write, host_read, map_all, host_kick, NULL};

static inline bool is_alive(void *context, uint32_t who)
{
	(void)context;
	(void)who;
	return true;
}

static inline void host_pause(uint32_t round)
{
	(void)round;
}

static inline enum mr_fault check(
	uint32_t of_key, struct mr_user user, uint32_t access, uint64_t iova, uint64_t bytes)
{
	return far_check(&target_domain, of_key, user.qpn, access, iova, bytes);
}

static inline enum mr_fault put(uint32_t of_key, struct mr_user user, uint32_t access,
	uint64_t iova, size_t bytes, const uint8_t *from)
{
	return far_put(&target_domain, of_key, user.qpn, access, iova, bytes, from);
}

static inline enum mr_fault get(uint32_t of_key, struct mr_user user, uint32_t access,
	uint64_t iova, size_t bytes, uint8_t *to)
{
	return far_get(&target_domain, of_key, user.qpn, access, iova, bytes, to);
}

static inline enum mr_fault apply(uint32_t of_key, struct mr_user user, uint32_t access,
	uint64_t iova, const struct mr_word *word, uint64_t *ret_before)
{
	return far_apply(&target_domain, of_key, user.qpn, access, iova, word, ret_before);
}

static const struct mr_abroad abroad = {check, put, get, apply};

/* --- making them --- */

static inline void host_make(void)
{
	struct srq_init init = {
		.pd = HOST_PD,
		.xrcd = 1,
		.cq = &cq,
		.depth = DEPTH,
		.sge_count_max = 2,
		.file = {1, 2},
		.lane = HOST_LANE,
	};
	struct mr_region region = {
		HOST_PD, MR_LOCAL_WRITE | MR_REMOTE_ANY, (uintptr_t)memory, HOST_BYTES, memory};

	arena_memory = arena_memory_new(HOST_ARENA_BYTES);
	arena_init(&arena, arena_memory, HOST_ARENA_BYTES);
	assert_int_equal(mr_table_init(&mrs, &arena, 16, test_permutation(5)), 0);
	mr_table_publish(&mrs, &arena, &mrs_public);
	assert_int_equal(engine_lane_init(&lane, &arena, &mrs, 9, HOST_LANE), 0);
	assert_int_equal(cq_init(&cq, &arena, 512), 0);
	srq_table = calloc(1, sizeof(*srq_table));
	assert_non_null(srq_table);
	for (uint32_t i = 0; i < 2; i++) {
		init.number = HOST_SRQN + i;
		init.serial = 4711 + i;
		assert_int_equal(srq_init(&srqs[i], &arena, &init), 0);
		srq_table_add(srq_table, &srqs[i]);
	}
	lane.srqs = srq_table;
	assert_int_equal(mr_table_add(&mrs, &region, 0, &key), 0);
	guests = arena_peers_side(arena_at(&arena, arena_alloc(&arena, sizeof(*guests))));
	bell = arena_peers_side(arena_at(&arena, arena_alloc(&arena, sizeof(*bell))));
	guest_bell_init(bell, guests);
	memset(memory, 0, sizeof(memory));
}

static inline void guest_make(struct guest *guest, uint32_t who)
{
	memset(guest, 0, sizeof(*guest));
	guest->owner = (struct far_owner){who, is_alive, host_pause};
	guest->peer =
		(struct peer){.base = arena.base, .bytes = HOST_ARENA_BYTES, .ops = &host_ops};
	assert_int_equal(
		mr_table_view(&guest->peer.mrs, guest->peer.base, guest->peer.bytes, &mrs_public),
		0);
	guest->far.peer = &guest->peer;
	guest->far.guests = guests;
	guest->far.owner = &guest->owner;
	guest->far.bell_offset[HOST_LANE] = arena_offset(&arena, arena_owners_side(bell));
}

static inline struct srq_host host_of(uint32_t index)
{
	return (struct srq_host){
		atomic_load(&srqs[index].public->serial), srqs[index].public_offset, 1000, 7};
}

/* The target has met the queue. */
static inline void target_knows(uint32_t index)
{
	const struct srq_host host = host_of(index);

	told = srq_hosted_add(ends[1].srqs->directory, HOST_SRQN + index, XRCD, &host);
	assert_non_null(told);
}

/* Who may make system calls answers the queue pair that asks. */
static inline void answer(struct hosted_srq *srq)
{
	struct local_qp *local = ends[0].local_lane.asking;

	assert_ptr_equal(local, &ends[0].local);
	*srq = (struct hosted_srq){.is_reached = true};
	assert_true(far_srq_init(&srq->far, &initiator.far, local->asked_host.offset, 0, 0));
	srq->seat = far_seat(&initiator.far, 0, srq->far.lane);
	assert_non_null(srq->seat);
	hosted_answer(local, srq);
}

static inline int setup_hosted(void **state)
{
	types[0] = QP_TYPE_XRC_SEND;
	types[1] = QP_TYPE_XRC_RECV;
	setup(state);
	host_make();
	guest_make(&target, 1);
	guest_make(&initiator, 2);
	assert_true(far_srq_init(&target_srq, &target.far, srqs[0].public_offset, PD_HERE, XRCD));
	target_domain = (struct far_domain){&target.far, HOST_PD};
	ends[1].mrs.abroad = &abroad;
	atomic_store(&ends[1].srqs->first_afar, &target_srq.srq);
	ends[1].qp->is_xrcd_shared = true;
	memset(hosted, 0, sizeof(hosted));
	host_kicks = 0;
	marks_seen = 0;
	target_knows(0);
	return 0;
}

static inline bool is_any(const struct hosted_srq *srq, const void *context)
{
	(void)srq;
	(void)context;
	return true;
}

static inline int teardown_hosted(void **state)
{
	teardown(state);
	assert_null(ends[0].local_lane.asking);
	while (hosted_take(&ends[0].local, is_any, NULL))
		;
	assert_int_equal(marks(), 0);
	far_host_done(&target.far);
	far_host_done(&initiator.far);
	engine_lane_done(&lane);
	mr_table_done(&mrs);
	free(srq_table);
	arena_memory_free(arena_memory, HOST_ARENA_BYTES);
	return 0;
}

/* --- what tests do --- */

static inline void host_post_to(uint32_t index, uint64_t wr_id, uint32_t bytes)
{
	struct sge sge = {(uintptr_t)memory + 4096, bytes, key};
	struct recv_wr wr = {wr_id, &sge, 1};

	assert_int_equal(srq_post(&srqs[index], &wr), 0);
}

static inline void host_post(uint64_t wr_id)
{
	host_post_to(0, wr_id, 4096);
}

static inline void send_to(uint32_t srqn, uint32_t opcode, uint32_t bytes)
{
	struct sge sge = {(uintptr_t)ends[0].memory, bytes, ends[0].key};
	struct send_wr wr = {
		.wr_id = 40,
		.opcode = opcode,
		.flags = SEND_SIGNALED,
		.imm = 0xabcd,
		.rkey = key,
		.remote_address = (uintptr_t)memory,
		.compare_add = 5,
		.sge = &sge,
		.sge_count = 1,
		.srqn = srqn,
	};
	uint32_t posted;

	assert_int_equal(engine_post_send(ends[0].qp, &wr, 1, &posted, NOW_NS), 0);
}

static inline void send_hosted(uint32_t opcode, uint32_t bytes)
{
	memset(ends[0].memory, 0x5a, bytes);
	send_to(HOST_SRQN, opcode, bytes);
}

/* The first request goes by packets, and asks. */
static inline void get_acquainted(void)
{
	uint32_t before = asked;

	send_hosted(WR_RDMA_WRITE, 0);
	assert_int_equal(asked, before + 1);
	assert_true(has_packets(0));
	exchange();
	assert_int_equal(poll_sent().status, WC_SUCCESS);
	answer(&hosted[0]);
}

static inline uint32_t host_collect(void)
{
	return guest_collect(&lane, bell, NOW_NS);
}

static inline struct cqe host_completion(void)
{
	struct cqe cqe;

	assert_int_equal(cq_poll(&cq, &arena, 1, &cqe), 1);
	return cqe;
}

static inline uint64_t counted(uint32_t number, enum counter counter)
{
	return counter_read(&ends[number].qp->public->counters, counter);
}

#define HOSTED_TEST(name) cmocka_unit_test_setup_teardown(name, setup_hosted, teardown_hosted)

#endif
