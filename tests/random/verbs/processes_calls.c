/* SPDX-License-Identifier: BSD-2-Clause */
/* A process of fuzz_processes: the random calls that it makes. */
#include "processes.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <infiniband/verbs.h>

enum {
	DEPTH = 32,
	REGION_BYTES = 16384,
	TIMEOUT = 10, /* 4 ms: most of those who are asked are dead */
};

/* This process. */
static struct card *self;
static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *send_cq;
static struct ibv_cq *recv_cq;
static struct ibv_xrcd *xrcd;
static struct ibv_mr *mrs[OBJECTS_EACH];
static uint8_t *memory[OBJECTS_EACH];
static struct ibv_srq *srqs[OBJECTS_EACH];
static struct ibv_qp *made[OBJECTS_EACH]; /* receiving ones that it made */
static struct ibv_qp *opened[OBJECTS_EACH];
static struct ibv_qp *senders[OBJECTS_EACH];
static struct ibv_context *far_context;
static struct ibv_pd *far_pd;
static struct ibv_mr *far_mr;

#define CHECK(condition, ...)                                           \
	do {                                                            \
		if (!(condition))                                       \
			give_up(__LINE__, #condition ": " __VA_ARGS__); \
	} while (0)

__attribute__((noreturn, format(printf, 2, 3))) static void give_up(
	int line, const char *format, ...)
{
	int error = errno;
	va_list arguments;

	fprintf(stderr, "processes_calls.c:%d: process %d, call %llu, %s: ", line, getpid(),
		(unsigned long long)self->beats, self->call);
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fprintf(stderr, " (errno %d)\n", error);
	abort();
}

static struct card *random_card(void)
{
	return &board[below(process_count)];
}

/* --- what is made and destroyed ------------------------------------------------------------ */

static void domain_open(void)
{
	struct ibv_xrcd_init_attr init = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = domain_file,
		.oflags = O_CREAT,
	};

	xrcd = ibv_open_xrcd(context, &init);
	CHECK(xrcd, "open_xrcd");
}

static bool domain_is_used(void)
{
	for (unsigned i = 0; i < OBJECTS_EACH; i++)
		if (srqs[i] || made[i] || opened[i])
			return true;
	return false;
}

static void domain_close(void)
{
	int error = ibv_close_xrcd(xrcd);

	CHECK(error == (domain_is_used() ? EBUSY : 0), "%d", error);
	if (!error)
		domain_open();
}

static void region_change(unsigned i)
{
	if (mrs[i]) {
		self->mr_handle[i] = 0;
		self->mr_rkey[i] = 0;
		CHECK(!ibv_dereg_mr(mrs[i]), "dereg_mr");
		mrs[i] = NULL;
		return;
	}
	mrs[i] = ibv_reg_mr(pd, memory[i], REGION_BYTES,
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
			IBV_ACCESS_REMOTE_ATOMIC);
	CHECK(mrs[i], "reg_mr");
	self->mr_handle[i] = mrs[i]->handle;
	self->mr_rkey[i] = mrs[i]->rkey;
	self->mr_address[i] = (uintptr_t)memory[i];
}

static void srq_change(unsigned i)
{
	struct ibv_srq_init_attr_ex init = {
		.attr = {.max_wr = DEPTH, .max_sge = 1},
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_XRC,
		.pd = pd,
		.xrcd = xrcd,
		.cq = recv_cq,
	};
	uint32_t number;

	if (srqs[i]) {
		CHECK(!ibv_destroy_srq(srqs[i]), "destroy_srq");
		srqs[i] = NULL;
		return;
	}
	srqs[i] = ibv_create_srq_ex(context, &init);
	CHECK(srqs[i], "create_srq");
	CHECK(!ibv_get_srq_num(srqs[i], &number), "get_srq_num");
	self->srqn[i] = number;
}

static void qp_destroy(struct ibv_qp **qp)
{
	CHECK(!ibv_destroy_qp(*qp), "destroy_qp");
	*qp = NULL;
}

static void made_change(unsigned i)
{
	struct ibv_qp_init_attr_ex init = {
		.qp_type = IBV_QPT_XRC_RECV,
		.comp_mask = IBV_QP_INIT_ATTR_XRCD,
		.xrcd = xrcd,
	};

	if (made[i]) {
		qp_destroy(&made[i]);
		return;
	}
	made[i] = ibv_create_qp_ex(context, &init);
	CHECK(made[i], "create_qp");
	self->receiver[i] = made[i]->qp_num;
}

