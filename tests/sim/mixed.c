/* SPDX-License-Identifier: BSD-2-Clause */
#include "mixed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "states.h"
#include "traffic.h"
#include "within.h"

enum {
	CONNECTION_COUNT_MAX = 4,
	CQ_ENTRIES = 1024,
	POOL_COUNT = 2, /* per host */
	XRCD = 5,
	BORROWED_PROBES_MAX = 12, /* doubling from 1 ms passes any distance here after seven */
};

#define MS             1000000ull
#define VIRTUAL_NS_MAX (60000 * MS)

/* What the network does to frames. */
enum weather {
	WEATHER_CLEAR, /* nothing: then nothing may be sent twice */
	WEATHER_FAR, /* nothing, over a long distance: few packets may be sent twice */
	WEATHER_JITTER, /* frames overtake each other, none is lost */
	WEATHER_LOSS, /* up to 10 % lost, some corrupted and duplicated */
	WEATHER_STORM, /* all of that, and partitions */
	WEATHER_NARROW, /* a slow wire with a short backlog: loss by overload */
	WEATHER_COUNT
};

struct run {
	struct world world;
	enum mixed_kind kind;
	enum weather weather;
	bool is_receive_late;
	bool has_stranger; /* who guesses numbers, in the peers' names */
	struct sim_random stranger_random; /* of its own, so that histories are those without */
	uint32_t connection_count;
	struct connection connection[CONNECTION_COUNT_MAX];
	struct cq cq[WORLD_HOST_COUNT][2];
	struct shared_counter counter[WORLD_HOST_COUNT];
	struct pool pool[WORLD_HOST_COUNT][POOL_COUNT];
	struct end end[CONNECTION_COUNT_MAX][WORLD_HOST_COUNT];
	struct states states;
};

static bool has_pools(const struct run *run)
{
	return run->kind == MIXED_SRQ || run->kind == MIXED_XRC;
}

static uint64_t between(struct run *run, uint64_t low, uint64_t high)
{
	return sim_random_between(&run->world.random, low, high);
}

static void link_plan(struct run *run, struct sim_link *link)
{
	memset(link, 0, sizeof(*link));
	link->delay_ns = between(run, 0, 200000);
	if (run->weather == WEATHER_FAR)
		link->delay_ns = between(run, MS, 50 * MS);
	if (run->weather == WEATHER_CLEAR || run->weather == WEATHER_FAR)
		return;
	if (between(run, 0, 7) == 0)
		link->delay_ns = between(run, 0, 4 * MS);
	if (run->weather == WEATHER_NARROW) {
		link->byte_ps = (uint32_t)between(run, 800, 16000);
		link->backlog_bytes_max = (uint32_t)between(run, 40000, 400000);
		return;
	}
	link->jitter_ns = between(run, 0, 50000);
	link->reorder_ppm = (uint32_t)between(run, 0, 50000);
	link->reorder_ns = between(run, 0, 500000);
	if (run->weather == WEATHER_JITTER)
		return;
	link->loss_ppm = (uint32_t)between(run, 0, between(run, 0, 1) ? 100000 : 10000);
	link->duplicate_ppm = (uint32_t)between(run, 0, 50000);
	link->corrupt_ppm = (uint32_t)between(run, 0, 20000);
	if (run->weather == WEATHER_STORM) {
		uint64_t from_ns = sim_now_ns(run->world.sim) + between(run, 0, 20 * MS);

		for (uint32_t i = 0; i < between(run, 1, 3); i++) {
			uint64_t to_ns = from_ns + between(run, 0, 150 * MS);

			link->partition[link->partition_count++] =
				(struct sim_partition){from_ns, to_ns};
			from_ns = to_ns + between(run, 400 * MS, 800 * MS);
		}
	}
}

