/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Commands of a queue: capsules in, data by RDMA READ and WRITE, responses out.
 */
#include <assert.h>
#include <string.h>

#include "nvmf/target/rdma/rdma_queue.h"

enum {
	WR_RESPONSE = 1 << 16, /* in wr_id; or an RDMA READ, or the index of a receive request */
	WR_READ = 2 << 16,
	WR_INDEX = (1 << 16) - 1,
};

static struct target_rdma_command *slot_of(struct target_command *command)
{
	return container_of(command, struct target_rdma_command, command);
}

static struct target_rdma_queue *queue_of(const struct target_command *command)
{
	return container_of(command->queue, struct target_rdma_queue, queue);
}

static uint32_t index_of(
	const struct target_rdma_queue *queue, const struct target_rdma_command *slot)
{
	return (uint32_t)(slot - queue->slots);
}

static uint8_t *capsule_of(const struct target_rdma_queue *queue, uint32_t receive)
{
	return queue->capsules.bytes + (size_t)receive * queue->capsule_stride;
}

static uint8_t *response_of(
	const struct target_rdma_queue *queue, const struct target_rdma_command *slot)
{
	return queue->capsules.bytes + (size_t)queue->entries * queue->capsule_stride +
		(size_t)index_of(queue, slot) * TARGET_RDMA_ALIGN;
}

bool target_rdma_post_receive(struct target_rdma_queue *queue, uint32_t index)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)capsule_of(queue, index),
		.length = queue->capsule_bytes,
		.lkey = queue->capsules.mr->lkey,
	};
	struct ibv_recv_wr wr = {.wr_id = index, .sg_list = &sge, .num_sge = 1};
	struct ibv_recv_wr *bad;

	return ibv_post_recv(queue->id->qp, &wr, &bad) == 0;
}

static bool is_over(const struct target_rdma_queue *queue)
{
	return queue->state == TARGET_RDMA_ENDED;
}

/* --- data --- */

static void post_read(struct target_rdma_queue *queue, struct target_rdma_command *slot)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)slot->buffer,
		.length = slot->buffer_bytes,
		.lkey = queue->pool.mr->lkey,
	};
	struct ibv_send_wr wr = {
		.wr_id = WR_READ | index_of(queue, slot),
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_READ,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = {slot->command.sqe.sgl.address, slot->command.sqe.sgl.key},
	};
	struct ibv_send_wr *bad;

	slot->stage = TARGET_RDMA_READS;
	queue->reads++;
	if (ibv_post_send(queue->id->qp, &wr, &bad))
		target_rdma_queue_lose(queue);
}

/* The host serves so many RDMA READs at once, and the others wait for them. */
static void start_read(struct target_rdma_queue *queue, struct target_rdma_command *slot)
{
	if (queue->reads < queue->reads_max) {
		post_read(queue, slot);
		return;
	}
	slot->stage = TARGET_RDMA_NEEDS_READ;
	list_append(&queue->needs_read, &slot->node);
}

/* Take a buffer, and do what fetch() or prepare() needs it for. False: no room. */
static bool take_room(struct target_rdma_queue *queue, struct target_rdma_command *slot)
{
	struct target_command *command = &slot->command;

	slot->buffer = rdma_pool_take(&queue->pool, command->data_bytes);
	if (!slot->buffer)
		return false;
	slot->buffer_bytes = command->data_bytes;
	command->data = slot->buffer;
	if (command->direction == TARGET_TO_CONTROLLER) {
		start_read(queue, slot);
	} else {
		slot->stage = TARGET_RDMA_AT_CORE;
		target_command_data_ready(command, NVME_SUCCESS);
	}
	return true;
}

static void need_room(struct target_rdma_queue *queue, struct target_rdma_command *slot)
{
	if (list_is_empty(&queue->needs_room) && take_room(queue, slot))
		return;
	slot->stage = TARGET_RDMA_NEEDS_ROOM;
	list_append(&queue->needs_room, &slot->node);
}

static void give_room(struct target_rdma_queue *queue, struct target_rdma_command *slot)
{
	if (slot->buffer)
		rdma_pool_give(&queue->pool, slot->buffer, slot->buffer_bytes);
	slot->buffer = NULL;
}

/* A command that has got its data may be responded to at once, which comes here again. */
static void resume_waiting(struct target_rdma_queue *queue)
{
	if (queue->is_resuming)
		return;
	queue->is_resuming = true;
	while (!is_over(queue) && !list_is_empty(&queue->needs_read) &&
		queue->reads < queue->reads_max) {
		struct target_rdma_command *slot =
			list_first(&queue->needs_read, struct target_rdma_command, node);

		list_remove(&slot->node);
		post_read(queue, slot);
	}
	while (!is_over(queue) && !list_is_empty(&queue->needs_room)) {
		struct target_rdma_command *slot =
			list_first(&queue->needs_room, struct target_rdma_command, node);

		list_remove(&slot->node);
		if (take_room(queue, slot))
			continue;
		/* It stays the first one. */
		list_append(queue->needs_room.next, &slot->node);
		break;
	}
	queue->is_resuming = false;
}

