/* SPDX-License-Identifier: BSD-2-Clause */
#include "killed.h"

#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "ib/rc/rc.h"
#include "wire/timer.h"
#include "world.h"

#define MS 1000000ull

enum {
	REGION_BYTES = 256 << 10,
	OP_COUNT = 24,
	RECEIVE_COUNT = 64,
	CQ_ENTRIES = 256,
};

enum death {
	DEATH_HOST, /* silence */
	DEATH_DESTROYED, /* the program was killed: its packets find nobody */
	DEATH_RESET,
	DEATH_ERROR,
	DEATH_COUNT
};

/* Index 0 survives. */
struct run {
	struct world world;
	enum death death;
	struct connection connection;
	struct sim_link link;
	struct cq cq[WORLD_HOST_COUNT];
	struct qp *qp[WORLD_HOST_COUNT];
	uint8_t *memory[WORLD_HOST_COUNT];
	uint32_t key[WORLD_HOST_COUNT];
	uint32_t completed;
	uint32_t received;
	enum wc_status last_status;
};

static uint64_t between(struct run *run, uint64_t low, uint64_t high)
{
	return sim_random_between(&run->world.random, low, high);
}

static void end_make(struct run *run, uint32_t number)
{
	struct host *host = &run->world.host[number];
	struct qp_init init = {
		.type = QP_TYPE_RC,
		.pd = WORLD_PD,
		.send_cq = &run->cq[number],
		.recv_cq = &run->cq[number],
		.caps = {OP_COUNT, RECEIVE_COUNT, 1, 1, 0},
	};

	if (cq_init(&run->cq[number], &host->arena, CQ_ENTRIES))
		abort();
	run->memory[number] = calloc(1, REGION_BYTES);
	if (!run->memory[number])
		abort();
	run->key[number] = world_register(&run->world, host, WORLD_PD,
		MR_LOCAL_WRITE | MR_REMOTE_ANY, run->memory[number], REGION_BYTES);
	run->qp[number] = world_qp_create(&run->world, host, 0, &init);
}

static void run_init(struct run *run, uint64_t seed, bool is_traced)
{
	memset(run, 0, sizeof(*run));
	world_init(&run->world, seed, 1, is_traced);
	run->death = (enum death)(seed % DEATH_COUNT);
	run->connection = (struct connection){
		.path_mtu = (uint32_t)between(run, 1, 5),
		.timeout = (uint32_t)between(run, 10, 15),
		.retry_cnt = (uint32_t)between(run, 0, 7),
		.rnr_retry = 7,
		.min_rnr_timer = 1,
		.rd_atomic = (uint32_t)between(run, 1, 16),
		.access = MR_REMOTE_ANY,
		.psn = {(uint32_t)between(run, 0xffff00, 0xffffff), 7},
	};
	run->link.delay_ns = between(run, 0, 100000);
	run->link.jitter_ns = between(run, 0, 50000);
	run->link.byte_ps = (uint32_t)between(run, 80, 800);
	*sim_link(run->world.sim, 0, 1) = run->link;
	*sim_link(run->world.sim, 1, 0) = run->link;
	end_make(run, 0);
	end_make(run, 1);
	world_connect(&run->world, run->qp[0], run->qp[1], &run->connection);
}

static void run_done(struct run *run)
{
	for (uint32_t i = 0; i < WORLD_HOST_COUNT; i++) {
		if (run->qp[i])
			world_qp_destroy(&run->world, run->qp[i]);
		free(run->memory[i]);
	}
	world_done(&run->world);
}