static void connection_plan(struct run *run, struct connection *connection)
{
	*connection = (struct connection){
		.path_mtu = (uint32_t)between(run, 1, 5),
		/*
		 * Eight tries must outlast a partition. The infinite timeout (code 0) must work,
		 * too, but no end migrates with it.
		 */
		.timeout = between(run, 0, 7) || run->kind == MIXED_STATES
			? (uint32_t)between(run, 15, 16)
			: 0,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.min_rnr_timer = (uint32_t)between(run, 1, 20),
		.rd_atomic = (uint32_t)between(run, 1, 16),
		.access = MR_REMOTE_ANY | MR_FLUSH_GLOBAL,
	};
	for (uint32_t i = 0; i < WORLD_HOST_COUNT; i++)
		connection->psn[i] =
			(uint32_t)(between(run, 0, 1) ? between(run, 0xffff00, 0xffffff)
						      : between(run, 0, 0xffffff));
}

static struct shape shape_plan(struct run *run, const struct connection *connection)
{
	return (struct shape){
		.op_count = (uint32_t)between(run, 1, 40),
		.mtu_bytes = 128u << connection->path_mtu,
		.big_bytes_max = between(run, 0, 3) ? 20000 : 300000,
		.send_depth = (uint32_t)between(run, 1, 32),
		/* Where no RNR is expected, each message finds its request posted. */
		.recv_depth =
			run->is_receive_late ? (uint32_t)between(run, 1, 16) : TRAFFIC_OP_COUNT_MAX,
		.signaled_ppm = (uint32_t)between(run, 0, 1000000),
		.is_receive_late = run->is_receive_late,
	};
}

static void end_create(struct run *run, struct end *end, uint32_t host, const struct shape *shape)
{
	struct cq *cq = run->cq[host];
	struct pool *pools = run->pool[host];
	struct qp_init qp_init = {
		.type = run->kind == MIXED_XRC ? QP_TYPE_XRC_SEND : QP_TYPE_RC,
		.pd = WORLD_PD,
		.send_cq = &cq[between(run, 0, 1)],
		.recv_cq = &cq[between(run, 0, 1)],
		.caps = {shape->send_depth, shape->recv_depth, PIECE_COUNT_MAX, PIECE_COUNT_MAX,
			TRAFFIC_INLINE_BYTES},
	};
	struct host *at = &run->world.host[host];
	uint32_t lane = (uint32_t)between(run, 0, at->lane_count - 1);
	struct end_init init = {
		.world = &run->world,
		.host = at,
		.shape = *shape,
	};

	if (run->kind == MIXED_SRQ) {
		init.pools = &pools[between(run, 0, POOL_COUNT - 1)];
		init.pool_count = 1;
		qp_init.srq = &init.pools->srq;
	}
	init.qp = world_qp_create(&run->world, at, lane, &qp_init);
	init.recv_qp = init.qp;
	if (run->kind == MIXED_XRC) {
		struct qp_init receiving = {.type = QP_TYPE_XRC_RECV, .xrcd = XRCD};

		init.pools = pools;
		init.pool_count = POOL_COUNT;
		lane = (uint32_t)between(run, 0, at->lane_count - 1);
		init.recv_qp = world_qp_create(&run->world, at, lane, &receiving);
	}
	end_init(end, &init);
}

static void pools_create(struct run *run, uint32_t host)
{
	for (uint32_t i = 0; i < POOL_COUNT; i++) {
		struct srq_init init = {
			.pd = WORLD_PD,
			.xrcd = run->kind == MIXED_XRC ? XRCD : 0,
			.cq = &run->cq[host][i],
			.depth = (uint32_t)between(run, 1, POOL_BUFFER_COUNT_MAX),
		};

		pool_init(&run->pool[host][i], &run->world, &run->world.host[host], init,
			RECV_WR_ID_FLAG | i << 16);
	}
}

/* Buffers for the longest message that comes to this host. */
static void pools_plan(struct run *run, uint32_t host)
{
	uint32_t bytes = 0;

	for (uint32_t i = 0; i < run->connection_count; i++) {
		const struct end *peer = &run->end[i][1 - host];

		for (uint32_t j = 0; j < peer->op_count; j++)
			if (wr_table[peer->op[j].wr.opcode].operation == OPERATION_SEND)
				bytes = max_u32(bytes, peer->op[j].bytes);
	}
	for (uint32_t i = 0; i < POOL_COUNT; i++)
		pool_plan(&run->pool[host][i], (uint32_t)between(run, 1, POOL_BUFFER_COUNT_MAX),
			bytes);
}

