/* SPDX-License-Identifier: BSD-2-Clause */
#include "refused.h"

#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "ib/rc/rc.h"
#include "memory/mw.h"
#include "wire/timer.h"
#include "world.h"

#define MS 1000000ull

enum {
	REGION_BYTES = 64 << 10,
	BYTES_MAX = 9000,
	GOOD_COUNT_MAX = 6,
	OTHER_PD = WORLD_PD + 1,
	CQ_ENTRIES = 64,
	CANARY = 0x5a,
	REGION_ACCESS = MR_LOCAL_WRITE | MR_REMOTE_ANY | MR_WINDOW_BIND | MR_FLUSH_GLOBAL,
};

/* What is wrong with the bad work request, or with what it meets. */
enum damage {
	DAMAGE_KEY, /* no region has the rkey */
	DAMAGE_OLD_KEY, /* a region had it */
	DAMAGE_PD, /* the region is in another protection domain */
	DAMAGE_BEFORE, /* it starts before the region */
	DAMAGE_BEYOND, /* it ends behind the region */
	DAMAGE_WRAP, /* its end wraps around the address space */
	DAMAGE_REGION_ACCESS, /* the region does not grant it */
	DAMAGE_QP_ACCESS, /* the queue pair does not grant it */
	DAMAGE_MISALIGNED, /* an atomic on an address that is no multiple of eight */
	DAMAGE_LENGTH, /* an atomic with another length than eight */
	DAMAGE_LOCAL_KEY,
	DAMAGE_LOCAL_ACCESS, /* data comes in, the region has no local write */
	DAMAGE_LOCAL_BOUNDS,
	DAMAGE_LOCAL_PD,
	DAMAGE_RECEIVE_SHORT,
	DAMAGE_RECEIVE_KEY,
	DAMAGE_NO_RECEIVE,
	DAMAGE_PEER_GONE,
	DAMAGE_OLD_WINDOW, /* a memory window had the key, and was invalidated */
	DAMAGE_OTHER_WINDOW, /* a memory window of another queue pair has it */
	DAMAGE_REGION, /* a region has it, which cannot be invalidated */
	DAMAGE_PLACEMENT, /* FLUSH to persistence */
};

