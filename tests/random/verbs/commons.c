/* SPDX-License-Identifier: BSD-2-Clause */
#include "commons.h"

#include <fcntl.h>
#include <pthread.h>

enum { PLACES_PER_KIND = 4, PLACES = PLACES_PER_KIND * KIND_WITH_HANDLE_COUNT, DEPTH = 16 };

/* Where a copy of a public structure lies; of an object that is or was. */
struct place {
	pthread_mutex_t lock;
	bool is_filled;
	struct corpse copy;
};

static struct ibv_context *context;
static struct place places[PLACES];

/* The pair that stays. */
static struct ibv_pd *pd;
static struct ibv_comp_channel *channel;
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static struct ibv_qp *qps[2];
static uint8_t buffer[4096];
static struct ibv_ah_attr address;

static enum kind kind_of_place(unsigned index)
{
	return (enum kind)(index % KIND_WITH_HANDLE_COUNT);
}

/* Some object of this kind; false when the place drawn is empty. */
static bool copy_some(struct world *world, enum kind kind, struct corpse *ret_copy)
{
	unsigned index = below(world, PLACES_PER_KIND) * KIND_WITH_HANDLE_COUNT + kind;
	struct place *place = &places[index];
	bool is_filled;

	pthread_mutex_lock(&place->lock);
	*ret_copy = place->copy;
	is_filled = place->is_filled;
	pthread_mutex_unlock(&place->lock);
	return is_filled;
}

static int destroy_copy(struct corpse *copy)
{
	switch ((int)copy->kind) {
	case KIND_PD:
		return ibv_dealloc_pd(&copy->verbs.PD);
	case KIND_DM:
		return ibv_free_dm(&copy->verbs.DM);
	case KIND_MR:
		return ibv_dereg_mr(&copy->verbs.MR);
	case KIND_MW:
		return ibv_dealloc_mw(&copy->verbs.MW);
	case KIND_CQ:
		return ibv_destroy_cq(&copy->verbs.CQ);
	case KIND_SRQ:
		return ibv_destroy_srq(&copy->verbs.SRQ);
	case KIND_WQ:
		return ibv_destroy_wq(&copy->verbs.WQ);
	case KIND_WQ_TABLE:
		return ibv_destroy_rwq_ind_table(&copy->verbs.WQ_TABLE);
	case KIND_QP:
		return ibv_destroy_qp(&copy->verbs.QP);
	case KIND_FLOW:
		return ibv_destroy_flow(&copy->verbs.FLOW);
	case KIND_AH:
		return ibv_destroy_ah(&copy->verbs.AH);
	}
	abort();
}

static void check_race(struct world *world, enum kind kind, int error)
{
	CHECK(world,
		!error || error == ENOENT || error == EINVAL || error == EBUSY || error == ENOMEM,
		"kind %d: %d", kind, error);
}

/* Put a new object where the others find it, unless there is one that is in use. */
static void publish(struct world *world, enum kind kind, void *verbs)
{
	unsigned index = below(world, PLACES_PER_KIND) * KIND_WITH_HANDLE_COUNT + kind;
	struct place *place = &places[index];
	struct corpse made = {.kind = kind};
	int error = 0;

	creation_count++;
	memcpy(&made.verbs, verbs, kind_bytes(kind));
	pthread_mutex_lock(&place->lock);
	if (place->is_filled)
		error = destroy_copy(&place->copy);
	check_race(world, kind, error);
	if (error != EBUSY) {
		place->is_filled = true;
		place->copy = made;
	}
	pthread_mutex_unlock(&place->lock);
	if (error == EBUSY)
		CHECK(world, !destroy_copy(&made), "one that nobody knows");
}

static void *make_qp(
	struct world *world, struct ibv_pd *of, struct ibv_cq *queue, struct ibv_srq *srq)
{
	static const enum ibv_qp_type types[] = {
		IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD, IBV_QPT_RAW_PACKET};
	struct ibv_qp_init_attr init = {
		.send_cq = queue,
		.recv_cq = queue,
		.cap = {DEPTH, DEPTH, 1, 1, 0},
		.qp_type = types[below(world, ARRAY_COUNT(types))],
	};

