/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Creating, changing, querying and destroying objects, with right arguments. The model has the
 * expected results.
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

static void create_ah(struct world *world)
{
	struct item *pd = item_pick(world, KIND_PD);
	struct ibv_ah_attr attr;
	struct ibv_ah *ah;

	if (!pd || !world_has_room(world))
		return;
	attr = world_address(world, pd->opening);
	if (percent(world, 20))
		attr.static_rate = (uint8_t)below(world, 12);
	ah = ibv_create_ah(pd->verbs, &attr);
	if (!ah && attr.static_rate) {
		CHECK(world, errno == EINVAL, "%d", errno); /* a code that is none */
		return;
	}
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

static struct ibv_cq *make_cq_ex(
	struct world *world, struct item *channel, struct item *pd, unsigned opening, uint32_t cqe)
{
	struct ibv_cq_init_attr_ex init = {
		.cqe = cqe,
		.channel = channel ? channel->verbs : NULL,
		.wc_flags = IBV_WC_STANDARD_FLAGS,
	};

	if (percent(world, 50))
		init.wc_flags |= IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
			IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
	if (percent(world, 50)) {
		init.comp_mask |= IBV_CQ_INIT_ATTR_MASK_FLAGS;
		init.flags = below(world, 4);
	}
	if (pd) {
		init.comp_mask |= IBV_CQ_INIT_ATTR_MASK_PD;
		init.parent_domain = pd->verbs;
	}
	return ibv_cq_ex_to_cq(ibv_create_cq_ex(world->openings[opening].context, &init));
}

static void create_cq(struct world *world)
{
	unsigned opening = some_opening(world);
	struct ibv_context *context = world->openings[opening].context;
	struct item *channel = item_pick_of(world, KIND_CHANNEL, opening);
	struct item *pd = item_pick_of(world, KIND_PD, opening);
	uint32_t cqe = 1 + below(world, 2 * QUEUE_DEPTH_MAX);
	bool is_extended = percent(world, 50);
	struct ibv_cq *cq;

	if (!world_has_room(world))
		return;
	if (percent(world, 50))
		channel = NULL;
	/* Only a parent domain has allocators for it. */
	if (!is_extended || (pd && !pd->base))
		pd = NULL;
	if (is_extended)
		cq = make_cq_ex(world, channel, pd, opening, cqe);
	else
		cq = ibv_create_cq(context, (int)cqe, NULL, channel ? channel->verbs : NULL,
			(int)below(world, (uint32_t)context->num_comp_vectors));
	MADE(world, cq);
	CHECK(world, cq->cqe >= (int)cqe, "%d of %u", cq->cqe, cqe);
	item_add(world, KIND_CQ, cq, opening,
		(struct item *[]){channel ? channel : pd, channel ? pd : NULL, NULL})
		->is_extended = is_extended;
}

static void change_cq(struct world *world)
{
	struct item *cq = item_pick(world, KIND_CQ);
	struct ibv_modify_cq_attr attr = {
		.attr_mask = IBV_CQ_ATTR_MODERATE,
		.moderate = {(uint16_t)below(world, 10), (uint16_t)below(world, 1000)},
	};
	int error;

	if (!cq)
		return;
	if (percent(world, 50)) {
		error = ibv_modify_cq(cq->verbs, &attr);
		CHECK(world, !error, "moderation: %d", error);
		return;
	}
	error = ibv_resize_cq(cq->verbs, 1 + (int)below(world, 2 * QUEUE_DEPTH_MAX));
	CHECK(world, !error || error == EINVAL, "resize: %d", error);
}

static int destroy(struct item *item)
{
	switch (item->kind) {
	case KIND_PD:
		return ibv_dealloc_pd(item->verbs);
	case KIND_DM:
		return ibv_free_dm(item->verbs);
	case KIND_MR:
		return ibv_dereg_mr(item->verbs);
	case KIND_MW:
		return ibv_dealloc_mw(item->verbs);
	case KIND_CQ:
		return ibv_destroy_cq(item->verbs);
	case KIND_SRQ:
		return ibv_destroy_srq(item->verbs);
	case KIND_WQ:
		return ibv_destroy_wq(item->verbs);
	case KIND_WQ_TABLE:
		return ibv_destroy_rwq_ind_table(item->verbs);
	case KIND_QP:
		return ibv_destroy_qp(item->verbs);
	case KIND_FLOW:
		return ibv_destroy_flow(item->verbs);
	case KIND_AH:
		return ibv_destroy_ah(item->verbs);
	case KIND_CHANNEL:
		return ibv_destroy_comp_channel(item->verbs);
	case KIND_TD:
		return ibv_dealloc_td(item->verbs);
	case KIND_XRCD:
		return ibv_close_xrcd(item->verbs);
	case KIND_COUNTERS:
		return ibv_destroy_counters(item->verbs);
	case KIND_COUNT:
		break;
	}
	abort();
}

void item_destroy(struct world *world, struct item *item)
{
	struct corpse corpse = corpse_of(item);
	bool is_used = item->users != 0;
	int error = destroy(item);

	/*
	 * The model does not know whether a bind was executed, nor whether the window was
	 * invalidated since.
	 */
	if (error == EBUSY && item->kind == KIND_MR && item->mr.may_be_bound)
		return;
	CHECK(world, error == (is_used ? EBUSY : 0), "kind %d with %u users: %d", item->kind,
		item->users, error);
	if (!error)
		item_drop(world, item, &corpse);
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
	static const enum kind kinds[] = {KIND_PD, KIND_CQ, KIND_CHANNEL, KIND_TD, KIND_DM,
		KIND_SRQ, KIND_WQ, KIND_WQ_TABLE, KIND_QP, KIND_XRCD, KIND_COUNTERS};
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
	{"create_ah", 10, create_ah},
	{"create_channel", 3, create_channel},
	{"create_cq", 10, create_cq},
	{"change_cq", 5, change_cq},
	{"destroy", 80, destroy_some},
	{"destroy_base", 10, destroy_base},
	{"query_device", 3, query_device},
	{"reopen", 1, reopen},
	{"take_events", 5, take_events},
	{0},
};