static const struct refused_case {
	const char *name;
	enum wr_opcode opcode;
	enum damage damage;
	enum wc_status status;
	enum qp_state peer_state;
	enum wc_status receive_status;
	uint32_t peer_events;
} cases[] = {
#define REFUSED(opcode, damage, status, state, receive_status, events)                    \
	{#opcode " with " #damage, WR_##opcode, DAMAGE_##damage, WC_##status, QP_##state, \
		WC_##receive_status, events},
#include "refused.def"
#undef REFUSED
};

uint32_t refused_case_count(void)
{
	return ARRAY_COUNT(cases);
}

/* Index 0 is the requester's end, 1 the responder's. */
struct run {
	struct world world;
	const struct refused_case *row;
	struct connection connection;
	struct cq cq[WORLD_HOST_COUNT];
	struct qp *qp[WORLD_HOST_COUNT];
	uint8_t *memory[WORLD_HOST_COUNT];
	uint32_t key[WORLD_HOST_COUNT];
	uint32_t bad_key; /* of a region at the responder or requester that grants too little */
	uint8_t *bad_memory;
	enum wr_opcode good_opcode;
	uint32_t good_count; /* before the bad one, and as many behind it */
	uint32_t receive_count; /* that the good ones before it take */
	uint32_t bad_bytes;
	uint32_t completed;
	uint32_t received;
	uint64_t gone_ns; /* when the peer died */
};

static uint64_t between(struct run *run, uint64_t low, uint64_t high)
{
	return sim_random_between(&run->world.random, low, high);
}

static bool is_atomic(enum wr_opcode opcode)
{
	return opcode == WR_ATOMIC_CMP_AND_SWP || opcode == WR_ATOMIC_FETCH_AND_ADD;
}

/* What a region must grant for this operation. */
static uint32_t right_of(enum wr_opcode opcode)
{
	if (opcode == WR_FLUSH)
		return MR_FLUSH_GLOBAL;
	if (is_atomic(opcode))
		return MR_REMOTE_ATOMIC;
	return opcode == WR_RDMA_READ ? MR_REMOTE_READ : MR_REMOTE_WRITE;
}

static void link_plan(struct run *run, struct sim_link *link)
{
	link->delay_ns = between(run, 0, 100000);
	if (between(run, 0, 2) == 0)
		return;
	link->jitter_ns = between(run, 0, 50000);
	link->loss_ppm = (uint32_t)between(run, 0, 100000);
	link->duplicate_ppm = (uint32_t)between(run, 0, 50000);
	link->corrupt_ppm = (uint32_t)between(run, 0, 20000);
	link->reorder_ppm = (uint32_t)between(run, 0, 50000);
	link->reorder_ns = between(run, 0, 500000);
}

/* A memory window in front of the bad region. Its key takes the place of the region's. */
static void bad_window(struct run *run, struct host *host)
{
	bool is_other = run->row->damage == DAMAGE_OTHER_WINDOW;
	struct mw_bind bind = {
		.region_key = run->bad_key,
		.user = {WORLD_PD, run->qp[1]->qpn + is_other},
		.access = MR_REMOTE_ANY | MR_FLUSH_GLOBAL,
		.iova = (uintptr_t)run->bad_memory,
		.bytes = REGION_BYTES,
	};

	if (mw_add(&host->mrs, WORLD_PD, MR_KIND_WINDOW_2, 1, &bind.key) ||
		mw_bind(&host->mrs, &bind))
		abort();
	if (!is_other && mw_invalidate(&host->mrs, bind.key, bind.user))
		abort();
	run->bad_key = bind.key;
}

/* Memory at the end that the row's damage concerns; what it holds must not change. */
static void bad_region(struct run *run)
{
	bool is_local = run->row->damage == DAMAGE_LOCAL_ACCESS ||
		run->row->damage == DAMAGE_LOCAL_BOUNDS || run->row->damage == DAMAGE_LOCAL_PD;
	bool is_other_pd = run->row->damage == DAMAGE_PD || run->row->damage == DAMAGE_LOCAL_PD;
	struct host *host = &run->world.host[is_local ? 0 : 1];
	uint32_t access = REGION_ACCESS;

	if (run->row->damage == DAMAGE_REGION_ACCESS)
		access &= ~right_of(run->row->opcode);
	if (run->row->damage == DAMAGE_LOCAL_ACCESS)
		access = 0;
	run->bad_memory = malloc(REGION_BYTES);
	if (!run->bad_memory)
		abort();
	memset(run->bad_memory, CANARY, REGION_BYTES);
	run->bad_key = world_register(&run->world, host, is_other_pd ? OTHER_PD : WORLD_PD, access,
		run->bad_memory, REGION_BYTES);
	if (run->row->damage == DAMAGE_OLD_KEY)
		mr_table_remove(&host->mrs, run->bad_key, WORLD_PD);
	if (run->row->damage == DAMAGE_OLD_WINDOW || run->row->damage == DAMAGE_OTHER_WINDOW)
		bad_window(run, host);
}

static void end_make(struct run *run, uint32_t number)
{
	struct host *host = &run->world.host[number];
	struct qp_init init = {
		.type = QP_TYPE_RC,
		.pd = WORLD_PD,
		.send_cq = &run->cq[number],
		.recv_cq = &run->cq[number],
		.caps = {2 * GOOD_COUNT_MAX + 2, 2 * GOOD_COUNT_MAX + 2, 1, 1, 0},
	};

	if (cq_init(&run->cq[number], &host->arena, CQ_ENTRIES))
		abort();
	run->memory[number] = calloc(1, REGION_BYTES);
	if (!run->memory[number])
		abort();
	run->key[number] = world_register(
		&run->world, host, WORLD_PD, REGION_ACCESS, run->memory[number], REGION_BYTES);
	run->qp[number] = world_qp_create(&run->world, host, 0, &init);
}

static void run_init(struct run *run, uint64_t seed, bool is_traced)
{
	memset(run, 0, sizeof(*run));
	world_init(&run->world, seed, 1, is_traced);
	run->row = &cases[seed % ARRAY_COUNT(cases)];
	static const enum wr_opcode good_opcodes[] = {WR_SEND, WR_RDMA_WRITE, WR_RDMA_READ};
	bool is_only_send = run->row->damage == DAMAGE_QP_ACCESS;
	run->good_opcode = good_opcodes[is_only_send ? 0 : between(run, 0, 2)];
	run->good_count = (uint32_t)between(run, 0, GOOD_COUNT_MAX);
	run->connection = (struct connection){
		.path_mtu = (uint32_t)between(run, 1, 5),
		.timeout = (uint32_t)between(run, 14, 16),
		.retry_cnt = 7,
		.rnr_retry = (uint32_t)between(run, 0, 6),
		.min_rnr_timer = (uint32_t)between(run, 1, 14),
		.rd_atomic = (uint32_t)between(run, 1, 16),
		.access = MR_REMOTE_ANY | MR_FLUSH_GLOBAL,
		.psn = {(uint32_t)between(run, 0xfffff0, 0xffffff), 7},
	};
	if (run->row->damage == DAMAGE_PEER_GONE) {
		run->connection.timeout = (uint32_t)between(run, 8, 16);
		run->connection.retry_cnt = (uint32_t)between(run, 0, 7);
	} else {
		link_plan(run, sim_link(run->world.sim, 0, 1));
		link_plan(run, sim_link(run->world.sim, 1, 0));
	}
	run->receive_count = run->good_opcode == WR_SEND ? run->good_count : 0;
	bool is_word = is_atomic(run->row->opcode) || run->row->opcode == WR_ATOMIC_WRITE;
	run->bad_bytes = is_word ? 8 : (uint32_t)between(run, 1, BYTES_MAX);
	end_make(run, 0);
	end_make(run, 1);
	bad_region(run);
	world_connect(&run->world, run->qp[0], run->qp[1], &run->connection);
	if (run->row->damage == DAMAGE_QP_ACCESS) {
		struct qp_attr attr = {.access = 0};

		if (qp_modify(run->qp[1], QP_RTS, ATTR_ACCESS, &attr, sim_now_ns(run->world.sim)))
			abort();
	}
}

static void run_done(struct run *run)
{
	for (uint32_t i = 0; i < WORLD_HOST_COUNT; i++) {
		world_qp_destroy(&run->world, run->qp[i]);
		free(run->memory[i]);
	}
	free(run->bad_memory);
	world_done(&run->world);
}

/* Which address and key does the bad request name at the responder? */
static void damage_remote(struct run *run, struct send_wr *wr)
{
	uint64_t base = (uintptr_t)run->memory[1];

	switch ((int)run->row->damage) {
	case DAMAGE_KEY:
		wr->rkey ^= 1 + (uint32_t)between(run, 0, UINT32_MAX - 1);
		wr->imm = wr->rkey;
		break;
	case DAMAGE_OLD_KEY:
	case DAMAGE_PD:
	case DAMAGE_REGION_ACCESS:
	case DAMAGE_OLD_WINDOW:
	case DAMAGE_OTHER_WINDOW:
		wr->rkey = run->bad_key;
		wr->imm = run->bad_key;
		wr->remote_address = (uintptr_t)run->bad_memory;
		break;
	case DAMAGE_REGION:
		wr->imm = wr->rkey;
		break;
	case DAMAGE_PLACEMENT:
		wr->flush.placement = FETH_PLACEMENT_PERSISTENT;
		break;
	case DAMAGE_BEFORE:
		wr->remote_address = base - between(run, 1, run->bad_bytes);
		break;
	case DAMAGE_BEYOND: /* still aligned, for atomics */
		wr->remote_address = base + REGION_BYTES - (run->bad_bytes - 1ull) / 8 * 8;
		break;
	case DAMAGE_WRAP:
		wr->remote_address = UINT64_MAX - between(run, 0, run->bad_bytes - 1);
		break;
	case DAMAGE_MISALIGNED:
		wr->remote_address = base + between(run, 1, 7);
		break;
	}
}

static void damage_local(struct run *run, struct sge *sge)
{
	switch ((int)run->row->damage) {
	case DAMAGE_LOCAL_KEY:
		sge->lkey ^= 1 + (uint32_t)between(run, 0, UINT32_MAX - 1);
		break;
	case DAMAGE_LOCAL_ACCESS:
	case DAMAGE_LOCAL_PD:
		sge->lkey = run->bad_key;
		sge->address = (uintptr_t)run->bad_memory;
		break;
	case DAMAGE_LOCAL_BOUNDS:
		sge->lkey = run->bad_key;
		sge->address = (uintptr_t)run->bad_memory + REGION_BYTES - run->bad_bytes + 1;
		break;
	case DAMAGE_LENGTH:
		sge->bytes = 16;
		break;
	}
}

/* The bad one stands at index good_count. */
static void post_one(struct run *run, uint32_t index)
{
	bool is_bad = index == run->good_count;
	struct sge sge = {(uintptr_t)run->memory[0],
		is_bad ? run->bad_bytes : (uint32_t)between(run, 0, BYTES_MAX), run->key[0]};
	struct send_wr wr = {
		.wr_id = index,
		.opcode = is_bad ? run->row->opcode : run->good_opcode,
		.flags = is_bad && between(run, 0, 1) ? 0 : SEND_SIGNALED,
		.rkey = run->key[1],
		.remote_address = (uintptr_t)run->memory[1],
		.sge = &sge,
		.sge_count = 1,
	};
	uint32_t posted;

	if (is_bad && run->row->opcode == WR_FLUSH)
		wr.flush =
			(struct wr_flush){run->bad_bytes, FETH_PLACEMENT_GLOBAL, FETH_SELECT_RANGE};
	if (is_bad && run->row->opcode == WR_BIND_MW)
		wr.bind = (struct wr_bind){run->bad_bytes, run->key[0], MR_REMOTE_READ};
	if (is_bad) {
		damage_remote(run, &wr);
		damage_local(run, &sge);
	}
	if (engine_post_send(run->qp[0], &wr, 1, &posted, sim_now_ns(run->world.sim)))
		abort();
}

/* Receive requests for the good ones, the bad one where it takes one, and some more. */
static void post_receives(struct run *run)
{
	bool takes_receive = wr_table[run->row->opcode].takes_receive;
	bool has_more = run->row->damage != DAMAGE_NO_RECEIVE;
	uint32_t count = run->receive_count + (has_more ? run->receive_count + takes_receive : 0);

	for (uint32_t i = 0; i < count; i++) {
		bool is_bad = i == run->receive_count && takes_receive;
		struct sge sge = {(uintptr_t)run->memory[1], BYTES_MAX, run->key[1]};
		struct recv_wr wr = {i, &sge, 1};

		if (is_bad && run->row->damage == DAMAGE_RECEIVE_SHORT)
			sge.bytes = (uint32_t)between(run, 0, run->bad_bytes - 1);
		if (is_bad && run->row->damage == DAMAGE_RECEIVE_KEY)
			sge.lkey ^= 1;
		if (qp_post_recv(run->qp[1], &wr))
			abort();
	}
}

static void check_sends(struct run *run)
{
	struct cqe cqe;

	while (cq_poll(&run->cq[0], &run->world.host[0].arena, 1, &cqe)) {
		enum wc_status expected = run->completed < run->good_count ? WC_SUCCESS
			: run->completed == run->good_count                ? run->row->status
									   : WC_WR_FLUSH_ERR;

		WORLD_CHECK(&run->world, cqe.wr_id == run->completed, "%s: wr_id %llu",
			run->row->name, (unsigned long long)cqe.wr_id);
		WORLD_CHECK(&run->world, cqe.status == expected,
			"%s: wr %u has status %u, fault %s", run->row->name, run->completed,
			cqe.status, fault_sentence((enum fault)cqe.fault));
		run->completed++;
	}
}

/*
 * A WRITE of several packets is refused at the first of them, before the one that takes the receive
 * request.
 */
static enum wc_status bad_receive_status(const struct run *run)
{
	bool is_flushed = run->row->receive_status == WC_LOC_ACCESS_ERR &&
		run->bad_bytes > 128u << run->connection.path_mtu;

	return is_flushed ? WC_WR_FLUSH_ERR : run->row->receive_status;
}

static void check_receives(struct run *run)
{
	struct cqe cqe;

	while (cq_poll(&run->cq[1], &run->world.host[1].arena, 1, &cqe)) {
		bool takes_receive = wr_table[run->row->opcode].takes_receive;
		enum wc_status expected = run->received < run->receive_count ? WC_SUCCESS
			: run->received == run->receive_count && takes_receive
			? bad_receive_status(run)
			: WC_WR_FLUSH_ERR;

		WORLD_CHECK(&run->world, cqe.wr_id == run->received, "%s: wr_id %llu",
			run->row->name, (unsigned long long)cqe.wr_id);
		WORLD_CHECK(&run->world, cqe.status == expected,
			"%s: receive %u has status %u, fault %s", run->row->name, run->received,
			cqe.status, fault_sentence((enum fault)cqe.fault));
		run->received++;
	}
}

/* What the peer may find out, and what nobody may touch. */
static void check_after(struct run *run)
{
	const struct qp *peer = run->qp[1];

	WORLD_CHECK(&run->world, run->qp[0]->state == QP_ERR, "%s: requester in %s", run->row->name,
		qp_state_name(run->qp[0]->state));
	WORLD_CHECK(&run->world, peer->state == run->row->peer_state, "%s: responder in %s",
		run->row->name, qp_state_name(peer->state));
	uint32_t events = run->world.events[1] & (SIGNAL_QP_ACCESS | SIGNAL_QP_REQUEST);
	WORLD_CHECK(&run->world, events == run->row->peer_events, "%s: events %x", run->row->name,
		events);
	for (uint32_t i = 0; i < REGION_BYTES; i++)
		WORLD_CHECK(&run->world, run->bad_memory[i] == CANARY, "%s: byte %u changed",
			run->row->name, i);
	if (run->row->peer_state == QP_ERR)
		WORLD_CHECK(&run->world, rq_count(peer->rq) == 0, "%s: receives not flushed",
			run->row->name);
	else if (run->row->damage != DAMAGE_PEER_GONE)
		WORLD_CHECK(&run->world, run->received == run->receive_count, "%s: %u received",
			run->row->name, run->received);
}

/* A dead peer is noticed when the retries are over: not before, not later. */
static void check_time(struct run *run)
{
	uint64_t timeout_ns = rc_retry_ns((uint8_t)run->connection.timeout);
	uint64_t took_ns = sim_now_ns(run->world.sim) - run->gone_ns;
	uint64_t limit_ns = (run->connection.retry_cnt + 1) * timeout_ns;

	if (run->row->damage == DAMAGE_PEER_GONE)
		WORLD_CHECK(&run->world, took_ns <= limit_ns && took_ns >= limit_ns - 1,
			"%s: took %llu ns of %llu", run->row->name, (unsigned long long)took_ns,
			(unsigned long long)limit_ns);
}

void refused_run(uint64_t seed, bool is_traced)
{
	struct run *run = malloc(sizeof(*run));
	uint32_t total;

	if (!run)
		abort();
	run_init(run, seed, is_traced);
	struct sim *sim = run->world.sim;
	uint64_t end_ns = sim_now_ns(sim) + 60000 * MS;

	total = 2 * run->good_count + 1;
	post_receives(run);
	for (uint32_t i = 0; i < run->good_count; i++)
		post_one(run, i);
	sim_flush(sim);
	if (run->row->damage == DAMAGE_PEER_GONE) {
		while (world_step(&run->world, UINT64_MAX))
			check_receives(run);
		check_sends(run);
		sim_kill_host(sim, 1);
		world_forget_peer(&run->world, 0);
		run->gone_ns = sim_now_ns(sim);
	}
	for (uint32_t i = run->good_count; i < total; i++)
		post_one(run, i);
	sim_flush(sim);
	check_sends(run);
	while (run->completed < total) {
		WORLD_CHECK(&run->world, world_step(&run->world, end_ns), "%s: silence at %u of %u",
			run->row->name, run->completed, total);
		check_sends(run);
		check_receives(run);
	}
	check_time(run);
	while (world_step(&run->world, UINT64_MAX))
		WORLD_CHECK(&run->world, sim_now_ns(sim) < end_ns, "%s: chatter", run->row->name);
	check_receives(run);
	check_after(run);

	/* In the error state work is taken, and flushed. */
	post_one(run, total);
	check_sends(run);
	WORLD_CHECK(&run->world, run->completed == total + 1, "%s: not flushed", run->row->name);
	run_done(run);
	free(run);
}
