/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The states of queue pairs, posting and polling.
 *
 * A request's wr_id has 31 bits that name the queue pair or receive queue, one bit for receive
 * requests, and 32 bits of sequence. A polled completion must belong to a request that was posted
 * there. The completions of a queue pair must be in the order of its requests.
 */
#include "world.h"

#define RECV_BIT (1ull << 32)

enum { LIST_MAX = 4, SGES_MAX = 6, QKEY = 0x11111111 };

/* --- states ------------------------------------------------------------------------------- */

static struct ibv_qp_attr random_attr(struct world *world, const struct item *qp)
{
	struct ibv_qp_attr attr = {
		.path_mtu = IBV_MTU_256 + below(world, 5),
		.path_mig_state = IBV_MIG_MIGRATED,
		.qkey = QKEY,
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
		.rate_limit = percent(world, 50) ? 0 : 100000,
	};

	attr.alt_ah_attr = attr.ah_attr;
	return attr;
}

static enum ibv_qp_state state_of(struct world *world, struct item *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	CHECK(world, !ibv_query_qp(qp->verbs, &attr, IBV_QP_STATE, &init), "query_qp");
	CHECK(world, init.qp_type == qp->type, "type %d", init.qp_type);
	return attr.qp_state;
}

/* What a queue pair of this type needs to get there from the state before. */
static int mask_to(enum ibv_qp_type type, enum ibv_qp_state state)
{
	static const int path = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	static const int responder = IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	static const int requester =
		IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_TIMEOUT;
	bool is_ud = type == IBV_QPT_UD;
	bool is_raw = type == IBV_QPT_RAW_PACKET;
	int mask = IBV_QP_STATE;

	if (state == IBV_QPS_INIT) {
		mask |= IBV_QP_PORT;
		if (!is_raw)
			mask |= IBV_QP_PKEY_INDEX | (is_ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS);
	} else if (state == IBV_QPS_RTR) {
		mask |= is_ud || is_raw ? 0 : path;
		mask |= type == IBV_QPT_RC || type == IBV_QPT_XRC_RECV ? responder : 0;
	} else if (state == IBV_QPS_RTS) {
		mask |= is_raw ? 0 : IBV_QP_SQ_PSN;
		mask |= type == IBV_QPT_RC || type == IBV_QPT_XRC_SEND ? requester : 0;
		mask |= type == IBV_QPT_XRC_RECV ? IBV_QP_TIMEOUT : 0;
	}
	return mask;
}

static int change_state(struct item *qp, struct ibv_qp_attr *attr, enum ibv_qp_state state)
{
	attr->qp_state = state;
	return ibv_modify_qp(qp->verbs, attr, mask_to(qp->type, state));
}

/* The next step on the way to RTS; from there the one to SQD, RESET or ERR. */
static void qp_advance(struct world *world, struct item *qp)
{
	struct ibv_qp_attr attr = random_attr(world, qp);
	enum ibv_qp_state state = state_of(world, qp);
	enum ibv_qp_state next;
	int error;

	if (state < IBV_QPS_RTS)
		next = (enum ibv_qp_state)(state + 1);
	else if (state == IBV_QPS_RTS && percent(world, 50))
		next = IBV_QPS_SQD;
	else
		next = percent(world, 50) ? IBV_QPS_RESET : IBV_QPS_ERR;
	error = change_state(qp, &attr, next);
	/*
	 * A packet may have moved the queue pair to the error state meanwhile. If two openings
	 * share it, the other one may change its state.
	 */
	CHECK(world, !error || state_of(world, qp) == IBV_QPS_ERR || qp->type == IBV_QPT_XRC_RECV,
		"state %d to %d: %d", state, next, error);
}

static void modify_qp(struct world *world)
{
	struct item *qp = item_pick(world, KIND_QP);

	if (qp)
		qp_advance(world, qp);
}

static bool do_match(const struct item *a, const struct item *b)
{
	if (a->type == IBV_QPT_XRC_SEND)
		return b->type == IBV_QPT_XRC_RECV;
	return a->type == b->type && a->type != IBV_QPT_XRC_RECV;
}

