/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Control calls with a wrong handle: a random number, or the handle of a destroyed object, of an
 * object of another kind, or of another opening. All are refused with ENOENT and change nothing.
 *
 * The calls get a copy of a public structure; the program's pointer itself is never wrong, because
 * reading it would be.
 */
#include "world.h"

/* One whose opening is that of the structure in question. */
static struct item *pd_of(struct world *world, const struct ibv_context *context)
{
	for (unsigned i = 0; i < OPENINGS; i++)
		if (world->openings[i].context == context)
			return item_pick_of(world, KIND_PD, i);
	return NULL;
}

static int wrong_pd(struct world *world, struct ibv_pd *pd)
{
	struct ibv_ah_attr address = world_address(world, 0);
	struct ibv_parent_domain_init_attr parent = {.pd = pd};
	struct ibv_srq_init_attr srq = {.attr = {1, 1, 0}};

	errno = 0;
	switch (below(world, 6)) {
	case 0:
		return ibv_dealloc_pd(pd);
	case 4:
		return ibv_alloc_mw(pd, IBV_MW_TYPE_1) ? 0 : errno;
	case 5:
		return ibv_create_srq(pd, &srq) ? 0 : errno;
	case 1:
		return ibv_reg_mr_iova2(pd, world->buffer, 8, 0, 0) ? 0 : errno;
	case 2:
		return ibv_create_ah(pd, &address) ? 0 : errno;
	default:
		return ibv_alloc_parent_domain(pd->context, &parent) ? 0 : errno;
	}
}

static int wrong_mr(struct world *world, struct ibv_mr *mr)
{
	struct item *pd = pd_of(world, mr->context);

	errno = 0;
	switch (below(world, 3)) {
	case 0:
		return ibv_dereg_mr(mr);
	case 1:
		return ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0) ? errno : 0;
	default:
		return pd && ibv_import_mr(pd->verbs, mr->handle) ? 0 : ENOENT;
	}
}

static int wrong_mw(struct world *world, struct ibv_mw *mw)
{
	(void)world;
	return ibv_dealloc_mw(mw);
}

static int wrong_dm(struct world *world, struct ibv_dm *dm)
{
	struct item *pd = pd_of(world, dm->context);

	errno = 0;
	switch (below(world, 3)) {
	case 0:
		return ibv_free_dm(dm);
	case 1:
		return ibv_memcpy_from_dm(world->buffer, dm, 0, 16);
	default:
		return pd && ibv_reg_dm_mr(pd->verbs, dm, 0, 16, IBV_ACCESS_ZERO_BASED) ? 0
											: ENOENT;
	}
}

static int wrong_cq(struct world *world, struct ibv_cq *cq)
{
	struct ibv_modify_cq_attr moderation = {.attr_mask = IBV_CQ_ATTR_MODERATE};
	struct ibv_qp_init_attr init = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = {1, 1, 1, 1, 0},
		.qp_type = IBV_QPT_RC,
	};
	struct item *pd = pd_of(world, cq->context);

	errno = 0;
	switch (below(world, 4)) {
	case 0:
		return ibv_destroy_cq(cq);
	case 1:
		return ibv_resize_cq(cq, 5);
	case 2:
		return ibv_modify_cq(cq, &moderation);
	default:
		return pd && ibv_create_qp(pd->verbs, &init) ? 0 : ENOENT;
	}
}

static int wrong_srq(struct world *world, struct ibv_srq *srq)
{
	struct ibv_srq_attr attr = {.max_wr = 1};
	uint32_t number;

	switch (below(world, 4)) {
	case 0:
		return ibv_destroy_srq(srq);
	case 1:
		return ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT);
	case 2:
		return ibv_get_srq_num(srq, &number);
	default:
		return ibv_query_srq(srq, &attr);
	}
}

static int wrong_wq(struct world *world, struct ibv_wq *wq)
{
	struct ibv_wq_attr attr = {.attr_mask = IBV_WQ_ATTR_STATE, .wq_state = IBV_WQS_RESET};
	struct ibv_rwq_ind_table_init_attr table = {.ind_tbl = &wq};

	errno = 0;
	switch (below(world, 3)) {
	case 0:
		return ibv_destroy_wq(wq);
	case 1:
		return ibv_modify_wq(wq, &attr);
	default:
		return ibv_create_rwq_ind_table(wq->context, &table) ? 0 : errno;
	}
}

