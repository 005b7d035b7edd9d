/* SPDX-License-Identifier: BSD-2-Clause */
#include "front/verbs/wq.h"

#include <assert.h>
#include <stdlib.h>

#include "front/verbs/cq.h"
#include "front/verbs/pd.h"
#include "front/verbs/result.h"
#include "front/verbs/strict.h"

struct table_front {
	struct ibv_rwq_ind_table verbs;
	struct object object;
	uint32_t count;
	struct object *queues[WQ_TABLE_ENTRIES_MAX];
	struct nic_wq *nic[WQ_TABLE_ENTRIES_MAX];
};

static_assert(IBV_WQS_RESET == (int)WQ_RESET && IBV_WQS_RDY == (int)WQ_READY &&
		IBV_WQS_ERR == (int)WQ_ERROR,
	"states are passed on");

/* --- work queues --- */

static void on_event(void *user, uint32_t events)
{
	struct wq_front *wq = user;

	if (events & SIGNAL_WQ_FATAL)
		async_event_post(context_of(wq->verbs.context), &wq->fatal);
}

static int wq_init_check(const struct ibv_wq_init_attr *init)
{
	if (init->comp_mask & ~(uint32_t)IBV_WQ_INIT_ATTR_FLAGS)
		return result_cause(REASON_UNKNOWN_BITS);
	if (init->wq_type != IBV_WQT_RQ || !init->pd || !init->cq)
		return result_cause(REASON_WQ_SHAPE);
	if ((init->comp_mask & IBV_WQ_INIT_ATTR_FLAGS) && init->create_flags)
		return result_cause(REASON_UNSUPPORTED_BITS);
	if (init->max_wr < 1 || init->max_wr > (uint32_t)device_limits.max_qp_wr ||
		init->max_sge > SGE_COUNT_MAX)
		return result_cause(REASON_WQ_SHAPE);
	return 0;
}

/* Reference the objects that the queue is built on, and create the work queue of the NIC. */
static int wq_make(
	struct wq_front *wq, struct context *context, const struct ibv_wq_init_attr *init)
{
	struct nic_wq_init nic_init = {
		.depth = init->max_wr,
		.sge_count_max = init->max_sge,
		.on_event = on_event,
		.user = wq,
	};

	wq->pd = pd_ref(init->pd);
	wq->cq = object_ref(init->cq->handle, OBJECT_CQ, context);
	if (!wq->pd || !wq->cq)
		return result_cause(REASON_NO_PARENT);
	nic_init.pd = pd_number(wq->pd);
	nic_init.cq = container_of(wq->cq, struct cq_front, object)->nic;
	return result_as(-nic_wq_create(&nic_init, &wq->nic), REASON_FORKED);
}

void *wq_release(struct object *object)
{
	struct wq_front *wq = container_of(object, struct wq_front, object);

	if (wq->nic)
		nic_wq_destroy(wq->nic);
	event_queue_forget(&context_of(wq->verbs.context)->async, &wq->fatal.event);
	object_unref(wq->pd);
	object_unref(wq->cq);
	return wq;
}

void wq_free(void *memory)
{
	struct wq_front *wq = memory;

	events_wait(&wq->verbs.mutex, &wq->verbs.cond, &wq->verbs.events_completed,
		wq->fatal.event.taken);
	pthread_mutex_destroy(&wq->verbs.mutex);
	pthread_cond_destroy(&wq->verbs.cond);
	free(wq);
}

struct ibv_wq *wq_create(struct ibv_context *context, struct ibv_wq_init_attr *init)
{
	struct wq_front *wq;
	int error;

	if (strict_lacks("ibv_create_wq", STRICT_HAS_WORK_QUEUES))
		return NULL;
	error = wq_init_check(init);
	if (error)
		return result_null("ibv_create_wq", error);
	wq = calloc(1, sizeof(*wq));
	if (!wq)
		return result_null("ibv_create_wq", result_cause(REASON_NO_MEMORY));
	wq->verbs.context = context;
	pthread_mutex_init(&wq->verbs.mutex, NULL);
	pthread_cond_init(&wq->verbs.cond, NULL);
	async_event_init(&wq->fatal, IBV_EVENT_WQ_FATAL, &wq->verbs);
	error = wq_make(wq, context_of(context), init);
	if (!object_publish(&wq->object, OBJECT_WQ, context_of(context), &wq->verbs.handle, error))
		return NULL;
	wq->verbs.pd = init->pd;
	wq->verbs.cq = init->cq;
	wq->verbs.wq_num = nic_wq_number(wq->nic);
	wq->verbs.state = IBV_WQS_RESET;
	wq->verbs.wq_type = init->wq_type;
	wq->verbs.post_recv = wq_post_recv_verbs;
	return &wq->verbs;
}