static void ends_connect(struct run *run, struct end *end, const struct connection *connection)
{
	world_connect(&run->world, end[0].qp, end[1].recv_qp, connection);
	if (run->kind == MIXED_XRC)
		world_connect(&run->world, end[0].recv_qp, end[1].qp, connection);
}

/* The second path has the same weather, but is never interrupted. */
static void alternates_plan(struct run *run)
{
	states_init(&run->states, &run->world);
	for (uint32_t i = 0; i < WORLD_HOST_COUNT; i++) {
		const uint32_t *number = run->states.other;
		struct sim_link *link = sim_link(run->world.sim, number[i], number[1 - i]);

		link_plan(run, link);
		link->partition_count = 0;
	}
}

static void run_init(struct run *run, enum mixed_kind kind, uint64_t seed, bool is_traced)
{
	memset(run, 0, sizeof(*run));
	run->kind = kind;
	world_init(&run->world, seed, 1 + (uint32_t)(seed / 2 % 2), is_traced);
	run->weather = (enum weather)(seed % WEATHER_COUNT);
	run->is_receive_late = between(run, 0, 2) == 0;
	run->has_stranger = kind == MIXED_RC && seed % 5 == 0;
	run->stranger_random.state = seed;
	sim_hold(run->world.sim, between(run, 0, 1) ? between(run, 0, 50000) : 0,
		between(run, 0, 1) ? between(run, 0, 20000) : 0);
	link_plan(run, sim_link(run->world.sim, 0, 1));
	link_plan(run, sim_link(run->world.sim, 1, 0));
	if (kind == MIXED_STATES)
		alternates_plan(run);
	for (uint32_t i = 0; i < WORLD_HOST_COUNT; i++) {
		struct host *host = &run->world.host[i];

		for (uint32_t j = 0; j < 2; j++)
			if (cq_init(&run->cq[i][j], &host->arena, CQ_ENTRIES))
				abort();
		run->counter[i].key = world_register(&run->world, host, WORLD_PD,
			MR_LOCAL_WRITE | MR_REMOTE_ATOMIC, &run->counter[i].value, 8);
	}
	for (uint32_t i = 0; i < WORLD_HOST_COUNT && has_pools(run); i++)
		pools_create(run, i);
	run->connection_count = (uint32_t)between(run, 1, CONNECTION_COUNT_MAX);
	for (uint32_t i = 0; i < run->connection_count; i++) {
		struct end *end = run->end[i];
		struct shape shape;

		connection_plan(run, &run->connection[i]);
		for (uint32_t j = 0; j < WORLD_HOST_COUNT; j++) {
			shape = shape_plan(run, &run->connection[i]);
			end_create(run, &end[j], j, &shape);
		}
		ends_connect(run, end, &run->connection[i]);
		if (kind == MIXED_STATES)
			states_add(&run->states, end[0].qp, end[1].qp);
		end_plan(&end[0], &end[1], &run->counter[1]);
		end_plan(&end[1], &end[0], &run->counter[0]);
		end_plan_receives(&end[0]);
		end_plan_receives(&end[1]);
	}
	for (uint32_t i = 0; i < WORLD_HOST_COUNT && has_pools(run); i++)
		pools_plan(run, i);
}

static void run_done(struct run *run)
{
	for (uint32_t i = 0; i < run->connection_count; i++) {
		for (uint32_t j = 0; j < WORLD_HOST_COUNT; j++) {
			if (run->end[i][j].recv_qp != run->end[i][j].qp)
				world_qp_destroy(&run->world, run->end[i][j].recv_qp);
			world_qp_destroy(&run->world, run->end[i][j].qp);
			end_done(&run->end[i][j]);
		}
	}
	for (uint32_t i = 0; i < WORLD_HOST_COUNT && has_pools(run); i++)
		for (uint32_t j = 0; j < POOL_COUNT; j++)
			pool_done(&run->pool[i][j]);
	world_done(&run->world);
}

static struct end *end_of_qpn(struct run *run, uint32_t host, uint32_t qpn)
{
	for (uint32_t i = 0; i < run->connection_count; i++)
		if (run->end[i][host].qp->qpn == qpn || run->end[i][host].recv_qp->qpn == qpn)
			return &run->end[i][host];
	return NULL;
}