static int wrong_qp(struct world *world, struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};
	struct ibv_qp_init_attr init;
	struct ibv_flow_attr flow = {
		.type = IBV_FLOW_ATTR_ALL_DEFAULT, .size = sizeof(flow), .port = 1};
	union ibv_gid gid = {.raw = {0xff, 0x0e, [15] = 1}};

	errno = 0;
	switch (below(world, 5)) {
	case 0:
		return ibv_destroy_qp(qp);
	case 1:
		return ibv_modify_qp(qp, &attr, IBV_QP_STATE);
	case 2:
		return ibv_attach_mcast(qp, &gid, 0);
	case 3:
		return ibv_create_flow(qp, &flow) ? 0 : errno;
	default:
		return ibv_query_qp(qp, &attr, IBV_QP_STATE, &init);
	}
}

static int wrong_ah(struct world *world, struct ibv_ah *ah)
{
	(void)world;
	return ibv_destroy_ah(ah);
}

static int wrong_call(struct world *world, enum kind kind, void *verbs)
{
	switch ((int)kind) {
	case KIND_PD:
		return wrong_pd(world, verbs);
	case KIND_MR:
		return wrong_mr(world, verbs);
	case KIND_DM:
		return wrong_dm(world, verbs);
	case KIND_MW:
		return wrong_mw(world, verbs);
	case KIND_CQ:
		return wrong_cq(world, verbs);
	case KIND_SRQ:
		return wrong_srq(world, verbs);
	case KIND_WQ:
		return wrong_wq(world, verbs);
	case KIND_WQ_TABLE:
		return ibv_destroy_rwq_ind_table(verbs);
	case KIND_FLOW:
		return ibv_destroy_flow(verbs);
	case KIND_QP:
		return wrong_qp(world, verbs);
	case KIND_AH:
		return wrong_ah(world, verbs);
	}
	abort();
}

static void expect_refused(struct world *world, enum kind kind, void *verbs, const char *what)
{
	uint32_t handle = *handle_of(kind, verbs);
	int error = wrong_call(world, kind, verbs);

	CHECK(world, error == ENOENT, "%s 0x%x, kind %d: %d", what, handle, kind, error);
}

static struct item *some_item(struct world *world)
{
	return item_pick(world, (enum kind)below(world, KIND_WITH_HANDLE_COUNT));
}

/* Is there an object of this kind with this handle, seen through this opening? */
static bool is_alive(struct world *world, enum kind kind, uint32_t handle, unsigned opening)
{
	for (unsigned i = 0; i < ITEMS_MAX; i++) {
		struct item *item = &world->items[i];

		if (item->verbs && item->kind == kind && item->opening == opening &&
			*handle_of(kind, item->verbs) == handle)
			return true;
	}
	return false;
}

static void garbled_handle(struct world *world)
{
	struct item *item = some_item(world);
	struct corpse copy;
	uint32_t *handle;

	if (!item)
		return;
	memcpy(&copy.verbs, item->verbs, kind_bytes(item->kind));
	handle = handle_of(item->kind, &copy.verbs);
	if (percent(world, 50))
		*handle ^= 1u << below(world, 32);
	else
		*handle = (uint32_t)sim_random_next(&world->random);
	if (!is_alive(world, item->kind, *handle, item->opening))
		expect_refused(world, item->kind, &copy.verbs, "garbled");
}

static void handle_of_another_kind(struct world *world)
{
	struct item *item = some_item(world);
	struct item *other = some_item(world);
	struct corpse copy;

	if (!item || !other || item->kind == other->kind)
		return;
	memcpy(&copy.verbs, item->verbs, kind_bytes(item->kind));
	*handle_of(item->kind, &copy.verbs) = *handle_of(other->kind, other->verbs);
	expect_refused(world, item->kind, &copy.verbs, "of another kind");
}

/* Of another opening of the same device, or of another device. */
static void handle_of_another_opening(struct world *world)
{
	struct item *item = some_item(world);
	struct item *other = item ? item_pick(world, item->kind) : NULL;
	struct corpse copy;

	if (!item || item->opening == other->opening)
		return;
	memcpy(&copy.verbs, item->verbs, kind_bytes(item->kind));
	*handle_of(item->kind, &copy.verbs) = *handle_of(other->kind, other->verbs);
	expect_refused(world, item->kind, &copy.verbs, "of another opening");
}

static void use_after_destroy(struct world *world)
{
	struct corpse *corpse = corpse_pick(world);

	if (corpse)
		expect_refused(world, corpse->kind, &corpse->verbs, "destroyed");
}

const struct call calls_wrong[] = {
	{"garbled_handle", 20, garbled_handle},
	{"handle_of_another_kind", 10, handle_of_another_kind},
	{"handle_of_another_opening", 10, handle_of_another_opening},
	{"use_after_destroy", 20, use_after_destroy},
	{0},
};