	if (init.qp_type != IBV_QPT_RAW_PACKET && percent(world, 50))
		init.srq = srq;
	return ibv_create_qp(of, &init);
}

/*
 * Create an object from copies of the objects that it depends on, which may have been destroyed.
 * NULL with errno.
 */
static void *make_of(struct world *world, enum kind kind, struct corpse of[KIND_WITH_HANDLE_COUNT])
{
	struct ibv_srq_init_attr srq = {.attr = {DEPTH, 1, 0}};
	struct ibv_alloc_dm_attr dm = {.length = 64};
	struct ibv_wq_init_attr wq = {.wq_type = IBV_WQT_RQ,
		.max_wr = DEPTH,
		.max_sge = 1,
		.pd = &of[KIND_PD].verbs.PD,
		.cq = &of[KIND_CQ].verbs.CQ};
	struct ibv_wq *queues[] = {&of[KIND_WQ].verbs.WQ};
	struct ibv_rwq_ind_table_init_attr table = {.ind_tbl = queues};
	struct ibv_flow_attr flow = {
		.type = IBV_FLOW_ATTR_ALL_DEFAULT, .size = sizeof(flow), .port = 1};

	switch ((int)kind) {
	case KIND_PD:
		return ibv_alloc_pd(context);
	case KIND_DM:
		return ibv_alloc_dm(context, &dm);
	case KIND_MR:
		if (percent(world, 30))
			return ibv_reg_dm_mr(&of[KIND_PD].verbs.PD, &of[KIND_DM].verbs.DM, 0, 64,
				IBV_ACCESS_ZERO_BASED);
		return ibv_reg_mr(
			&of[KIND_PD].verbs.PD, buffer, sizeof(buffer), IBV_ACCESS_LOCAL_WRITE);
	case KIND_MW:
		return ibv_alloc_mw(&of[KIND_PD].verbs.PD, IBV_MW_TYPE_2);
	case KIND_CQ:
		return ibv_create_cq(context, DEPTH, NULL, percent(world, 50) ? channel : NULL, 0);
	case KIND_SRQ:
		return ibv_create_srq(&of[KIND_PD].verbs.PD, &srq);
	case KIND_WQ:
		return ibv_create_wq(context, &wq);
	case KIND_WQ_TABLE:
		return ibv_create_rwq_ind_table(context, &table);
	case KIND_QP:
		return make_qp(world, &of[KIND_PD].verbs.PD, &of[KIND_CQ].verbs.CQ,
			&of[KIND_SRQ].verbs.SRQ);
	case KIND_FLOW:
		return ibv_create_flow(&of[KIND_QP].verbs.QP, &flow);
	case KIND_AH:
		return ibv_create_ah(&of[KIND_PD].verbs.PD, &address);
	}
	abort();
}

static void make(struct world *world, enum kind kind)
{
	struct corpse of[KIND_WITH_HANDLE_COUNT];
	void *verbs;

	/* A place that is empty still names the context, and no object. */
	for (int i = 0; i < KIND_WITH_HANDLE_COUNT; i++)
		copy_some(world, (enum kind)i, &of[i]);
	errno = 0;
	verbs = make_of(world, kind, of);
	if (verbs)
		publish(world, kind, verbs);
	else if (errno != EOPNOTSUPP) /* a flow of what is no raw packet queue pair */
		check_race(world, kind, errno);
}

static void make_some(struct world *world)
{
	make(world, (enum kind)below(world, KIND_WITH_HANDLE_COUNT));
}

static void destroy_some(struct world *world)
{
	struct corpse copy;

	if (copy_some(world, (enum kind)below(world, KIND_WITH_HANDLE_COUNT), &copy))
		check_race(world, copy.kind, destroy_copy(&copy));
}

