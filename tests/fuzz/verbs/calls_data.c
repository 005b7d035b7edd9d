/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The states of queue pairs, posting and polling.
 *
 * A request's wr_id says whose it is: 31 bits that name the queue pair, one that says receive, 32 of sequence. What is polled must
 * have been posted by the queue pair that it is told of, and after what was polled before.
 */
#include "world.h"

#define RECV_BIT (1ull << 32)

enum { LIST_MAX = 4, SGES_MAX = 6 };

static struct ibv_qp_attr random_attr(struct world *world, const struct item *qp)
{
	struct ibv_qp_attr attr = {
		.path_mtu = IBV_MTU_256 + below(world, 5),
		.path_mig_state = IBV_MIG_MIGRATED,
		.qkey = 0x11111111,
		.rq_psn = 0xfffff0,
		.sq_psn = 0xfffff0,
		.dest_qp_num = known_qpns[below(world, QPNS)],
		.qp_access_flags = percent(world, 90) ? IBV_ACCESS_REMOTE_WRITE |
				IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC
						      : 0,
		.ah_attr = world_address(world, qp->opening),
		.max_rd_atomic = (uint8_t)below(world, 5),
		.max_dest_rd_atomic = (uint8_t)below(world, 5),
		.min_rnr_timer = 1,
		.port_num = 1,
		.timeout = (uint8_t)(8 + below(world, 3)),
		.retry_cnt = (uint8_t)below(world, 3),
		.rnr_retry = (uint8_t)below(world, 3),
		.alt_port_num = 1,
		.rate_limit = 0,
	};

	attr.alt_ah_attr = attr.ah_attr;
	return attr;
}

static enum ibv_qp_state state_of(struct world *world, struct item *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	CHECK(world, !ibv_query_qp(qp->verbs, &attr, IBV_QP_STATE, &init), "query_qp");
	CHECK(world, init.qp_type == qp->qp.type, "type %d", init.qp_type);
	return attr.qp_state;
}

/* The next step on the way to RTS; sometimes the one to RESET, ERR or SQD. */
static void qp_advance(struct world *world, struct item *qp)
{
	static const int to_init = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
	static const int to_rtr = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
		IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	static const int to_rts = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
		IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
	struct ibv_qp_attr attr = random_attr(world, qp);
	enum ibv_qp_state state = state_of(world, qp);
	int mask = IBV_QP_STATE;
	int error;

	if (state == IBV_QPS_RESET) {
		attr.qp_state = IBV_QPS_INIT;
		mask = to_init | IBV_QP_ACCESS_FLAGS;
	} else if (state == IBV_QPS_INIT) {
		attr.qp_state = IBV_QPS_RTR;
		mask = to_rtr;
	} else if (state == IBV_QPS_RTR) {
		attr.qp_state = IBV_QPS_RTS;
		mask = to_rts;
	} else if (state == IBV_QPS_RTS && percent(world, 50)) {
		attr.qp_state = IBV_QPS_SQD;
	} else {
		attr.qp_state = percent(world, 50) ? IBV_QPS_RESET : IBV_QPS_ERR;
	}
	error = ibv_modify_qp(qp->verbs, &attr, mask);
	/* A packet may have put it into the error state in between. */
	if (state == IBV_QPS_RESET || state == IBV_QPS_INIT || attr.qp_state == IBV_QPS_RESET ||
		attr.qp_state == IBV_QPS_ERR)
		CHECK(world, !error, "state %d to %d: %d", state, attr.qp_state, error);
	else
		CHECK(world, !error || state_of(world, qp) == IBV_QPS_ERR, "state %d to %d: %d",
			state, attr.qp_state, error);
}

static void modify_qp(struct world *world)
{
	struct item *qp = item_pick(world, KIND_QP);

	if (qp)
		qp_advance(world, qp);
}

/* Two of them, connected to each other. */
static void connect_qps(struct world *world)
{
	struct item *a = item_pick(world, KIND_QP);
	struct item *b = a ? item_pick_of(world, KIND_QP, a->opening) : NULL;
	struct item *ends[2] = {a, b};

	if (!a || a->qp.type != b->qp.type)
		return;
	for (int i = 0; i < 2; i++) {
		struct ibv_qp_attr attr = random_attr(world, ends[i]);

		attr.qp_state = IBV_QPS_RESET;
		CHECK(world, !ibv_modify_qp(ends[i]->verbs, &attr, IBV_QP_STATE), "to RESET");
		qp_advance(world, ends[i]);
		attr.qp_state = IBV_QPS_RTR;
		attr.dest_qp_num = ends[!i]->qp.qpn;
		attr.path_mtu = IBV_MTU_1024;
		CHECK(world,
			!ibv_modify_qp(ends[i]->verbs, &attr,
				IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
					IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
					IBV_QP_MIN_RNR_TIMER),
			"to RTR");
		qp_advance(world, ends[i]);
	}
}

