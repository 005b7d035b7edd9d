/* SPDX-License-Identifier: BSD-2-Clause */
#include "front/verbs/cq.h"

#include "front/verbs/result.h"
#include "front/verbs/strict.h"

/* The most completions that cq_poll_verbs() takes from the NIC at a time. */
#define POLL_BATCH 16

static void on_event(void *user, uint32_t events)
{
	struct cq_front *cq = user;

	if ((events & SIGNAL_COMPLETION) && cq->channel)
		event_queue_post(&cq->channel->queue, &cq->completion);
	if (events & SIGNAL_CQ_OVERRUN)
		async_event_post(context_of(cq->verbs.context), &cq->error);
}

static void cq_prepare(
	struct cq_front *cq, struct ibv_context *context, const struct ibv_cq_init_attr_ex *init)
{
	cq->verbs = (struct ibv_cq){
		.context = context,
		.channel = init->channel,
		.cq_context = init->cq_context,
	};
	pthread_mutex_init(&cq->verbs.mutex, NULL);
	pthread_cond_init(&cq->verbs.cond, NULL);
	pthread_mutex_init(&cq->cursor.lock, NULL);
	event_init(&cq->completion);
	async_event_init(&cq->error, IBV_EVENT_CQ_ERR, &cq->verbs);
}

/*
 * Count the memory of a ring of `cqe` entries as pinned, and stop counting that of the queue's
 * previous ring. On an error the count is unchanged.
 */
static int cq_pin(struct cq_front *cq, uint32_t cqe)
{
	int error = strict_pin(NULL, strict_cq_bytes(cqe));

	if (error)
		return error;
	strict_unpin(NULL, cq->pinned_bytes);
	cq->pinned_bytes = strict_cq_bytes(cqe);
	return 0;
}

static int size_check(uint32_t cqe)
{
	if (cqe < 1)
		return result_cause_limit(REASON_CQ_SIZE, cqe, (uint64_t)device_limits.max_cqe);
	return strict_refuse_beyond(REASON_CQ_SIZE, "cqe", cqe, (uint32_t)device_limits.max_cqe);
}

static int cq_init_check(const struct ibv_context *context, const struct ibv_cq_init_attr_ex *init)
{
	if (init->comp_vector >= (uint32_t)context->num_comp_vectors)
		return result_cause_limit(REASON_CQ_VECTOR, init->comp_vector,
			(uint64_t)context->num_comp_vectors - 1);
	return size_check(init->cqe);
}

struct cq_front *cq_create(struct ibv_context *context, const struct ibv_cq_init_attr_ex *init)
{
	bool has_parent = (init->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) != 0;
	struct cq_front *cq;
	struct object object;
	int error = cq_init_check(context, init);

	if (error)
		return result_null("ibv_create_cq", error);
	cq = domain_alloc(has_parent ? init->parent_domain : NULL, DOMAIN_CQ, sizeof(*cq), &object);
	if (!cq)
		return result_null("ibv_create_cq", result_cause(REASON_NO_MEMORY));
	cq->object = object;
	cq_prepare(cq, context, init);
	if (init->channel &&
		object_ref(channel_of(init->channel)->object.handle, OBJECT_CHANNEL,
			channel_of(init->channel)->object.context))
		cq->channel = channel_of(init->channel);
	if (!has_parent == !object.parent && !init->channel == !cq->channel)
		error = cq_pin(cq, init->cqe);
	else
		error = result_cause(REASON_CQ_PARENT);
	if (!error)
		error = -nic_cq_create(
			init->cqe, cq->channel ? cq->channel->nic : NULL, on_event, cq, &cq->nic);
	if (!object_publish(&cq->object, OBJECT_CQ, context_of(context), &cq->verbs.handle, error))
		return NULL;
	cq->verbs.cqe = (int)nic_cq_capacity(cq->nic);
	return cq;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
	struct ibv_comp_channel *channel, int comp_vector)
{
	/* A negative cqe becomes too large a number, which is refused. */
	struct ibv_cq_init_attr_ex init = {
		.cqe = (uint32_t)cqe,
		.cq_context = cq_context,
		.channel = channel,
		.comp_vector = (uint32_t)comp_vector,
	};
	struct cq_front *cq = cq_create(context, &init);

	return cq ? &cq->verbs : NULL;
}

/* The queue that a control call names; undo with object_unref(&cq->object). */
static struct cq_front *cq_ref(const struct ibv_cq *verbs)
{
	struct object *object = object_ref(verbs->handle, OBJECT_CQ, context_of(verbs->context));

	return object ? container_of(object, struct cq_front, object) : NULL;
}

