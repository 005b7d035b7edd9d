/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Queue pairs of all types, and the objects that they depend on or that depend on them: shared
 * receive queues, XRC domains, work queues and their tables, flow rules, counters, multicast
 * groups.
 */
#include <fcntl.h>

#include "world.h"

enum { GROUPS = 4, TABLE_LOG_SIZE_MAX = 2 };

#define MADE(world, pointer) CHECK(world, pointer, "%s", strerror(errno))

/* --- shared receive queues, XRC domains --- */

static void open_xrcd(struct world *world)
{
	unsigned opening = below(world, OPENINGS);
	struct ibv_xrcd_init_attr init = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = percent(world, 50) ? -1
					 : 2, /* standard error is a file that all threads have */
		.oflags = O_CREAT,
	};
	struct ibv_xrcd *xrcd;

	if (!world_has_room(world))
		return;
	xrcd = ibv_open_xrcd(world->openings[opening].context, &init);
	MADE(world, xrcd);
	item_add(world, KIND_XRCD, xrcd, opening, NULL);
}

static void create_srq(struct world *world)
{
	struct item *pd = item_pick(world, KIND_PD);
	struct item *xrcd = pd ? item_pick_of(world, KIND_XRCD, pd->opening) : NULL;
	struct item *cq = pd ? item_pick_of(world, KIND_CQ, pd->opening) : NULL;
	struct ibv_srq_init_attr_ex init = {
		.attr = {.max_wr = 1 + below(world, QUEUE_DEPTH_MAX),
			.max_sge = 1 + below(world, 4)},
		.comp_mask = IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE,
		.srq_type = IBV_SRQT_BASIC,
	};
	bool is_xrc = xrcd && cq && percent(world, 40);
	bool is_matching = !is_xrc && cq && percent(world, 30);
	struct item *item;
	struct ibv_srq *srq;

	if (!pd || !world_has_room(world))
		return;
	init.pd = pd->verbs;
	if (is_xrc) {
		init.srq_type = IBV_SRQT_XRC;
		init.comp_mask |= IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
		init.xrcd = xrcd->verbs;
		init.cq = cq->verbs;
	}
	if (is_matching) {
		init.srq_type = IBV_SRQT_TM;
		init.comp_mask |= IBV_SRQ_INIT_ATTR_TM | IBV_SRQ_INIT_ATTR_CQ;
		init.cq = cq->verbs;
		init.tm_cap.max_num_tags = 1 + below(world, QUEUE_DEPTH_MAX);
		init.tm_cap.max_ops = 1 + below(world, 8);
	}
	srq = ibv_create_srq_ex(world->openings[pd->opening].context, &init);
	MADE(world, srq);
	item = item_add(world, KIND_SRQ, srq, pd->opening,
		(struct item *[]){pd, base_of(pd),
			is_xrc                ? xrcd
				: is_matching ? cq
					      : NULL,
			cq, NULL});
	item->is_xrc = is_xrc;
	item->is_matching = is_matching;
	item->recv.sges = init.attr.max_sge;
	if (is_xrc) {
		MADE(world, !ibv_get_srq_num(srq, &item->number));
		known_srqns[below(world, QPNS)] = item->number;
	}
}

static void change_srq(struct world *world)
{
	struct item *srq = item_pick(world, KIND_SRQ);
	struct ibv_srq_attr attr = {.max_wr = 1 + below(world, QUEUE_DEPTH_MAX),
		.srq_limit = below(world, QUEUE_DEPTH_MAX)};
	int error;

	if (!srq)
		return;
	error = ibv_modify_srq(srq->verbs, &attr, (int)below(world, 4));
	CHECK(world, !error || error == EINVAL || error == ENOMEM, "modify_srq: %d", error);
	error = ibv_query_srq(srq->verbs, &attr);
	CHECK(world, !error && attr.max_sge == srq->recv.sges, "query_srq: %d", error);
}

