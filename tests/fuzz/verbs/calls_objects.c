/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Making, changing, asking and destroying objects, with arguments that are right: the model says what the answer is.
 */
#include <fcntl.h>
#include <unistd.h>

#include "world.h"

/* A call that must not fail, and one that answers as an object with `users` does. */
#define MADE(world, pointer) CHECK(world, pointer, "%s", strerror(errno))

static unsigned some_opening(struct world *world)
{
	return below(world, OPENINGS);
}

static void alloc_pd(struct world *world)
{
	unsigned opening = some_opening(world);
	struct ibv_pd *pd;

	if (!world_has_room(world))
		return;
	pd = ibv_alloc_pd(world->openings[opening].context);
	MADE(world, pd);
	item_add(world, KIND_PD, pd, opening, NULL);
}

static void alloc_td(struct world *world)
{
	unsigned opening = some_opening(world);
	struct ibv_td_init_attr attr = {0};
	struct ibv_td *td;

	if (!world_has_room(world))
		return;
	td = ibv_alloc_td(world->openings[opening].context, &attr);
	MADE(world, td);
	item_add(world, KIND_TD, td, opening, NULL);
}

static void *program_alloc(
	struct ibv_pd *pd, void *pd_context, size_t size, size_t alignment, uint64_t resource_type)
{
	(void)pd;
	(void)pd_context;
	(void)resource_type;
	return size % 3 ? IBV_ALLOCATOR_USE_DEFAULT : aligned_alloc(alignment, size);
}

static void program_free(struct ibv_pd *pd, void *pd_context, void *ptr, uint64_t resource_type)
{
	(void)pd;
	(void)pd_context;
	(void)resource_type;
	free(ptr);
}

static void alloc_parent_domain(struct world *world)
{
	struct item *base = item_pick(world, KIND_PD);
	struct item *td = base ? item_pick_of(world, KIND_TD, base->opening) : NULL;
	struct ibv_parent_domain_init_attr attr = {
		.alloc = program_alloc,
		.free = program_free,
		.comp_mask = percent(world, 50) ? IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS : 0,
	};
	struct ibv_pd *pd;

	if (!base || !world_has_room(world))
		return;
	if (td && percent(world, 50))
		td = NULL;
	attr.pd = base->verbs;
	attr.td = td ? td->verbs : NULL;
	pd = ibv_alloc_parent_domain(world->openings[base->opening].context, &attr);
	if (base->base) {
		CHECK(world, !pd && errno == EINVAL, "parent domain of a parent domain");
		return;
	}
	MADE(world, pd);
	item_add(world, KIND_PD, pd, base->opening, (struct item *[]){base, td, NULL})->base = base;
}

static void reg_mr(struct world *world)
{
	static const int known = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
		IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	struct item *pd = item_pick(world, KIND_PD);
	int access = (int)below(world, 16) & known;
	uint32_t offset = below(world, BUFFER_BYTES);
	uint32_t length = 1 + below(world, BUFFER_BYTES - offset);
	uint64_t iova = percent(world, 80) ? (uintptr_t)world->buffer + offset
					   : sim_random_next(&world->random) >> 1;
	struct ibv_mr *mr;

	if (!pd || !world_has_room(world))
		return;
	if (percent(world, 70))
		access = known;
	mr = ibv_reg_mr_iova2(pd->verbs, world->buffer + offset, length, iova, (unsigned)access);
	if ((access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) &&
		!(access & IBV_ACCESS_LOCAL_WRITE)) {
		CHECK(world, !mr && errno == EINVAL, "access 0x%x", access);
		return;
	}
	MADE(world, mr);
	/* A region is built on the domain behind a parent domain. */
	item_add(world, KIND_MR, mr, pd->opening, (struct item *[]){pd->base ? pd->base : pd, NULL})
		->length = length;
}

