/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "nvmf_verbs_internal.h"

enum {
	REJECT_CONSUMER = 28,
	REJECT_NO_LISTENER = 8, /* invalid service ID (IBTA 12.6.7.2) */
};

/* How long a host waits for an answer. */
#define UNREACH_NS (3 * NVMF_S)

static struct id *id_of(struct rdma_cm_id *base)
{
	return (struct id *)(void *)base;
}

static void event_add(struct id *id, struct id *about, enum rdma_cm_event_type type, int status,
	const struct id *data)
{
	struct channel *channel = (struct channel *)(void *)id->base.channel;
	struct event *event = adapter_make(sizeof(*event));

	event->base.event = type;
	event->base.id = &about->base;
	event->base.listen_id = id->is_listener ? &id->base : NULL;
	event->base.status = status;
	if (data) {
		memcpy(event->bytes, data->bytes, sizeof(event->bytes));
		event->base.param.conn.private_data = event->bytes;
		event->base.param.conn.private_data_len = data->byte_count;
		event->base.param.conn.initiator_depth = data->reads;
	}
	list_init(&event->node);
	list_append(&channel->waiter.items, &event->node);
}

static void step_set(struct id *id, enum step step)
{
	id->step = step;
	loop_timer_set(adapters.world->clock, &id->timer, adapter_soon_ns());
}

static struct id *id_make(struct rdma_event_channel *channel, unsigned machine, void *context);

static struct id *listener_find(void)
{
	list_for_each(id, &adapters.ids, struct id, node)
		if (id->is_listener)
			return id;
	return NULL;
}

/* The client's request reaches the target. */
static void request_arrives(struct id *client)
{
	struct id *listener = listener_find();
	struct id *server;

	if (adapter_is_silent(client)) {
		if (adapters.world->now_ns - client->asked_ns > UNREACH_NS)
			event_add(client, client, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT, NULL);
		else
			loop_timer_set(adapters.world->clock, &client->timer,
				adapters.world->now_ns + 300 * NVMF_MS);
		return;
	}
	if (!listener) {
		event_add(client, client, RDMA_CM_EVENT_REJECTED, REJECT_NO_LISTENER, NULL);
		return;
	}
	server = id_make(listener->base.channel, NVMF_TARGET, NULL);
	server->peer = client;
	client->peer = server;
	server->base.verbs = &adapters.context[NVMF_TARGET];
	event_add(listener, server, RDMA_CM_EVENT_CONNECT_REQUEST, 0, client);
}

/* The target's answer reaches the client, which says that it is ready. */
static void answer_arrives(struct id *server)
{
	struct id *client = server->peer;

	if (!client || adapter_is_silent(server)) {
		event_add(server, server, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT, NULL);
		return;
	}
	event_add(client, client, RDMA_CM_EVENT_ESTABLISHED, 0, server);
	step_set(server, STEP_READY);
}

static void id_expired(struct loop_timer *timer)
{
	struct id *id = container_of(timer, struct id, timer);

	switch (id->step) {
	case STEP_ADDRESS:
		event_add(id, id, RDMA_CM_EVENT_ADDR_RESOLVED, 0, NULL);
		break;
	case STEP_ROUTE:
		event_add(id, id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0, NULL);
		break;
	case STEP_REQUEST:
		request_arrives(id);
		break;
	case STEP_ACCEPT:
		answer_arrives(id);
		break;
	case STEP_READY:
		event_add(id, id, RDMA_CM_EVENT_ESTABLISHED, 0, NULL);
		break;
	case STEP_END:
		if (!id->is_mute)
			event_add(id, id, RDMA_CM_EVENT_DISCONNECTED, 0, NULL);
		break;
	case STEP_NONE:
		break;
	}
}

static struct id *id_make(struct rdma_event_channel *channel, unsigned machine, void *context)
{
	struct id *id = adapter_make(sizeof(*id));

	id->base.channel = channel;
	id->base.context = context;
	id->machine = machine;
	nvmf_network_address(&id->base.route.addr.dst_storage);
	loop_timer_init(&id->timer, id_expired);
	list_init(&id->node);
	list_append(&adapters.ids, &id->node);
	adapters.objects[machine]++;
	return id;
}

struct rdma_event_channel *rdma_create_event_channel(void)
{
	struct channel *channel = adapter_make(sizeof(*channel));

	adapter_channel_open(&channel->waiter, adapters.world->running);
	channel->base.fd = channel->waiter.fd;
	return &channel->base;
}

static void event_drop(struct event *event)
{
	list_remove(&event->node);
	free(event);
}

void rdma_destroy_event_channel(struct rdma_event_channel *base)
{
	struct channel *channel = (struct channel *)(void *)base;

	list_for_each_safe(event, &channel->waiter.items, struct event, node)
		event_drop(event);
	adapter_channel_close(&channel->waiter);
	free(channel);
}

int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **ret_id, void *context,
	enum rdma_port_space space)
{
	(void)space;
	*ret_id = &id_make(channel, ((struct channel *)(void *)channel)->waiter.machine, context)
			   ->base;
	return 0;
}

static void id_free(struct id *id)
{
	NVMF_CHECK(adapters.world, !id->base.qp, "an id goes before its queue pair");
	if (id->peer)
		id->peer->peer = NULL;
	loop_timer_cancel(&id->timer);
	list_remove(&id->node);
	adapters.objects[id->machine]--;
	free(id);
}