/* Add and remove tags of a list. Their completions have wr_id 0, which no other request has. */
static void match_tags(struct world *world)
{
	struct item *srq = item_pick(world, KIND_SRQ);
	struct ibv_sge sge;
	struct ibv_ops_wr wr = {
		.opcode = (enum ibv_ops_wr_opcode)below(world, 3),
		.flags = (int)below(world, 4),
	};
	struct ibv_ops_wr *bad = NULL;
	int error;

	if (!srq)
		return;
	sge = world_sge(world, srq->opening);
	wr.tm.unexpected_cnt = below(world, 3);
	if (wr.opcode == IBV_WR_TAG_DEL) {
		wr.tm.handle = below(world, QUEUE_DEPTH_MAX);
	} else {
		wr.tm.add.sg_list = &sge;
		wr.tm.add.num_sge = 1;
		wr.tm.add.tag = below(world, 4);
		wr.tm.add.mask = 3;
	}
	error = ibv_post_srq_ops(srq->verbs, &wr, &bad);
	CHECK(world, srq->is_matching || error, "no list of tags");
	CHECK(world, !error || bad == &wr, "bad_wr");
}

/* --- work queues --- */

static void create_wq(struct world *world)
{
	struct item *pd = item_pick(world, KIND_PD);
	struct item *cq = pd ? item_pick_of(world, KIND_CQ, pd->opening) : NULL;
	struct ibv_wq_init_attr init = {
		.wq_type = IBV_WQT_RQ,
		.max_wr = 1 + below(world, QUEUE_DEPTH_MAX),
		.max_sge = 1 + below(world, 4),
	};
	struct ibv_wq *wq;

	if (!cq || !world_has_room(world))
		return;
	init.pd = pd->verbs;
	init.cq = cq->verbs;
	wq = ibv_create_wq(world->openings[pd->opening].context, &init);
	MADE(world, wq);
	item_add(world, KIND_WQ, wq, pd->opening, (struct item *[]){base_of(pd), cq, NULL})
		->recv.sges = init.max_sge;
}

static void modify_wq(struct world *world)
{
	struct item *wq = item_pick(world, KIND_WQ);
	struct ibv_wq_attr attr = {
		.attr_mask = IBV_WQ_ATTR_STATE | (percent(world, 20) ? IBV_WQ_ATTR_CURR_STATE : 0),
		.wq_state = (enum ibv_wq_state)below(world, 4),
		.curr_wq_state = (enum ibv_wq_state)below(world, 4),
	};
	int error = wq ? ibv_modify_wq(wq->verbs, &attr) : 0;

	CHECK(world, !error || error == EINVAL, "%d", error);
}

static void create_wq_table(struct world *world)
{
	unsigned opening = below(world, OPENINGS);
	struct ibv_rwq_ind_table_init_attr init = {
		.log_ind_tbl_size = below(world, TABLE_LOG_SIZE_MAX + 1)};
	struct ibv_wq *queues[1 << TABLE_LOG_SIZE_MAX];
	struct item *parents[PARENTS_MAX] = {0};
	struct ibv_rwq_ind_table *table;

	for (uint32_t i = 0; i < 1u << init.log_ind_tbl_size; i++) {
		parents[i] = item_pick_of(world, KIND_WQ, opening);
		if (!parents[i])
			return;
		queues[i] = parents[i]->verbs;
	}
	if (!world_has_room(world))
		return;
	init.ind_tbl = queues;
	table = ibv_create_rwq_ind_table(world->openings[opening].context, &init);
	MADE(world, table);
	item_add(world, KIND_WQ_TABLE, table, opening, parents);
}

/* --- queue pairs --- */

