/* SPDX-License-Identifier: BSD-2-Clause */
/* The calls of libibverbs that programs make by name. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>

#include "check/check.h"
#include "check/hook/hook.h"
#include "check/model/request.h"
#include "check/model/watch.h"
#include "check/report.h"
#include "check/site.h"

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

/* A wait for an event is reported after this time, if the program has requested no event. */
enum { EVENT_WAIT_MS = 2000 };

static uint32_t context_count;

void context_hook(struct ibv_context *context, uint32_t site)
{
	struct verbs_context *verbs = verbs_get_ctx(context);
	struct context_record *record = calloc(1, sizeof(*record));

	if (!record)
		return;
	record->context = context;
	record->ops = context->ops;
	pthread_mutex_lock(&check_lock);
	record->number = context_count++;
	pthread_mutex_unlock(&check_lock);
	if (!object_add(OBJECT_DEVICE, context, record, site))
		return;
	context->ops.post_send = hook_post_send;
	context->ops.post_recv = hook_post_receive;
	context->ops.post_srq_recv = hook_post_shared;
	context->ops.poll_cq = hook_poll;
	context->ops.req_notify_cq = hook_arm;
	if (!verbs)
		return;
	record->create_cq_ex = verbs->create_cq_ex;
	record->create_qp_ex = verbs->create_qp_ex;
	record->create_srq_ex = verbs->create_srq_ex;
	if (verbs->create_cq_ex)
		verbs->create_cq_ex = hook_create_cq_ex;
	if (verbs->create_qp_ex)
		verbs->create_qp_ex = hook_create_qp_ex;
	if (verbs->create_srq_ex)
		verbs->create_srq_ex = hook_create_srq_ex;
}

CHECK_EXPORT struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	CHECK_REAL(ibv_open_device);
	struct ibv_context *context = real(device);

	/*
	 * The library may return the context of an earlier call, whose functions are replaced
	 * already.
	 */
	if (context && context->ops.poll_cq != hook_poll)
		context_hook(context, SITE_HERE());
	return context;
}

/*
 * Destroy an object by `real`. The checker keeps the object's memory for a while, so that it
 * recognizes a later use. If the object is destroyed already, the library is not called.
 */
#define DESTROY(kind, call, object)                         \
	do {                                                \
		CHECK_REAL(call);                           \
		uint32_t site = SITE_HERE();                \
		int result;                                 \
                                                            \
		queue_wake(object);                         \
		if (!object_use(object, kind, #call, site)) \
			return EINVAL;                      \
		object_keep(object);                        \
		check_depth++;                              \
		result = real(object);                      \
		check_depth--;                              \
		object_keep(NULL);                          \
		if (result == 0) {                          \
			queue_remove(object);               \
			object_remove(object, site);        \
		}                                           \
		return result;                              \
	} while (0)

CHECK_EXPORT int ibv_close_device(struct ibv_context *context)
{
	DESTROY(OBJECT_DEVICE, ibv_close_device, context);
}

CHECK_EXPORT struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	CHECK_REAL(ibv_alloc_pd);
	struct ibv_pd *pd = real(context);

	if (pd)
		object_add(OBJECT_PD, pd, NULL, SITE_HERE());
	return pd;
}

CHECK_EXPORT int ibv_dealloc_pd(struct ibv_pd *pd)
{
	DESTROY(OBJECT_PD, ibv_dealloc_pd, pd);
}

/* The address that requests use for a region's first byte, if the program has asked for `iova`. */
static uint64_t iova_chosen(uint64_t iova, unsigned access)
{
	return access & IBV_ACCESS_ZERO_BASED ? 0 : iova;
}

/*
 * Note a region that the library has made. If `mr` is NULL, the library has failed to make it.
 * Returns `mr`.
 */
static struct ibv_mr *region_note(struct ibv_mr *mr, void *memory, size_t bytes, uint64_t iova,
	unsigned access, uint32_t site)
{
	struct context_record *context = mr ? context_of(mr->context) : NULL;

	if (!context)
		return mr;
	object_add(OBJECT_MR, mr, NULL, site);
	region_add(context, mr, memory, bytes, iova, (int)access, site);
	return mr;
}

CHECK_EXPORT struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	CHECK_REAL(ibv_reg_mr);
	uint32_t site = SITE_HERE();

	if (!object_use(pd, OBJECT_PD, "ibv_reg_mr", site)) {
		errno = EINVAL;
		return NULL;
	}
	return region_note(real(pd, addr, length, access), addr, length,
		iova_chosen((uintptr_t)addr, (unsigned)access), (unsigned)access, site);
}

