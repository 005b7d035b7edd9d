/* SPDX-License-Identifier: BSD-2-Clause */
/* The functions that replace those of a context: posting, polling, arming. */
#include <errno.h>
#include <stdlib.h>

#include "check/check.h"
#include "check/hook/hook.h"
#include "check/model/request.h"
#include "check/model/watch.h"
#include "check/report.h"
#include "check/site.h"

/* Is the object unknown to the checker, or destroyed? If so, the call fails. */
static bool use_is_wrong(
	const void *object, enum object_kind kind, const char *call, const void *address)
{
	return !object_use(object, kind, call, site_of(address));
}

void post_refused(struct queue_record *record, struct fullness fullness, uint32_t site)
{
	struct report report;
	bool is_unsignaled = fullness.signaled == 0;

	if (fullness.pending == 0 || record->rest.has_rested ||
		(!is_unsignaled && (!record->send_cq || record->send_cq->is_polled)))
		return;
	report_begin(&report, is_unsignaled ? KIND_NEVER_SIGNALED : KIND_NEVER_POLLED);
	if (is_unsignaled)
		report_say(&report,
			"queue pair 0x%x has no room, and its incomplete requests are %lu; without "
			"IBV_SEND_SIGNALED at one of them, their room never becomes free",
			record->qp_num, (unsigned long)fullness.pending);
	else
		report_say(&report,
			"queue pair 0x%x has no room, and its incomplete requests are %lu; room "
			"becomes free when the program polls their completions",
			record->qp_num, (unsigned long)fullness.pending);
	report_site(&report, "posted at", site);
	report_site(&report, "queue pair made at", record->known->site_made);
	report_end(&report);
}

static void sends_note(struct queue_record *record, const struct ibv_send_wr *wr, uint32_t site)
{
	for (; wr; wr = wr->next) {
		const struct send_request request = {
			wr->wr_id, wr->opcode, wr->send_flags, wr->sg_list, (uint32_t)wr->num_sge};

		request_add_send(record, &request, site);
	}
}

int hook_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr)
{
	struct queue_record *record = queue_find(qp);
	const void *address = __builtin_return_address(0);
	struct request_queue *queue;
	struct fullness fullness;
	uint64_t tail;
	int result;

	if (!record)
		return use_is_wrong(qp, OBJECT_QP, "ibv_post_send", address)
			? EINVAL
			: context_of(qp->context)->ops.post_send(qp, wr, bad_wr);
	if (record->rest.is_resting)
		return record->context->ops.post_send(qp, wr, bad_wr);
	if (check_is_full)
		watch_leave();
	queue = &record->sends;
	owned_lock_take(&queue->lock);
	tail = queue->tail;
	sends_note(record, wr, request_site(queue, address));
	rest_count(record);
	check_depth++;
	result = record->context->ops.post_send(qp, wr, bad_wr);
	check_depth--;
	if (result) {
		for (const struct ibv_send_wr *each = wr; each && each != *bad_wr;
			each = each->next)
			tail++;
		request_take_back(queue, tail);
	}
	request_settle(queue);
	fullness = queue_fullness(queue);
	owned_lock_leave(&queue->lock);
	if (result == ENOMEM)
		post_refused(record, fullness, site_of(address));
	return result;
}

/* Let the library post the receive requests. */
static int receive_pass(
	struct queue_record *record, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
	if (record->qp)
		return record->context->ops.post_recv(record->qp, wr, bad_wr);
	return record->context->ops.post_srq_recv((struct ibv_srq *)record->object, wr, bad_wr);
}

static int receive_post(struct queue_record *record, struct ibv_recv_wr *wr,
	struct ibv_recv_wr **bad_wr, const void *address)
{
	struct request_queue *queue = &record->receives;
	uint64_t tail;
	uint32_t site;
	int result;

	if (record->rest.is_resting)
		return receive_pass(record, wr, bad_wr);
	if (check_is_full)
		watch_leave();
	owned_lock_take(&queue->lock);
	tail = queue->tail;
	rest_count(record);
	site = request_site(queue, address);
	for (const struct ibv_recv_wr *each = wr; each; each = each->next)
		request_add_receive(record, each, site);
	check_depth++;
	result = receive_pass(record, wr, bad_wr);
	check_depth--;
	if (result) {
		for (const struct ibv_recv_wr *each = wr; each && each != *bad_wr;
			each = each->next)
			tail++;
		request_take_back(queue, tail);
	}
	request_settle(queue);
	owned_lock_leave(&queue->lock);
	return result;
}

int hook_post_receive(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
	struct queue_record *record = queue_find(qp);
	const void *address = __builtin_return_address(0);

	if (record)
		return receive_post(record, wr, bad_wr, address);
	return use_is_wrong(qp, OBJECT_QP, "ibv_post_recv", address)
		? EINVAL
		: context_of(qp->context)->ops.post_recv(qp, wr, bad_wr);
}

int hook_post_shared(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
	struct queue_record *record = queue_find(srq);
	const void *address = __builtin_return_address(0);

	if (record)
		return receive_post(record, wr, bad_wr, address);
	return use_is_wrong(srq, OBJECT_SRQ, "ibv_post_srq_recv", address)
		? EINVAL
		: context_of(srq->context)->ops.post_srq_recv(srq, wr, bad_wr);
}

void cq_overrun_report(const struct ibv_cq *cq, uint32_t site)
{
	struct object *object = object_find(cq);
	struct report report;

	report_begin(&report, KIND_QUEUE_OVERRUN);
	report_say(&report, "the completion queue, of size %d, had no room", cq->cqe);
	report_site(&report, "noticed at", site);
	if (object)
		report_site(&report, "made at", object->site_made);
	report_end(&report);
}

void completion_note(struct cq_record *record, const struct ibv_wc *wc, const void *address)
{
	struct queue_record *queue =
		atomic_load_explicit(&record->last_queue, memory_order_acquire);

	if (!queue || queue->qp_num != wc->qp_num || !queue->known->is_live) {
		queue = queue_by_number(record->context, wc->qp_num);
		atomic_store_explicit(&record->last_queue, queue, memory_order_release);
	}
	if (queue)
		request_complete(queue, wc, queue->send_cq != record, address);
}

int hook_poll(struct ibv_cq *cq, int count, struct ibv_wc *wc)
{
	struct cq_record *record = queue_find_cq(cq);
	const void *address = __builtin_return_address(0);
	int found;

	if (!record)
		return use_is_wrong(cq, OBJECT_CQ, "ibv_poll_cq", address)
			? -1
			: context_of(cq->context)->ops.poll_cq(cq, count, wc);
	cq_note_poll(record);
	if (check_is_full && watch_is_mine())
		return 0;
	check_depth++;
	found = record->context->ops.poll_cq(cq, count, wc);
	check_depth--;
	if (found < 0)
		cq_overrun_report(cq, site_of(address));
	for (int i = 0; i < found; i++)
		completion_note(record, &wc[i], address);
	return found;
}

int hook_arm(struct ibv_cq *cq, int solicited_only)
{
	struct cq_record *record = cq_of(cq);

	if (use_is_wrong(cq, OBJECT_CQ, "ibv_req_notify_cq", __builtin_return_address(0)))
		return EINVAL;
	if (record)
		record->is_armed = true;
	return context_of(cq->context)->ops.req_notify_cq(cq, solicited_only);
}
