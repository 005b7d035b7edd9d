/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Regions in their forms, windows, device memory.
 */
#include "world.h"

enum {
	ACCESS_ALL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
		IBV_ACCESS_REMOTE_ATOMIC,
	ACCESS_REMOTE_CHANGES = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC,
	DM_BYTES = 4096,
};

static int some_access(struct world *world)
{
	return percent(world, 70) ? ACCESS_ALL | IBV_ACCESS_MW_BIND
				  : (int)below(world, ACCESS_ALL + 1);
}

static bool is_contradiction(int access)
{
	return (access & ACCESS_REMOTE_CHANGES) && !(access & IBV_ACCESS_LOCAL_WRITE);
}

static struct item *add_mr(
	struct world *world, struct ibv_mr *mr, struct item *pd, struct item *dm, uint32_t length)
{
	struct item *item =
		item_add(world, KIND_MR, mr, pd->opening, (struct item *[]){base_of(pd), dm, NULL});

	item->mr.length = length;
	item->mr.is_of_dm = dm != NULL;
	return item;
}

static void reg_mr(struct world *world)
{
	struct item *pd = item_pick(world, KIND_PD);
	int access = some_access(world);
	uint32_t offset = below(world, BUFFER_BYTES);
	uint32_t length = 1 + below(world, BUFFER_BYTES - offset);
	uint64_t iova = percent(world, 80) ? (uintptr_t)world->buffer + offset
					   : sim_random_next(&world->random) >> 1;
	struct ibv_mr *mr;

	if (!pd || !world_has_room(world))
		return;
	if (percent(world, 10))
		access |= IBV_ACCESS_ON_DEMAND;
	mr = ibv_reg_mr_iova2(pd->verbs, world->buffer + offset, length, iova, (unsigned)access);
	if (is_contradiction(access)) {
		CHECK(world, !mr && errno == EINVAL, "access 0x%x", access);
		return;
	}
	CHECK(world, mr, "access 0x%x: %s", access, strerror(errno));
	add_mr(world, mr, pd, NULL, length);
}

static void rereg_mr(struct world *world)
{
	struct item *mr = item_pick(world, KIND_MR);
	struct item *pd = mr ? item_pick_of(world, KIND_PD, mr->opening) : NULL;
	int flags = 1 + (int)below(world, 7);
	int access = flags & IBV_REREG_MR_CHANGE_ACCESS ? some_access(world) : 0;
	uint32_t offset = below(world, BUFFER_BYTES);
	uint32_t length = 1 + below(world, BUFFER_BYTES - offset);
	int error;

	if (!mr || !pd)
		return;
	error = ibv_rereg_mr(mr->verbs, flags, pd->verbs, world->buffer + offset, length, access);
	if (is_contradiction(access) || mr->mr.is_of_dm) {
		CHECK(world, error, "flags %d, access 0x%x", flags, access);
		return;
	}
	/*
	 * The change of a region with bound windows is refused. The model does not know whether any
	 * are bound.
	 */
	if (error && mr->mr.may_be_bound)
		return;
	CHECK(world, !error, "flags %d, access 0x%x: %d", flags, access, error);
	if (flags & IBV_REREG_MR_CHANGE_TRANSLATION)
		mr->mr.length = length;
	if (flags & IBV_REREG_MR_CHANGE_PD) {
		mr->parents[0]->users--;
		mr->parents[0] = base_of(pd);
		mr->parents[0]->users++;
	}
}

static void import_mr(struct world *world)
{
	struct item *mr = item_pick(world, KIND_MR);
	struct item *pd = mr ? item_pick_of(world, KIND_PD, mr->opening) : NULL;
	struct ibv_mr *imported;

	if (!pd)
		return;
	imported = ibv_import_mr(pd->verbs, ((struct ibv_mr *)mr->verbs)->handle);
	CHECK(world, imported, "%s", strerror(errno));
	CHECK(world, imported->lkey == ((struct ibv_mr *)mr->verbs)->lkey, "another key");
	ibv_unimport_mr(imported);
}

