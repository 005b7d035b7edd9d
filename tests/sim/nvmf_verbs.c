/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "nvmf_verbs_internal.h"

enum { READS_MAX = 8 };

/* How long the network may be cut before a queue pair that sends gives up. */
#define RETRY_NS (2 * NVMF_S)

struct adapters adapters;

/* --- small things --- */

void *adapter_make(size_t bytes)
{
	void *object = calloc(1, bytes);

	if (!object)
		abort();
	return object;
}

static unsigned machine_of(const struct ibv_context *context)
{
	return (unsigned)(context - adapters.context);
}

uint64_t adapter_soon_ns(void)
{
	return adapters.world->now_ns + adapters.latency_ns / 2 +
		nvmf_any_size(adapters.world, 1, 2 * adapters.latency_ns);
}

bool adapter_is_silent(const struct id *id)
{
	unsigned host = id->machine;

	if (host == NVMF_TARGET && !id->peer)
		return false;
	if (host == NVMF_TARGET)
		host = id->peer->machine;
	return nvmf_network_is_silent(adapters.network, host);
}

void adapter_channel_open(struct waiter *waiter, unsigned machine)
{
	/* The transports set flags of it. */
	waiter->fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (waiter->fd < 0 || waiter->fd >= CHANNELS_MAX)
		abort();
	waiter->machine = machine;
	list_init(&waiter->items);
	adapters.waiters[waiter->fd] = waiter;
	adapters.objects[machine]++;
}

void adapter_channel_close(struct waiter *waiter)
{
	NVMF_CHECK(adapters.world, !waiter->watch, "a channel goes while it is watched");
	adapters.waiters[waiter->fd] = NULL;
	adapters.objects[waiter->machine]--;
	close(waiter->fd);
}

void nvmf_verbs_watch(struct loop_watch *watch)
{
	struct waiter *waiter =
		watch->fd >= 0 && watch->fd < CHANNELS_MAX ? adapters.waiters[watch->fd] : NULL;

	NVMF_CHECK(
		adapters.world, waiter, "descriptor %d is watched, which is not open", watch->fd);
	waiter->watch = watch->events ? watch : NULL;
}

bool nvmf_verbs_report(unsigned machine)
{
	bool is_any = false;

	for (unsigned i = 0; i < CHANNELS_MAX; i++) {
		struct waiter *waiter = adapters.waiters[i];

		if (!waiter || waiter->machine != machine || !waiter->watch ||
			list_is_empty(&waiter->items))
			continue;
		loop_report(adapters.world->loop[machine], waiter->watch, EPOLLIN);
		is_any = true;
	}
	return is_any;
}

/* --- completions --- */

static void complete(struct qp *qp, uint64_t wr_id, enum ibv_wc_opcode opcode,
	enum ibv_wc_status status, uint32_t bytes)
{
	struct completion *completion = adapter_make(sizeof(*completion));
	struct cq *cq = qp->cq;

	completion->wc = (struct ibv_wc){.wr_id = wr_id,
		.status = status,
		.opcode = opcode,
		.byte_len = bytes,
		.qp_num = qp->base.qp_num};
	list_init(&completion->node);
	list_append(&cq->completions, &completion->node);
	if (cq->is_armed && !list_is_linked(&cq->node))
		list_append(&cq->channel->waiter.items, &cq->node);
	cq->is_armed = false;
}

static void request_end(struct qp *qp, struct request *request, enum ibv_wc_status status)
{
	list_remove(&request->node);
	if (status != IBV_WC_SUCCESS || request->is_signaled)
		complete(qp, request->wr_id, IBV_WC_SEND, status, request->bytes);
	free(request);
}

void adapter_qp_fail(struct qp *qp, enum ibv_wc_status status)
{
	if (qp->is_failed)
		return;
	qp->is_failed = true;
	loop_timer_cancel(&qp->timer);
	list_for_each_safe(request, &qp->sends, struct request, node) {
		request_end(qp, request, status);
		status = IBV_WC_WR_FLUSH_ERR;
	}
	list_for_each_safe(request, &qp->receives, struct request, node) {
		list_remove(&request->node);
		complete(qp, request->wr_id, IBV_WC_RECV, IBV_WC_WR_FLUSH_ERR, 0);
		free(request);
	}
}

/* --- requests --- */

static struct mr *mr_find(const struct qp *qp, uint32_t key, uint64_t address, uint32_t bytes)
{
	list_for_each(mr, &adapters.mrs, struct mr, node) {
		uint64_t start = (uintptr_t)mr->base.addr;

		if (mr->base.rkey == key && mr->base.pd == qp->base.pd && address >= start &&
			bytes <= mr->base.length && address - start <= mr->base.length - bytes)
			return mr;
	}
	return NULL;
}

