/* SPDX-License-Identifier: BSD-2-Clause */
#include "front/verbs/cq.h"

#include "front/verbs/result.h"

/* Completions that one call copies from the NIC. */
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
	cq->channel = init->channel ? channel_of(init->channel) : NULL;
	event_init(&cq->completion);
	async_event_init(&cq->error, IBV_EVENT_CQ_ERR, &cq->verbs);
}

static void cq_free(struct cq_front *cq)
{
	pthread_mutex_destroy(&cq->verbs.mutex);
	pthread_cond_destroy(&cq->verbs.cond);
	pthread_mutex_destroy(&cq->cursor.lock);
	domain_free(&cq->domain, DOMAIN_CQ, cq);
}

/* Create the NIC's queue and the handle. */
static int cq_make(struct cq_front *cq, uint32_t capacity)
{
	int error = nic_cq_create(
		capacity, cq->channel ? cq->channel->nic : NULL, on_event, cq, &cq->nic);

	if (error)
		return -error;
	error = object_add(&cq->object, OBJECT_CQ, context_of(cq->verbs.context));
	if (error) {
		nic_cq_destroy(cq->nic);
		return error;
	}
	cq->verbs.handle = cq->object.handle;
	cq->verbs.cqe = (int)nic_cq_capacity(cq->nic);
	return 0;
}

struct cq_front *cq_create(struct ibv_context *context, const struct ibv_cq_init_attr_ex *init)
{
	bool has_parent = (init->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) != 0;
	struct domain domain;
	struct cq_front *cq;
	int error = EINVAL;

	if (init->cqe < 1 || init->cqe > (uint32_t)device_limits.max_cqe ||
		init->comp_vector >= (uint32_t)context->num_comp_vectors)
		goto fail;
	error = ENOMEM;
	cq = domain_alloc(has_parent ? init->parent_domain : NULL, DOMAIN_CQ, sizeof(*cq), &domain);
	if (!cq)
		goto fail;
	cq->domain = domain;
	cq_prepare(cq, context, init);
	error = EINVAL;
	if (has_parent && !domain.parent)
		goto fail_free;
	if (cq->channel && !channel_ref(cq->channel))
		goto fail_free;
	error = cq_make(cq, init->cqe);
	if (error)
		goto fail_unref_channel;
	return cq;

fail_unref_channel:
	if (cq->channel)
		object_unref(&cq->channel->object);
fail_free:
	cq_free(cq);
fail:
	errno = error;
	return NULL;
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
	int error = EINVAL;

	if (!front)
		return result_of("ibv_resize_cq", ENOENT);
	if (cqe >= 1 && cqe <= device_limits.max_cqe)
		error = -nic_cq_resize(front->nic, (uint32_t)cqe);
	if (!error)
		front->verbs.cqe = (int)nic_cq_capacity(front->nic);
	object_unref(&front->object);
	return result_of("ibv_resize_cq", error);
}

int cq_modify(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr)
{
	struct cq_front *front;
	int error;

	if (attr->attr_mask & ~(uint32_t)IBV_CQ_ATTR_MODERATE)
		return result_of("ibv_modify_cq", EINVAL);
	front = cq_ref(cq);
	if (!front)
		return result_of("ibv_modify_cq", ENOENT);
	error = attr->attr_mask
		? -nic_cq_moderate(front->nic, attr->moderate.cq_count, attr->moderate.cq_period)
		: 0;
	object_unref(&front->object);
	return result_of("ibv_modify_cq", error);
}

static void cq_end(struct cq_front *cq)
{
	nic_cq_destroy(cq->nic);
	if (cq->channel) {
		event_queue_forget(&cq->channel->queue, &cq->completion);
		object_unref(&cq->channel->object);
	}
	event_queue_forget(&context_of(cq->verbs.context)->async, &cq->error.event);
	cq->verbs.handle = 0;
}

void cq_release(struct object *object)
{
	struct cq_front *cq = container_of(object, struct cq_front, object);

	cq_end(cq);
	domain_leave(&cq->domain);
}

int ibv_destroy_cq(struct ibv_cq *cq)
{
	struct object *object;
	struct cq_front *front;
	int error = object_remove(cq->handle, OBJECT_CQ, context_of(cq->context), &object);

	if (error)
		return result_of("ibv_destroy_cq", error);
	front = container_of(object, struct cq_front, object);
	cq_end(front);
	events_wait(&front->verbs.mutex, &front->verbs.cond, &front->verbs.comp_events_completed,
		front->completion.taken);
	events_wait(&front->verbs.mutex, &front->verbs.cond, &front->verbs.async_events_completed,
		front->error.event.taken);
	cq_free(front);
	return 0;
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
		.wc_flags = cqe->flags,
		.sl = cqe_service_level(cqe),
	};
}

int cq_poll_verbs(struct ibv_cq *cq, int count, struct ibv_wc *wc)
{
	struct nic_cq *nic = cq_of(cq)->nic;
	struct cqe cqes[POLL_BATCH];
	int done = 0;

	while (done < count) {
		uint32_t asked = min_u32((uint32_t)(count - done), POLL_BATCH);
		uint32_t got = nic_cq_poll(nic, asked, cqes);

		for (uint32_t i = 0; i < got; i++)
			wc_from_cqe(&wc[done++], &cqes[i]);
		if (got < asked)
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
		errno = -error;
		return -1;
	}
	/* The queue stays until this event is acknowledged. */
	*cq = &front->verbs;
	*cq_context = front->verbs.cq_context;
	return 0;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int nevents)
{
	events_ack(&cq->mutex, &cq->cond, &cq->comp_events_completed, nevents);
}