static void post(struct run *run, uint32_t number)
{
	static const enum wr_opcode opcodes[] = {
		WR_SEND, WR_RDMA_WRITE, WR_RDMA_READ, WR_ATOMIC_FETCH_AND_ADD};

	for (uint32_t i = 0; i < RECEIVE_COUNT; i++) {
		struct sge sge = {(uintptr_t)run->memory[number], REGION_BYTES, run->key[number]};
		struct recv_wr wr = {1ull << 63 | i, &sge, 1};

		if (qp_post_recv(run->qp[number], &wr))
			abort();
	}
	for (uint32_t i = 0; i < OP_COUNT; i++) {
		enum wr_opcode opcode = opcodes[between(run, 0, ARRAY_COUNT(opcodes) - 1)];
		struct sge sge = {(uintptr_t)run->memory[number],
			opcode == WR_ATOMIC_FETCH_AND_ADD ? 8
							  : (uint32_t)between(run, 0, REGION_BYTES),
			run->key[number]};
		struct send_wr wr = {
			.wr_id = i,
			.opcode = opcode,
			.flags = SEND_SIGNALED,
			.rkey = run->key[1 - number],
			.remote_address = (uintptr_t)run->memory[1 - number],
			.sge = &sge,
			.sge_count = 1,
		};
		uint32_t posted;

		if (engine_post_send(run->qp[number], &wr, 1, &posted, sim_now_ns(run->world.sim)))
			abort();
	}
}

/* Successes, then at most one failure, then flushes: each request once, in order. */
static void check_survivor(struct run *run)
{
	struct cqe cqe;

	while (cq_poll(&run->cq[0], &run->world.host[0].arena, 1, &cqe)) {
		bool is_receive = cqe.wr_id >> 63;
		uint32_t index = (uint32_t)cqe.wr_id;
		bool may_follow = run->last_status == WC_SUCCESS
			? cqe.status == WC_SUCCESS || cqe.status == WC_RETRY_EXC_ERR
			: cqe.status == WC_WR_FLUSH_ERR;

		WORLD_CHECK(&run->world, index == (is_receive ? run->received : run->completed),
			"wr_id %llx", (unsigned long long)cqe.wr_id);
		WORLD_CHECK(&run->world, may_follow, "wr_id %llx: status %u after %u",
			(unsigned long long)cqe.wr_id, cqe.status, run->last_status);
		if (is_receive)
			run->received++;
		else
			run->completed++;
		run->last_status = (enum wc_status)cqe.status;
	}
}

static void die(struct run *run)
{
	uint64_t now_ns = sim_now_ns(run->world.sim);

	switch (run->death) {
	case DEATH_HOST:
		sim_kill_host(run->world.sim, 1);
		world_forget_peer(&run->world, 0);
		break;
	case DEATH_DESTROYED:
		world_qp_destroy(&run->world, run->qp[1]);
		run->qp[1] = NULL;
		break;
	case DEATH_RESET:
		qp_set_state(run->qp[1], QP_RESET, now_ns);
		break;
	case DEATH_ERROR:
		qp_set_state(run->qp[1], QP_ERR, now_ns);
		break;
	case DEATH_COUNT:
		break;
	}
}

void killed_run(uint64_t seed, bool is_traced)
{
	struct run *run = malloc(sizeof(*run));

	if (!run)
		abort();
	run_init(run, seed, is_traced);
	struct sim *sim = run->world.sim;
	uint64_t timeout_ns = rc_retry_ns((uint8_t)run->connection.timeout);
	/* What was on its way arrives, a window in each direction, and then nothing. */
	uint64_t drain_ns = 2 * (run->link.delay_ns + run->link.jitter_ns + 1 * MS);

	post(run, 0);
	if (between(run, 0, 1))
		post(run, 1);
	uint64_t death_ns = sim_now_ns(sim) + between(run, 0, 8 * MS);
	sim_flush(sim);
	while (world_step(&run->world, death_ns))
		check_survivor(run);
	check_survivor(run);
	WORLD_CHECK(&run->world, run->last_status == WC_SUCCESS, "status %u while both lived",
		run->last_status);
	die(run);
	uint64_t limit_ns = death_ns + drain_ns + (run->connection.retry_cnt + 1) * timeout_ns;
	while (world_step(&run->world, limit_ns))
		check_survivor(run);
	check_survivor(run);
	WORLD_CHECK(&run->world, run->completed == OP_COUNT, "%u of %u completed in time",
		run->completed, OP_COUNT);
	WORLD_CHECK(&run->world, !world_step(&run->world, UINT64_MAX), "chatter");
	run_done(run);
	free(run);
}
