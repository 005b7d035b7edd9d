/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Datagrams from one process to two others over InfiniBand, the first of which has stopped.
 *
 *   lanes receive                    prints its LID and QPN, and receives until it is killed
 *   lanes send LID QPN LID QPN SL    sends to both, to the second one with service level SL
 *
 * Each receiver has a queue pair of its own at the sender, on one completion queue. The sender
 * sends slowly until a line comes by its standard input. Then it sends as fast as it can. It prints
 * how many datagrams to the first receiver had left when all those to the second one had, and the
 * time that this took, in milliseconds.
 */
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <infiniband/verbs.h>

enum { QKEY = 0x1234, BYTES = 2048, GRH_BYTES = 40, DEPTH = 256, DATAGRAMS = 4000, TARGETS = 2 };
enum { PAUSE_MS = 1 };

static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_mr *memory;
static uint8_t bytes[GRH_BYTES + BYTES];

static void check(int is_good, const char *what)
{
	if (is_good)
		return;
	perror(what);
	exit(1);
}

static uint16_t device_open(void)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);
	struct ibv_context *context = devices && *devices ? ibv_open_device(*devices) : NULL;
	struct ibv_port_attr port;

	check(context != NULL, "a device");
	check(ibv_query_port(context, 1, &port) == 0, "ibv_query_port");
	pd = ibv_alloc_pd(context);
	cq = ibv_create_cq(context, TARGETS * DEPTH, NULL, NULL, 0);
	check(pd && cq, "a completion queue");
	memory = ibv_reg_mr(pd, bytes, sizeof(bytes), IBV_ACCESS_LOCAL_WRITE);
	check(memory != NULL, "ibv_reg_mr");
	return port.lid;
}

static struct ibv_qp *qp_make(void)
{
	struct ibv_qp_init_attr init = {.send_cq = cq,
		.recv_cq = cq,
		.cap = {DEPTH, DEPTH, 1, 1, 0},
		.qp_type = IBV_QPT_UD,
		.sq_sig_all = 1};
	struct ibv_qp *qp = ibv_create_qp(pd, &init);
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY};

	check(qp != NULL, "ibv_create_qp");
	check(ibv_modify_qp(
		      qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY) == 0,
		"INIT");
	attr.qp_state = IBV_QPS_RTR;
	check(ibv_modify_qp(qp, &attr, IBV_QP_STATE) == 0, "RTR");
	attr.qp_state = IBV_QPS_RTS;
	check(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN) == 0, "RTS");
	return qp;
}

static void receive_post(struct ibv_qp *qp)
{
	struct ibv_sge sge = {(uintptr_t)bytes, sizeof(bytes), memory->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	check(ibv_post_recv(qp, &wr, &bad) == 0, "ibv_post_recv");
}

static void receive_all(struct ibv_qp *qp)
{
	struct ibv_wc wc;

	for (;;)
		if (ibv_poll_cq(cq, 1, &wc) == 1)
			receive_post(qp);
}

static void send_post(struct ibv_qp *qp, struct ibv_ah *ah, uint32_t qpn, unsigned target)
{
	struct ibv_sge sge = {(uintptr_t)bytes, BYTES, memory->lkey};
	struct ibv_send_wr wr = {.wr_id = target, .sg_list = &sge, .num_sge = 1}, *bad;

	wr.opcode = IBV_WR_SEND;
	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = qpn;
	wr.wr.ud.remote_qkey = QKEY;
	check(ibv_post_send(qp, &wr, &bad) == 0, "ibv_post_send");
}

static unsigned long now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (unsigned long)now.tv_sec * 1000 + (unsigned long)now.tv_nsec / 1000000;
}

/* The target of the oldest datagram that has left; -1: none has. */
static int send_poll(void)
{
	struct ibv_wc wc;

	if (ibv_poll_cq(cq, 1, &wc) != 1)
		return -1;
	check(wc.status == IBV_WC_SUCCESS, "a datagram");
	return (int)wc.wr_id;
}

/* A datagram to each target now and then, until the line comes. */
static void send_slowly(struct ibv_qp **qps, struct ibv_ah **ahs, const uint32_t *qpns)
{
	struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};

	while (poll(&input, 1, PAUSE_MS) == 0)
		for (unsigned i = 0; i < TARGETS; i++) {
			send_post(qps[i], ahs[i], qpns[i], i);
			while (send_poll() < 0)
				;
		}
}

static void send_all(char **arguments)
{
	unsigned posted[TARGETS] = {0}, done[TARGETS] = {0};
	struct ibv_qp *qps[TARGETS];
	struct ibv_ah *ahs[TARGETS];
	uint32_t qpns[TARGETS];
	unsigned long began_ms;
	int target;

	for (unsigned i = 0; i < TARGETS; i++) {
		struct ibv_ah_attr attr = {.dlid = (uint16_t)atoi(arguments[2 * i]), .port_num = 1};

		attr.sl = i ? (uint8_t)atoi(arguments[2 * TARGETS]) : 0;
		qpns[i] = (uint32_t)strtoul(arguments[2 * i + 1], NULL, 10);
		qps[i] = qp_make();
		ahs[i] = ibv_create_ah(pd, &attr);
		check(ahs[i] != NULL, "ibv_create_ah");
	}
	send_slowly(qps, ahs, qpns);
	began_ms = now_ms();
	while (done[1] < DATAGRAMS) {
		for (unsigned i = 0; i < TARGETS; i++)
			for (; posted[i] < DATAGRAMS && posted[i] < done[i] + DEPTH; posted[i]++)
				send_post(qps[i], ahs[i], qpns[i], i);
		target = send_poll();
		if (target >= 0)
			done[target]++;
	}
	printf("%u datagrams %lu ms\n", done[0], now_ms() - began_ms);
}

int main(int argc, char **argv)
{
	uint16_t lid = device_open();

	if (argc == 4 + 2 * TARGETS - 1 && strcmp(argv[1], "send") == 0) {
		send_all(argv + 2);
		return 0;
	}
	if (argc != 2 || strcmp(argv[1], "receive") != 0)
		return 2;
	struct ibv_qp *qp = qp_make();
	for (unsigned i = 0; i < DEPTH; i++)
		receive_post(qp);
	printf("%u %u\n", lid, qp->qp_num);
	fflush(stdout);
	receive_all(qp);
}