static const struct {
	enum ibv_qp_type type;
	unsigned weight;
	uint64_t send_ops;
} qp_types[] = {
	{IBV_QPT_RC, 50,
		IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
			IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM |
			IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
			IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_LOCAL_INV |
			IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_SEND_WITH_INV |
			IBV_QP_EX_WITH_ATOMIC_WRITE | 1 << 11}, /* FLUSH, of newer headers */
	{IBV_QPT_UC, 15,
		IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
			IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM},
	{IBV_QPT_UD, 15, IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM},
	{IBV_QPT_XRC_SEND, 8,
		IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_READ |
			IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD},
	{IBV_QPT_XRC_RECV, 8, 0},
	{IBV_QPT_RAW_PACKET, 4, IBV_QP_EX_WITH_SEND},
};

static struct item *add_qp(struct world *world, struct ibv_qp *qp,
	const struct ibv_qp_init_attr_ex *init, unsigned opening, struct item *const parents[])
{
	struct item *item = item_add(world, KIND_QP, qp, opening, parents);

	item->type = init->qp_type;
	item->number = qp->qp_num;
	item->send.sges = init->cap.max_send_sge;
	item->recv.sges = init->cap.max_recv_sge;
	item->is_extended = init->send_ops_flags != 0;
	CHECK(world, !ibv_qp_to_qp_ex(qp) == !item->is_extended, "qp_to_qp_ex");
	known_qpns[below(world, QPNS)] = qp->qp_num;
	return item;
}

static void create_xrc_recv_qp(struct world *world, struct ibv_qp_init_attr_ex *init)
{
	struct item *xrcd = item_pick(world, KIND_XRCD);
	struct ibv_qp_open_attr open = {
		.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE,
		.qp_type = IBV_QPT_XRC_RECV,
	};
	struct ibv_context *context;
	struct ibv_qp *qp;

	if (!xrcd)
		return;
	context = world->openings[xrcd->opening].context;
	init->comp_mask = IBV_QP_INIT_ATTR_XRCD;
	init->xrcd = xrcd->verbs;
	init->cap = (struct ibv_qp_cap){0};
	qp = ibv_create_qp_ex(context, init);
	MADE(world, qp);
	add_qp(world, qp, init, xrcd->opening, (struct item *[]){xrcd, NULL});
	if (!percent(world, 30) || !world_has_room(world))
		return;
	open.qp_num = qp->qp_num;
	open.xrcd = xrcd->verbs;
	qp = ibv_open_qp(context, &open);
	MADE(world, qp);
	add_qp(world, qp, init, xrcd->opening, (struct item *[]){xrcd, NULL});
}

/* Spreads frames over work queues. */
static void create_rss_qp(struct world *world)
{
	static uint8_t key[40] = {1, 2, 3};
	struct item *table = item_pick(world, KIND_WQ_TABLE);
	struct item *pd = table ? item_pick_of(world, KIND_PD, table->opening) : NULL;
	struct ibv_qp_init_attr_ex init = {
		.qp_type = IBV_QPT_RAW_PACKET,
		.comp_mask =
			IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_RX_HASH | IBV_QP_INIT_ATTR_IND_TABLE,
		.rx_hash_conf =
			{
				.rx_hash_function = IBV_RX_HASH_FUNC_TOEPLITZ,
				.rx_hash_key_len = sizeof(key),
				.rx_hash_key = key,
				.rx_hash_fields_mask = IBV_RX_HASH_SRC_IPV4,
			},
	};
	struct ibv_qp *qp;

	if (!pd)
		return;
	init.pd = pd->verbs;
	init.rwq_ind_tbl = table->verbs;
	qp = ibv_create_qp_ex(world->openings[pd->opening].context, &init);
	MADE(world, qp);
	add_qp(world, qp, &init, pd->opening, (struct item *[]){pd, base_of(pd), table, NULL});
}

static size_t some_type(struct world *world)
{
	uint32_t drawn = below(world, 100);
	size_t i = 0;

	while (drawn >= qp_types[i].weight)
		drawn -= qp_types[i++].weight;
	return i;
}

static struct item *some_srq(
	struct world *world, const struct ibv_qp_init_attr_ex *init, unsigned opening)
{
	struct item *srq = item_pick_of(world, KIND_SRQ, opening);