static struct ibv_qp_attr attr_to(enum ibv_qp_state state, uint32_t dest_qpn)
{
	return (struct ibv_qp_attr){
		.qp_state = state,
		.port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = dest_qpn,
		.ah_attr = address,
		.max_rd_atomic = 4,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 1,
		.timeout = 8,
		.retry_cnt = 2,
		.rnr_retry = 2,
	};
}

static int mask_to(enum ibv_qp_state state)
{
	switch ((int)state) {
	case IBV_QPS_INIT:
		return IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
	case IBV_QPS_RTR:
		return IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
			IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	case IBV_QPS_RTS:
		return IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
	}
	return IBV_QP_STATE;
}

static void change_state(struct world *world, struct ibv_qp *qp, uint32_t dest_qpn)
{
	enum ibv_qp_state state = below(world, IBV_QPS_ERR + 1);
	struct ibv_qp_attr attr = attr_to(state, dest_qpn);

	check_race(world, KIND_QP, ibv_modify_qp(qp, &attr, mask_to(state)));
}

static void modify_some(struct world *world)
{
	struct corpse copy;
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	if (!copy_some(world, KIND_QP, &copy))
		return;
	if (percent(world, 50))
		change_state(world, &copy.verbs.QP, qps[0]->qp_num);
	else
		check_race(
			world, KIND_QP, ibv_query_qp(&copy.verbs.QP, &attr, IBV_QP_STATE, &init));
}

/* All the way to RTS, unless another thread interferes. */
static void connect_pair(struct world *world)
{
	for (int i = 0; i < 2; i++)
		for (int state = IBV_QPS_RESET; state <= IBV_QPS_RTS; state++) {
			struct ibv_qp_attr attr = attr_to(state, qps[!i]->qp_num);

			check_race(world, KIND_QP, ibv_modify_qp(qps[i], &attr, mask_to(state)));
		}
}

static void disturb_pair(struct world *world)
{
	unsigned which = below(world, 2);

	change_state(world, qps[which], qps[!which]->qp_num);
}

static struct ibv_sge shared_sge(struct world *world)
{
	return (struct ibv_sge){
		(uintptr_t)buffer + below(world, 2048), below(world, 2048), mr->lkey};
}

static void send_shared(struct world *world)
{
	static const enum ibv_wr_opcode opcodes[] = {
		IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ};
	struct ibv_sge sge = shared_sge(world);
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = opcodes[below(world, ARRAY_COUNT(opcodes))],
		.send_flags = percent(world, 50) ? IBV_SEND_SIGNALED : 0,
		.wr.rdma = {.remote_addr = (uintptr_t)buffer, .rkey = mr->rkey},
	};
	struct ibv_send_wr *bad;
	int error = ibv_post_send(qps[below(world, 2)], &wr, &bad);

	CHECK(world, !error || error == EINVAL || error == ENOMEM, "%d", error);
}

static void recv_shared(struct world *world)
{
	struct ibv_sge sge = shared_sge(world);
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1};
	struct ibv_recv_wr *bad;
	int error = ibv_post_recv(qps[below(world, 2)], &wr, &bad);

	CHECK(world, !error || error == EINVAL || error == ENOMEM, "%d", error);
}

static void poll_shared(struct world *world)
{
	struct ibv_wc wc[8];
	struct ibv_cq *from;
	void *cq_context;

	ibv_poll_cq(cq, (int)below(world, 8), wc);
	if (percent(world, 30))
		CHECK(world, !ibv_req_notify_cq(cq, (int)below(world, 2)), "req_notify");
	while (!ibv_get_cq_event(channel, &from, &cq_context))
		ibv_ack_cq_events(from, 1);
}

static void take_shared_events(struct world *world)
{
	struct ibv_async_event event;

	(void)world;
	while (!ibv_get_async_event(context, &event))
		ibv_ack_async_event(&event);
}