/* False: the peer has no receive request yet. */
static bool send_do(struct qp *peer, const struct request *request)
{
	struct request *receive;

	if (list_is_empty(&peer->receives))
		return false;
	receive = list_first(&peer->receives, struct request, node);
	list_remove(&receive->node);
	NVMF_CHECK(adapters.world, receive->bytes >= request->bytes,
		"a SEND is longer than its receive request");
	memcpy(receive->data, request->data, request->bytes);
	complete(peer, receive->wr_id, IBV_WC_RECV, IBV_WC_SUCCESS, request->bytes);
	free(receive);
	return true;
}

/* One request reaches the peer. False: not yet. */
static bool request_do(struct qp *qp, struct qp *peer, struct request *request)
{
	bool is_read = request->opcode == IBV_WR_RDMA_READ;
	struct mr *mr;

	if (request->opcode == IBV_WR_SEND)
		return send_do(peer, request);
	mr = mr_find(peer, request->key, request->remote, request->bytes);
	NVMF_CHECK(adapters.world,
		mr && mr->access & (is_read ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE),
		"qp %u: remote access to %u bytes that no key allows", qp->base.qp_num,
		request->bytes);
	if (is_read)
		memcpy(request->data, (void *)(uintptr_t)request->remote, request->bytes);
	else
		memcpy((void *)(uintptr_t)request->remote, request->data, request->bytes);
	return true;
}

static struct qp *qp_peer(const struct qp *qp)
{
	struct id *peer = qp->id && qp->id->peer ? qp->id->peer : NULL;
	struct qp *other = peer && peer->base.qp ? (struct qp *)(void *)peer->base.qp : NULL;

	return other && !other->is_failed && !peer->is_mute ? other : NULL;
}

static void qp_wake(struct qp *qp)
{
	if (!qp->is_failed && !list_is_linked(&qp->timer.node) && !list_is_empty(&qp->sends))
		loop_timer_set(adapters.world->clock, &qp->timer, adapter_soon_ns());
}

/* What the peer did is acknowledged; then the next requests reach it. */
static void qp_expired(struct loop_timer *timer)
{
	struct qp *qp = container_of(timer, struct qp, timer);
	struct qp *peer = qp_peer(qp);
	uint64_t left = nvmf_between(adapters.world, 1, 8);

	if (!peer || adapter_is_silent(qp->id)) {
		if (!qp->silent_since_ns)
			qp->silent_since_ns = adapters.world->now_ns;
		if (adapters.world->now_ns - qp->silent_since_ns > RETRY_NS)
			adapter_qp_fail(qp, IBV_WC_RETRY_EXC_ERR);
		else
			loop_timer_set(adapters.world->clock, timer,
				adapters.world->now_ns + 50 * NVMF_MS);
		return;
	}
	qp->silent_since_ns = 0;
	list_for_each_safe(request, &qp->sends, struct request, node)
		if (request->is_done)
			request_end(qp, request, IBV_WC_SUCCESS);
	list_for_each(request, &qp->sends, struct request, node) {
		if (!left-- || !request_do(qp, peer, request))
			break;
		request->is_done = true;
	}
	qp_wake(qp);
}

static struct request *request_make(uint64_t wr_id, const struct ibv_sge *sge)
{
	struct request *request = adapter_make(sizeof(*request));

	list_init(&request->node);
	request->wr_id = wr_id;
	request->data = (uint8_t *)(uintptr_t)sge->addr;
	request->bytes = sge->length;
	return request;
}

static int post_send(struct ibv_qp *base, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct qp *qp = (struct qp *)(void *)base;

	(void)bad;
	for (; wr; wr = wr->next) {
		struct request *request = request_make(wr->wr_id, wr->sg_list);

		request->opcode = wr->opcode;
		request->is_signaled = wr->send_flags & IBV_SEND_SIGNALED;
		request->remote = wr->wr.rdma.remote_addr;
		request->key = wr->wr.rdma.rkey;
		list_append(&qp->sends, &request->node);
		if (qp->is_failed)
			request_end(qp, request, IBV_WC_WR_FLUSH_ERR);
	}
	qp_wake(qp);
	return 0;
}

static int post_recv(struct ibv_qp *base, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct qp *qp = (struct qp *)(void *)base;

	(void)bad;
	for (; wr; wr = wr->next) {
		struct request *request = request_make(wr->wr_id, wr->sg_list);

		list_append(&qp->receives, &request->node);
		if (!qp->is_failed)
			continue;
		list_remove(&request->node);
		complete(qp, request->wr_id, IBV_WC_RECV, IBV_WC_WR_FLUSH_ERR, 0);
		free(request);
	}
	return 0;
}

static int poll_cq(struct ibv_cq *base, int count, struct ibv_wc *wc)
{
	struct cq *cq = (struct cq *)(void *)base;
	int taken = 0;

	while (taken < count && !list_is_empty(&cq->completions)) {
		struct completion *completion =
			list_first(&cq->completions, struct completion, node);

		wc[taken++] = completion->wc;
		list_remove(&completion->node);
		free(completion);
	}
	return taken;
}