	if (!srq || srq->is_xrc || !percent(world, 30))
		return NULL;
	return init->qp_type == IBV_QPT_RC || init->qp_type == IBV_QPT_UC ||
			init->qp_type == IBV_QPT_UD
		? srq
		: NULL;
}

static void create_qp(struct world *world)
{
	size_t type = some_type(world);
	struct item *pd = item_pick(world, KIND_PD);
	struct item *send_cq = pd ? item_pick_of(world, KIND_CQ, pd->opening) : NULL;
	struct item *recv_cq = pd ? item_pick_of(world, KIND_CQ, pd->opening) : NULL;
	struct ibv_qp_init_attr_ex init = {
		.cap = {below(world, QUEUE_DEPTH_MAX), below(world, QUEUE_DEPTH_MAX),
			below(world, 4), below(world, 4), below(world, 256)},
		.qp_type = qp_types[type].type,
		.sq_sig_all = percent(world, 30),
		.comp_mask = IBV_QP_INIT_ATTR_PD,
	};
	struct item *srq;
	struct ibv_qp *qp;

	if (!send_cq || !world_has_room(world))
		return;
	if (init.qp_type == IBV_QPT_XRC_RECV) {
		create_xrc_recv_qp(world, &init);
		return;
	}
	if (init.qp_type == IBV_QPT_RAW_PACKET && percent(world, 50)) {
		create_rss_qp(world);
		return;
	}
	if (init.qp_type == IBV_QPT_XRC_SEND)
		recv_cq = send_cq;
	srq = some_srq(world, &init, pd->opening);
	/* Tags are for RC, in one domain, and the list has the send queue for itself. */
	if (srq && srq->is_matching &&
		(init.qp_type != IBV_QPT_RC || srq->parents[1] != base_of(pd)))
		srq = NULL;
	if (srq && srq->is_matching)
		init.cap.max_send_wr = 0;
	init.pd = pd->verbs;
	init.send_cq = send_cq->verbs;
	init.recv_cq = init.qp_type == IBV_QPT_XRC_SEND ? NULL : recv_cq->verbs;
	init.srq = srq ? srq->verbs : NULL;
	if (percent(world, 40)) {
		init.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
		init.send_ops_flags = qp_types[type].send_ops;
	}
	qp = ibv_create_qp_ex(world->openings[pd->opening].context, &init);
	MADE(world, qp);
	add_qp(world, qp, &init, pd->opening,
		(struct item *[]){pd, base_of(pd), send_cq, recv_cq, srq, NULL});
}

/* --- multicast --- */

static union ibv_gid group_gid(uint32_t group)
{
	union ibv_gid gid = {
		.raw = {[10] = 0xff, [11] = 0xff, [12] = 230, [15] = (uint8_t)(group + 1)}};

	return gid;
}

static void multicast(struct world *world)
{
	struct item *qp = item_pick(world, KIND_QP);
	uint32_t group = below(world, GROUPS);
	union ibv_gid gid = group_gid(group);
	int error;

	if (!qp)
		return;
	if (qp->type != IBV_QPT_UD) {
		CHECK(world, ibv_attach_mcast(qp->verbs, &gid, 0) == EINVAL, "not a datagram's");
	} else if (qp->groups & 1u << group) {
		error = ibv_detach_mcast(qp->verbs, &gid, 0);
		CHECK(world, !error, "detach: %d", error);
		qp->groups &= ~(1u << group);
		qp->users--;
	} else {
		CHECK(world, ibv_detach_mcast(qp->verbs, &gid, 0),
			"detach one that is not attached");
		error = ibv_attach_mcast(qp->verbs, &gid, 0);
		CHECK(world, !error || error == ENOMEM, "attach: %d", error);
		if (!error) {
			qp->groups |= 1u << group;
			qp->users++;
		}
	}
}