/* Whether data of this length can move in this direction at all. */
static uint16_t check_data(
	const struct target_rdma_queue *queue, const struct target_command *command)
{
	if (is_over(queue))
		return NVME_SQ_DELETED;
	if (command->data_bytes > TARGET_RDMA_DATA_BYTES_MAX)
		return NVME_INVALID_FIELD;
	return NVME_SUCCESS;
}

void target_rdma_fetch(struct target_command *command)
{
	struct target_rdma_command *slot = slot_of(command);
	struct target_rdma_queue *queue = queue_of(command);
	uint16_t status = check_data(queue, command);

	if (status == NVME_SUCCESS && command->is_in_capsule) {
		/* target_rdma_receive() has compared offset and length with the capsule. */
		command->data = capsule_of(queue, slot->receive) + NVME_SQE_BYTES +
			command->sqe.sgl.address;
	} else if (status == NVME_SUCCESS && command->data_bytes > 0) {
		command->direction = TARGET_TO_CONTROLLER;
		need_room(queue, slot);
		return;
	}
	target_command_data_ready(command, status);
}

void target_rdma_prepare(struct target_command *command)
{
	struct target_rdma_command *slot = slot_of(command);
	struct target_rdma_queue *queue = queue_of(command);
	uint16_t status = check_data(queue, command);

	if (status == NVME_SUCCESS && command->is_in_capsule)
		status = NVME_SGL_TYPE;
	if (status == NVME_SUCCESS && command->data_bytes > 0) {
		command->direction = TARGET_FROM_CONTROLLER;
		need_room(queue, slot);
		return;
	}
	target_command_data_ready(command, status);
}

void target_rdma_abandon(struct target_rdma_queue *queue)
{
	list_init(&queue->needs_read);
	list_init(&queue->needs_room);
	for (uint32_t i = 0; i < queue->slot_count; i++) {
		struct target_rdma_command *slot = &queue->slots[i];

		if (slot->stage != TARGET_RDMA_NEEDS_ROOM &&
			slot->stage != TARGET_RDMA_NEEDS_READ && slot->stage != TARGET_RDMA_READS)
			continue;
		list_init(&slot->node);
		slot->stage = TARGET_RDMA_AT_CORE;
		target_command_data_ready(&slot->command, NVME_SQ_DELETED);
	}
}

/* --- responses --- */

static void free_slot(struct target_rdma_queue *queue, struct target_rdma_command *slot)
{
	give_room(queue, slot);
	slot->stage = TARGET_RDMA_FREE;
	list_append(&queue->free, &slot->node);
}

/* The command's descriptor asks for its key to be invalidated. */
static bool wants_invalidate(const struct target_command *command)
{
	return command->sqe.sgl.type == NVME_SGL_KEYED_INVALIDATE && command->sqe.sgl.length > 0;
}

/* Post [WRITE and] SEND in one list: the SEND follows the data. */
static bool post_response(struct target_rdma_queue *queue, struct target_rdma_command *slot)
{
	const struct target_command *command = &slot->command;
	bool has_data = command->direction == TARGET_FROM_CONTROLLER && slot->buffer &&
		command->data_bytes > 0 && command->cqe.status == NVME_SUCCESS;
	struct ibv_sge data = {
		.addr = (uintptr_t)slot->buffer,
		.length = command->data_bytes,
		.lkey = queue->pool.mr->lkey,
	};
	struct ibv_sge capsule = {
		.addr = (uintptr_t)response_of(queue, slot),
		.length = NVME_CQE_BYTES,
		.lkey = queue->capsules.mr->lkey,
	};
	struct ibv_send_wr send = {
		.wr_id = WR_RESPONSE | index_of(queue, slot),
		.sg_list = &capsule,
		.num_sge = 1,
		.opcode = wants_invalidate(command) ? IBV_WR_SEND_WITH_INV : IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
	};
	struct ibv_send_wr write = {
		.wr_id = send.wr_id,
		.next = &send,
		.sg_list = &data,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.wr.rdma = {command->sqe.sgl.address, command->sqe.sgl.key},
	};
	struct ibv_send_wr *bad;

	if (send.opcode == IBV_WR_SEND_WITH_INV)
		send.invalidate_rkey = command->sqe.sgl.key;
	nvme_cqe_encode(&command->cqe, response_of(queue, slot));
	return ibv_post_send(queue->id->qp, has_data ? &write : &send, &bad) == 0;
}

