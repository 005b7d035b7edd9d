/* SPDX-License-Identifier: BSD-2-Clause */
#include "world.h"
#include "support/permutation.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "ib/rc/selective_store.h"
#include "pool.h"
#include "support/arena_memory.h"
#include "ud_endpoints.h"
#include "wire/packet.h"
#include "within.h"

/* The store of early packets is so small that it overflows now and then. */
enum { ARENA_BYTES = 16 << 20, REGION_COUNT_MAX = 64, STORE_PACKETS = 150 };

static bool is_local;

void world_set_local(bool is_now_local)
{
	is_local = is_now_local;
}

void world_fail(const struct world *world, const char *file, int line, const char *condition,
	const char *format, ...)
{
	va_list arguments;

	printf("seed %llu, %.6f ms: %s:%d: %s: ", (unsigned long long)world->seed,
		(double)sim_now_ns(world->sim) / 1e6, file, line, condition);
	va_start(arguments, format);
	vprintf(format, arguments);
	va_end(arguments);
	printf("\n");
	exit(1);
}

static void trace(void *context, uint64_t now_ns, uint32_t from, uint32_t to, enum sim_fate fate,
	const uint8_t *frame, size_t bytes)
{
	struct packet packet;

	(void)context;
	printf("%12.3f us  %u -> %u  %-11s ", (double)now_ns / 1e3, from, to, sim_fate_name(fate));
	if (packet_decode(&packet, frame, bytes - 4)) {
		printf("malformed\n");
		return;
	}
	printf("%-24s qp %06x psn %06x %s%4u bytes", packet.info->name, packet.bth.dest_qpn.value,
		packet.bth.psn.value, packet.bth.ack_requested ? "ack " : "    ",
		packet.payload_bytes);
	if (packet.info->headers & HEADER_AETH)
		printf("  aeth %u/%u msn %u", (unsigned)packet.aeth.kind, packet.aeth.value,
			packet.aeth.msn.value);
	if (packet.info->headers & HEADER_RETH)
		printf("  reth %u bytes", packet.reth.dma_bytes);
	printf("\n");
}

static void host_init(struct world *world, uint32_t number, uint32_t lane_count)
{
	struct host *host = &world->host[number];
	uint8_t ipv4[4] = {10, 0, 0, (uint8_t)(1 + number)};

	host->number = number;
	host->address = gid_from_ipv4(ipv4);
	if (world->seed % 2) /* IPv6 as often */
		host->address = (struct gid){{0xfd, 0, 0, 0, 0, 0, 0, 1, [15] = (uint8_t)number}};
	host->arena_memory = arena_memory_new(ARENA_BYTES);
	arena_init(&host->arena, host->arena_memory, ARENA_BYTES);
	if (mr_table_init(&host->mrs, &host->arena, REGION_COUNT_MAX,
		    test_permutation(sim_random_next(&world->random))))
		abort();
	sim_add_host(world->sim, &host->address);
	host->srqs = calloc(1, sizeof(*host->srqs));
	if (!host->srqs)
		abort();
	host->lane_count = lane_count;
	for (uint32_t i = 0; i < lane_count; i++) {
		uint32_t slot = 1 + 100 * i + number;

		if (engine_lane_init(&host->lane[i], &host->arena, &host->mrs, slot, i))
			abort();
		host->lane[i].srqs = host->srqs;
		if (world->is_selective[number])
			host->lane[i].selective = selective_store_create(STORE_PACKETS);
		sim_add_lane(world->sim, number, &host->lane[i]);
	}
}

void world_init(struct world *world, uint64_t seed, uint32_t lane_count, bool is_traced)
{
	memset(world, 0, sizeof(*world));
	world->seed = seed;
	world->is_traced = is_traced;
	world->random.state = seed * 0x100000001b3u;
	world->sim = sim_create(sim_random_next(&world->random));
	if (!world->sim)
		abort();
	if (is_traced)
		sim_watch(world->sim, trace, NULL);
	/* Both hosts in half of the worlds, one host in a quarter */
	world->is_selective[0] = seed / 4 % 4 != 0;
	world->is_selective[1] = seed / 4 % 4 != 0 && seed / 4 % 4 != 3;
	for (uint32_t i = 0; i < WORLD_HOST_COUNT; i++)
		host_init(world, i, lane_count);
	world->local_random.state = seed;
	if (is_local) {
		within_init(world);
		endpoints_init(world);
	}
}

static void signals_note(struct world *world, uint32_t host)
{
	for (uint32_t i = 0; i < world->host[host].lane_count; i++) {
		struct signal *signal;
		uint32_t events;

		while ((signal = signal_take(&world->host[host].lane[i].signals, &events)))
			if (signal->kind == SIGNAL_KIND_QP)
				world->events[host] |= events;
			else if (signal->kind == SIGNAL_KIND_SRQ)
				container_of(signal, struct pool, srq.signal)->told_count++;
	}
}

