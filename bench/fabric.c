/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How many events per second of CPU time the simulated network executes, and for comparison how
 * many a heap of the same size pops and pushes again; also the most memory so far. CPU time is what
 * counts, so other programs disturb little.
 */
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "fabric/traffic/engine_host.h"
#include "support/arena_memory.h"
#include "support/fabric_net.h"

#define US FABRIC_PS_PER_US

/* The size of the mapping. The kernel gives memory only to pages that the benchmark touches. */
#define BENCH_ARENA_BYTES (1ull << 32)

enum { MTU_BYTES = 1024, LOOPS = 4000000 };

static double cpu_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* A loop that pops an event and pushes it again at a random later time. */
static double heap_events_per_s(uint32_t count)
{
	struct event_heap heap = {0};
	struct fabric_random random = {1};
	double start_s;

	for (uint32_t i = 0; i < count; i++)
		if (event_heap_push(&heap, fabric_random_below(&random, 100000), i))
			abort();
	start_s = cpu_s();
	for (uint32_t i = 0; i < LOOPS; i++) {
		struct event event = event_heap_pop(&heap);

		if (event_heap_push(
			    &heap, event.at + fabric_random_below(&random, 100000), event.what))
			abort();
	}
	event_heap_done(&heap);
	return LOOPS / (cpu_s() - start_s);
}

static double memory_mb(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (double)usage.ru_maxrss * 1024 / 1e6;
}

static void run_print(const char *what, struct fabric *fabric, uint64_t until_ps)
{
	double start_s = cpu_s();
	double events_per_s;
	uint32_t pending;

	if (fabric_run(fabric, until_ps))
		abort();
	events_per_s = (double)fabric->event_count / (cpu_s() - start_s);
	pending = fabric->events.count;
	printf("%-44s%12.2f%12u%12.2f%12.0f\n", what, events_per_s / 1e6, pending,
		heap_events_per_s(pending + 1) / 1e6, memory_mb());
}

static void sources_run(const char *what, struct net *net, uint64_t until_ps)
{
	net_start(net);
	run_print(what, net->fabric, until_ps);
	net_done(net);
}

static void engines_run(const char *what, struct net *net, struct fabric_flow *flows,
	uint32_t count, uint64_t until_ps)
{
	struct engine_hosts_init init = {.mtu_bytes = MTU_BYTES,
		.message_bytes = 1 << 20,
		.depth = 2,
		.timeout = 14,
		.retry_count = 7};
	void *memory = arena_memory_new(BENCH_ARENA_BYTES);
	struct engine_hosts *hosts;
	struct arena arena;

	arena_init(&arena, memory, BENCH_ARENA_BYTES);
	init.arena = &arena;
	net->config.frame_bytes_max = engine_host_frame_bytes(MTU_BYTES);
	net->config.data_capacity = engine_host_data_bytes(MTU_BYTES);
	net->fabric = fabric_create(&net->config);
	if (!net->fabric || topology_build(net->fabric, &net->topology))
		abort();
	hosts = engine_hosts_create(net->fabric, &init, flows, count);
	if (!hosts)
		abort();
	run_print(what, net->fabric, until_ps);
	engine_hosts_destroy(hosts);
	fabric_destroy(net->fabric);
	arena_memory_free(memory, BENCH_ARENA_BYTES);
}

static void incast_init(struct net *net)
{
	net_init(net, TOPOLOGY_STAR);
	net->topology.hosts = 9;
	for (uint32_t i = 1; i < 9; i++)
		net_flow(net, i, 0);
}

/* 1,024 hosts, ten flows each, to hosts of other pods. */
static void fat_tree_run(struct net *net)
{
	enum { HOSTS = 1024, FLOWS = 10 };
	struct fabric_flow *flows =
		(struct fabric_flow *)calloc(HOSTS * FLOWS, sizeof(struct fabric_flow));

	if (!flows)
		abort();
	for (uint32_t i = 0; i < HOSTS * FLOWS; i++)
		flows[i] = (struct fabric_flow){
			.source = i / FLOWS,
			.destination = (i / FLOWS + HOSTS / 2) % HOSTS,
			.source_port = (uint16_t)(0xc000 + i % 0x4000),
			.priority = NET_PRIORITY,
			.payload_bytes = NET_FRAME_BYTES,
		};
	net_init(net, TOPOLOGY_FAT_TREE);
	net->topology.k = 16;
	net->fabric = fabric_create(&net->config);
	if (!net->fabric || topology_build(net->fabric, &net->topology))
		abort();
	net->sources = sources_create(net->fabric, &net->sources_init, flows, HOSTS * FLOWS);
	if (!net->sources)
		abort();
	run_print("fat tree, 1024 plain sources, 10240 flows", net->fabric, 60 * US);
	net_done(net);
	net_init(net, TOPOLOGY_FAT_TREE);
	net->topology.k = 16;
	engines_run(
		"fat tree, 1024 engines, 10240 queue pairs", net, flows, HOSTS * FLOWS, 60 * US);
	free(flows);
}

int main(int argc, char **argv)
{
	static struct net net;
	bool is_incast_only = argc == 2 && !strcmp(argv[1], "incast");

	if (argc > 1 && !is_incast_only) {
		fprintf(stderr, "usage: fabric [incast]\n");
		return 2;
	}

	printf("%-44s%12s%12s%12s%12s\n%-44s%12s%12s%12s%12s\n", "", "million", "events",
		"a heap of", "memory", "", "events/s", "pending", "that size", "MB");
	incast_init(&net);
	sources_run("incast of 8 plain sources", &net, 20000 * US);
	incast_init(&net);
	engines_run("incast of 8 engines", &net, net.flows, net.flow_count, 20000 * US);
	if (!is_incast_only)
		fat_tree_run(&net);
	return 0;
}