static void create_ah(struct world *world)
{
	struct item *pd = item_pick(world, KIND_PD);
	struct ibv_ah_attr attr;
	struct ibv_ah *ah;

	if (!pd || !world_has_room(world))
		return;
	attr = world_address(world, pd->opening);
	ah = ibv_create_ah(pd->verbs, &attr);
	MADE(world, ah);
	item_add(
		world, KIND_AH, ah, pd->opening, (struct item *[]){pd->base ? pd->base : pd, NULL});
}

static void create_channel(struct world *world)
{
	unsigned opening = some_opening(world);
	struct ibv_comp_channel *channel;

	if (!world_has_room(world))
		return;
	channel = ibv_create_comp_channel(world->openings[opening].context);
	MADE(world, channel);
	fcntl(channel->fd, F_SETFL, O_NONBLOCK);
	item_add(world, KIND_CHANNEL, channel, opening, NULL);
}

static void create_cq(struct world *world)
{
	unsigned opening = some_opening(world);
	struct ibv_context *context = world->openings[opening].context;
	struct item *channel = item_pick_of(world, KIND_CHANNEL, opening);
	int cqe = 1 + (int)below(world, 2 * QUEUE_DEPTH_MAX);
	struct ibv_cq *cq;

	if (!world_has_room(world))
		return;
	if (percent(world, 50))
		channel = NULL;
	cq = ibv_create_cq(context, cqe, NULL, channel ? channel->verbs : NULL,
		(int)below(world, (uint32_t)context->num_comp_vectors));
	MADE(world, cq);
	CHECK(world, cq->cqe >= cqe, "%d of %d", cq->cqe, cqe);
	item_add(world, KIND_CQ, cq, opening, (struct item *[]){channel, NULL});
}

static void create_qp(struct world *world)
{
	struct item *pd = item_pick(world, KIND_PD);
	struct item *send_cq = pd ? item_pick_of(world, KIND_CQ, pd->opening) : NULL;
	struct item *recv_cq = pd ? item_pick_of(world, KIND_CQ, pd->opening) : NULL;
	struct ibv_qp_init_attr init = {
		.cap = {below(world, QUEUE_DEPTH_MAX), below(world, QUEUE_DEPTH_MAX),
			below(world, 4), below(world, 4), below(world, 256)},
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = percent(world, 30),
	};
	struct ibv_qp *qp;
	struct item *item;

	if (!send_cq || !world_has_room(world))
		return;
	init.send_cq = send_cq->verbs;
	init.recv_cq = recv_cq->verbs;
	qp = ibv_create_qp(pd->verbs, &init);
	MADE(world, qp);
	item = item_add(world, KIND_QP, qp, pd->opening,
		(struct item *[]){pd, pd->base ? pd->base : send_cq, send_cq, recv_cq, NULL});
	item->qp.type = init.qp_type;
	item->qp.qpn = qp->qp_num;
	item->qp.id = (uint32_t)world->call_count;
	item->qp.send_sges = init.cap.max_send_sge;
	item->qp.recv_sges = init.cap.max_recv_sge;
	known_qpns[below(world, QPNS)] = qp->qp_num;
}

static int destroy(struct item *item)
{
	switch (item->kind) {
	case KIND_PD:
		return ibv_dealloc_pd(item->verbs);
	case KIND_MR:
		return ibv_dereg_mr(item->verbs);
	case KIND_CQ:
		return ibv_destroy_cq(item->verbs);
	case KIND_QP:
		return ibv_destroy_qp(item->verbs);
	case KIND_AH:
		return ibv_destroy_ah(item->verbs);
	case KIND_CHANNEL:
		return ibv_destroy_comp_channel(item->verbs);
	case KIND_TD:
		return ibv_dealloc_td(item->verbs);
	case KIND_COUNT:
		break;
	}
	abort();
}

void item_destroy(struct world *world, struct item *item)
{
	struct item was = *item;
	int error;

	/* While it can still be read. */
	if (!was.users)
		item_drop(world, item);
	error = destroy(&was);
	CHECK(world, error == (was.users ? EBUSY : 0), "kind %d with %u users: %d", was.kind,
		was.users, error);
}