static void opened_change(unsigned i)
{
	struct ibv_qp_open_attr open = {
		.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE,
		.qp_num = random_card()->receiver[below(OBJECTS_EACH)],
		.xrcd = xrcd,
		.qp_type = IBV_QPT_XRC_RECV,
	};

	if (opened[i]) {
		qp_destroy(&opened[i]);
		return;
	}
	opened[i] = ibv_open_qp(context, &open);
	CHECK(opened[i] || errno == EINVAL || errno == ETIMEDOUT, "open_qp");
}

static void sender_change(unsigned i)
{
	struct ibv_qp_init_attr_ex init = {
		.qp_type = IBV_QPT_XRC_SEND,
		.send_cq = send_cq,
		.cap = {.max_send_wr = DEPTH, .max_send_sge = 1},
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = pd,
	};

	if (senders[i]) {
		qp_destroy(&senders[i]);
		return;
	}
	senders[i] = ibv_create_qp_ex(context, &init);
	CHECK(senders[i], "create_qp");
	self->sender[i] = senders[i]->qp_num;
}

/* --- states -------------------------------------------------------------------------------- */

static struct ibv_qp *some_qp(void)
{
	struct ibv_qp **const kinds[] = {made, opened, senders};

	return kinds[below(3)][below(OBJECTS_EACH)];
}

/* Another process may change the same queue pair at the same time. */
static bool modify(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	int error = ibv_modify_qp(qp, attr, mask);

	CHECK(!error || error == EINVAL || error == EIO || error == ETIMEDOUT, "%d", error);
	CHECK(!error || qp->qp_type == IBV_QPT_XRC_RECV, "a queue pair of our own: %d", error);
	return !error;
}

static void connect_qp(struct ibv_qp *qp, uint32_t dest_qpn)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};

	modify(qp, &attr, IBV_QP_STATE);
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags =
			IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
	};
	modify(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = dest_qpn,
		.rq_psn = 0xfffff0,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 1,
		.ah_attr = {.is_global = 1, .port_num = 1, .grh = {.hop_limit = 1}},
	};
	CHECK(!ibv_query_gid(context, 1, 0, &attr.ah_attr.grh.dgid), "query_gid");
	modify(qp, &attr,
		IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTS,
		.timeout = TIMEOUT,
		.retry_cnt = 3,
		.rnr_retry = 3,
		.sq_psn = 0xfffff0,
		.max_rd_atomic = 4,
	};
	modify(qp, &attr,
		IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

static void connect_some(unsigned i)
{
	struct ibv_qp *qp = some_qp();
	struct card *peer = random_card();

	if (qp)
		connect_qp(
			qp, (qp->qp_type == IBV_QPT_XRC_SEND ? peer->receiver : peer->sender)[i]);
}

/* A sender of our own to a receiver that we made or opened: messages get through. */
static void connect_two(unsigned i)
{
	struct ibv_qp *receiver = below(2) ? made[i] : opened[i];
	struct ibv_qp *sender = senders[below(OBJECTS_EACH)];

	if (!receiver || !sender)
		return;
	connect_qp(receiver, sender->qp_num);
	connect_qp(sender, receiver->qp_num);
}

static void break_some(unsigned i)
{
	struct ibv_qp_attr attr = {.qp_state = below(2) ? IBV_QPS_ERR : IBV_QPS_RESET};
	struct ibv_qp *qp = some_qp();

	(void)i;
	/* Out of RESET there is no way to ERR. */
	if (qp && (qp->qp_type == IBV_QPT_XRC_RECV || attr.qp_state == IBV_QPS_RESET))
		modify(qp, &attr, IBV_QP_STATE);
}

static void query(unsigned i)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp *qp = some_qp();
	struct ibv_qp_attr attr;

	(void)i;
	if (!qp)
		return;
	CHECK(!ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), "query_qp");
	CHECK(init.qp_type == qp->qp_type && attr.qp_state <= IBV_QPS_ERR, "query_qp");
}

/* --- data ---------------------------------------------------------------------------------- */

/*
 * The first half of a region is for sending; the second half is for receiving and for writes of
 * other processes. So no request copies bytes onto themselves, which no program does.
 */