static void poll(struct run *run)
{
	struct cqe cqe[8];
	uint32_t count;

	for (uint32_t i = 0; i < WORLD_HOST_COUNT; i++) {
		for (uint32_t j = 0; j < 2; j++) {
			uint32_t want = (uint32_t)between(run, 1, ARRAY_COUNT(cqe));

			while ((count = cq_poll(&run->cq[i][j], &run->world.host[i].arena, want,
					cqe)) > 0) {
				for (uint32_t k = 0; k < count; k++) {
					struct end *end = end_of_qpn(run, i, cqe[k].qpn);

					WORLD_CHECK(&run->world, end, "qpn %06x", cqe[k].qpn);
					end_complete(end, &cqe[k]);
				}
			}
		}
	}
}

static void post(struct run *run)
{
	for (uint32_t i = 0; i < run->connection_count; i++) {
		for (uint32_t j = 0; j < WORLD_HOST_COUNT; j++) {
			struct end *end = &run->end[i][j];

			if (!end->shape.is_receive_late || between(run, 0, 7) == 0)
				end_post_receives(end);
			if (between(run, 0, 3) == 0)
				end_post_sends(end, (uint32_t)between(run, 1, 8));
		}
	}
}

static void pools_post(struct run *run)
{
	for (uint32_t i = 0; i < WORLD_HOST_COUNT; i++) {
		for (uint32_t j = 0; j < POOL_COUNT; j++) {
			struct pool *pool = &run->pool[i][j];

			if (!run->is_receive_late)
				pool_post(pool, POOL_BUFFER_COUNT_MAX);
			else if (between(run, 0, 7) == 0)
				pool_post(pool, (uint32_t)between(run, 1, 4));
			if (between(run, 0, 15) == 0)
				pool_change(pool);
		}
	}
}

/*
 * A stranger sends a packet in the name of a queue pair's peer, from another port: a fatal NAK or a
 * request, with a PSN that is far from all that the connection has come to. The guard
 * (qp/guard.h) is up for nearly all of the run.
 */
static void stranger_guess(struct run *run)
{
	struct sim_random *random = &run->stranger_random;
	uint32_t host = (uint32_t)sim_random_below(random, WORLD_HOST_COUNT);
	struct qp *qp = run->end[sim_random_below(random, run->connection_count)][host].qp;
	uint32_t distance = (uint32_t)sim_random_between(random, 1 << 20, 15 << 20);
	struct packet_origin origin = {
		.source = &run->world.host[1 - host].address,
		.destination = &run->world.host[host].address,
		.source_port = 0xffff,
	};
	uint8_t bytes[OPCODE_HEADER_BYTES_MAX];
	struct packet packet;

	if (sim_random_below(random, 2)) {
		packet_init(&packet, OPCODE_RC_ACKNOWLEDGE);
		packet.bth.psn = psn_add(psn_from(qp->attr.sq_psn), distance);
		packet.aeth =
			(struct aeth){AETH_NAK, AETH_NAK_REMOTE_OPERATIONAL, msn_from(distance)};
	} else {
		packet_init(&packet, OPCODE_RC_SEND_ONLY);
		packet.bth.psn = psn_add(psn_from(qp->attr.rq_psn), distance);
	}
	packet.bth.dest_qpn = qpn_from(qp->qpn);
	engine_receive(qp->lane, &origin, bytes, packet_encode_headers(&packet, bytes),
		sim_now_ns(run->world.sim));
}

/* Let the network do one thing. */
static bool step(struct run *run, uint64_t limit_ns)
{
	bool has_happened = world_step(&run->world, limit_ns);

	for (uint32_t i = 0; i < WORLD_HOST_COUNT && has_pools(run); i++)
		for (uint32_t j = 0; j < POOL_COUNT; j++)
			pool_check(&run->pool[i][j], within_has_events(&run->world, i));
	return has_happened;
}

static bool is_finished(const struct run *run)
{
	for (uint32_t i = 0; i < run->connection_count; i++)
		if (!end_is_finished(&run->end[i][0]) || !end_is_finished(&run->end[i][1]))
			return false;
	return true;
}