static void destroy_some(struct world *world)
{
	struct item *item = &world->items[below(world, ITEMS_MAX)];

	if (item->verbs)
		item_destroy(world, item);
}

/* Some one of a kind that others are built on, so that EBUSY is tried too. */
static void destroy_base(struct world *world)
{
	static const enum kind kinds[] = {KIND_PD, KIND_CQ, KIND_CHANNEL, KIND_TD};
	struct item *item = item_pick(world, kinds[below(world, ARRAY_COUNT(kinds))]);

	if (item && item->users)
		item_destroy(world, item);
}

static void query_device(struct world *world)
{
	struct ibv_context *context = world->openings[some_opening(world)].context;
	struct ibv_device_attr_ex extended;
	struct ibv_port_attr port;
	union ibv_gid gid;

	CHECK(world, !ibv_query_device_ex(context, NULL, &extended), "query_device_ex");
	CHECK(world, !ibv_query_port(context, 1, &port), "query_port");
	CHECK(world, port.state == IBV_PORT_ACTIVE, "port state %d", port.state);
	CHECK(world, !ibv_query_gid(context, 1, 0, &gid), "query_gid");
	CHECK(world, ibv_query_port(context, (uint8_t)(2 + below(world, 100)), &port) == EINVAL,
		"another port");
}

/* A context with things in it that goes at once, and an imported one. */
static void reopen(struct world *world)
{
	struct opening *opening = &world->openings[some_opening(world)];
	struct ibv_context *context = ibv_open_device(opening->context->device);
	struct ibv_context *imported;
	struct ibv_pd *pd;
	struct ibv_mr *mr;

	MADE(world, context);
	pd = ibv_alloc_pd(context);
	MADE(world, pd);
	imported = ibv_import_device(dup(context->cmd_fd));
	MADE(world, imported);
	if (percent(world, 50)) {
		struct ibv_pd *second = ibv_import_pd(imported, pd->handle);

		MADE(world, second);
		mr = ibv_reg_mr(second, world->buffer, 16, 0);
		MADE(world, mr);
		CHECK(world, ibv_dealloc_pd(pd) == EBUSY, "used by an importer");
		CHECK(world, !ibv_dereg_mr(mr), "dereg_mr");
		ibv_unimport_pd(second);
	}
	CHECK(world, !ibv_close_device(imported), "close_device of the importer");
	if (percent(world, 50)) {
		CHECK(world, !ibv_dealloc_pd(pd), "dealloc_pd");
		CHECK(world, !ibv_close_device(context), "close_device");
	} else {
		CHECK(world, !ibv_close_device(context), "close_device of one in use");
		/* Only the structure is left. */
		free(pd);
	}
}

static void take_events(struct world *world)
{
	struct ibv_context *context = world->openings[some_opening(world)].context;
	struct ibv_async_event event;

	while (!ibv_get_async_event(context, &event)) {
		CHECK(world,
			event.event_type == IBV_EVENT_CQ_ERR ||
				event.event_type <= IBV_EVENT_WQ_FATAL,
			"event %d", event.event_type);
		ibv_ack_async_event(&event);
	}
	CHECK(world, errno == EAGAIN, "get_async_event");
}

const struct call calls_objects[] = {
	{"alloc_pd", 6, alloc_pd},
	{"alloc_td", 2, alloc_td},
	{"alloc_parent_domain", 4, alloc_parent_domain},
	{"reg_mr", 20, reg_mr},
	{"create_ah", 10, create_ah},
	{"create_channel", 3, create_channel},
	{"create_cq", 10, create_cq},
	{"create_qp", 20, create_qp},
	{"destroy", 80, destroy_some},
	{"destroy_base", 10, destroy_base},
	{"query_device", 3, query_device},
	{"reopen", 1, reopen},
	{"take_events", 5, take_events},
	{0},
};
