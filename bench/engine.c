/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The cost of the protocol: two engines in one thread exchange packets in memory, without sockets,
 * locks or ICRC. One round is a SEND, its acknowledgement, and the polls of both sides. The figure
 * is nanoseconds per round.
 *
 * Usage: engine [ROUNDS]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "engine/engine.h"
#include "support/permutation.h"

enum { ARENA_BYTES = 1 << 24, DEPTH = 64, MESSAGE_BYTES = 8, ROUNDS_DEFAULT = 2000000, PD = 1 };

struct side {
	struct arena arena;
	struct mr_table mrs;
	struct lane lane;
	struct cq cq;
	struct qp *qp;
	struct gid gid;
	uint8_t memory[64];
	struct sge sge;
};

/* Allocate address space for both sides of NIC memory. */
static void *arena_memory(void)
{
	void *memory = mmap(NULL, ARENA_SPAN(ARENA_BYTES), PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (memory == MAP_FAILED)
		abort();
	return memory;
}

static uint64_t now_ns = 1;

static void must(int error)
{
	if (error) {
		fprintf(stderr, "engine: %s\n", strerror(-error));
		exit(1);
	}
}

static void side_make(struct side *side, uint8_t number)
{
	struct qp_init init = {
		.type = QP_TYPE_RC,
		.pd = PD,
		.send_cq = &side->cq,
		.recv_cq = &side->cq,
		.caps = {.send_depth = DEPTH,
			.recv_depth = DEPTH,
			.send_sge_max = 1,
			.recv_sge_max = 1},
		.is_all_signaled = true,
	};
	struct mr_region region = {.pd = PD,
		.access = MR_LOCAL_WRITE,
		.iova = (uint64_t)(uintptr_t)side->memory,
		.bytes = sizeof(side->memory),
		.address = side->memory};
	uint32_t key;

	arena_init(&side->arena, arena_memory(), ARENA_BYTES);
	must(mr_table_init(&side->mrs, &side->arena, 16, test_permutation(1)));
	must(mr_table_add(&side->mrs, &region, 0, &key));
	must(engine_lane_init(&side->lane, &side->arena, &side->mrs, number, 0));
	must(cq_init(&side->cq, &side->arena, 4 * DEPTH));
	must(engine_qp_create(&side->lane, &init, 0, &side->qp));
	side->gid.raw[15] = number;
	side->sge = (struct sge){region.iova, MESSAGE_BYTES, key};
}

static void side_connect(struct side *side, const struct side *peer)
{
	struct qp_attr attr = {
		.port = 1,
		.path = {.local = side->gid, .remote = peer->gid},
		.path_mtu = 5,
		.dest_qpn = peer->qp->qpn,
		.max_dest_rd_atomic = 1,
		.max_rd_atomic = 1,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
	};

	must(qp_modify(side->qp, QP_INIT, ATTR_STATE | ATTR_PKEY_INDEX | ATTR_PORT | ATTR_ACCESS,
		&attr, now_ns));
	must(qp_modify(side->qp, QP_RTR,
		ATTR_STATE | ATTR_AV | ATTR_PATH_MTU | ATTR_DEST_QPN | ATTR_RQ_PSN |
			ATTR_MAX_DEST_RD_ATOMIC | ATTR_MIN_RNR_TIMER,
		&attr, now_ns));
	must(qp_modify(side->qp, QP_RTS,
		ATTR_STATE | ATTR_TIMEOUT | ATTR_RETRY_CNT | ATTR_RNR_RETRY | ATTR_SQ_PSN |
			ATTR_MAX_RD_ATOMIC,
		&attr, now_ns));
}

/* Pass all pending packets of one side to the other. */
static void carry(struct side *from, struct side *to)
{
	struct packet_origin origin = {.source = &from->gid, .destination = &to->gid};
	uint8_t buffer[ENGINE_PACKET_BYTES_MAX];
	struct packet_run run = {.buffer = buffer};
	size_t bytes;

	while ((bytes = engine_next_packet(&from->lane, true, &run, now_ns)))
		engine_receive(&to->lane, &origin, buffer, bytes, now_ns);
}

static void one_round(struct side *from, struct side *to)
{
	struct recv_wr receive = {.sge = &to->sge, .sge_count = 1};
	struct send_wr send = {.opcode = WR_SEND, .sge = &from->sge, .sge_count = 1};
	struct cqe cqe;
	uint32_t posted;

	now_ns += 1000;
	must(qp_post_recv(to->qp, &receive));
	must(engine_post_send(from->qp, &send, 1, &posted, now_ns));
	carry(from, to);
	carry(to, from);
	if (cq_poll(&to->cq, &to->arena, 1, &cqe) != 1 || cqe.status != WC_SUCCESS ||
		cq_poll(&from->cq, &from->arena, 1, &cqe) != 1 || cqe.status != WC_SUCCESS) {
		fprintf(stderr, "engine: a message was lost\n");
		exit(1);
	}
}

int main(int argc, char **argv)
{
	long rounds = argc > 1 ? atol(argv[1]) : ROUNDS_DEFAULT;
	static struct side a, b;
	struct timespec start, end;

	side_make(&a, 1);
	side_make(&b, 2);
	side_connect(&a, &b);
	side_connect(&b, &a);
	clock_gettime(CLOCK_MONOTONIC, &start);
	for (long i = 0; i < rounds; i++)
		one_round(&a, &b);
	clock_gettime(CLOCK_MONOTONIC, &end);
	printf("%.0f ns per SEND of %d bytes, acknowledged and polled\n",
		((double)(end.tv_sec - start.tv_sec) * 1e9 +
			(double)(end.tv_nsec - start.tv_nsec)) /
			(double)rounds,
		MESSAGE_BYTES);
	return 0;
}
