/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The requests that a queue posts: RDMA READs, RDMA WRITEs of data, SENDs of responses, and receive
 * requests.
 *
 * Callbacks of one step of the loop only append commands to lists. After them, target_rdma_send()
 * posts the requests of these commands in chains (rdma_chain.h). All WRITEs of a batch go before
 * its SENDs. So each SEND follows its data, and an adapter in software sends packets of the same
 * length together. Only the last SEND of a batch is signaled, because its completion covers the
 * SENDs before it.
 */
#include "nvmf/common/rdma/rdma_chain.h"
#include "nvmf/target/rdma/rdma_queue.h"

struct batch {
	uint32_t count;
	struct ibv_recv_wr receives[RDMA_CHAIN_MAX];
	struct ibv_sge receive_sges[RDMA_CHAIN_MAX];
	struct rdma_chain writes, sends;
};

static uint32_t index_of(
	const struct target_rdma_queue *queue, const struct target_rdma_command *slot)
{
	return (uint32_t)(slot - queue->slots);
}

uint8_t *target_rdma_capsule(const struct target_rdma_queue *queue, uint32_t receive)
{
	return queue->capsules.bytes + (size_t)receive * queue->capsule_stride;
}

static uint8_t *response_of(
	const struct target_rdma_queue *queue, const struct target_rdma_command *slot)
{
	return queue->capsules.bytes + (size_t)queue->entries * queue->capsule_stride +
		(size_t)index_of(queue, slot) * TARGET_RDMA_ALIGN;
}

static bool chain_post(struct target_rdma_queue *queue, struct rdma_chain *chain)
{
	struct ibv_send_wr *bad;

	return chain->count == 0 || ibv_post_send(queue->id->qp, chain->wrs, &bad) == 0;
}

/* --- RDMA READs --- */

/* Post RDMA READs. The host serves `reads_max` of them at once; further READs wait. */
static bool post_reads(struct target_rdma_queue *queue)
{
	struct rdma_chain chain;

	chain.count = 0;
	while (!list_is_empty(&queue->needs_read) && queue->reads < queue->reads_max &&
		chain.count < RDMA_CHAIN_MAX) {
		struct target_rdma_command *slot =
			list_first(&queue->needs_read, struct target_rdma_command, node);
		struct ibv_send_wr *wr =
			rdma_chain_add(&chain, TARGET_RDMA_WR_READ | index_of(queue, slot),
				IBV_WR_RDMA_READ, slot->buffer, slot->buffer_bytes, queue->pool.mr);

		wr->send_flags = IBV_SEND_SIGNALED;
		wr->wr.rdma.remote_addr = slot->command.sqe.sgl.address;
		wr->wr.rdma.rkey = slot->command.sqe.sgl.key;
		list_remove(&slot->node);
		slot->stage = TARGET_RDMA_READS;
		queue->reads++;
	}
	return chain_post(queue, &chain);
}

/* --- receive requests --- */

static void add_receive(const struct target_rdma_queue *queue, uint32_t index,
	struct ibv_recv_wr *wr, struct ibv_sge *sge)
{
	*sge = (struct ibv_sge){
		.addr = (uintptr_t)target_rdma_capsule(queue, index),
		.length = queue->capsule_bytes,
		.lkey = queue->capsules.mr->lkey,
	};
	*wr = (struct ibv_recv_wr){.wr_id = index, .sg_list = sge, .num_sge = 1};
}

bool target_rdma_post_receive(struct target_rdma_queue *queue, uint32_t index)
{
	struct ibv_recv_wr wr, *bad;
	struct ibv_sge sge;

	add_receive(queue, index, &wr, &sge);
	return ibv_post_recv(queue->id->qp, &wr, &bad) == 0;
}

/* --- responses --- */

/* Whether the command's SGL descriptor requests the invalidation of its key. */
static bool wants_invalidate(const struct target_command *command)
{
	return command->sqe.sgl.type == NVME_SGL_KEYED_INVALIDATE && command->sqe.sgl.length > 0;
}

static void add_data(const struct target_rdma_queue *queue, struct target_rdma_command *slot,
	struct rdma_chain *writes)
{
	const struct target_command *command = &slot->command;
	struct ibv_send_wr *wr;

	if (command->direction != TARGET_FROM_CONTROLLER || !slot->buffer ||
		command->data_bytes == 0 || command->cqe.status != NVME_SUCCESS)
		return;
	wr = rdma_chain_add(
		writes, 0, IBV_WR_RDMA_WRITE, slot->buffer, command->data_bytes, queue->pool.mr);
	wr->wr.rdma.remote_addr = command->sqe.sgl.address;
	wr->wr.rdma.rkey = command->sqe.sgl.key;
}

static void add_response(const struct target_rdma_queue *queue, struct target_rdma_command *slot,
	struct rdma_chain *sends)
{
	const struct target_command *command = &slot->command;
	struct ibv_send_wr *wr =
		rdma_chain_add(sends, TARGET_RDMA_WR_RESPONSE | index_of(queue, slot), IBV_WR_SEND,
			response_of(queue, slot), NVME_CQE_BYTES, queue->capsules.mr);

	if (wants_invalidate(command)) {
		wr->opcode = IBV_WR_SEND_WITH_INV;
		wr->invalidate_rkey = command->sqe.sgl.key;
	}
	nvme_cqe_encode(&command->cqe, response_of(queue, slot));
}

static void batch_add(struct target_rdma_queue *queue, struct batch *batch)
{
	struct target_rdma_command *slot =
		list_first(&queue->needs_send, struct target_rdma_command, node);
	struct ibv_recv_wr *receive = &batch->receives[batch->count];

	add_receive(queue, slot->receive, receive, &batch->receive_sges[batch->count]);
	if (batch->count)
		receive[-1].next = receive;
	add_data(queue, slot, &batch->writes);
	add_response(queue, slot, &batch->sends);
	list_remove(&slot->node);
	list_append(&queue->responding, &slot->node);
	slot->stage = TARGET_RDMA_RESPONDS;
	queue->responses++;
	batch->count++;
}

/* Post the receive requests first, because the responses let the host send its next commands. */
static bool batch_post(struct target_rdma_queue *queue, struct batch *batch)
{
	struct ibv_recv_wr *bad;

	batch->sends.wrs[batch->count - 1].send_flags = IBV_SEND_SIGNALED;
	if (batch->writes.count)
		batch->writes.wrs[batch->writes.count - 1].next = batch->sends.wrs;
	return ibv_post_recv(queue->id->qp, batch->receives, &bad) == 0 &&
		chain_post(queue, batch->writes.count ? &batch->writes : &batch->sends);
}

/*
 * Post responses. At most `entries` of them are outstanding, even if the host's acknowledgements
 * are late. So an arriving command finds a free slot: of the 2 * `entries` slots, at most `entries`
 * respond, and each other used slot has one of the `entries` receive buffers.
 */
static bool post_responses(struct target_rdma_queue *queue)
{
	struct batch batch;

	while (!list_is_empty(&queue->needs_send) && queue->responses < queue->entries) {
		batch.count = batch.writes.count = batch.sends.count = 0;
		do {
			batch_add(queue, &batch);
		} while (!list_is_empty(&queue->needs_send) && batch.count < RDMA_CHAIN_MAX &&
			queue->responses < queue->entries);
		if (!batch_post(queue, &batch))
			return false;
	}
	return true;
}

void target_rdma_send(struct target_rdma_queue *queue)
{
	if (queue->state != TARGET_RDMA_ENDED && (!post_reads(queue) || !post_responses(queue)))
		target_rdma_queue_lose(queue);
}
