/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The creation of a queue at a connection request, and its end, which the loop runs.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nvmf/target/rdma/rdma_queue.h"

enum { LINGER_NS = 1000000000 /* the most time for the last responses after close() */ };

static struct target_rdma_queue *rdma_queue_of(struct target_queue *queue)
{
	return container_of(queue, struct target_rdma_queue, queue);
}

static void forget_connection(struct target_rdma_queue *queue)
{
	if (queue->id && queue->id->qp) {
		(void)rdma_disconnect(queue->id);
		rdma_destroy_qp(queue->id);
	}
	rdma_completions_done(&queue->completions);
}

void target_rdma_queue_free(struct target_rdma_queue *queue)
{
	forget_connection(queue);
	rdma_pool_done(&queue->pool);
	rdma_pool_done(&queue->capsules);
	if (queue->pd)
		(void)ibv_dealloc_pd(queue->pd);
	if (list_is_linked(&queue->node)) {
		list_remove(&queue->node);
		queue->rdma->queue_count--;
	}
	free(queue->parked);
	free(queue->slots);
	free(queue);
}

static void release_run(struct loop_work *work)
{
	target_rdma_queue_free(container_of(work, struct target_rdma_queue, release));
}

static void end_run(struct loop_work *work)
{
	struct target_rdma_queue *queue = container_of(work, struct target_rdma_queue, end);

	if (queue->state == TARGET_RDMA_ENDED)
		return;
	loop_timer_cancel(&queue->end_timer);
	loop_defer_cancel(&queue->send);
	queue->state = TARGET_RDMA_ENDED;
	forget_connection(queue);
	(void)rdma_destroy_id(queue->id);
	queue->id = NULL;
	target_rdma_abandon(queue);
	target_queue_closed(&queue->queue);
	if (queue->at_core == 0)
		loop_defer(queue->rdma->loop, &queue->release);
}

static void send_run(struct loop_work *work)
{
	target_rdma_send(container_of(work, struct target_rdma_queue, send));
}

static void end_timer_expired(struct loop_timer *timer)
{
	end_run(&container_of(timer, struct target_rdma_queue, end_timer)->end);
}

void target_rdma_queue_lose(struct target_rdma_queue *queue)
{
	if (queue->state == TARGET_RDMA_ENDED)
		return;
	queue->state = TARGET_RDMA_ENDING;
	rdma_completions_stop(&queue->completions);
	loop_defer(queue->rdma->loop, &queue->end);
}

static void transport_close(struct target_queue *base)
{
	struct target_rdma_queue *queue = rdma_queue_of(base);
	struct loop *loop = queue->rdma->loop;

	if (queue->state >= TARGET_RDMA_ENDING)
		return;
	queue->state = TARGET_RDMA_ENDING;
	if (queue->responses == 0 && list_is_empty(&queue->needs_send))
		loop_defer(loop, &queue->end);
	else
		loop_timer_set(loop, &queue->end_timer, loop_now_ns(loop) + LINGER_NS);
}

/* The number of receive requests is fixed since the connection request. */
static bool transport_set_entries(struct target_queue *base, uint16_t entries)
{
	return entries <= rdma_queue_of(base)->entries;
}

const struct target_transport target_rdma_transport = {
	.name = "rdma",
	.trtype = 1,
	/* The target supports SGLs, keyed descriptors, and offsets in the capsule. */
	.sgls = 1 << 0 | 1 << 2 | 1 << 20,
	.data_bytes_max = TARGET_RDMA_DATA_BYTES_MAX,
	.set_entries = transport_set_entries,
	.fetch = target_rdma_fetch,
	.prepare = target_rdma_prepare,
	.respond = target_rdma_respond,
	.close = transport_close,
};

void target_rdma_queue_establish(struct target_rdma_queue *queue)
{
	if (queue->state != TARGET_RDMA_ACCEPTED)
		return;
	queue->state = TARGET_RDMA_LIVE;
	target_rdma_unpark(queue);
}

static bool make_slots(struct target_rdma_queue *queue)
{
	queue->slot_count = 2 * queue->entries;
	queue->slots = calloc(queue->slot_count, sizeof(*queue->slots));
	queue->parked = calloc(queue->entries, sizeof(*queue->parked));
	if (!queue->slots || !queue->parked)
		return false;
	for (uint32_t i = 0; i < queue->slot_count; i++)
		list_append(&queue->free, &queue->slots[i].node);
	return true;
}

static bool make_memory(struct target_rdma_queue *queue)
{
	struct ibv_context *verbs = queue->id->verbs;
	/* Over iWARP, the READ response writes to the sink buffer like a WRITE (RFC 5040, 5.2). */
	int access =
		verbs->device->transport_type == IBV_TRANSPORT_IWARP ? IBV_ACCESS_REMOTE_WRITE : 0;
	/* With three parts, the second half of a fused pair has room wherever the first lies. */
	uint64_t pool = 3 * TARGET_RDMA_DATA_BYTES_MAX;

	if (pool < (uint64_t)queue->entries * RDMA_POOL_PAGE_BYTES)
		pool = (uint64_t)queue->entries * RDMA_POOL_PAGE_BYTES;
	queue->pd = ibv_alloc_pd(verbs);
	return queue->pd &&
		rdma_pool_init(&queue->capsules, queue->pd,
			(uint64_t)queue->entries * queue->capsule_stride +
				(uint64_t)queue->slot_count * TARGET_RDMA_ALIGN,
			0) == 0 &&
		rdma_pool_init(&queue->pool, queue->pd, pool, access) == 0;
}