CHECK_EXPORT struct ibv_mr *ibv_reg_mr_iova(
	struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access)
{
	CHECK_REAL(ibv_reg_mr_iova);

	return region_note(real(pd, addr, length, iova, access), addr, length,
		iova_chosen(iova, (unsigned)access), (unsigned)access, SITE_HERE());
}

CHECK_EXPORT struct ibv_mr *ibv_reg_mr_iova2(
	struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned access)
{
	CHECK_REAL(ibv_reg_mr_iova2);

	return region_note(real(pd, addr, length, iova, access), addr, length,
		iova_chosen(iova, access), access, SITE_HERE());
}

CHECK_EXPORT int ibv_rereg_mr(
	struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length, int access)
{
	CHECK_REAL(ibv_rereg_mr);
	struct region *region = region_of(mr);
	uint32_t site = SITE_HERE();
	int result = real(mr, flags, pd, addr, length, access);

	if (region && result == 0) {
		bool is_moved = flags & IBV_REREG_MR_CHANGE_TRANSLATION;
		uintptr_t start = is_moved ? (uintptr_t)addr : region->start;
		uint64_t bytes = is_moved ? length : region->bytes;
		int rights = flags & IBV_REREG_MR_CHANGE_ACCESS ? access : region->access;
		uint64_t iova = is_moved ? iova_chosen(start, (unsigned)rights) : region->iova;

		region_remove(region, site);
		region_note(mr, (void *)start, bytes, iova, (unsigned)rights, site);
	}
	return result;
}

CHECK_EXPORT int ibv_dereg_mr(struct ibv_mr *mr)
{
	CHECK_REAL(ibv_dereg_mr);
	struct region *region;
	uint32_t site = SITE_HERE();
	int result;

	if (!object_use(mr, OBJECT_MR, "ibv_dereg_mr", site))
		return EINVAL;
	region = region_of(mr);
	if (region)
		request_report_users(KIND_REGION_DEREGISTERED, region->start, region->bytes,
			"ibv_dereg_mr()", site);
	object_keep(mr);
	result = real(mr);
	object_keep(NULL);
	if (result == 0) {
		if (region)
			region_remove(region, site);
		object_remove(mr, site);
	}
	return result;
}

CHECK_EXPORT struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
	struct ibv_comp_channel *channel, int comp_vector)
{
	CHECK_REAL(ibv_create_cq);
	struct ibv_cq *cq = real(context, cqe, cq_context, channel, comp_vector);

	if (cq)
		queue_add_cq(cq, SITE_HERE());
	return cq;
}

CHECK_EXPORT int ibv_destroy_cq(struct ibv_cq *cq)
{
	DESTROY(OBJECT_CQ, ibv_destroy_cq, cq);
}

CHECK_EXPORT struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
	CHECK_REAL(ibv_create_comp_channel);
	struct ibv_comp_channel *channel = real(context);

	if (channel)
		object_add(OBJECT_CHANNEL, channel, NULL, SITE_HERE());
	return channel;
}

CHECK_EXPORT int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	DESTROY(OBJECT_CHANNEL, ibv_destroy_comp_channel, channel);
}

/*
 * Can no event of the channel arrive, because none of its queues is armed? If so, a wait does not
 * end before the program arms a queue.
 */
static bool channel_is_unarmed(const struct ibv_comp_channel *channel)
{
	struct object *object;
	uint32_t queues = 0;

	for (uint32_t i = 0; (object = object_next(&i));) {
		const struct cq_record *record = object->record;

		if (object->kind != OBJECT_CQ || !record || record->cq->channel != channel)
			continue;
		queues++;
		if (record->is_armed)
			return false;
	}
	return queues > 0;
}

static void wait_check(const struct ibv_comp_channel *channel, uint32_t site)
{
	struct pollfd waiting = {.fd = channel->fd, .events = POLLIN};
	struct object *object = object_find(channel);
	struct report report;

	if (fcntl(channel->fd, F_GETFL) & O_NONBLOCK || !channel_is_unarmed(channel))
		return;
	if (poll(&waiting, 1, EVENT_WAIT_MS) != 0 || !channel_is_unarmed(channel))
		return;
	report_begin(&report, KIND_EVENT_NOT_REQUESTED);
	report_say(&report,
		"ibv_get_cq_event() waits, and ibv_req_notify_cq() was not called for a completion "
		"queue of the channel since its last event");
	report_site(&report, "waiting at", site);
	if (object)
		report_site(&report, "channel made at", object->site_made);
	report_end(&report);
}

