/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Listeners, the events of rdma_cm, and busy polling.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "nvmf/target/rdma/rdma_queue.h"

enum {
	BACKLOG = 128,
	RNR_RETRIES = 7, /* 7 stands for "without limit" */
	BUSY_ROUNDS = 64, /* how often each queue is polled in one step of the loop */
};

static void accept_request(struct target_rdma_listener *listener, struct rdma_cm_id *id,
	const struct rdma_conn_param *request)
{
	struct target_rdma_queue *queue;
	enum rdma_reject status = target_rdma_queue_create(listener, id, request, &queue);
	uint8_t bytes[RDMA_REPLY_BYTES];
	struct rdma_conn_param param = {
		.private_data = bytes,
		.private_data_len = sizeof(bytes),
		.flow_control = 1,
		.rnr_retry_count = RNR_RETRIES,
	};

	if (status) {
		rdma_reject_encode(status, bytes);
		(void)rdma_reject(id, bytes, RDMA_REJECT_BYTES);
		(void)rdma_destroy_id(id);
		return;
	}
	id->context = queue;
	param.initiator_depth = (uint8_t)queue->reads_max;
	rdma_reply_encode((uint16_t)queue->entries, bytes);
	target_queue_open(listener->rdma->target, &queue->queue);
	if (rdma_accept(id, &param))
		target_rdma_queue_lose(queue);
}

static void event_happened(const struct rdma_cm_event *event)
{
	switch ((int)event->event) {
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		accept_request(event->listen_id->context, event->id, &event->param.conn);
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		target_rdma_queue_establish(event->id->context);
		break;
	case RDMA_CM_EVENT_CONNECT_ERROR:
	case RDMA_CM_EVENT_UNREACHABLE:
	case RDMA_CM_EVENT_REJECTED:
	case RDMA_CM_EVENT_DISCONNECTED:
		target_rdma_queue_lose(event->id->context);
		break;
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		/* A listener has no queue pair; it stays until target_rdma_unlisten(). */
		if (event->id->qp)
			target_rdma_queue_lose(event->id->context);
		break;
	default:
		break;
	}
}

static void events_ready(struct loop_watch *watch, uint32_t events)
{
	struct target_rdma *rdma = container_of(watch, struct target_rdma, events_watch);
	struct rdma_cm_event *event;

	(void)events;
	while (rdma_get_cm_event(rdma->events, &event) == 0) {
		event_happened(event);
		rdma_ack_cm_event(event);
	}
}

static void flush_run(struct loop_work *work)
{
	target_flush(container_of(work, struct target_rdma, flush)->target);
}

static void busy_run(struct loop_work *work)
{
	struct target_rdma *rdma = container_of(work, struct target_rdma, busy);

	if (!rdma->is_busy)
		return;
	for (unsigned i = 0; i < BUSY_ROUNDS; i++) {
		unsigned found = 0;

		list_for_each(queue, &rdma->queues, struct target_rdma_queue, node) {
			if (queue->state < TARGET_RDMA_ENDED)
				found += rdma_completions_poll(&queue->completions);
		}
		if (found == 0)
			continue;
		target_flush(rdma->target);
		list_for_each(queue, &rdma->queues, struct target_rdma_queue, node)
			target_rdma_send(queue);
	}
	loop_defer(rdma->loop, work);
}

void target_rdma_set_busy(struct target_rdma *rdma, bool is_busy)
{
	rdma->is_busy = is_busy;
	if (is_busy)
		loop_defer(rdma->loop, &rdma->busy);
}

int target_rdma_create(struct target *target, struct loop *loop, struct target_rdma **ret_rdma)
{
	struct target_rdma *rdma = calloc(1, sizeof(*rdma));
	int error = -ENOMEM, flags;

	if (!rdma)
		return error;
	rdma->target = target;
	rdma->loop = loop;
	list_init(&rdma->queues);
	loop_work_init(&rdma->flush, flush_run);
	loop_work_init(&rdma->busy, busy_run);
	rdma->events_watch.ready = events_ready;
	rdma->events = rdma_create_event_channel();
	if (!rdma->events) {
		error = -errno;
		free(rdma);
		return error;
	}
	flags = fcntl(rdma->events->fd, F_GETFL);
	if (flags < 0 || fcntl(rdma->events->fd, F_SETFL, flags | O_NONBLOCK))
		error = -errno;
	else
		error = loop_watch(loop, &rdma->events_watch, rdma->events->fd, EPOLLIN);
	if (error) {
		target_rdma_destroy(rdma);
		return error;
	}
	*ret_rdma = rdma;
	return 0;
}

void target_rdma_destroy(struct target_rdma *rdma)
{
	if (!rdma)
		return;
	loop_defer_cancel(&rdma->flush);
	loop_defer_cancel(&rdma->busy);
	loop_unwatch(rdma->loop, &rdma->events_watch);
	rdma_destroy_event_channel(rdma->events);
	free(rdma);
}

int target_rdma_listen(struct target_rdma *rdma, struct target_port *port,
	const struct sockaddr *address, uint32_t in_capsule_bytes, uint32_t entries_max,
	struct target_rdma_listener **ret_listener, char *sentence)
{
	struct target_rdma_listener *listener = calloc(1, sizeof(*listener));
	int error;

	if (!listener)
		return -ENOMEM;
	*listener = (struct target_rdma_listener){
		.rdma = rdma,
		.port = port,
		.in_capsule_bytes = in_capsule_bytes,
		.entries_max = entries_max,
	};
	if (rdma_create_id(rdma->events, &listener->id, listener, RDMA_PS_TCP) == 0 &&
		rdma_bind_addr(listener->id, (struct sockaddr *)address) == 0 &&
		rdma_listen(listener->id, BACKLOG) == 0) {
		*ret_listener = listener;
		return 0;
	}
	error = -errno;
	/*
	 * If the port number is in use, the error may be either of these two. It depends on whether
	 * the other listener has the same address.
	 */
	if (error == -EADDRINUSE || error == -EADDRNOTAVAIL)
		snprintf(sentence, TARGET_RDMA_SENTENCE_BYTES,
			"another program listens there over RDMA, or the address is not this "
			"machine's; choose another port number or address");
	else
		snprintf(sentence, TARGET_RDMA_SENTENCE_BYTES,
			"cannot listen over RDMA: %s; check that the address has an RDMA device",
			strerror(-error));
	target_rdma_unlisten(listener);
	return error;
}

void target_rdma_unlisten(struct target_rdma_listener *listener)
{
	if (!listener)
		return;
	if (listener->id)
		(void)rdma_destroy_id(listener->id);
	free(listener);
}

unsigned target_rdma_queue_count(const struct target_rdma *rdma)
{
	return rdma->queue_count;
}