static void alloc_null_mr(struct world *world)
{
	struct item *pd = item_pick(world, KIND_PD);
	struct ibv_mr *mr;

	if (!pd || !world_has_room(world))
		return;
	mr = ibv_alloc_null_mr(pd->verbs);
	CHECK(world, mr, "%s", strerror(errno));
	/* No rereg, like device memory. */
	add_mr(world, mr, pd, NULL, 4096)->mr.is_of_dm = true;
}

static void advise_mr(struct world *world)
{
	struct item *pd = item_pick(world, KIND_PD);
	struct ibv_sge sge;

	if (!pd)
		return;
	sge = world_sge(world, pd->opening);
	ibv_advise_mr(
		pd->verbs, (enum ibv_advise_mr_advice)below(world, 4), below(world, 2), &sge, 1);
}

static void alloc_mw(struct world *world)
{
	struct item *pd = item_pick(world, KIND_PD);
	enum ibv_mw_type type = percent(world, 50) ? IBV_MW_TYPE_1 : IBV_MW_TYPE_2;
	struct ibv_mw *mw;

	if (!pd || !world_has_room(world))
		return;
	mw = ibv_alloc_mw(pd->verbs, type);
	CHECK(world, mw, "%s", strerror(errno));
	item_add(world, KIND_MW, mw, pd->opening, (struct item *[]){base_of(pd), NULL});
}

static void alloc_dm(struct world *world)
{
	unsigned opening = below(world, OPENINGS);
	struct ibv_alloc_dm_attr attr = {.length = DM_BYTES, .log_align_req = below(world, 8)};
	struct ibv_dm *dm;

	if (!world_has_room(world))
		return;
	dm = ibv_alloc_dm(world->openings[opening].context, &attr);
	/* All threads share what there is. */
	if (!dm && errno == ENOMEM)
		return;
	CHECK(world, dm, "%s", strerror(errno));
	item_add(world, KIND_DM, dm, opening, NULL);
}

static void reg_dm_mr(struct world *world)
{
	struct item *dm = item_pick(world, KIND_DM);
	struct item *pd = dm ? item_pick_of(world, KIND_PD, dm->opening) : NULL;
	struct ibv_mr *mr;

	if (!pd || !world_has_room(world))
		return;
	mr = ibv_reg_dm_mr(pd->verbs, dm->verbs, 0, DM_BYTES, ACCESS_ALL | IBV_ACCESS_ZERO_BASED);
	CHECK(world, mr, "%s", strerror(errno));
	add_mr(world, mr, pd, dm, DM_BYTES);
}

static void copy_dm(struct world *world)
{
	struct item *dm = item_pick(world, KIND_DM);
	uint32_t offset = below(world, 2 * DM_BYTES);
	uint32_t length = below(world, 512);
	bool fits = offset % 4 == 0 && length % 4 == 0 && offset + length <= DM_BYTES;
	struct ibv_dm *imported;
	int error;

	if (!dm)
		return;
	error = percent(world, 50) ? ibv_memcpy_to_dm(dm->verbs, offset, world->buffer, length)
				   : ibv_memcpy_from_dm(world->buffer, dm->verbs, offset, length);
	CHECK(world, !error == fits, "%u bytes at %u: %d", length, offset, error);
	imported = ibv_import_dm(
		world->openings[dm->opening].context, ((struct ibv_dm *)dm->verbs)->handle);
	CHECK(world, imported, "%s", strerror(errno));
	ibv_unimport_dm(imported);
}

const struct call calls_memory[] = {
	{"reg_mr", 20, reg_mr},
	{"rereg_mr", 10, rereg_mr},
	{"import_mr", 3, import_mr},
	{"alloc_null_mr", 3, alloc_null_mr},
	{"advise_mr", 5, advise_mr},
	{"alloc_mw", 8, alloc_mw},
	{"alloc_dm", 5, alloc_dm},
	{"reg_dm_mr", 5, reg_dm_mr},
	{"copy_dm", 5, copy_dm},
	{0},
};