int rdma_destroy_id(struct rdma_cm_id *base)
{
	struct channel *channel = (struct channel *)(void *)base->channel;

	id_of(base)->is_over = true;
	/* A connection that was not accepted ends with its listener. */
	list_for_each(event, &channel->waiter.items, struct event, node)
		if (event->base.listen_id == base)
			id_of(event->base.id)->is_over = true;
	list_for_each_safe(event, &channel->waiter.items, struct event, node)
		if (id_of(event->base.id)->is_over)
			event_drop(event);
	list_for_each_safe(id, &adapters.ids, struct id, node)
		if (id->is_over)
			id_free(id);
	return 0;
}

int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *address)
{
	(void)id;
	(void)address;
	return 0;
}

int rdma_listen(struct rdma_cm_id *id, int backlog)
{
	(void)backlog;
	id_of(id)->is_listener = true;
	return 0;
}

int rdma_resolve_addr(
	struct rdma_cm_id *id, struct sockaddr *from, struct sockaddr *to, int timeout_ms)
{
	(void)from;
	(void)to;
	(void)timeout_ms;
	id->verbs = &adapters.context[id_of(id)->machine];
	step_set(id_of(id), STEP_ADDRESS);
	return 0;
}

int rdma_resolve_route(struct rdma_cm_id *id, int timeout_ms)
{
	(void)timeout_ms;
	step_set(id_of(id), STEP_ROUTE);
	return 0;
}

static void private_set(struct id *id, const void *bytes, uint8_t count)
{
	if (count)
		memcpy(id->bytes, bytes, count);
	id->byte_count = count;
}

int rdma_connect(struct rdma_cm_id *base, struct rdma_conn_param *param)
{
	struct id *id = id_of(base);

	private_set(id, param->private_data, param->private_data_len);
	id->reads = param->responder_resources;
	id->asked_ns = adapters.world->now_ns;
	step_set(id, STEP_REQUEST);
	return 0;
}

int rdma_accept(struct rdma_cm_id *base, struct rdma_conn_param *param)
{
	private_set(id_of(base), param->private_data, param->private_data_len);
	step_set(id_of(base), STEP_ACCEPT);
	return 0;
}

int rdma_reject(struct rdma_cm_id *base, const void *bytes, uint8_t count)
{
	struct id *id = id_of(base);

	private_set(id, bytes, count);
	if (id->peer && !adapter_is_silent(id))
		event_add(id->peer, id->peer, RDMA_CM_EVENT_REJECTED, REJECT_CONSUMER, id);
	return 0;
}

int rdma_disconnect(struct rdma_cm_id *base)
{
	struct id *id = id_of(base);

	if (base->qp)
		adapter_qp_fail((struct qp *)(void *)base->qp, IBV_WC_WR_FLUSH_ERR);
	if (id->peer && !id->is_mute && !adapter_is_silent(id) && id->peer->base.qp)
		step_set(id->peer, STEP_END);
	return 0;
}

int rdma_create_qp(struct rdma_cm_id *base, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct qp *qp = adapter_make(sizeof(*qp));

	qp->base.context = base->verbs;
	qp->base.pd = pd;
	qp->base.qp_num = ++adapters.next_key;
	qp->id = id_of(base);
	qp->cq = (struct cq *)(void *)attr->send_cq;
	adapter_qp_init(qp);
	base->qp = &qp->base;
	adapters.objects[id_of(base)->machine]++;
	return 0;
}

void rdma_destroy_qp(struct rdma_cm_id *base)
{
	struct qp *qp = (struct qp *)(void *)base->qp;

	adapter_qp_fail(qp, IBV_WC_WR_FLUSH_ERR);
	base->qp = NULL;
	adapters.objects[id_of(base)->machine]--;
	free(qp);
}

int rdma_get_cm_event(struct rdma_event_channel *base, struct rdma_cm_event **ret_event)
{
	struct channel *channel = (struct channel *)(void *)base;
	struct event *event;

	if (list_is_empty(&channel->waiter.items)) {
		errno = EAGAIN;
		return -1;
	}
	event = list_first(&channel->waiter.items, struct event, node);
	list_remove(&event->node);
	*ret_event = &event->base;
	return 0;
}

int rdma_ack_cm_event(struct rdma_cm_event *event)
{
	free(event);
	return 0;
}

__be16 rdma_get_dst_port(struct rdma_cm_id *id)
{
	(void)id;
	return 0;
}

/* --- faults --- */

static void id_lose(struct id *id)
{
	if (id->base.qp)
		adapter_qp_fail((struct qp *)(void *)id->base.qp, IBV_WC_RETRY_EXC_ERR);
	step_set(id, STEP_END);
}

void nvmf_verbs_reset(bool is_half)
{
	struct id *chosen = NULL;
	unsigned count = 0;

	list_for_each(id, &adapters.ids, struct id, node)
		if (id->peer && id->base.qp && id->peer->base.qp && id->step != STEP_REQUEST &&
			id->step != STEP_ACCEPT && nvmf_below(adapters.world, ++count) == 0)
			chosen = id;
	if (!chosen)
		return;
	if (!is_half)
		id_lose(chosen->peer);
	id_lose(chosen);
}

void nvmf_verbs_crash(unsigned machine, bool has_reset)
{
	list_for_each(id, &adapters.ids, struct id, node) {
		if (id->machine != machine)
			continue;
		if (has_reset && id->peer && id->peer->base.qp && !adapter_is_silent(id))
			step_set(id->peer, STEP_END);
		id->is_mute = true;
		if (id->base.qp)
			adapter_qp_fail((struct qp *)(void *)id->base.qp, IBV_WC_WR_FLUSH_ERR);
	}
}