void target_rdma_respond(struct target_command *command)
{
	struct target_rdma_command *slot = slot_of(command);
	struct target_rdma_queue *queue = queue_of(command);

	assert(slot->stage == TARGET_RDMA_AT_CORE);
	queue->at_core--;
	if (is_over(queue)) {
		free_slot(queue, slot);
		if (queue->at_core == 0)
			loop_defer(queue->rdma->loop, &queue->release);
		return;
	}
	if (command->direction != TARGET_FROM_CONTROLLER)
		give_room(queue, slot);
	/* Data must not exceed what the host's descriptor allows. */
	assert(command->direction != TARGET_FROM_CONTROLLER ||
		command->data_bytes <= command->sqe.sgl.length || !slot->buffer);
	slot->stage = TARGET_RDMA_RESPONDS;
	queue->responses++;
	/* The host's next command may come as soon as it has the response. */
	if (!target_rdma_post_receive(queue, slot->receive) || !post_response(queue, slot))
		target_rdma_queue_lose(queue);
	else
		resume_waiting(queue);
}

/* --- capsules --- */

/* Descriptor and capsule fit each other; what the command is, is the core's matter. */
static uint16_t check_descriptor(struct target_command *command, uint32_t received_bytes)
{
	const struct nvme_sgl *sgl = &command->sqe.sgl;
	uint32_t in_capsule_bytes = received_bytes - NVME_SQE_BYTES;

	command->data_bytes = sgl->length;
	if (command->sqe.psdt != 1)
		return NVME_INVALID_FIELD;
	switch (sgl->type) {
	case NVME_SGL_KEYED:
	case NVME_SGL_KEYED_INVALIDATE:
		return NVME_SUCCESS;
	case NVME_SGL_IN_CAPSULE:
		command->is_in_capsule = true;
		if (sgl->address > in_capsule_bytes)
			return NVME_SGL_OFFSET;
		if (sgl->length > in_capsule_bytes - sgl->address)
			return NVME_SGL_LENGTH;
		return NVME_SUCCESS;
	default:
		return NVME_SGL_TYPE;
	}
}

static void give_to_core(struct target_rdma_queue *queue, const struct ibv_wc *wc)
{
	struct target_rdma_command *slot =
		list_first(&queue->free, struct target_rdma_command, node);
	struct target_command *command = &slot->command;

	list_remove(&slot->node);
	memset(command, 0, sizeof(*command));
	slot->receive = (uint32_t)wc->wr_id;
	slot->received_bytes = wc->byte_len;
	slot->stage = TARGET_RDMA_AT_CORE;
	command->sqe = nvme_sqe_decode(capsule_of(queue, slot->receive));
	command->refusal = check_descriptor(command, wc->byte_len);
	queue->at_core++;
	loop_defer(queue->rdma->loop, &queue->rdma->flush);
	if (target_queue_command(&queue->queue, command))
		return;
	queue->at_core--;
	free_slot(queue, slot);
	target_rdma_queue_lose(queue);
}

void target_rdma_unpark(struct target_rdma_queue *queue)
{
	while (queue->parked_count > 0 && queue->state == TARGET_RDMA_LIVE &&
		!list_is_empty(&queue->free)) {
		struct ibv_wc wc = queue->parked[queue->parked_first];

		queue->parked_first = (queue->parked_first + 1) % queue->entries;
		queue->parked_count--;
		give_to_core(queue, &wc);
	}
}

static void capsule_received(struct target_rdma_queue *queue, const struct ibv_wc *wc)
{
	if (wc->byte_len < NVME_SQE_BYTES || wc->wc_flags & (IBV_WC_WITH_IMM | IBV_WC_WITH_INV)) {
		target_rdma_queue_lose(queue);
		return;
	}
	/* There are as many places as receive requests. */
	assert(queue->parked_count < queue->entries);
	queue->parked[(queue->parked_first + queue->parked_count++) % queue->entries] = *wc;
	target_rdma_unpark(queue);
}

static void read_completed(struct target_rdma_queue *queue, struct target_rdma_command *slot)
{
	queue->reads--;
	slot->stage = TARGET_RDMA_AT_CORE;
	target_command_data_ready(&slot->command, NVME_SUCCESS);
	loop_defer(queue->rdma->loop, &queue->rdma->flush);
	resume_waiting(queue);
}

static void response_completed(struct target_rdma_queue *queue, struct target_rdma_command *slot)
{
	queue->responses--;
	free_slot(queue, slot);
	if (queue->state == TARGET_RDMA_ENDING && queue->responses == 0)
		loop_defer(queue->rdma->loop, &queue->end);
	target_rdma_unpark(queue);
	resume_waiting(queue);
}

void target_rdma_completed(struct rdma_completions *completions, const struct ibv_wc *wc)
{
	struct target_rdma_queue *queue =
		container_of(completions, struct target_rdma_queue, completions);
	uint32_t index = wc->wr_id & WR_INDEX;

	if (wc->status != IBV_WC_SUCCESS)
		target_rdma_queue_lose(queue);
	else if (wc->wr_id & WR_READ)
		read_completed(queue, &queue->slots[index]);
	else if (wc->wr_id & WR_RESPONSE)
		response_completed(queue, &queue->slots[index]);
	else if (queue->state < TARGET_RDMA_ENDING)
		capsule_received(queue, wc);
}
