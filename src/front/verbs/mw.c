/* SPDX-License-Identifier: BSD-2-Clause */
#include "front/verbs/mw.h"

#include <stdlib.h>

#include "base/arith.h"
#include "front/verbs/pd.h"
#include "front/verbs/qp.h"
#include "front/verbs/result.h"
#include "front/verbs/strict.h"

/*
 * Flags that a window may have. Only regions have the right of local write. But programs pass that
 * flag for windows, too, and adapters accept it.
 */
#define ACCESS_WINDOW                                                                \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
		IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_ZERO_BASED | MR_FLUSH_GLOBAL)
#define KEY_TAG 0xffu /* the bits of a key that the program chooses (IBTA 10.6.7.2.1) */

struct mw {
	struct ibv_mw verbs;
	struct object object;
	struct object *pd;
	bool has_key;
};

/* Do what mw_bind_2_from_verbs() does, for windows of both types. */
static bool bind_from_verbs(struct send_wr *wr, const struct ibv_mw *mw, uint32_t rkey,
	const struct ibv_mw_bind_info *info)
{
	if (info->mw_access_flags & ~(unsigned int)ACCESS_WINDOW || (info->length && !info->mr))
		return false;
	wr->rkey = (mw->rkey & ~KEY_TAG) | (rkey & KEY_TAG);
	wr->remote_address = info->addr;
	wr->bind = (struct wr_bind){
		.bytes = info->length,
		.region_key = info->mr ? info->mr->lkey : 0,
		.access = info->mw_access_flags,
	};
	return true;
}

bool mw_bind_2_from_verbs(struct send_wr *wr, const struct ibv_mw *mw, uint32_t rkey,
	const struct ibv_mw_bind_info *info)
{
	return mw && info && mw->type == IBV_MW_TYPE_2 && bind_from_verbs(wr, mw, rkey, info);
}

struct ibv_mw *mw_alloc(struct ibv_pd *pd, enum ibv_mw_type type)
{
	enum mr_kind kind = type == IBV_MW_TYPE_1 ? MR_KIND_WINDOW_1 : MR_KIND_WINDOW_2;
	struct mw *mw;
	int error;

	if (type != IBV_MW_TYPE_1 && type != IBV_MW_TYPE_2)
		return result_null("ibv_alloc_mw", result_cause(REASON_MW_TYPE));
	error = strict_refuse_lack(
		type == IBV_MW_TYPE_2 ? STRICT_HAS_WINDOWS_2 : STRICT_HAS_WINDOWS);
	if (error)
		return result_null("ibv_alloc_mw", error);
	mw = calloc(1, sizeof(*mw));
	if (!mw)
		return result_null("ibv_alloc_mw", result_cause(REASON_NO_MEMORY));
	mw->verbs = (struct ibv_mw){.context = pd->context, .pd = pd, .type = type};
	mw->pd = pd_ref(pd);
	error = mw->pd ? -nic_mw_create(pd_number(mw->pd), kind, &mw->verbs.rkey)
		       : result_cause(REASON_NO_PARENT);
	mw->has_key = !error;
	return object_publish(
		       &mw->object, OBJECT_MW, context_of(pd->context), &mw->verbs.handle, error)
		? &mw->verbs
		: NULL;
}

void *mw_release_front(struct object *object)
{
	struct mw *mw = container_of(object, struct mw, object);

	if (mw->has_key)
		nic_mw_destroy(mw->verbs.rkey, pd_number(mw->pd));
	object_unref(mw->pd);
	return mw;
}

int mw_dealloc(struct ibv_mw *mw)
{
	return result_of("ibv_dealloc_mw", object_destroy(mw->handle, OBJECT_MW, mw->context));
}

/*
 * Do the work of ibv_bind_mw(), for windows of type 1: post the bind request, and choose the key.
 */
int mw_bind_verbs(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
	struct qp_front *front = qp_of(qp);
	struct send_wr wr = {
		.wr_id = bind->wr_id,
		.opcode = WR_BIND_MW,
		.flags = bind->send_flags,
	};
	uint32_t rkey = ibv_inc_rkey(mw->rkey);
	uint32_t posted;
	int error;

	if (!bind_from_verbs(&wr, mw, rkey, &bind->bind_info))
		return result_of_post("ibv_bind_mw", result_cause(REASON_POST_BIND));
	if (front->has_builder)
		wr_builder_lock(&front->builder);
	error = -nic_qp_post_send(front->nic, &wr, 1, &posted);
	if (front->has_builder)
		wr_builder_unlock(&front->builder);
	if (!error)
		mw->rkey = rkey;
	else
		nic_qp_explain_send(front->nic, &wr);
	return error ? result_of_post("ibv_bind_mw", error) : 0;
}