void world_done(struct world *world)
{
	for (uint32_t i = 0; i < WORLD_HOST_COUNT; i++) {
		struct host *host = &world->host[i];

		for (uint32_t j = 0; j < host->lane_count; j++)
			engine_lane_done(&host->lane[j]);
		mr_table_done(&host->mrs);
		within_done(host->within);
		endpoints_done(host->endpoints);
		free(host->srqs);
		arena_memory_free(host->arena_memory, ARENA_BYTES);
	}
	sim_destroy(world->sim);
}

struct qp *world_qp_create(
	struct world *world, struct host *host, uint32_t lane, const struct qp_init *init)
{
	struct qp *qp;

	if (engine_qp_create(&host->lane[lane], init, sim_random_next(&world->random), &qp))
		abort();
	if (init->type == QP_TYPE_UD)
		endpoints_add(world, qp, host->number);
	return qp;
}

void world_qp_destroy(struct world *world, struct qp *qp)
{
	endpoints_remove(world, qp);
	within_disconnect(world, qp);
	engine_qp_destroy(qp);
}

static uint32_t rtr_mask(enum qp_type type)
{
	uint32_t mask = ATTR_AV | ATTR_PATH_MTU | ATTR_DEST_QPN | ATTR_RQ_PSN;

	return type == QP_TYPE_XRC_SEND ? mask
					: mask | ATTR_MAX_DEST_RD_ATOMIC | ATTR_MIN_RNR_TIMER;
}

static uint32_t rts_mask(enum qp_type type)
{
	uint32_t mask = ATTR_TIMEOUT | ATTR_SQ_PSN;

	return type == QP_TYPE_XRC_RECV
		? mask
		: mask | ATTR_RETRY_CNT | ATTR_RNR_RETRY | ATTR_MAX_RD_ATOMIC;
}

static void connect_one(struct world *world, struct qp *qp, const struct qp *peer, uint32_t number,
	const struct connection *connection)
{
	uint64_t now_ns = sim_now_ns(world->sim);
	uint32_t other = 1 - number;
	struct qp_attr attr = {
		.port = 1,
		.access = connection->access,
		.path = {.id = sim_path(number, other),
			.local = world->host[number].address,
			.remote = world->host[other].address},
		.path_mtu = connection->path_mtu,
		.dest_qpn = peer->qpn,
		.rq_psn = connection->psn[other],
		.sq_psn = connection->psn[number],
		.max_rd_atomic = connection->rd_atomic,
		.max_dest_rd_atomic = connection->rd_atomic,
		.min_rnr_timer = connection->min_rnr_timer,
		.timeout = connection->timeout,
		.retry_cnt = connection->retry_cnt,
		.rnr_retry = connection->rnr_retry,
	};

	if (qp_modify(qp, QP_INIT, ATTR_STATE | ATTR_PKEY_INDEX | ATTR_PORT | ATTR_ACCESS, &attr,
		    now_ns) ||
		qp_modify(qp, QP_RTR, ATTR_STATE | rtr_mask(qp->type), &attr, now_ns))
		abort();
	within_connect(world, qp, number);
	if (qp_modify(qp, QP_RTS, ATTR_STATE | rts_mask(qp->type), &attr, now_ns))
		abort();
}

void world_connect(
	struct world *world, struct qp *a, struct qp *b, const struct connection *connection)
{
	connect_one(world, a, b, 0, connection);
	connect_one(world, b, a, 1, connection);
}

void world_forget_peer(struct world *world, uint32_t number)
{
	within_forget_peer(world, number);
}

uint32_t world_register(struct world *world, struct host *host, uint32_t pd, uint32_t access,
	void *address, uint64_t bytes)
{
	struct mr_region region = {pd, access, (uint64_t)(uintptr_t)address, bytes, address};
	uint32_t key;

	if (mr_table_add(&host->mrs, &region, (uint8_t)sim_random_next(&world->random), &key))
		abort();
	return key;
}

bool world_step(struct world *world, uint64_t limit_ns)
{
	bool has_happened = sim_step(world->sim, limit_ns);

	for (uint32_t i = 0; i < WORLD_HOST_COUNT; i++) {
		has_happened |= within_collect(world, i);
		has_happened |= endpoints_collect(world, i);
		signals_note(world, i);
		for (uint32_t j = 0; j < world->host[i].lane_count; j++)
			engine_check(&world->host[i].lane[j]);
	}
	return has_happened;
}
