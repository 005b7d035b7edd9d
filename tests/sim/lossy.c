/* SPDX-License-Identifier: BSD-2-Clause */
#include "lossy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "world.h"

enum {
	REQUESTS = 200,
	REQUEST_BYTES = 64 << 10,
	UNDER_WAY_MAX = 16,
	CQ_ENTRIES = 64,
	LOSS_PPM = 10000,
	/* The worlds of these seeds use selective repeat at both hosts, and at none (world.c). */
	SEED_SELECTIVE = 4,
	SEED_PLAIN = 0,
	SEED_STEP = 16,
	GAIN_MIN = 5,
};

/* A late host does not run for this long, then runs for as long. Probes are sent meanwhile. */
#define LATE_NS 10000000ull

struct run {
	struct world world;
	struct cq cq[WORLD_HOST_COUNT];
	struct qp *qp[WORLD_HOST_COUNT];
	uint8_t *memory[WORLD_HOST_COUNT];
	uint32_t key[WORLD_HOST_COUNT];
	enum wr_opcode opcode;
	uint32_t posted, completed;
};

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
	run->memory[number] = malloc(REQUEST_BYTES);
	if (!run->memory[number])
		abort();
	for (uint32_t i = 0; i < REQUEST_BYTES; i++)
		run->memory[number][i] = (uint8_t)(number ? 0 : i % 251);
	run->key[number] = world_register(&run->world, host, WORLD_PD,
		MR_LOCAL_WRITE | MR_REMOTE_ANY, run->memory[number], REQUEST_BYTES);
	run->qp[number] = world_qp_create(&run->world, host, 0, &init);
}

static void run_init(struct run *run, uint64_t seed, uint32_t loss_ppm, bool is_traced)
{
	const struct sim_link link = {.delay_ns = 150000, .byte_ps = 800, .loss_ppm = loss_ppm};
	const struct connection connection = {
		.path_mtu = 5,
		.timeout = 16,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.min_rnr_timer = 1,
		.rd_atomic = 16,
		.access = MR_REMOTE_ANY,
		.psn = {0xffff00, 7},
	};

	memset(run, 0, sizeof(*run));
	world_init(&run->world, seed, 1, is_traced);
	run->opcode = seed / SEED_STEP % 4 == 3 ? WR_RDMA_READ : WR_RDMA_WRITE;
	*sim_link(run->world.sim, 0, 1) = link;
	*sim_link(run->world.sim, 1, 0) = link;
	end_make(run, 0);
	end_make(run, 1);
	world_connect(&run->world, run->qp[0], run->qp[1], &connection);
}

static void post(struct run *run)
{
	struct sge sge = {(uintptr_t)run->memory[0], REQUEST_BYTES, run->key[0]};
	struct send_wr wr = {
		.wr_id = run->posted,
		.opcode = run->opcode,
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

static void poll(struct run *run)
{
	struct cqe cqe;

	while (cq_poll(&run->cq[0], &run->world.host[0].arena, 1, &cqe)) {
		WORLD_CHECK(&run->world, cqe.status == WC_SUCCESS && cqe.wr_id == run->completed,
			"request %llu: status %u", (unsigned long long)cqe.wr_id, cqe.status);
		run->completed++;
	}
}

/*
 * Responses of READs are sent again by the responder, which does not count them. A probe of a late
 * host is one packet.
 */
static void check_repeats(struct run *run, bool is_selective)
{
	uint64_t lost = sim_count(run->world.sim, SIM_LOST);
	uint64_t again = world_counter(run->qp[0], COUNTER_retransmitted_pkts);
	uint64_t probes = world_counter(run->qp[0], COUNTER_early_probes);

	WORLD_CHECK(&run->world, memcmp(run->memory[0], run->memory[1], REQUEST_BYTES) == 0,
		"other bytes");
	if (is_selective)
		WORLD_CHECK(&run->world, again <= 2 * lost + probes,
			"%llu packets again, %llu lost, %llu probes", (unsigned long long)again,
			(unsigned long long)lost, (unsigned long long)probes);
	else if (!lost)
		WORLD_CHECK(&run->world, !again, "%llu packets again", (unsigned long long)again);
}

static void run_done(struct run *run)
{
	for (uint32_t i = 0; i < WORLD_HOST_COUNT; i++) {
		world_qp_destroy(&run->world, run->qp[i]);
		free(run->memory[i]);
	}
	world_done(&run->world);
}

/* How the peer runs, and what the network does. */
struct weather {
	uint32_t loss_ppm;
	bool is_late;
};

/* Returns how long the stream takes. */
static uint64_t stream_run(uint64_t seed, struct weather weather, bool is_traced)
{
	struct run *run = malloc(sizeof(*run));
	uint64_t start_ns, end_ns, late_ns;

	if (!run)
		abort();
	run_init(run, seed, weather.loss_ppm, is_traced);
	start_ns = sim_now_ns(run->world.sim);
	late_ns = weather.is_late ? start_ns + LATE_NS / 2 : UINT64_MAX;
	while (run->completed < REQUESTS) {
		if (sim_now_ns(run->world.sim) >= late_ns) {
			late_ns = sim_now_ns(run->world.sim) + 2 * LATE_NS;
			sim_pause_host(run->world.sim, 1, late_ns - LATE_NS);
		}
		while (run->posted < REQUESTS && run->posted - run->completed < UNDER_WAY_MAX)
			post(run);
		sim_flush(run->world.sim);
		WORLD_CHECK(&run->world, world_step(&run->world, DEADLINE_NEVER), "stuck");
		poll(run);
	}
	end_ns = sim_now_ns(run->world.sim);
	check_repeats(run, run->world.is_selective[0]);
	run_done(run);
	free(run);
	return end_ns - start_ns;
}

void lossy_run(uint64_t seed, bool is_traced, struct lossy_result *result)
{
	uint64_t selective = SEED_STEP * seed + SEED_SELECTIVE;
	uint64_t plain = SEED_STEP * seed + SEED_PLAIN;
	const struct weather fair = {0}, lossy = {.loss_ppm = LOSS_PPM};
	uint64_t selective_ns = stream_run(selective, fair, is_traced);
	uint64_t plain_ns = stream_run(plain, fair, is_traced);

	if (selective_ns != plain_ns) {
		printf("seed %llu: without loss %llu ns with selective repeat, %llu without\n",
			(unsigned long long)seed, (unsigned long long)selective_ns,
			(unsigned long long)plain_ns);
		exit(1);
	}
	stream_run(selective, (struct weather){LOSS_PPM, true}, is_traced);
	result->selective_ns += stream_run(selective, lossy, is_traced);
	result->plain_ns += stream_run(plain, lossy, is_traced);
}

void lossy_check(const struct lossy_result *result)
{
	if (result->plain_ns >= GAIN_MIN * result->selective_ns)
		return;
	printf("with loss %llu ns with selective repeat, and only %llu without\n",
		(unsigned long long)result->selective_ns, (unsigned long long)result->plain_ns);
	exit(1);
}
