/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What connected queue pairs cost a process that does nothing with them: CPU time and memory.
 *
 *   idle [OPTIONS] [-n QUEUE-PAIRS] [SERVER]
 *
 * Fails when the process uses more CPU time than a clock tick; says what a queue pair takes of
 * memory, connected and after one message each way.
 */
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "peer.h"

enum {
	QUEUE_PAIRS = 100,
	DEPTH = 64,
	SETTLE_MS = 500,
	IDLE_MS = 3000,
	CPU_US_MAX = 10000,
	ATTEMPTS = 5, /* what else the machine does may cost it something once */
};

static uint64_t cpu_us(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000 +
		(uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

static uint64_t resident_bytes(void)
{
	FILE *file = fopen("/proc/self/statm", "re");
	unsigned long long total, resident;

	CHECK(file && fscanf(file, "%llu %llu", &total, &resident) == 2, "no /proc/self/statm");
	fclose(file);
	return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Nothing happens here, so nothing is to be done. */
static void stay_idle(struct peer *peer, const char *when)
{
	uint64_t used_us;

	for (int attempt = 1;; attempt++) {
		peer_sleep_ms(SETTLE_MS);
		used_us = cpu_us();
		peer_sleep_ms(IDLE_MS);
		used_us = cpu_us() - used_us;
		printf("%s: %llu us of CPU time in %d ms\n", when, (unsigned long long)used_us,
			IDLE_MS);
		if (used_us <= CPU_US_MAX)
			break;
		CHECK(attempt < ATTEMPTS, "%s: more than a tick", when);
	}
	peer_barrier(peer);
}

static void send_one(struct ibv_qp *qp, struct ibv_cq *cq, struct ibv_mr *memory)
{
	struct ibv_sge sge = peer_sge(memory, 0, 64);
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
	};

	peer_post_send(qp, &wr);
	peer_success(cq); /* this one, or the other's message */
	peer_success(cq);
}

int main(int argc, char **argv)
{
	struct peer_options options;
	struct peer peer;

	peer_parse(&options, argc, argv);
	uint32_t count = options.count ? options.count : QUEUE_PAIRS;
	struct ibv_qp **qps = calloc(count, sizeof(struct ibv_qp *));
	peer_open(&peer, &options);
	peer_meet(&peer);
	struct ibv_cq *cq = peer_cq_create(&peer, 2 * DEPTH, NULL);
	struct ibv_mr *memory = peer_memory(&peer, 4096);

	/* The first brings the NIC with it. */
	for (uint32_t i = 0; i < 2; i++) {
		struct ibv_qp *first = peer_qp_create(&peer, cq, DEPTH, 1, 0);

		peer_qp_connect(&peer, first, &peer_link_full);
		CHECK(!ibv_destroy_qp(first), "the first queue pair stays");
	}
	uint64_t before = resident_bytes();
	for (uint32_t i = 0; i < count; i++) {
		qps[i] = peer_qp_create(&peer, cq, DEPTH, 1, 0);
		peer_qp_connect(&peer, qps[i], &peer_link_full);
	}
	uint64_t connected = resident_bytes() - before;
	stay_idle(&peer, "connected");

	for (uint32_t i = 0; i < count; i++) {
		peer_post_recv(qps[i], 0, memory, 64, 64);
		peer_barrier(&peer);
		send_one(qps[i], cq, memory);
		peer_barrier(&peer);
	}
	uint64_t used = resident_bytes() - before;
	stay_idle(&peer, "after use");
	printf("%u queue pairs of depth %d: %llu bytes each when connected, %llu after use\n",
		count, DEPTH, (unsigned long long)connected / count,
		(unsigned long long)used / count);

	for (uint32_t i = 0; i < count; i++)
		CHECK(!ibv_destroy_qp(qps[i]), "queue pair %u stays", i);
	CHECK(!ibv_destroy_cq(cq), "the completion queue stays");
	peer_memory_free(memory);
	peer_close(&peer);
	free(qps);
	return 0;
}
