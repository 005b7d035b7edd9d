/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Many connected queue pairs in one process: how much memory each takes, how fast they connect, and
 * whether the latency grows with their number.
 *
 *   many [OPTIONS] [-n QUEUE-PAIRS] [SERVER]
 *
 * They have CQS completion queues, because a lane has 65,535 numbers of queue pairs, and those of
 * one completion queue share a lane. The client writes 8 bytes over one queue pair after the other,
 * in an order that visits no neighbours, and waits for each completion; the server polls.
 */
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "peer.h"

enum {
	QUEUE_PAIRS = 1000,
	CQS = 4,
	DEPTH = 64,
	SAMPLES_MIN = 5000,
	STEP_FACTOR = 8, /* from one number of queue pairs in use to the next */
	STRIDE = 7919, /* a prime */
};

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint64_t resident_bytes(void)
{
	FILE *file = fopen("/proc/self/statm", "re");
	unsigned long long total, resident;

	CHECK(file && fscanf(file, "%llu %llu", &total, &resident) == 2, "no /proc/self/statm");
	fclose(file);
	return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void write_one(
	struct ibv_qp *qp, const struct ibv_mr *memory, const struct peer_buffer *target)
{
	struct ibv_sge sge = peer_sge(memory, 0, 8);
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = {target->address, target->rkey},
	};

	peer_post_send(qp, &wr);
	peer_success(qp->send_cq);
}

static int compare(const void *a, const void *b)
{
	uint64_t one = *(const uint64_t *)a, other = *(const uint64_t *)b;

	return (one > other) - (one < other);
}

/* Write over each of the first `count` queue pairs in turn, so often that samples suffice. */
static void measure(struct ibv_qp **qps, uint32_t count, const struct ibv_mr *memory,
	const struct peer_buffer *target)
{
	uint32_t passes = SAMPLES_MIN / count + 2; /* the first one warms up */
	uint64_t samples = (uint64_t)(passes - 1) * count, taken = 0;
	uint64_t middle = samples / 2, late = samples / 100 * 99;
	uint32_t stride = count % STRIDE ? STRIDE : 1; /* without a common divisor */
	uint64_t *latency = calloc(samples, sizeof(*latency));

	CHECK(latency, "no memory");
	for (uint32_t pass = 0; pass < passes; pass++)
		for (uint32_t i = 0; i < count; i++) {
			uint32_t index = (uint32_t)((uint64_t)i * stride % count);
			uint64_t begin_ns = now_ns();

			write_one(qps[index], memory, target);
			if (pass)
				latency[taken++] = now_ns() - begin_ns;
		}
	qsort(latency, samples, sizeof(*latency), compare);
	printf("%u in use: write latency median %.2f us, p99 %.2f us\n", count,
		(double)latency[middle] / 1000, (double)latency[late] / 1000);
	free(latency);
}

static void use(struct peer *peer, struct ibv_qp **qps, uint32_t count, struct ibv_cq **cqs,
	const struct ibv_mr *memory)
{
	struct peer_buffer theirs, ours = peer_buffer_of(memory);
	struct ibv_wc wc;

	peer_exchange(peer, &ours, &theirs, sizeof(ours));
	if (peer_is_server(peer)) {
		while (!peer_has_told(peer))
			for (int i = 0; i < 1000; i++)
				CHECK(!ibv_poll_cq(cqs[i % CQS], 1, &wc),
					"a completion of nothing");
	} else {
		for (uint32_t step = 1; step < count; step *= STEP_FACTOR)
			measure(qps, step, memory, &theirs);
		measure(qps, count, memory, &theirs);
	}
	peer_barrier(peer);
}

int main(int argc, char **argv)
{
	struct peer_options options;
	struct peer peer;

	peer_parse(&options, argc, argv);
	uint32_t count = options.count ? options.count : QUEUE_PAIRS;
	struct ibv_qp **qps = calloc(count, sizeof(struct ibv_qp *));
	CHECK(qps, "no memory");
	peer_open(&peer, &options);
	peer_meet(&peer);
	struct ibv_cq *cqs[CQS];
	for (int i = 0; i < CQS; i++)
		cqs[i] = peer_cq_create(&peer, 2 * DEPTH, NULL);
	struct ibv_mr *memory = peer_memory(&peer, 4096);

	/* The first bring the NIC and its lanes with them. */
	struct ibv_qp *first[CQS];
	for (int i = 0; i < CQS; i++)
		first[i] = peer_qp_create(&peer, cqs[i], DEPTH, 1, 0);
	peer_qps_connect(&peer, first, CQS, &peer_link_full);

	uint64_t before = resident_bytes(), begin_ns = now_ns();
	for (uint32_t i = 0; i < count; i++)
		qps[i] = peer_qp_create(&peer, cqs[i % CQS], DEPTH, 1, 0);
	uint64_t created_ns = now_ns();
	peer_barrier(&peer);
	uint64_t connect_ns = now_ns();
	peer_qps_connect(&peer, qps, count, &peer_link_full);
	uint64_t connected_ns = now_ns();
	uint64_t connected = resident_bytes() - before;

	printf("%u queue pairs of depth %d: %llu bytes each when connected\n", count, DEPTH,
		(unsigned long long)connected / count);
	printf("created %.0f, connected %.0f per second\n",
		1e9 * count / (double)(created_ns - begin_ns),
		1e9 * count / (double)(connected_ns - connect_ns));
	use(&peer, qps, count, cqs, memory);
	printf("after use: %llu bytes each\n",
		(unsigned long long)(resident_bytes() - before) / count);

	uint64_t destroy_ns = now_ns();
	for (uint32_t i = 0; i < count; i++)
		CHECK(!ibv_destroy_qp(qps[i]), "queue pair %u stays", i);
	printf("destroyed %.0f per second\n", 1e9 * count / (double)(now_ns() - destroy_ns));
	for (int i = 0; i < CQS; i++) {
		CHECK(!ibv_destroy_qp(first[i]), "queue pair %d of the first stays", i);
		CHECK(!ibv_destroy_cq(cqs[i]), "completion queue %d stays", i);
	}
	peer_memory_free(memory);
	peer_close(&peer);
	free(qps);
	return 0;
}
