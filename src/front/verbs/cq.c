/* SPDX-License-Identifier: BSD-2-Clause */
#include "front/verbs/cq.h"

#include <endian.h>
#include <stdlib.h>

/* Completions that cross from the NIC at a time. */
#define POLL_BATCH 16

/* Under a lane's lock: wakes, and calls nothing of the NIC. */
static void on_news(void *user, uint32_t news)
{
	struct cq_front *cq = user;

	if ((news & SIGNAL_COMPLETION) && cq->channel)
		event_queue_post(&cq->channel->queue, &cq->completion);
	if (news & SIGNAL_CQ_OVERRUN)
		async_event_post(context_of(cq->verbs.context), &cq->error);
}

static void cq_prepare(struct cq_front *cq, struct ibv_context *context, void *cq_context,
	struct ibv_comp_channel *channel)
{
	cq->verbs = (struct ibv_cq){
		.context = context,
		.channel = channel,
		.cq_context = cq_context,
	};
	pthread_mutex_init(&cq->verbs.mutex, NULL);
	pthread_cond_init(&cq->verbs.cond, NULL);
	cq->channel = channel ? channel_of(channel) : NULL;
	event_init(&cq->completion);
	async_event_init(&cq->error, IBV_EVENT_CQ_ERR, &cq->verbs);
}

static void cq_free(struct cq_front *cq)
{
	pthread_mutex_destroy(&cq->verbs.mutex);
	pthread_cond_destroy(&cq->verbs.cond);
	free(cq);
}

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
	struct ibv_comp_channel *channel, int comp_vector)
{
	struct cq_front *cq;
	int error = EINVAL;

	if (cqe < 1 || (uint32_t)cqe > CQ_CAPACITY_MAX || comp_vector < 0 ||
		comp_vector >= context->num_comp_vectors)
		goto fail;
	error = ENOMEM;
	cq = calloc(1, sizeof(*cq));
	if (!cq)
		goto fail;
	cq_prepare(cq, context, cq_context, channel);
	error = EINVAL;
	if (cq->channel && !channel_ref(cq->channel))
		goto fail_free;
	error = -nic_cq_create((uint32_t)cqe, on_news, cq, &cq->nic);
	if (error)
		goto fail_unref_channel;
	error = object_add(&cq->object, OBJECT_CQ, context_of(context));
	if (error)
		goto fail_destroy;
	cq->verbs.handle = cq->object.handle;
	cq->verbs.cqe = (int)nic_cq_capacity(cq->nic);
	return &cq->verbs;

fail_destroy:
	nic_cq_destroy(cq->nic);
fail_unref_channel:
	if (cq->channel)
		object_unref(&cq->channel->object);
fail_free:
	cq_free(cq);
fail:
	errno = error;
	return NULL;
}

int ibv_resize_cq(struct ibv_cq *cq, int cqe)
{
	(void)cq;
	(void)cqe;
	return EOPNOTSUPP;
}

void cq_release(struct object *object)
{
	struct cq_front *cq = container_of(object, struct cq_front, object);

	nic_cq_destroy(cq->nic);
	if (cq->channel) {
		event_queue_forget(&cq->channel->queue, &cq->completion);
		object_unref(&cq->channel->object);
	}
	event_queue_forget(&context_of(cq->verbs.context)->async, &cq->error.event);
	cq->verbs.handle = 0;
}

int ibv_destroy_cq(struct ibv_cq *cq)
{
	struct object *object;
	struct cq_front *front;
	int error = object_remove(cq->handle, OBJECT_CQ, context_of(cq->context), &object);

	if (error)
		return error;
	front = container_of(object, struct cq_front, object);
	cq_release(object);
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
		/* Immediate data travels in network order, a key to invalidate is a number. */
		.imm_data = cqe->flags & WC_WITH_IMM ? htobe32(cqe->imm) : cqe->imm,
		.qp_num = cqe->qpn,
		.src_qp = cqe->source_qpn,
		.wc_flags = cqe->flags,
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
	/* It stays until this event is acknowledged. */
	*cq = &front->verbs;
	*cq_context = front->verbs.cq_context;
	return 0;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int nevents)
{
	events_ack(&cq->mutex, &cq->cond, &cq->comp_events_completed, nevents);
}