/* Does each message find a receive request? Shared ones may be taken by others. */
static bool is_always_ready(const struct run *run)
{
	return run->kind == MIXED_RC && !run->is_receive_late && !run->has_stranger;
}

static void check_counters(struct run *run, struct mixed_result *result)
{
	struct sim *sim = run->world.sim;
	uint64_t naks = 0;

	result->bad_fates = sim_count(sim, SIM_LOST) + sim_count(sim, SIM_PARTITIONED) +
		sim_count(sim, SIM_OVERFLOWED) + sim_count(sim, SIM_CORRUPTED) +
		sim_count(sim, SIM_DUPLICATED);
	for (uint32_t i = 0; i < run->connection_count; i++) {
		for (uint32_t j = 0; j < WORLD_HOST_COUNT; j++) {
			const struct qp *qp = run->end[i][j].qp;
			uint64_t retransmitted = world_counter(qp, COUNTER_retransmitted_pkts);
			uint64_t probes = world_counter(qp, COUNTER_early_probes);

			naks += world_counter(qp, COUNTER_rnr_nak_rcvd);
			result->packets += world_counter(qp, COUNTER_sent_pkts);
			result->retransmitted += retransmitted;
			WORLD_CHECK(&run->world,
				run->has_stranger ||
					world_counter(qp, COUNTER_invalid_responses) == 0,
				"qp %06x got responses to nothing", qp->qpn);
			WORLD_CHECK(&run->world,
				run->has_stranger || world_counter(qp, COUNTER_guarded_drops) == 0,
				"qp %06x took its peer for a stranger", qp->qpn);
			if (run->weather == WEATHER_CLEAR && is_always_ready(run))
				WORLD_CHECK(&run->world, !retransmitted && !probes,
					"%llu retransmissions, %llu probes on a perfect network",
					(unsigned long long)retransmitted,
					(unsigned long long)probes);
			if (run->weather == WEATHER_FAR && is_always_ready(run))
				WORLD_CHECK(&run->world, probes <= BORROWED_PROBES_MAX,
					"%llu probes on a perfect network",
					(unsigned long long)probes);
		}
	}
	if (is_always_ready(run))
		WORLD_CHECK(&run->world, naks == 0, "%llu RNR NAKs", (unsigned long long)naks);
}

void mixed_run(enum mixed_kind kind, uint64_t seed, bool is_traced, struct mixed_result *ret_result)
{
	struct run *run = malloc(sizeof(*run));

	if (!run)
		abort();
	run_init(run, kind, seed, is_traced);
	struct sim *sim = run->world.sim;
	uint64_t start_ns = sim_now_ns(sim);
	/* Some programs poll all the time, some only when they are done with something else. */
	uint64_t poll_chance = between(run, 1, 4);

	while (!is_finished(run)) {
		post(run);
		if (has_pools(run))
			pools_post(run);
		if (kind == MIXED_STATES)
			states_act(&run->states);
		if (run->has_stranger)
			stranger_guess(run);
		sim_flush(sim);
		step(run, sim_now_ns(sim) + between(run, 1, MS / 2));
		if (between(run, 1, poll_chance) == 1)
			poll(run);
		WORLD_CHECK(&run->world, sim_now_ns(sim) - start_ns < VIRTUAL_NS_MAX, "stuck");
	}
	ret_result->virtual_ns = sim_now_ns(sim) - start_ns;
	/* The network falls silent: nobody sends for ever. */
	while (step(run, UINT64_MAX))
		WORLD_CHECK(
			&run->world, sim_now_ns(sim) - start_ns < 2 * VIRTUAL_NS_MAX, "chatter");
	poll(run);
	for (uint32_t i = 0; i < run->connection_count; i++) {
		end_check_final(&run->end[i][0]);
		end_check_final(&run->end[i][1]);
	}
	for (uint32_t i = 0; i < WORLD_HOST_COUNT; i++)
		WORLD_CHECK(&run->world, run->counter[i].value == run->counter[i].expected,
			"atomics on host %u were lost or executed twice", i);
	if (kind == MIXED_STATES)
		states_check_final(&run->states);
	check_counters(run, ret_result);
	run_done(run);
	free(run);
}