/* Two of them, connected to each other. */
static void connect_qps(struct world *world)
{
	struct item *a = item_pick(world, KIND_QP);
	struct item *b = a ? item_pick_of(world, KIND_QP, a->opening) : NULL;
	struct item *ends[2] = {a, b};

	for (int tries = 0; a && tries < 4 && !do_match(a, b); tries++)
		ends[1] = b = item_pick_of(world, KIND_QP, a->opening);
	if (!a || !do_match(a, b))
		return;
	for (int i = 0; i < 2; i++) {
		struct ibv_qp_attr attr = random_attr(world, ends[i]);

		attr.dest_qp_num = ends[!i]->number;
		attr.path_mtu = IBV_MTU_1024;
		for (int state = IBV_QPS_RESET; state <= IBV_QPS_RTS; state++) {
			int error = change_state(ends[i], &attr, (enum ibv_qp_state)state);

			CHECK(world, !error || state_of(world, ends[i]) == IBV_QPS_ERR, "to %d: %d",
				state, error);
		}
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

static void other_attributes(struct world *world)
{
	struct item *qp = item_pick(world, KIND_QP);
	struct ibv_qp_rate_limit_attr rate = {.rate_limit = below(world, 200000)};
	struct ibv_ece ece = {0};
	int error;

	if (!qp)
		return;
	error = ibv_modify_qp_rate_limit(qp->verbs, &rate);
	CHECK(world, !error || error == EINVAL || error == EOPNOTSUPP, "rate limit: %d", error);
	error = ibv_query_ece(qp->verbs, &ece);
	CHECK(world, !error || error == EOPNOTSUPP, "query_ece: %d", error);
	error = ibv_set_ece(qp->verbs, &ece);
	CHECK(world, !error || error == EINVAL || error == EOPNOTSUPP, "set_ece: %d", error);
}

/* --- sending ------------------------------------------------------------------------------ */

static int random_sges(struct world *world, unsigned opening, uint32_t sges, struct ibv_sge *list)
{
	uint32_t count = below(world, percent(world, 5) ? SGES_MAX : sges + 1);

	for (uint32_t i = 0; i < count; i++)
		list[i] = world_sge(world, opening);
	return (int)count;
}

/* A window of a region, and the region from then on perhaps bound. */
static struct ibv_mw_bind_info random_bind(struct world *world, unsigned opening)
{
	struct item *mr = item_pick_of(world, KIND_MR, opening);
	struct ibv_mw_bind_info info = {0};

	if (!mr)
		return info;
	mr->mr.may_be_bound = true;
	info.mr = mr->verbs;
	info.addr = (uintptr_t)info.mr->addr;
	info.length = below(world, mr->mr.length + 1);
	info.mw_access_flags = percent(world, 80) ? IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ
						  : below(world, 64);
	return info;
}

static uint32_t random_rkey(struct world *world, unsigned opening, uint64_t *ret_address)
{
	struct item *mr = item_pick_of(world, KIND_MR, opening);
	struct item *mw = item_pick_of(world, KIND_MW, opening);

	*ret_address = (uintptr_t)world->buffer + 8 * below(world, BUFFER_BYTES / 8);
	if (mw && percent(world, 20))
		return ((struct ibv_mw *)mw->verbs)->rkey;
	if (!mr || percent(world, 5))
		return below(world, UINT32_MAX);
	if (percent(world, 80))
		*ret_address = (uintptr_t)((struct ibv_mr *)mr->verbs)->addr;
	return ((struct ibv_mr *)mr->verbs)->rkey;
}

/* Are both of one protection domain? */
static bool can_reach(const struct item *qp, const struct item *ah)
{
	for (int i = 0; i < PARENTS_MAX; i++)
		if (qp->parents[i] == ah->parents[0])
			return true;
	return false;
}

/*
 * An address handle, mostly one that the queue pair may use; NULL now and then, and when none
 * exists.
 */
static struct ibv_ah *random_ah(struct world *world, const struct item *qp)
{
	struct item *ah = NULL;

	if (percent(world, 3))
		return NULL;
	for (int i = 0; i < 10 && (!ah || !can_reach(qp, ah)); i++)
		ah = item_pick_of(world, KIND_AH, qp->opening);
	return ah ? ah->verbs : NULL;
}

static void random_send(struct world *world, struct item *qp, struct ibv_send_wr *wr)
{
	struct item *mw = item_pick_of(world, KIND_MW, qp->opening);
	uint64_t address;
	uint32_t rkey = random_rkey(world, qp->opening, &address);

	wr->opcode = below(world, percent(world, 80) ? IBV_WR_ATOMIC_FETCH_AND_ADD + 1 : 20);
	wr->send_flags = below(world, 32);
	/* Pointers are trusted: windows and address handles are living ones, or missing. */
	if (wr->opcode == IBV_WR_BIND_MW && qp->type == IBV_QPT_UD)
		wr->opcode = IBV_WR_SEND;
	if (qp->type == IBV_QPT_UD) {
		wr->wr.ud.ah = random_ah(world, qp);
		wr->wr.ud.remote_qpn = known_qpns[below(world, QPNS)];
		wr->wr.ud.remote_qkey = QKEY;
		return;
	}
	if (wr->opcode == IBV_WR_BIND_MW && mw) {
		wr->bind_mw.mw = mw->verbs;
		wr->bind_mw.rkey = percent(world, 50)
			? ibv_inc_rkey(((struct ibv_mw *)mw->verbs)->rkey)
			: below(world, 256);
		wr->bind_mw.bind_info = random_bind(world, qp->opening);
		return;
	}
	wr->imm_data = wr->opcode == IBV_WR_SEND_WITH_INV || wr->opcode == IBV_WR_LOCAL_INV
		? rkey
		: below(world, UINT32_MAX);
	wr->wr.rdma.remote_addr = address;
	wr->wr.rdma.rkey = rkey;
	if (wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP || wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr->wr.atomic.compare_add = below(world, 3);
		wr->wr.atomic.rkey = rkey;
	}
	if (qp->type == IBV_QPT_XRC_SEND)
		wr->qp_type.xrc.remote_srqn = known_srqns[below(world, QPNS)];
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
	int error;

	if (!qp)
		return;
	for (uint32_t i = 0; i < count; i++) {
		random_send(world, qp, &list[i]);
		list[i].wr_id = (uint64_t)qp->id << 33 | (qp->send.posted + i);
		list[i].sg_list = sges[i];
		list[i].num_sge = random_sges(world, qp->opening, qp->send.sges, sges[i]);
		if (list[i].send_flags & IBV_SEND_INLINE)
			make_readable(world, sges[i], list[i].num_sge);
		if (percent(world, 2))
			list[i].sg_list = NULL;
		list[i].next = i + 1 < count ? &list[i + 1] : NULL;
	}
	error = ibv_post_send(qp->verbs, list, &bad);
	if (error) {
		CHECK(world, error == EINVAL || error == ENOMEM || error == EOPNOTSUPP, "%d",
			error);
		CHECK(world, bad >= list && bad < list + count, "bad_wr");
		count = (uint32_t)(bad - list);
	}
	qp->send.posted += count;
}

/* struct ibv_qp_ex as newer headers have it. */
struct newer_qp_ex {
	char before_flush[offsetof(struct ibv_qp_ex, wr_atomic_write) + sizeof(void *)];
	void (*wr_flush)(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr, size_t len,
		uint8_t type, uint8_t level);
};

/* Begins one request with some function that the queue pair has. */
static void wr_begin(struct world *world, struct item *qp, struct ibv_qp_ex *ex)
{
	struct item *mw = item_pick_of(world, KIND_MW, qp->opening);
	struct ibv_mw_bind_info bind;
	uint64_t address;
	uint32_t rkey = random_rkey(world, qp->opening, &address);

	switch (below(world, 12)) {
	case 0:
		if (ex->wr_rdma_write)
			ibv_wr_rdma_write(ex, rkey, address);
		break;
	case 1:
		if (ex->wr_rdma_write_imm)
			ibv_wr_rdma_write_imm(ex, rkey, address, 7);
		break;
	case 2:
		if (ex->wr_rdma_read)
			ibv_wr_rdma_read(ex, rkey, address);
		break;
	case 3:
		if (ex->wr_atomic_cmp_swp)
			ibv_wr_atomic_cmp_swp(ex, rkey, address, 0, 1);
		break;
	case 4:
		if (ex->wr_atomic_fetch_add)
			ibv_wr_atomic_fetch_add(ex, rkey, address, 1);
		break;
	case 5:
		if (ex->wr_local_inv)
			ibv_wr_local_inv(ex, rkey);
		break;
	case 6:
		bind = random_bind(world, qp->opening);
		if (ex->wr_bind_mw)
			ibv_wr_bind_mw(ex, mw ? mw->verbs : NULL,
				mw ? ibv_inc_rkey(((struct ibv_mw *)mw->verbs)->rkey) : 0, &bind);
		break;
	case 7:
		if (ex->wr_send_inv)
			ibv_wr_send_inv(ex, rkey);
		break;
	case 8:
		if (ex->wr_atomic_write)
			ibv_wr_atomic_write(ex, rkey, address, world->buffer);
		break;
	case 9:
		if (ex->wr_send_imm)
			ibv_wr_send_imm(ex, 5);
		break;
	case 10: /* RC queue pairs of this program have it if they have this one */
		if (ex->wr_atomic_write)
			((struct newer_qp_ex *)(void *)ex)
				->wr_flush(ex, rkey, address, below(world, 9000),
					(uint8_t)below(world, 5), (uint8_t)below(world, 3));
		break;
	default:
		if (ex->wr_send)
			ibv_wr_send(ex);
	}
}

static void post_call_by_call(struct world *world)
{
	struct item *qp = item_pick(world, KIND_QP);
	uint32_t count = 1 + below(world, LIST_MAX);
	struct ibv_sge list[SGES_MAX];
	struct ibv_qp_ex *ex;
	int error;

	if (!qp || !qp->is_extended)
		return;
	ex = ibv_qp_to_qp_ex(qp->verbs);
	ibv_wr_start(ex);
	for (uint32_t i = 0; i < count; i++) {
		ex->wr_id = (uint64_t)qp->id << 33 | (qp->send.posted + i);
		ex->wr_flags = below(world, 16) & ~(unsigned)IBV_SEND_INLINE;
		wr_begin(world, qp, ex);
		if (qp->type == IBV_QPT_UD)
			ibv_wr_set_ud_addr(
				ex, random_ah(world, qp), known_qpns[below(world, QPNS)], QKEY);
		if (qp->type == IBV_QPT_XRC_SEND)
			ibv_wr_set_xrc_srqn(ex, known_srqns[below(world, QPNS)]);
		if (percent(world, 20))
			ibv_wr_set_inline_data(ex, world->buffer, below(world, 300));
		else if (percent(world, 90))
			ibv_wr_set_sge_list(ex,
				(size_t)random_sges(world, qp->opening, qp->send.sges, list), list);
	}
	if (percent(world, 10)) {
		ibv_wr_abort(ex);
		return;
	}
	error = ibv_wr_complete(ex);
	CHECK(world, !error || error == EINVAL || error == ENOMEM || error == EOPNOTSUPP, "%d",
		error);
	if (!error)
		qp->send.posted += count;
}

static void bind_mw(struct world *world)
{
	struct item *mw = item_pick(world, KIND_MW);
	struct item *qp = mw ? item_pick_of(world, KIND_QP, mw->opening) : NULL;
	struct ibv_mw_bind bind = {.send_flags = below(world, 4)};
	int error;

	if (!qp || ((struct ibv_mw *)mw->verbs)->type != IBV_MW_TYPE_1)
		return;
	bind.bind_info = random_bind(world, mw->opening);
	if (!bind.bind_info.mr)
		return;
	bind.wr_id = (uint64_t)qp->id << 33 | qp->send.posted;
	error = ibv_bind_mw(qp->verbs, mw->verbs, &bind);
	if (!error)
		qp->send.posted++;
}

/* --- receiving ---------------------------------------------------------------------------- */

typedef int post_recv_fn(void *queue, struct ibv_recv_wr *list, struct ibv_recv_wr **bad);

static int post_to_qp(void *queue, struct ibv_recv_wr *list, struct ibv_recv_wr **bad)
{
	return ibv_post_recv(queue, list, bad);
}

static int post_to_srq(void *queue, struct ibv_recv_wr *list, struct ibv_recv_wr **bad)
{
	return ibv_post_srq_recv(queue, list, bad);
}

static int post_to_wq(void *queue, struct ibv_recv_wr *list, struct ibv_recv_wr **bad)
{
	return ibv_post_wq_recv(queue, list, bad);
}

static void post_list(struct world *world, struct item *queue, post_recv_fn *post)
{
	struct ibv_sge sges[LIST_MAX][SGES_MAX];
	struct ibv_recv_wr list[LIST_MAX] = {0};
	struct ibv_recv_wr *bad = NULL;
	uint32_t count = 1 + below(world, LIST_MAX);
	int error;

	if (!queue)
		return;
	for (uint32_t i = 0; i < count; i++) {
		list[i].wr_id = (uint64_t)queue->id << 33 | RECV_BIT | (queue->recv.posted + i);
		list[i].sg_list = sges[i];
		list[i].num_sge = random_sges(world, queue->opening, queue->recv.sges, sges[i]);
		list[i].next = i + 1 < count ? &list[i + 1] : NULL;
	}
	error = post(queue->verbs, list, &bad);
	if (error) {
		CHECK(world, error == EINVAL || error == ENOMEM || error == EOPNOTSUPP, "%d",
			error);
		CHECK(world, bad >= list && bad < list + count, "bad_wr");
		count = (uint32_t)(bad - list);
	}
	queue->recv.posted += count;
}

static void post_recv(struct world *world)
{
	post_list(world, item_pick(world, KIND_QP), post_to_qp);
}

static void post_srq_recv(struct world *world)
{
	post_list(world, item_pick(world, KIND_SRQ), post_to_srq);
}

static void post_wq_recv(struct world *world)
{
	post_list(world, item_pick(world, KIND_WQ), post_to_wq);
}

/* --- completions -------------------------------------------------------------------------- */

static struct item *queue_by_id(struct world *world, uint32_t id)
{
	for (unsigned i = 0; i < ITEMS_MAX; i++) {
		struct item *item = &world->items[i];

		if (item->verbs && item->id == id &&
			(item->kind == KIND_QP || item->kind == KIND_SRQ || item->kind == KIND_WQ))
			return item;
	}
	return NULL;
}

static void check_completion(
	struct world *world, uint64_t wr_id, enum ibv_wc_status status, uint32_t qpn)
{
	struct item *queue = queue_by_id(world, (uint32_t)(wr_id >> 33));
	uint32_t sequence = (uint32_t)wr_id;
	bool is_recv = (wr_id & RECV_BIT) != 0;

	CHECK(world, status <= IBV_WC_TM_RNDV_INCOMPLETE, "status %d", status);
	/* It may be gone meanwhile. */
	if (!queue)
		return;
	if (queue->kind == KIND_SRQ || queue->kind == KIND_WQ) {
		CHECK(world, sequence < queue->recv.posted && queue->recv.done < queue->recv.posted,
			"receive %u, %u done, %u posted", sequence, queue->recv.done,
			queue->recv.posted);
		queue->recv.done++;
		return;
	}
	CHECK(world, qpn == queue->number, "%x instead of %x", qpn, queue->number);
	if (is_recv) {
		CHECK(world, sequence >= queue->recv.done && sequence < queue->recv.posted,
			"receive %u, done up to %u, posted up to %u", sequence, queue->recv.done,
			queue->recv.posted);
		queue->recv.done = sequence + 1;
	} else {
		CHECK(world, sequence >= queue->send.done && sequence < queue->send.posted,
			"send %u, done up to %u, posted up to %u", sequence, queue->send.done,
			queue->send.posted);
		queue->send.done = sequence + 1;
	}
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
		check_completion(world, wc[i].wr_id, wc[i].status, wc[i].qp_num);
}

static void poll_cq_ex(struct world *world)
{
	struct item *cq = item_pick(world, KIND_CQ);
	struct ibv_poll_cq_attr attr = {0};
	struct ibv_cq_ex *ex;

	if (!cq || !cq->is_extended)
		return;
	ex = (struct ibv_cq_ex *)cq->verbs;
	if (ibv_start_poll(ex, &attr))
		return;
	do {
		check_completion(world, ex->wr_id, ex->status, ibv_wc_read_qp_num(ex));
		ibv_wc_read_opcode(ex);
		ibv_wc_read_byte_len(ex);
		ibv_wc_read_wc_flags(ex);
	} while (percent(world, 80) && !ibv_next_poll(ex));
	ibv_end_poll(ex);
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
	{"other_attributes", 5, other_attributes},
	{"post_send", 80, post_send},
	{"post_call_by_call", 40, post_call_by_call},
	{"bind_mw", 8, bind_mw},
	{"post_recv", 50, post_recv},
	{"post_srq_recv", 15, post_srq_recv},
	{"post_wq_recv", 10, post_wq_recv},
	{"poll_cq", 60, poll_cq},
	{"poll_cq_ex", 40, poll_cq_ex},
	{"req_notify_cq", 10, req_notify_cq},
	{"get_cq_event", 10, get_cq_event},
	{0},
};
