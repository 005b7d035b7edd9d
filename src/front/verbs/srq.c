/* SPDX-License-Identifier: BSD-2-Clause */
#include "front/verbs/srq.h"

#include "base/arith.h"
#include "front/verbs/cq.h"
#include "front/verbs/device.h"
#include "front/verbs/result.h"
#include "front/verbs/sge.h"
#include "front/verbs/strict.h"
#include "front/verbs/xrcd.h"

enum {
	COMP_MASK_KNOWN = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD |
		IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_TM,
	XRC_MASK = IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
	TM_MASK = IBV_SRQ_INIT_ATTR_TM | IBV_SRQ_INIT_ATTR_CQ,
	ATTR_MASK_KNOWN = IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT,
};

static void on_event(void *user, uint32_t events)
{
	struct srq_front *srq = user;

	if (events & SIGNAL_SRQ_LIMIT)
		async_event_post(context_of(srq->verbs.context), &srq->limit);
}

static int depth_check(uint32_t depth)
{
	uint32_t highest = (uint32_t)device_limits.max_srq_wr;

	if (depth < 1)
		return result_cause_limit(REASON_SRQ_SIZE, depth, highest);
	return strict_refuse_beyond(REASON_SRQ_SIZE, "max_wr", depth, highest);
}

static enum ibv_srq_type type_of(const struct ibv_srq_init_attr_ex *init)
{
	return init->comp_mask & IBV_SRQ_INIT_ATTR_TYPE ? init->srq_type : IBV_SRQT_BASIC;
}

static bool are_tags_allowed(const struct ibv_srq_init_attr_ex *init)
{
	const struct ibv_tm_cap *cap = &init->tm_cap;

	return (init->comp_mask & TM_MASK) == TM_MASK && cap->max_num_tags >= 1 &&
		cap->max_num_tags <= TAGS_COUNT_MAX && cap->max_ops <= SRQ_TAG_OPS_MAX;
}

/* Check that the type is known and has all its attributes. */
static int srq_init_check(const struct ibv_srq_init_attr_ex *init)
{
	int error;

	if (init->comp_mask & ~(uint32_t)COMP_MASK_KNOWN)
		return result_cause(REASON_UNKNOWN_BITS);
	if (type_of(init) > IBV_SRQT_TM)
		return result_cause(REASON_SRQ_TYPE);
	if (!(init->comp_mask & IBV_SRQ_INIT_ATTR_PD) || !init->pd)
		return result_cause(REASON_ATTR_MISSING);
	if (type_of(init) == IBV_SRQT_XRC && (init->comp_mask & XRC_MASK) != XRC_MASK)
		return result_cause(REASON_SRQ_XRC);
	if (type_of(init) == IBV_SRQT_TM && !are_tags_allowed(init))
		return result_cause(REASON_SRQ_TAGS);
	error = depth_check(init->attr.max_wr);
	return error ? error
		     : strict_refuse_beyond(REASON_SRQ_SIZE, "max_sge", init->attr.max_sge,
				(uint32_t)device_limits.max_srq_sge);
}

static void srq_prepare(
	struct srq_front *srq, struct ibv_context *context, const struct ibv_srq_init_attr_ex *init)
{
	srq->verbs = (struct ibv_srq){
		.context = context,
		.srq_context = init->srq_context,
		.pd = init->pd,
	};
	pthread_mutex_init(&srq->verbs.mutex, NULL);
	pthread_cond_init(&srq->verbs.cond, NULL);
	async_event_init(&srq->limit, IBV_EVENT_SRQ_LIMIT_REACHED, &srq->verbs);
}