CHECK_EXPORT int ibv_get_cq_event(
	struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
{
	CHECK_REAL(ibv_get_cq_event);
	struct cq_record *record;
	uint32_t site = site_of(__builtin_return_address(0));
	int result;

	if (!object_use(channel, OBJECT_CHANNEL, "ibv_get_cq_event", site))
		return -1;
	if (check_is_full)
		watch_leave();
	wait_check(channel, site);
	result = real(channel, cq, cq_context);
	record = result == 0 ? cq_of(*cq) : NULL;
	if (record)
		record->is_armed = false;
	return result;
}

CHECK_EXPORT int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	CHECK_REAL(ibv_get_async_event);
	int result = real(context, event);
	struct queue_record *queue;

	if (result != 0)
		return result;
	if (event->event_type == IBV_EVENT_CQ_ERR)
		cq_overrun_report(event->element.cq, SITE_HERE());
	if (event->event_type == IBV_EVENT_QP_FATAL || event->event_type == IBV_EVENT_QP_REQ_ERR ||
		event->event_type == IBV_EVENT_QP_ACCESS_ERR) {
		queue = queue_of(event->element.qp);
		if (queue)
			queue->has_failed = true;
	}
	return result;
}

CHECK_EXPORT struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	CHECK_REAL(ibv_create_srq);
	struct ibv_srq *srq = real(pd, attr);

	if (srq)
		queue_add_shared(srq, attr->attr.max_wr, attr->attr.max_sge, SITE_HERE());
	return srq;
}

CHECK_EXPORT int ibv_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask)
{
	CHECK_REAL(ibv_modify_srq);

	if (!object_use(srq, OBJECT_SRQ, "ibv_modify_srq", SITE_HERE()))
		return EINVAL;
	return real(srq, attr, mask);
}

CHECK_EXPORT int ibv_destroy_srq(struct ibv_srq *srq)
{
	DESTROY(OBJECT_SRQ, ibv_destroy_srq, srq);
}

CHECK_EXPORT struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	CHECK_REAL(ibv_create_qp);
	struct ibv_qp *qp = real(pd, attr);

	if (qp)
		queue_add(qp, &attr->cap, attr->sq_sig_all, SITE_HERE());
	return qp;
}

CHECK_EXPORT int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	CHECK_REAL(ibv_modify_qp);
	struct queue_record *record = queue_of(qp);
	int result;

	if (!object_use(qp, OBJECT_QP, "ibv_modify_qp", SITE_HERE()))
		return EINVAL;
	result = real(qp, attr, mask);
	if (result == 0 && record && (mask & IBV_QP_STATE)) {
		record->was_stopped = attr->qp_state == IBV_QPS_ERR;
		if (attr->qp_state == IBV_QPS_RESET) {
			record->has_failed = false;
			queue_reset(qp);
		}
	}
	return result;
}

CHECK_EXPORT int ibv_query_qp(
	struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init)
{
	CHECK_REAL(ibv_query_qp);
	struct queue_record *record = queue_of(qp);
	int result;

	if (!object_use(qp, OBJECT_QP, "ibv_query_qp", SITE_HERE()))
		return EINVAL;
	result = real(qp, attr, mask, init);
	if (result == 0 && record && attr->qp_state == IBV_QPS_ERR)
		record->has_failed = true;
	return result;
}

CHECK_EXPORT int ibv_destroy_qp(struct ibv_qp *qp)
{
	DESTROY(OBJECT_QP, ibv_destroy_qp, qp);
}

CHECK_EXPORT struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp)
{
	CHECK_REAL(ibv_qp_to_qp_ex);
	struct ibv_qp_ex *extended = real(qp);

	if (extended)
		hook_extended_qp(extended);
	return extended;
}

CHECK_EXPORT struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	CHECK_REAL(ibv_create_ah);
	struct ibv_ah *ah = real(pd, attr);

	if (ah)
		object_add(OBJECT_AH, ah, NULL, SITE_HERE());
	return ah;
}

CHECK_EXPORT int ibv_destroy_ah(struct ibv_ah *ah)
{
	DESTROY(OBJECT_AH, ibv_destroy_ah, ah);
}