int ibv_resize_cq(struct ibv_cq *cq, int cqe)
{
	struct cq_front *front = cq_ref(cq);
	int error;

	if (!front)
		return result_of("ibv_resize_cq", result_cause(REASON_NO_OBJECT));
	error = size_check((uint32_t)cqe);
	if (!error)
		error = cq_pin(front, (uint32_t)cqe);
	if (!error)
		error = result_as(-nic_cq_resize(front->nic, (uint32_t)cqe), REASON_CQ_FULLER);
	if (!error)
		front->verbs.cqe = (int)nic_cq_capacity(front->nic);
	object_unref(&front->object);
	return result_of("ibv_resize_cq", error);
}

int cq_modify(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr)
{
	struct cq_front *front;
	int error;

	if (!strict_has(STRICT_HAS_MODERATION))
		return result_of("ibv_modify_cq", strict_refuse_lack(STRICT_HAS_MODERATION));
	if (attr->attr_mask & ~(uint32_t)IBV_CQ_ATTR_MODERATE)
		return result_of("ibv_modify_cq", result_cause(REASON_UNKNOWN_BITS));
	front = cq_ref(cq);
	if (!front)
		return result_of("ibv_modify_cq", result_cause(REASON_NO_OBJECT));
	error = attr->attr_mask
		? -nic_cq_moderate(front->nic, attr->moderate.cq_count, attr->moderate.cq_period)
		: 0;
	object_unref(&front->object);
	return result_of("ibv_modify_cq", error);
}

void *cq_release(struct object *object)
{
	struct cq_front *cq = container_of(object, struct cq_front, object);

	if (cq->nic)
		nic_cq_destroy(cq->nic);
	strict_unpin(NULL, cq->pinned_bytes);
	if (cq->channel) {
		event_queue_forget(&cq->channel->queue, &cq->completion);
		object_unref(&cq->channel->object);
	}
	event_queue_forget(&context_of(cq->verbs.context)->async, &cq->error.event);
	return cq;
}

void cq_free(void *memory)
{
	struct cq_front *cq = memory;

	events_wait(&cq->verbs.mutex, &cq->verbs.cond, &cq->verbs.comp_events_completed,
		cq->completion.taken);
	events_wait(&cq->verbs.mutex, &cq->verbs.cond, &cq->verbs.async_events_completed,
		cq->error.event.taken);
	pthread_mutex_destroy(&cq->verbs.mutex);
	pthread_cond_destroy(&cq->verbs.cond);
	pthread_mutex_destroy(&cq->cursor.lock);
	domain_free(&cq->object, DOMAIN_CQ, cq);
}

int ibv_destroy_cq(struct ibv_cq *cq)
{
	return result_of("ibv_destroy_cq", object_destroy(cq->handle, OBJECT_CQ, cq->context));
}

static void wc_from_cqe(struct ibv_wc *wc, const struct cqe *cqe)
{
	*wc = (struct ibv_wc){
		.wr_id = cqe->wr_id,
		.status = (enum ibv_wc_status)cqe->status,
		.opcode = (enum ibv_wc_opcode)cqe->opcode,
		.vendor_err = cqe->fault,
		.byte_len = cqe->byte_count,
		.imm_data = cqe_imm_data(cqe),
		.qp_num = cqe->qpn,
		.src_qp = cqe->source_qpn,
		.wc_flags = cqe->flags & WC_PUBLIC,
		.slid = cqe_source_lid(cqe),
		.sl = cqe_service_level(cqe),
		.dlid_path_bits = cqe_path_bits(cqe),
	};
}

int cq_poll_verbs(struct ibv_cq *cq, int count, struct ibv_wc *wc)
{
	struct nic_cq *nic = cq_of(cq)->nic;
	struct cqe cqes[POLL_BATCH];
	int done = 0;

	while (done < count) {
		uint32_t wanted = min_u32((uint32_t)(count - done), POLL_BATCH);
		uint32_t got = nic_cq_poll(nic, wanted, cqes);

		for (uint32_t i = 0; i < got; i++)
			wc_from_cqe(&wc[done++], &cqes[i]);
		if (got < wanted)
			break;
	}
	return done;
}

int cq_request_notify(struct ibv_cq *cq, int solicited_only)
{
	nic_cq_arm(cq_of(cq)->nic, solicited_only ? CQ_ARM_SOLICITED : CQ_ARM_NEXT);
	return 0;
}

static void copy_completion(struct event *event, void *argument)
{
	struct cq_front **cq = argument;

	*cq = container_of(event, struct cq_front, completion);
}

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
{
	struct cq_front *front;
	int error = event_queue_take(&channel_of(channel)->queue, copy_completion, &front);

	if (error) {
		/* Do not report this, because a queue without an event is no failure */
		errno = -error;
		return -1;
	}
	/* The queue still exists, because cq_free() waits until this event is acknowledged. */
	*cq = &front->verbs;
	*cq_context = front->verbs.cq_context;
	return 0;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int nevents)
{
	events_ack(&cq->mutex, &cq->cond, &cq->comp_events_completed, nevents);
}