static struct ibv_sge some_sge(uint32_t half)
{
	unsigned i = below(OBJECTS_EACH);
	uint32_t offset = half + below(REGION_BYTES / 4);

	return (struct ibv_sge){
		(uintptr_t)memory[i] + offset, below(REGION_BYTES / 4), mrs[i] ? mrs[i]->lkey : 0};
}

static void post_receives(unsigned i)
{
	struct ibv_recv_wr *bad;

	if (!srqs[i])
		return;
	for (uint32_t count = below(DEPTH); count; count--) {
		struct ibv_sge sge = some_sge(REGION_BYTES / 2);
		struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1};

		if (ibv_post_srq_recv(srqs[i], &wr, &bad))
			return;
	}
}

static void post_sends(unsigned i)
{
	static const enum ibv_wr_opcode opcodes[] = {IBV_WR_SEND, IBV_WR_SEND, IBV_WR_SEND_WITH_IMM,
		IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_READ,
		IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_ATOMIC_CMP_AND_SWP};
	struct ibv_send_wr *bad;

	if (!senders[i])
		return;
	for (uint32_t count = below(DEPTH / 2); count; count--) {
		struct ibv_sge sge = some_sge(0);
		struct card *peer = random_card();
		unsigned region = below(OBJECTS_EACH);
		uint64_t address =
			peer->mr_address[region] + REGION_BYTES / 2 + below(REGION_BYTES / 32) * 8;
		struct ibv_send_wr wr = {
			.sg_list = &sge,
			.num_sge = 1,
			.opcode = opcodes[below(8)],
			.send_flags = IBV_SEND_SIGNALED,
			.qp_type.xrc.remote_srqn = peer->srqn[below(OBJECTS_EACH)],
		};

		if (wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ||
			wr.opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
			sge.length = 8;
			wr.wr.atomic.remote_addr = address;
			wr.wr.atomic.rkey = peer->mr_rkey[region];
		} else {
			wr.wr.rdma.remote_addr = address;
			wr.wr.rdma.rkey = peer->mr_rkey[region];
		}
		if (ibv_post_send(senders[i], &wr, &bad))
			return;
	}
}

static void poll_all(unsigned i)
{
	struct ibv_wc wc[DEPTH];

	(void)i;
	while (ibv_poll_cq(send_cq, DEPTH, wc) > 0)
		;
	while (ibv_poll_cq(recv_cq, DEPTH, wc) > 0)
		;
}

static void hear(unsigned i)
{
	struct ibv_async_event event;

	(void)i;
	while (!ibv_get_async_event(context, &event))
		ibv_ack_async_event(&event);
}

/* --- imports ------------------------------------------------------------------------------- */

static void unimport(void)
{
	if (far_mr)
		ibv_unimport_mr(far_mr);
	if (far_pd)
		ibv_unimport_pd(far_pd);
	if (far_context)
		CHECK(!ibv_close_device(far_context), "close_device");
	far_mr = NULL;
	far_pd = NULL;
	far_context = NULL;
}

/* All of it may have gone meanwhile. */
static void import(unsigned i)
{
	struct card *owner = random_card();
	int pidfd = owner == self ? -1 : (int)syscall(SYS_pidfd_open, owner->pid, 0);
	int fd = pidfd < 0 ? -1 : (int)syscall(SYS_pidfd_getfd, pidfd, owner->cmd_fd, 0);

	if (pidfd >= 0)
		close(pidfd);
	unimport();
	if (fd < 0)
		return;
	far_context = ibv_import_device(fd);
	if (!far_context) {
		close(fd);
		return;
	}
	far_pd = ibv_import_pd(far_context, owner->pd_handle);
	if (far_pd)
		far_mr = ibv_import_mr(far_pd, owner->mr_handle[i]);
}