/* The public structure is locked. */
static int wq_state_change(struct wq_front *wq, const struct ibv_wq_attr *attr)
{
	int error = 0;

	if (attr->attr_mask &
		~(uint32_t)(IBV_WQ_ATTR_STATE | IBV_WQ_ATTR_CURR_STATE | IBV_WQ_ATTR_FLAGS))
		return result_cause(REASON_UNKNOWN_BITS);
	if ((attr->attr_mask & IBV_WQ_ATTR_FLAGS) && attr->flags_mask)
		return result_cause(REASON_UNSUPPORTED_BITS);
	if ((attr->attr_mask & IBV_WQ_ATTR_CURR_STATE) &&
		attr->curr_wq_state != (enum ibv_wq_state)nic_wq_state(wq->nic))
		return result_cause(REASON_WQ_STATE);
	if (attr->attr_mask & IBV_WQ_ATTR_STATE)
		error = result_as(-nic_wq_modify(wq->nic, (enum wq_state)attr->wq_state),
			REASON_WQ_STATE);
	wq->verbs.state = (enum ibv_wq_state)nic_wq_state(wq->nic);
	return error;
}

int wq_modify(struct ibv_wq *wq, struct ibv_wq_attr *attr)
{
	struct object *object = object_ref(wq->handle, OBJECT_WQ, context_of(wq->context));
	struct wq_front *front;
	int error;

	if (!object)
		return result_of("ibv_modify_wq", result_cause(REASON_NO_OBJECT));
	front = container_of(object, struct wq_front, object);
	pthread_mutex_lock(&front->verbs.mutex);
	error = wq_state_change(front, attr);
	pthread_mutex_unlock(&front->verbs.mutex);
	object_unref(object);
	return result_of("ibv_modify_wq", error);
}

int wq_destroy(struct ibv_wq *wq)
{
	return result_of("ibv_destroy_wq", object_destroy(wq->handle, OBJECT_WQ, wq->context));
}

/* --- indirection tables --- */

static int table_refer(struct table_front *table, const struct context *context,
	const struct ibv_rwq_ind_table_init_attr *init)
{
	uint32_t count = 1u << init->log_ind_tbl_size;

	for (uint32_t i = 0; i < count; i++) {
		const struct ibv_wq *wq = init->ind_tbl[i];
		struct object *object;

		if (!wq)
			return result_cause(REASON_WQ_TABLE_SHAPE);
		object = object_ref(wq->handle, OBJECT_WQ, context);
		if (!object)
			return result_cause(REASON_NO_PARENT);
		table->queues[i] = object;
		table->nic[i] = container_of(object, struct wq_front, object)->nic;
		table->count++;
	}
	return 0;
}

struct ibv_rwq_ind_table *wq_table_create(
	struct ibv_context *context, struct ibv_rwq_ind_table_init_attr *init)
{
	struct table_front *table;

	if (strict_lacks("ibv_create_rwq_ind_table", STRICT_HAS_WORK_QUEUES))
		return NULL;
	if (init->comp_mask)
		return result_null("ibv_create_rwq_ind_table", result_cause(REASON_UNKNOWN_BITS));
	if (!init->ind_tbl || init->log_ind_tbl_size >= 32 ||
		1u << init->log_ind_tbl_size > WQ_TABLE_ENTRIES_MAX)
		return result_null("ibv_create_rwq_ind_table", result_cause(REASON_WQ_TABLE_SHAPE));
	table = calloc(1, sizeof(*table));
	if (!table)
		return result_null("ibv_create_rwq_ind_table", result_cause(REASON_NO_MEMORY));
	table->verbs.context = context;
	if (!object_publish(&table->object, OBJECT_WQ_TABLE, context_of(context),
		    (uint32_t *)&table->verbs.ind_tbl_handle,
		    table_refer(table, context_of(context), init)))
		return NULL;
	table->verbs.ind_tbl_num = table->verbs.ind_tbl_handle;
	return &table->verbs;
}

struct nic_cq *wq_table_fill(const struct object *object, struct nic_spread *spread)
{
	const struct table_front *table =
		container_of((struct object *)(uintptr_t)object, struct table_front, object);
	const struct wq_front *first = container_of(table->queues[0], struct wq_front, object);

	spread->count = table->count;
	spread->wqs = table->nic;
	return container_of(first->cq, struct cq_front, object)->nic;
}

void *wq_table_release(struct object *object)
{
	struct table_front *table = container_of(object, struct table_front, object);

	while (table->count)
		object_unref(table->queues[--table->count]);
	return table;
}

int wq_table_destroy(struct ibv_rwq_ind_table *table)
{
	return result_of("ibv_destroy_rwq_ind_table",
		object_destroy((uint32_t)table->ind_tbl_handle, OBJECT_WQ_TABLE, table->context));
}