static int req_notify_cq(struct ibv_cq *base, int solicited_only)
{
	struct cq *cq = (struct cq *)(void *)base;

	(void)solicited_only;
	cq->is_armed = true;
	return 0;
}

/* --- objects of libibverbs --- */

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	struct ibv_pd *pd = adapter_make(sizeof(*pd));

	pd->context = context;
	adapters.objects[machine_of(context)]++;
	return pd;
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
	adapters.objects[machine_of(pd->context)]--;
	free(pd);
	return 0;
}

#undef ibv_reg_mr
struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *address, size_t bytes, int access)
{
	struct mr *mr = adapter_make(sizeof(*mr));

	mr->base =
		(struct ibv_mr){.context = pd->context, .pd = pd, .addr = address, .length = bytes};
	mr->base.lkey = mr->base.rkey = ++adapters.next_key;
	mr->access = access;
	list_init(&mr->node);
	list_append(&adapters.mrs, &mr->node);
	adapters.objects[machine_of(pd->context)]++;
	return &mr->base;
}

struct ibv_mr *ibv_reg_mr_iova2(
	struct ibv_pd *pd, void *address, size_t bytes, uint64_t iova, unsigned access)
{
	(void)iova;
	return ibv_reg_mr(pd, address, bytes, (int)access);
}

int ibv_dereg_mr(struct ibv_mr *base)
{
	struct mr *mr = (struct mr *)(void *)base;

	adapters.objects[machine_of(base->context)]--;
	list_remove(&mr->node);
	free(mr);
	return 0;
}

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
	struct completion_channel *channel = adapter_make(sizeof(*channel));

	adapter_channel_open(&channel->waiter, machine_of(context));
	channel->base.context = context;
	channel->base.fd = channel->waiter.fd;
	return &channel->base;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *base)
{
	struct completion_channel *channel = (struct completion_channel *)(void *)base;

	adapter_channel_close(&channel->waiter);
	free(channel);
	return 0;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int entries, void *cq_context,
	struct ibv_comp_channel *channel, int vector)
{
	struct cq *cq = adapter_make(sizeof(*cq));

	(void)entries;
	(void)vector;
	cq->base =
		(struct ibv_cq){.context = context, .channel = channel, .cq_context = cq_context};
	cq->channel = (struct completion_channel *)(void *)channel;
	list_init(&cq->node);
	list_init(&cq->completions);
	adapters.objects[machine_of(context)]++;
	return &cq->base;
}

int ibv_destroy_cq(struct ibv_cq *base)
{
	struct cq *cq = (struct cq *)(void *)base;
	struct ibv_wc wc;

	while (poll_cq(base, 1, &wc))
		;
	list_remove(&cq->node);
	adapters.objects[machine_of(base->context)]--;
	free(cq);
	return 0;
}

int ibv_get_cq_event(struct ibv_comp_channel *base, struct ibv_cq **cq, void **cq_context)
{
	struct completion_channel *channel = (struct completion_channel *)(void *)base;
	struct cq *first;

	if (list_is_empty(&channel->waiter.items)) {
		errno = EAGAIN;
		return -1;
	}
	first = list_first(&channel->waiter.items, struct cq, node);
	list_remove(&first->node);
	*cq = &first->base;
	*cq_context = first->base.cq_context;
	return 0;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned count)
{
	(void)cq;
	(void)count;
}

int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	(void)context;
	memset(attr, 0, sizeof(*attr));
	attr->max_qp_rd_atom = attr->max_qp_init_rd_atom = READS_MAX;
	return 0;
}

const char *ibv_wc_status_str(enum ibv_wc_status status)
{
	return status == IBV_WC_RETRY_EXC_ERR ? "transport retry counter exceeded" : "error";
}

void adapter_qp_init(struct qp *qp)
{
	list_init(&qp->sends);
	list_init(&qp->receives);
	loop_timer_init(&qp->timer, qp_expired);
}

/* --- the whole --- */

unsigned nvmf_verbs_object_count(unsigned machine)
{
	return adapters.objects[machine];
}

void nvmf_verbs_begin(struct nvmf_world *world, struct nvmf_network *network, uint64_t latency_ns)
{
	memset(&adapters, 0, sizeof(adapters));
	adapters.world = world;
	adapters.network = network;
	adapters.latency_ns = latency_ns;
	adapters.device.transport_type = IBV_TRANSPORT_IB;
	list_init(&adapters.ids);
	list_init(&adapters.mrs);
	for (unsigned i = 0; i < NVMF_MACHINES; i++) {
		adapters.context[i].device = &adapters.device;
		adapters.context[i].ops.poll_cq = poll_cq;
		adapters.context[i].ops.req_notify_cq = req_notify_cq;
		adapters.context[i].ops.post_send = post_send;
		adapters.context[i].ops.post_recv = post_recv;
	}
}

void nvmf_verbs_end(void)
{
	adapters.world = NULL;
}