/* Write to the imported region, by a queue pair that works in the imported domain. */
static void use_import(unsigned i)
{
	struct ibv_qp_init_attr init = {
		.send_cq = send_cq,
		.recv_cq = send_cq,
		.cap = {DEPTH, DEPTH, 1, 1, 0},
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_qp *qp, *peer;
	struct ibv_wc wc[DEPTH];
	struct ibv_cq *cq;

	(void)i;
	if (!far_mr)
		return;
	peer = ibv_create_qp(pd, &init);
	CHECK(peer, "create_qp");
	cq = ibv_create_cq(far_context, DEPTH, NULL, NULL, 0);
	CHECK(cq, "create_cq");
	init.send_cq = cq;
	init.recv_cq = cq;
	qp = ibv_create_qp(far_pd, &init);
	CHECK(qp, "create_qp");
	connect_qp(qp, peer->qp_num);
	connect_qp(peer, qp->qp_num);
	for (unsigned count = below(8); count; count--) {
		struct ibv_sge sge = {(uintptr_t)far_mr->addr, 64, far_mr->lkey};
		struct ibv_send_wr wr = {
			.sg_list = &sge,
			.num_sge = 1,
			.opcode = below(2) ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ,
			.send_flags = IBV_SEND_SIGNALED,
			.wr.rdma = {(uintptr_t)memory[0], mrs[0] ? mrs[0]->rkey : 0},
		};
		struct ibv_send_wr *bad;

		if (ibv_post_send(qp, &wr, &bad))
			break;
	}
	for (unsigned count = below(100); count; count--)
		CHECK(ibv_poll_cq(cq, DEPTH, wc) >= 0, "poll_cq");
	qp_destroy(&qp);
	qp_destroy(&peer);
	CHECK(!ibv_destroy_cq(cq), "destroy_cq");
}

/* --- a process ----------------------------------------------------------------------------- */

static void reopen(unsigned i)
{
	(void)i;
	domain_close();
}

static const struct call {
	const char *name;
	unsigned weight;
	void (*run)(unsigned i);
} calls[] = {
	{"region", 4, region_change},
	{"shared receive queue", 3, srq_change},
	{"receiver", 3, made_change},
	{"open", 6, opened_change},
	{"sender", 3, sender_change},
	{"connect some", 6, connect_some},
	{"connect two", 12, connect_two},
	{"break", 1, break_some},
	{"query", 6, query},
	{"post receives", 20, post_receives},
	{"post sends", 30, post_sends},
	{"poll", 40, poll_all},
	{"hear", 5, hear},
	{"import", 1, import},
	{"use import", 2, use_import},
	{"domain", 1, reopen},
};

static void step(void)
{
	unsigned sum = 0, drawn;
	const struct call *call = calls;

	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		sum += calls[i].weight;
	for (drawn = below(sum); drawn >= call->weight; call++)
		drawn -= call->weight;
	self->call = call->name;
	call->run(below(OBJECTS_EACH));
	self->beats++;
}

static void begin(void)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);

	self->call = "begin";
	CHECK(devices && devices[0], "devices");
	context = ibv_open_device(devices[0]);
	CHECK(context, "open_device");
	ibv_free_device_list(devices);
	fcntl(context->async_fd, F_SETFL, O_NONBLOCK);
	pd = ibv_alloc_pd(context);
	CHECK(pd, "alloc_pd");
	send_cq = ibv_create_cq(context, 4096, NULL, NULL, 0);
	recv_cq = ibv_create_cq(context, 4096, NULL, NULL, 0);
	CHECK(send_cq && recv_cq, "create_cq");
	for (unsigned i = 0; i < OBJECTS_EACH; i++) {
		memory[i] = aligned_alloc(4096, REGION_BYTES);
		CHECK(memory[i], "memory");
		memset(memory[i], 0, REGION_BYTES);
	}
	domain_open();
	self->cmd_fd = context->cmd_fd;
	self->pd_handle = pd->handle;
	self->pid = getpid();
}

static void end(void)
{
	self->call = "end";
	unimport();
	for (unsigned i = 0; i < OBJECTS_EACH; i++) {
		if (srqs[i])
			srq_change(i);
		if (made[i])
			made_change(i);
		if (opened[i])
			opened_change(i);
		if (senders[i])
			sender_change(i);
		if (mrs[i])
			region_change(i);
		free(memory[i]);
	}
	CHECK(!ibv_close_xrcd(xrcd), "close_xrcd");
	CHECK(!ibv_destroy_cq(send_cq), "destroy_cq");
	CHECK(!ibv_destroy_cq(recv_cq), "destroy_cq");
	CHECK(!ibv_dealloc_pd(pd), "dealloc_pd");
	CHECK(!ibv_close_device(context), "close_device");
}

void process_run(struct card *card)
{
	self = card;
	begin();
	while (!self->shall_end)
		step();
	end();
}