/* Reference the objects that the queue is built on. */
static int srq_refer(struct srq_front *srq, const struct ibv_srq_init_attr_ex *init)
{
	struct context *context = context_of(srq->verbs.context);

	srq->pd = pd_ref(init->pd);
	if (type_of(init) == IBV_SRQT_BASIC)
		return srq->pd ? 0 : result_cause(REASON_NO_PARENT);
	if (type_of(init) == IBV_SRQT_XRC)
		srq->xrcd = xrcd_ref(init->xrcd, context);
	srq->cq = init->cq ? object_ref(init->cq->handle, OBJECT_CQ, context) : NULL;
	return srq->pd && srq->cq && (srq->xrcd || type_of(init) == IBV_SRQT_TM)
		? 0
		: result_cause(REASON_NO_PARENT);
}

/* Create the shared receive queue of the NIC. */
static int srq_make(struct srq_front *srq, const struct ibv_srq_init_attr_ex *init)
{
	struct nic_srq_init nic_init = {
		.pd = pd_number(srq->pd),
		.ifindex = context_of(srq->verbs.context)->device->ifindex,
		.depth = strict_depth(init->attr.max_wr, (uint32_t)device_limits.max_srq_wr),
		.sge_count_max = init->attr.max_sge,
		.on_event = on_event,
		.user = srq,
	};

	size_t ring_bytes = strict_rq_bytes(nic_init.depth, nic_init.sge_count_max);
	int error = strict_pin(NULL, ring_bytes);

	if (error)
		return error;
	srq->pinned_bytes = ring_bytes;
	if (srq->xrcd)
		nic_init.xrcd = nic_xrcd_of(srq->xrcd);
	if (srq->cq)
		nic_init.cq = container_of(srq->cq, struct cq_front, object)->nic;
	if (type_of(init) == IBV_SRQT_TM) {
		nic_init.tag_count = init->tm_cap.max_num_tags;
		srq->has_tags = true;
	}
	return result_as(-nic_srq_create(&nic_init, &srq->nic), REASON_FORKED);
}

struct ibv_srq *srq_create_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *init)
{
	struct context *front = context_of(context);
	struct srq_front *srq;
	struct object object;
	int error = strict_refuse_lack(STRICT_HAS_SRQ);

	if (!error)
		error = srq_init_check(init);
	if (!error && type_of(init) == IBV_SRQT_XRC)
		error = strict_refuse_lack(STRICT_HAS_XRC);
	if (!error && type_of(init) == IBV_SRQT_TM)
		error = strict_refuse_lack(STRICT_HAS_TAG_MATCHING);

	if (!error && device_is_iwarp(front->device) && type_of(init) != IBV_SRQT_BASIC)
		error = result_cause(REASON_NOT_ON_IWARP);
	if (error)
		return result_null("ibv_create_srq", error);
	srq = domain_alloc(init->pd, DOMAIN_SRQ, sizeof(*srq), &object);
	if (!srq)
		return result_null("ibv_create_srq", result_cause(REASON_NO_MEMORY));
	srq->object = object;
	srq_prepare(srq, context, init);
	error = srq_refer(srq, init);
	if (!error)
		error = srq_make(srq, init);
	return object_publish(&srq->object, OBJECT_SRQ, front, &srq->verbs.handle, error)
		? &srq->verbs
		: NULL;
}

struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *init)
{
	struct ibv_srq_init_attr_ex extended = {
		.srq_context = init->srq_context,
		.attr = init->attr,
		.comp_mask = IBV_SRQ_INIT_ATTR_PD,
		.pd = pd,
	};

	return srq_create_ex(pd->context, &extended);
}

int ibv_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int attr_mask)
{
	struct object *object;
	int error;

	if (attr_mask & ~ATTR_MASK_KNOWN)
		return result_of("ibv_modify_srq", result_cause(REASON_UNKNOWN_BITS));
	error = attr_mask & IBV_SRQ_MAX_WR ? depth_check(attr->max_wr) : 0;
	if (!error && (attr_mask & IBV_SRQ_MAX_WR) && !strict_has(STRICT_HAS_SRQ_RESIZE))
		error = strict_refuse_as(STRICT_HAS_SRQ_RESIZE, REASON_SRQ_CHANGE);
	if (error)
		return result_of("ibv_modify_srq", error);
	object = srq_ref(srq);
	if (!object)
		return result_of("ibv_modify_srq", result_cause(REASON_NO_OBJECT));
	error = result_as(-nic_srq_modify(nic_srq_of(object),
				  attr_mask & IBV_SRQ_MAX_WR ? &attr->max_wr : NULL,
				  attr_mask & IBV_SRQ_LIMIT ? &attr->srq_limit : NULL),
		REASON_SRQ_CHANGE);
	object_unref(object);
	return result_of("ibv_modify_srq", error);
}