static const struct call calls[] = {
	{"shared make", 30, make_some},
	{"shared destroy", 30, destroy_some},
	{"shared modify", 20, modify_some},
	{"shared connect", 3, connect_pair},
	{"shared disturb", 3, disturb_pair},
	{"shared send", 30, send_shared},
	{"shared recv", 20, recv_shared},
	{"shared poll", 30, poll_shared},
	{"shared events", 5, take_shared_events},
};

void commons_step(struct world *world)
{
	unsigned sum = 0;
	const struct call *call = calls;
	unsigned drawn;

	for (size_t i = 0; i < ARRAY_COUNT(calls); i++)
		sum += calls[i].weight;
	for (drawn = below(world, sum); drawn >= call->weight; call++)
		drawn -= call->weight;
	world->call_count++;
	world->call = call->name;
	call->run(world);
	world->call = "between calls";
	world->beats++;
}

/* A structure that names the context, and no object. */
static void name_context(struct corpse *copy)
{
	switch ((int)copy->kind) {
#define KIND(name, type, handle)                    \
	case KIND_##name:                           \
		copy->verbs.name.context = context; \
		break;
		KINDS_WITH_HANDLE(KIND)
#undef KIND
	}
}

static void need(bool condition, const char *what)
{
	if (condition)
		return;
	fprintf(stderr, "commons: %s: %s\n", what, strerror(errno));
	exit(1);
}

void commons_begin(struct ibv_device *device)
{
	struct ibv_qp_init_attr init = {
		.cap = {DEPTH, DEPTH, 1, 1, 0},
		.qp_type = IBV_QPT_RC,
	};

	for (unsigned i = 0; i < PLACES; i++) {
		pthread_mutex_init(&places[i].lock, NULL);
		places[i].copy.kind = kind_of_place(i);
	}
	need((context = ibv_open_device(device)) != NULL, "open_device");
	for (unsigned i = 0; i < PLACES; i++)
		name_context(&places[i].copy);
	fcntl(context->async_fd, F_SETFL, O_NONBLOCK);
	address = (struct ibv_ah_attr){.is_global = 1, .port_num = 1, .grh = {.hop_limit = 1}};
	need(!ibv_query_gid(context, 1, 0, &address.grh.dgid), "query_gid");
	need((pd = ibv_alloc_pd(context)) != NULL, "alloc_pd");
	need((channel = ibv_create_comp_channel(context)) != NULL, "create_comp_channel");
	fcntl(channel->fd, F_SETFL, O_NONBLOCK);
	need((cq = ibv_create_cq(context, 4 * DEPTH, NULL, channel, 0)) != NULL, "create_cq");
	need((mr = ibv_reg_mr(pd, buffer, sizeof(buffer),
		      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)) !=
			NULL,
		"reg_mr");
	init.send_cq = cq;
	init.recv_cq = cq;
	for (int i = 0; i < 2; i++)
		need((qps[i] = ibv_create_qp(pd, &init)) != NULL, "create_qp");
}

static void leave_group(struct corpse *copy)
{
	union ibv_gid gid = {.raw = {[10] = 0xff, [11] = 0xff, [12] = 230, [15] = 9}};

	if (copy->kind == KIND_QP)
		ibv_detach_mcast(&copy->verbs.QP, &gid, 0);
}

void commons_end(void)
{
	for (int i = 0; i < 2; i++)
		need(!ibv_destroy_qp(qps[i]), "destroy_qp");
	need(!ibv_dereg_mr(mr), "dereg_mr");
	need(!ibv_destroy_cq(cq), "destroy_cq");
	need(!ibv_dealloc_pd(pd), "dealloc_pd");
	for (int round = 0; round < KIND_WITH_HANDLE_COUNT; round++)
		for (enum kind kind = KIND_WITH_HANDLE_COUNT; kind-- > 0;)
			for (unsigned i = kind; i < PLACES; i += KIND_WITH_HANDLE_COUNT)
				if (places[i].is_filled) {
					leave_group(&places[i].copy);
					destroy_copy(&places[i].copy);
				}
	need(!ibv_close_device(context), "close_device");
}
