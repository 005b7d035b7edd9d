/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdlib.h>

#include "check/check.h"
#include "check/model/request.h"
#include "check/table.h"

static struct table queues_by_object;
static struct table queues_by_number;

static uint64_t number_key(const struct context_record *context, uint32_t qp_num)
{
	return (uint64_t)(context->number + 1) << 32 | qp_num;
}

static struct queue_record *record_add(
	enum object_kind kind, const void *object, struct context_record *context)
{
	struct queue_record *record = object_record(kind, object, sizeof(*record));

	if (record) {
		record->object = object;
		record->context = context;
	}
	return record;
}

void queue_add(struct ibv_qp *qp, const struct ibv_qp_cap *cap, bool signals_all, uint32_t site)
{
	struct context_record *context = context_of(qp->context);
	struct queue_record *record = context ? record_add(OBJECT_QP, qp, context) : NULL;

	if (!record)
		return;
	record->qp = qp;
	record->qp_num = qp->qp_num;
	record->signals_all = signals_all;
	record->send_cq = cq_of(qp->send_cq);
	record->receive_cq = cq_of(qp->recv_cq);
	record->srq = qp->srq ? queue_of(qp->srq) : NULL;
	record->rest.begun_ticks = check_ticks();
	record->known = object_add(OBJECT_QP, qp, record, site);
	if (!record->known ||
		!request_queue_init(&record->sends, cap->max_send_wr, cap->max_send_sge, false) ||
		!request_queue_init(&record->receives, cap->max_recv_wr, cap->max_recv_sge, true))
		/* Out of memory: the queue pair stays unknown, and its record stays unused */
		return;
	pthread_mutex_lock(&check_lock);
	table_set(&queues_by_object, (uintptr_t)qp, record);
	table_set(&queues_by_number, number_key(context, qp->qp_num), record);
	pthread_mutex_unlock(&check_lock);
}

void queue_add_shared(struct ibv_srq *srq, uint32_t depth, uint32_t entries, uint32_t site)
{
	struct context_record *context = context_of(srq->context);
	struct queue_record *record = context ? record_add(OBJECT_SRQ, srq, context) : NULL;

	if (!record)
		return;
	record->rest.begun_ticks = check_ticks();
	record->known = object_add(OBJECT_SRQ, srq, record, site);
	if (!record->known || !request_queue_init(&record->receives, depth, entries, true))
		return;
	pthread_mutex_lock(&check_lock);
	table_set(&queues_by_object, (uintptr_t)srq, record);
	pthread_mutex_unlock(&check_lock);
}

struct cq_record *queue_add_cq(struct ibv_cq *cq, uint32_t site)
{
	struct context_record *context = context_of(cq->context);
	struct cq_record *record = context ? object_record(OBJECT_CQ, cq, sizeof(*record)) : NULL;

	if (!record)
		return NULL;
	record->cq = cq;
	record->context = context;
	record->known = object_add(OBJECT_CQ, cq, record, site);
	return record;
}

void queue_reset(const void *object)
{
	struct queue_record *record = queue_of(object);

	if (!record)
		return;
	request_forget(&record->sends);
	request_forget(&record->receives);
}

void queue_wake(const void *object)
{
	struct queue_record *record = queue_of(object);

	if (record && record->rest.is_resting)
		rest_end(record);
}

void queue_remove(const void *object)
{
	struct queue_record *record = queue_of(object);

	if (!record)
		return;
	request_queue_done(&record->sends);
	request_queue_done(&record->receives);
	pthread_mutex_lock(&check_lock);
	table_set(&queues_by_object, (uintptr_t)object, NULL);
	if (record->qp)
		table_set(&queues_by_number, number_key(record->context, record->qp_num), NULL);
	pthread_mutex_unlock(&check_lock);
}

struct queue_record *queue_of(const void *object)
{
	return table_find(&queues_by_object, (uintptr_t)object);
}

__thread struct queue_record *queue_recent[1 << QUEUE_RECENT_BITS];
__thread struct cq_record *queue_recent_cq[1 << QUEUE_RECENT_BITS];

struct queue_record *queue_look_up(const void *object)
{
	struct queue_record *record = queue_of(object);

	if (!record || !object_is_ours(record->known, record))
		return NULL;
	queue_recent[queue_recent_place(object)] = record;
	return record;
}

struct cq_record *queue_look_up_cq(const struct ibv_cq *cq)
{
	struct cq_record *record = cq_of(cq);

	if (!record || !object_is_ours(record->known, record))
		return NULL;
	queue_recent_cq[queue_recent_place(cq)] = record;
	return record;
}

struct queue_record *queue_by_number(const struct context_record *context, uint32_t qp_num)
{
	return table_find(&queues_by_number, number_key(context, qp_num));
}

struct queue_record *queue_next(uint32_t *i)
{
	struct queue_record *record;

	while ((record = table_next(&queues_by_object, i)))
		if (!record->known->is_inherited)
			return record;
	return NULL;
}

struct cq_record *cq_of(const struct ibv_cq *cq)
{
	struct object *object = cq ? object_find(cq) : NULL;

	return object && object->kind == OBJECT_CQ ? object->record : NULL;
}

/* Get the state of a queue pair. Returns false if the library refuses the query. */
static bool state_query(const struct queue_record *record, enum ibv_qp_state *ret_state)
{
	static __typeof__(&ibv_query_qp) query;
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;

	if (!query)
		query = (__typeof__(query))check_next("ibv_query_qp");
	if (query(record->qp, &attr, IBV_QP_STATE, &init))
		return false;
	*ret_state = attr.qp_state;
	return true;
}

bool queue_is_idle(const struct queue_record *record)
{
	enum ibv_qp_state state;

	return record->qp &&
		(!state_query(record, &state) || state == IBV_QPS_ERR || state == IBV_QPS_SQE ||
			state == IBV_QPS_RESET);
}

bool queue_has_error(const struct queue_record *record)
{
	enum ibv_qp_state state;

	return record->qp && state_query(record, &state) &&
		(state == IBV_QPS_ERR || state == IBV_QPS_SQE);
}