int ibv_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr)
{
	struct object *object = srq_ref(srq);
	struct nic_srq_attr nic_attr;

	if (!object)
		return result_of("ibv_query_srq", result_cause(REASON_NO_OBJECT));
	nic_srq_query(nic_srq_of(object), &nic_attr);
	*attr = (struct ibv_srq_attr){
		.max_wr = nic_attr.depth,
		.max_sge = nic_attr.sge_count_max,
		.srq_limit = nic_attr.limit,
	};
	object_unref(object);
	return 0;
}

int srq_get_number(struct ibv_srq *srq, uint32_t *srq_num)
{
	struct object *object = srq_ref(srq);

	if (!object)
		return result_of("ibv_get_srq_num", result_cause(REASON_NO_OBJECT));
	*srq_num = nic_srq_number(nic_srq_of(object));
	object_unref(object);
	return 0;
}

void *srq_release(struct object *object)
{
	struct srq_front *srq = container_of(object, struct srq_front, object);

	if (srq->nic)
		nic_srq_destroy(srq->nic);
	strict_unpin(NULL, srq->pinned_bytes);
	event_queue_forget(&context_of(srq->verbs.context)->async, &srq->limit.event);
	object_unref(srq->pd);
	object_unref(srq->xrcd);
	object_unref(srq->cq);
	return srq;
}

void srq_free(void *memory)
{
	struct srq_front *srq = memory;

	events_wait(&srq->verbs.mutex, &srq->verbs.cond, &srq->verbs.events_completed,
		srq->limit.event.taken);
	pthread_mutex_destroy(&srq->verbs.mutex);
	pthread_cond_destroy(&srq->verbs.cond);
	domain_free(&srq->object, DOMAIN_SRQ, srq);
}

int ibv_destroy_srq(struct ibv_srq *srq)
{
	return result_of("ibv_destroy_srq", object_destroy(srq->handle, OBJECT_SRQ, srq->context));
}

/* --- tag matching --- */

static struct tag_wr tag_wr_from_verbs(const struct ibv_ops_wr *wr)
{
	return (struct tag_wr){
		.wr_id = wr->wr_id,
		.operation = wr->opcode,
		.is_signaled = (wr->flags & IBV_OPS_SIGNALED) != 0,
		.has_count = (wr->flags & IBV_OPS_TM_SYNC) != 0,
		.unexpected_count = wr->tm.unexpected_cnt,
		.handle = wr->tm.handle,
		.recv_wr_id = wr->tm.add.recv_wr_id,
		.tag = wr->tm.add.tag,
		.mask = wr->tm.add.mask,
		.sge = sge_list(wr->tm.add.sg_list),
		.sge_count = sge_count(wr->tm.add.sg_list, wr->tm.add.num_sge),
	};
}

int srq_post_ops_verbs(struct ibv_srq *srq, struct ibv_ops_wr *wr, struct ibv_ops_wr **bad_wr)
{
	for (; wr; wr = wr->next) {
		struct tag_wr tag_wr = tag_wr_from_verbs(wr);
		int error = srq_of(srq)->has_tags
			? result_as(-nic_srq_post_tag(srq_of(srq)->nic, &tag_wr), REASON_POST_TAGS)
			: result_cause(REASON_POST_TAGS);

		if (error) {
			*bad_wr = wr;
			return result_of_post("ibv_post_srq_ops", error);
		}
		if (wr->opcode == IBV_WR_TAG_ADD)
			wr->tm.handle = tag_wr.handle;
	}
	return 0;
}