void leave_groups(struct world *world, struct item *qp)
{
	for (uint32_t group = 0; group < GROUPS; group++) {
		union ibv_gid gid = group_gid(group);

		if (!(qp->groups & 1u << group))
			continue;
		CHECK(world, !ibv_detach_mcast(qp->verbs, &gid, 0), "detach");
		qp->users--;
	}
	qp->groups = 0;
}

/* --- flow rules and counters --- */

static void create_counters(struct world *world)
{
	unsigned opening = below(world, OPENINGS);
	struct ibv_counters_init_attr init = {0};
	struct ibv_counters *counters;

	if (!world_has_room(world))
		return;
	counters = ibv_create_counters(world->openings[opening].context, &init);
	MADE(world, counters);
	item_add(world, KIND_COUNTERS, counters, opening, NULL);
}

static void use_counters(struct world *world)
{
	struct item *counters = item_pick(world, KIND_COUNTERS);
	struct ibv_counter_attach_attr attr = {
		.counter_desc = percent(world, 50) ? IBV_COUNTER_PACKETS : IBV_COUNTER_BYTES,
		.index = below(world, 4),
	};
	uint64_t values[2];
	int error;

	if (!counters)
		return;
	error = ibv_attach_counters_point_flow(counters->verbs, &attr, NULL);
	CHECK(world, counters->users ? error == EBUSY : !error || error == ENOMEM, "attach: %d",
		error);
	CHECK(world, !ibv_read_counters(counters->verbs, values, 2, 0), "read");
}

static void create_flow(struct world *world)
{
	struct item *qp = item_pick(world, KIND_QP);
	struct item *counters = qp ? item_pick_of(world, KIND_COUNTERS, qp->opening) : NULL;
	struct ibv_flow_attr attr = {
		.type = IBV_FLOW_ATTR_NORMAL,
		.priority = (uint16_t)below(world, 4),
		.num_of_specs = 1,
		.port = 1,
	};
	struct ibv_flow_spec_eth eth = {.type = IBV_FLOW_SPEC_ETH, .size = sizeof(eth)};
	struct ibv_flow_spec_counter_action count = {
		.type = IBV_FLOW_SPEC_ACTION_COUNT, .size = sizeof(count)};
	/* One behind the other, without gaps. */
	_Alignas(8) uint8_t rule[sizeof(attr) + sizeof(eth) + sizeof(count)];
	struct ibv_flow *flow;

	if (!qp || !world_has_room(world))
		return;
	if (counters && percent(world, 50)) {
		attr.num_of_specs = 2;
		count.counters = counters->verbs;
	} else {
		counters = NULL;
	}
	attr.size = (uint16_t)(sizeof(attr) + sizeof(eth) + (counters ? sizeof(count) : 0));
	memcpy(rule, &attr, sizeof(attr));
	memcpy(rule + sizeof(attr), &eth, sizeof(eth));
	memcpy(rule + sizeof(attr) + sizeof(eth), &count, sizeof(count));
	flow = ibv_create_flow(qp->verbs, (struct ibv_flow_attr *)(void *)rule);
	if (qp->type != IBV_QPT_RAW_PACKET) {
		CHECK(world, !flow, "not a raw queue pair's");
		return;
	}
	MADE(world, flow);
	item_add(world, KIND_FLOW, flow, qp->opening, (struct item *[]){qp, counters, NULL});
}

const struct call calls_queues[] = {
	{"open_xrcd", 3, open_xrcd},
	{"create_srq", 8, create_srq},
	{"change_srq", 5, change_srq},
	{"match_tags", 10, match_tags},
	{"create_wq", 6, create_wq},
	{"modify_wq", 6, modify_wq},
	{"create_wq_table", 3, create_wq_table},
	{"create_qp", 25, create_qp},
	{"multicast", 8, multicast},
	{"create_counters", 2, create_counters},
	{"use_counters", 3, use_counters},
	{"create_flow", 5, create_flow},
	{0},
};
