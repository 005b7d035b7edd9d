/* SPDX-License-Identifier: BSD-2-Clause */
#include "starved.h"

#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "world.h"

#define MS 1000000ull

enum {
	REGION_BYTES = 64 << 10,
	REQUESTS = 400,
	UNDER_WAY_MAX = 8,
	CQ_ENTRIES = 64,
	TIMEOUT = 14,
	RETRIES = 3, /* 270 ms, less than a pause */
	PAUSE_MS_MAX = 500,
	RUN_US_MAX = 100000, /* between two pauses */
};

struct run {
	struct world world;
	struct cq cq[WORLD_HOST_COUNT];
	struct qp *qp[WORLD_HOST_COUNT];
	uint8_t *memory[WORLD_HOST_COUNT];
	uint32_t key[WORLD_HOST_COUNT];
	uint32_t posted, completed;
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
		.caps = {UNDER_WAY_MAX, 1, 1, 1, 0},
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
	const struct sim_link link = {.delay_ns = 20000, .byte_ps = 8000};
	const struct connection connection = {
		.path_mtu = 5,
		.timeout = TIMEOUT,
		.retry_cnt = RETRIES,
		.rnr_retry = 7,
		.min_rnr_timer = 1,
		.rd_atomic = 4,
		.access = MR_REMOTE_ANY,
		.psn = {0xfffff0, 7},
	};

	memset(run, 0, sizeof(*run));
	world_init(&run->world, seed, 1, is_traced);
	*sim_link(run->world.sim, 0, 1) = link;
	*sim_link(run->world.sim, 1, 0) = link;
	end_make(run, 0);
	end_make(run, 1);
	world_connect(&run->world, run->qp[0], run->qp[1], &connection);
}

static void post(struct run *run)
{
	struct sge sge = {
		(uintptr_t)run->memory[0], (uint32_t)between(run, 1, REGION_BYTES), run->key[0]};
	struct send_wr wr = {
		.wr_id = run->posted,
		.opcode = between(run, 0, 2) ? WR_RDMA_WRITE : WR_RDMA_READ,
		.flags = SEND_SIGNALED,
		.rkey = run->key[1],
		.remote_address = (uintptr_t)run->memory[1],
		.sge = &sge,
		.sge_count = 1,
	};
	uint32_t posted;

	if (engine_post_send(run->qp[0], &wr, 1, &posted, sim_now_ns(run->world.sim)))
		abort();
	run->posted++;
}

/* What the program of host 0 does while its host runs. */
static void work(struct run *run)
{
	struct cqe cqe;

	while (cq_poll(&run->cq[0], &run->world.host[0].arena, 1, &cqe)) {
		WORLD_CHECK(&run->world, cqe.status == WC_SUCCESS, "request %llu: status %u",
			(unsigned long long)cqe.wr_id, cqe.status);
		run->completed++;
	}
	while (run->posted < REQUESTS && run->posted - run->completed < UNDER_WAY_MAX)
		post(run);
	sim_flush(run->world.sim);
}

/* Until then, in which time one host does not run, or (WORLD_HOST_COUNT) both do. */
static void go_on(struct run *run, uint64_t until_ns, uint32_t paused)
{
	if (paused < WORLD_HOST_COUNT)
		sim_pause_host(run->world.sim, paused, until_ns);
	while (world_step(&run->world, until_ns))
		if (paused != 0)
			work(run);
	work(run);
}

void starved_run(uint64_t seed, bool is_traced)
{
	struct run *run = malloc(sizeof(*run));
	uint32_t host = 0; /* the requester learns first that the machine is overloaded */

	if (!run)
		abort();
	run_init(run, seed, is_traced);
	work(run);
	while (run->completed < REQUESTS) {
		uint64_t now_ns = sim_now_ns(run->world.sim);
		uint64_t start_ns = now_ns + between(run, 1, RUN_US_MAX) * 1000;

		go_on(run, start_ns, WORLD_HOST_COUNT);
		go_on(run, start_ns + between(run, 50, PAUSE_MS_MAX) * MS, host);
		host = (uint32_t)between(run, 0, 1);
	}
	for (uint32_t i = 0; i < WORLD_HOST_COUNT; i++) {
		world_qp_destroy(&run->world, run->qp[i]);
		free(run->memory[i]);
	}
	world_done(&run->world);
	free(run);
}