/* Any mask, any value. */
static void modify_qp_wildly(struct world *world)
{
	struct item *qp = item_pick(world, KIND_QP);
	struct ibv_qp_attr attr;
	int mask = (int)(sim_random_next(&world->random) & sim_random_next(&world->random));
	int error;

	if (!qp)
		return;
	attr = random_attr(world, qp);
	attr.qp_state = below(world, 9);
	attr.cur_qp_state = below(world, 9);
	if (percent(world, 10))
		for (size_t i = 0; i < sizeof(attr); i++)
			if (percent(world, 20))
				((uint8_t *)&attr)[i] = (uint8_t)below(world, 256);
	if (percent(world, 70))
		mask &= 0x1fffff;
	error = ibv_modify_qp(qp->verbs, &attr, mask);
	CHECK(world, !error || error == EINVAL || error == EOPNOTSUPP, "%d", error);
}

static int random_sges(struct world *world, unsigned opening, uint32_t sges, struct ibv_sge *list)
{
	uint32_t count = below(world, percent(world, 5) ? SGES_MAX : sges + 1);

	for (uint32_t i = 0; i < count; i++)
		list[i] = world_sge(world, opening);
	return (int)count;
}

static void random_send(struct world *world, struct item *qp, struct ibv_send_wr *wr)
{
	struct item *mr = item_pick_of(world, KIND_MR, qp->opening);
	struct item *ah = item_pick_of(world, KIND_AH, qp->opening);

	wr->opcode = below(world, percent(world, 95) ? IBV_WR_ATOMIC_FETCH_AND_ADD + 1 : 20);
	wr->send_flags = below(world, 32);
	wr->imm_data = below(world, UINT32_MAX);
	if (qp->qp.type == IBV_QPT_UD) {
		/* Pointers are trusted: an address handle is a living one. */
		if (ah)
			wr->wr.ud.ah = ah->verbs;
		wr->wr.ud.remote_qpn = known_qpns[below(world, QPNS)];
		wr->wr.ud.remote_qkey = 0x11111111;
		return;
	}
	wr->wr.atomic.remote_addr = (uintptr_t)world->buffer + 8 * below(world, BUFFER_BYTES / 8);
	wr->wr.atomic.compare_add = below(world, 3);
	if (mr && percent(world, 95)) {
		const struct ibv_mr *region = mr->verbs;

		wr->wr.rdma.rkey = region->rkey;
		if (wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
			wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
			wr->wr.atomic.rkey = region->rkey;
		if (percent(world, 80))
			wr->wr.rdma.remote_addr = (uintptr_t)region->addr;
	}
}

/* The data path trusts its pointers, so inline data has to be readable. */
static void make_readable(struct world *world, struct ibv_sge *list, int count)
{
	for (int i = 0; i < count; i++) {
		list[i].addr = (uintptr_t)world->buffer + below(world, BUFFER_BYTES / 2);
		list[i].length = below(world, 300);
	}
}

static void post_send(struct world *world)
{
	struct item *qp = item_pick(world, KIND_QP);
	struct ibv_sge sges[LIST_MAX][SGES_MAX];
	struct ibv_send_wr list[LIST_MAX] = {0};
	struct ibv_send_wr *bad = NULL;
	uint32_t count = 1 + below(world, LIST_MAX);
	uint32_t posted = count;
	int error;

	if (!qp || (qp->qp.type == IBV_QPT_UD && !item_pick_of(world, KIND_AH, qp->opening)))
		return;
	for (uint32_t i = 0; i < count; i++) {
		random_send(world, qp, &list[i]);
		list[i].wr_id = (uint64_t)qp->qp.id << 33 | (qp->qp.send_sequence + i);
		list[i].sg_list = sges[i];
		list[i].num_sge = random_sges(world, qp->opening, qp->qp.send_sges, sges[i]);
		if (list[i].send_flags & IBV_SEND_INLINE)
			make_readable(world, sges[i], list[i].num_sge);
		list[i].next = i + 1 < count ? &list[i + 1] : NULL;
	}
	error = ibv_post_send(qp->verbs, list, &bad);
	if (error) {
		CHECK(world, error == EINVAL || error == ENOMEM || error == EOPNOTSUPP, "%d",
			error);
		CHECK(world, bad >= list && bad < list + count, "bad_wr");
		posted = (uint32_t)(bad - list);
	}
	qp->qp.send_sequence += posted;
}

static void post_recv(struct world *world)
{
	struct item *qp = item_pick(world, KIND_QP);
	struct ibv_sge sges[LIST_MAX][SGES_MAX];
	struct ibv_recv_wr list[LIST_MAX] = {0};
	struct ibv_recv_wr *bad = NULL;
	uint32_t count = 1 + below(world, LIST_MAX);
	uint32_t posted = count;
	int error;

	if (!qp)
		return;
	for (uint32_t i = 0; i < count; i++) {
		list[i].wr_id = (uint64_t)qp->qp.id << 33 | RECV_BIT | (qp->qp.recv_sequence + i);
		list[i].sg_list = sges[i];
		list[i].num_sge = random_sges(world, qp->opening, qp->qp.recv_sges, sges[i]);
		list[i].next = i + 1 < count ? &list[i + 1] : NULL;
	}
	error = ibv_post_recv(qp->verbs, list, &bad);
	if (error) {
		CHECK(world, error == EINVAL || error == ENOMEM, "%d", error);
		CHECK(world, bad >= list && bad < list + count, "bad_wr");
		posted = (uint32_t)(bad - list);
	}
	qp->qp.recv_sequence += posted;
}

static struct item *qp_by_id(struct world *world, uint32_t id)
{
	for (unsigned i = 0; i < ITEMS_MAX; i++) {
		struct item *item = &world->items[i];

		if (item->verbs && item->kind == KIND_QP && item->qp.id == id)
			return item;
	}
	return NULL;
}

static void check_completion(struct world *world, const struct ibv_wc *wc)
{
	struct item *qp = qp_by_id(world, (uint32_t)(wc->wr_id >> 33));
	uint32_t sequence = (uint32_t)wc->wr_id;
	bool is_recv = (wc->wr_id & RECV_BIT) != 0;
	uint32_t next;
	uint32_t end;

	CHECK(world, wc->status <= IBV_WC_TM_RNDV_INCOMPLETE, "status %d", wc->status);
	/* It may be gone meanwhile. */
	if (!qp)
		return;
	CHECK(world, wc->qp_num == qp->qp.qpn, "%x instead of %x", wc->qp_num, qp->qp.qpn);
	next = is_recv ? qp->qp.recvs_done : qp->qp.sends_done;
	end = is_recv ? qp->qp.recv_sequence : qp->qp.send_sequence;
	CHECK(world, sequence >= next && sequence < end, "%s %u, done up to %u, posted up to %u",
		is_recv ? "receive" : "send", sequence, next, end);
	*(is_recv ? &qp->qp.recvs_done : &qp->qp.sends_done) = sequence + 1;
	if (wc->status == IBV_WC_SUCCESS)
		CHECK(world, is_recv == !!(wc->opcode & IBV_WC_RECV), "opcode %d", wc->opcode);
}

static void poll_cq(struct world *world)
{
	struct item *cq = item_pick(world, KIND_CQ);
	struct ibv_wc wc[QUEUE_DEPTH_MAX];
	int asked = (int)below(world, QUEUE_DEPTH_MAX);
	int got;

	if (!cq)
		return;
	got = ibv_poll_cq(cq->verbs, asked, wc);
	/* A queue that was overrun says so for ever. */
	CHECK(world, got <= asked && got >= -1, "%d of %d", got, asked);
	for (int i = 0; i < got; i++)
		check_completion(world, &wc[i]);
}

static void req_notify_cq(struct world *world)
{
	struct item *cq = item_pick(world, KIND_CQ);

	if (cq)
		CHECK(world, !ibv_req_notify_cq(cq->verbs, (int)below(world, 2)), "req_notify");
}

static void get_cq_event(struct world *world)
{
	struct item *channel = item_pick(world, KIND_CHANNEL);
	struct ibv_cq *cq;
	void *cq_context;

	while (channel && !ibv_get_cq_event(channel->verbs, &cq, &cq_context)) {
		CHECK(world, cq->channel == channel->verbs, "another channel's queue");
		ibv_ack_cq_events(cq, 1);
	}
}

const struct call calls_data[] = {
	{"modify_qp", 30, modify_qp},
	{"connect", 20, connect_qps},
	{"modify_qp_wildly", 10, modify_qp_wildly},
	{"post_send", 80, post_send},
	{"post_recv", 60, post_recv},
	{"poll_cq", 80, poll_cq},
	{"req_notify_cq", 10, req_notify_cq},
	{"get_cq_event", 10, get_cq_event},
	{0},
};