static bool make_queue_pair(struct target_rdma_queue *queue)
{
	struct ibv_qp_init_attr attr = {
		.cap = {.max_send_wr = 2 * queue->slot_count + queue->reads_max,
			.max_recv_wr = queue->entries,
			.max_send_sge = 1,
			.max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
	};

	if (rdma_completions_init(&queue->completions, queue->rdma->loop, queue->id->verbs,
		    queue->slot_count + queue->reads_max + queue->entries, target_rdma_completed))
		return false;
	attr.send_cq = attr.recv_cq = queue->completions.cq;
	if (rdma_create_qp(queue->id, queue->pd, &attr))
		return false;
	for (uint32_t i = 0; i < queue->entries; i++) {
		if (!target_rdma_post_receive(queue, i))
			return false;
	}
	return true;
}

static void name_peer(struct rdma_cm_id *id, char ret_peer[TARGET_PEER_BYTES])
{
	const struct sockaddr *address = rdma_get_peer_addr(id);
	bool is_ipv6 = address->sa_family == AF_INET6;
	const void *binary = (const char *)address +
		(is_ipv6 ? offsetof(struct sockaddr_in6, sin6_addr)
			 : offsetof(struct sockaddr_in, sin_addr));
	char text[INET6_ADDRSTRLEN] = "?";

	(void)inet_ntop(address->sa_family, binary, text, sizeof(text));
	snprintf(ret_peer, TARGET_PEER_BYTES, is_ipv6 ? "[%s]:%u" : "%s:%u", text,
		ntohs(rdma_get_dst_port(id)));
}

static void init_queue(struct target_rdma_queue *queue, struct target_rdma_listener *listener,
	const struct rdma_request *request)
{
	queue->rdma = listener->rdma;
	queue->queue.transport = &target_rdma_transport;
	queue->queue.port = listener->port;
	queue->queue.in_capsule_bytes = listener->in_capsule_bytes;
	queue->entries = (uint32_t)request->hsqsize + 1;
	queue->capsule_bytes = NVME_SQE_BYTES;
	/* Admin commands have no in-capsule data, but keyed descriptors. */
	if (request->qid > 0)
		queue->capsule_bytes += listener->in_capsule_bytes;
	queue->capsule_stride = (queue->capsule_bytes + TARGET_RDMA_ALIGN - 1) / TARGET_RDMA_ALIGN *
		TARGET_RDMA_ALIGN;
	list_init(&queue->node);
	list_init(&queue->free);
	list_init(&queue->needs_room);
	list_init(&queue->needs_read);
	list_init(&queue->needs_send);
	list_init(&queue->responding);
	loop_work_init(&queue->send, send_run);
	loop_work_init(&queue->end, end_run);
	loop_work_init(&queue->release, release_run);
	loop_timer_init(&queue->end_timer, end_timer_expired);
}

enum rdma_reject target_rdma_queue_create(struct target_rdma_listener *listener,
	struct rdma_cm_id *id, const struct rdma_conn_param *param,
	struct target_rdma_queue **ret_queue)
{
	struct ibv_device_attr device = {.max_qp_init_rd_atom = 1};
	struct target_rdma_queue *queue;
	struct rdma_request request;
	char peer[TARGET_PEER_BYTES] = "";
	enum rdma_reject status = rdma_request_decode(
		param->private_data, param->private_data_len, listener->entries_max, &request);

	if (status)
		return status;
	/* In a connection request, initiator_depth is how many READs the host serves at once. */
	if (param->initiator_depth == 0)
		return RDMA_REJECT_IRD;
	name_peer(id, peer);
	if (target_admit(listener->rdma->target, peer) != TARGET_ADMITTED)
		return RDMA_REJECT_RESOURCES;
	queue = calloc(1, sizeof(*queue));
	if (!queue)
		return RDMA_REJECT_RESOURCES;
	init_queue(queue, listener, &request);
	queue->id = id;
	(void)ibv_query_device(id->verbs, &device);
	queue->reads_max = param->initiator_depth;
	if (queue->reads_max > (uint32_t)device.max_qp_init_rd_atom)
		queue->reads_max = (uint32_t)device.max_qp_init_rd_atom;
	if (!make_slots(queue) || !make_memory(queue) || !make_queue_pair(queue)) {
		target_rdma_queue_free(queue);
		return RDMA_REJECT_RESOURCES;
	}
	memcpy(queue->queue.peer, peer, sizeof(peer));
	list_append(&listener->rdma->queues, &queue->node);
	listener->rdma->queue_count++;
	*ret_queue = queue;
	return RDMA_ACCEPT;
}
