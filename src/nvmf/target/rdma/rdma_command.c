/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Commands of a queue: how their capsules arrive, and the memory for their data. rdma_send.c posts
 * READs, WRITEs and responses.
 */
#include <assert.h>
#include <string.h>

#include "nvmf/target/rdma/rdma_queue.h"

static struct target_rdma_command *slot_of(struct target_command *command)
{
	return container_of(command, struct target_rdma_command, command);
}

static struct target_rdma_queue *queue_of(const struct target_command *command)
{
	return container_of(command->queue, struct target_rdma_queue, queue);
}

static bool is_over(const struct target_rdma_queue *queue)
{
	return queue->state == TARGET_RDMA_ENDED;
}

/* --- data --- */

/*
 * Take a buffer; then queue the RDMA READ of fetch(), or end prepare(). Returns false if the pool
 * has no room.
 */
static bool take_room(struct target_rdma_queue *queue, struct target_rdma_command *slot)
{
	struct target_command *command = &slot->command;

	slot->buffer = rdma_pool_take(&queue->pool, command->data_bytes);
	if (!slot->buffer)
		return false;
	slot->buffer_bytes = command->data_bytes;
	command->data = slot->buffer;
	if (command->direction == TARGET_TO_CONTROLLER) {
		slot->stage = TARGET_RDMA_NEEDS_READ;
		list_append(&queue->needs_read, &slot->node);
		loop_defer(queue->rdma->loop, &queue->send);
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

/*
 * Serve the commands that wait for room. The core may respond to a command at once, and
 * target_rdma_respond() calls this function again; is_resuming ends that inner call.
 */
static void resume_waiting(struct target_rdma_queue *queue)
{
	if (queue->is_resuming)
		return;
	queue->is_resuming = true;
	while (!is_over(queue) && !list_is_empty(&queue->needs_room)) {
		struct target_rdma_command *slot =
			list_first(&queue->needs_room, struct target_rdma_command, node);

		list_remove(&slot->node);
		if (take_room(queue, slot))
			continue;
		/* The command stays the first one in the list. */
		list_append(queue->needs_room.next, &slot->node);
		break;
	}
	queue->is_resuming = false;
}

/* NVME_SUCCESS, or why the data of the command cannot be transferred. */
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
		/* check_descriptor() has compared offset and length with the capsule. */
		command->data = target_rdma_capsule(queue, slot->receive) + NVME_SQE_BYTES +
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

static void free_slot(struct target_rdma_queue *queue, struct target_rdma_command *slot)
{
	give_room(queue, slot);
	slot->stage = TARGET_RDMA_FREE;
	list_append(&queue->free, &slot->node);
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
	/* The data must not be longer than the host's descriptor allows. */
	assert(command->direction != TARGET_FROM_CONTROLLER ||
		command->data_bytes <= command->sqe.sgl.length || !slot->buffer);
	slot->stage = TARGET_RDMA_NEEDS_SEND;
	list_append(&queue->needs_send, &slot->node);
	loop_defer(queue->rdma->loop, &queue->send);
	resume_waiting(queue);
}

/* --- capsules --- */

/*
 * Check the SGL descriptor against the length of the capsule. The core checks the command itself.
 */
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
	command->sqe = nvme_sqe_decode(target_rdma_capsule(queue, slot->receive));
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
	while (queue->parked_count > 0 && queue->state == TARGET_RDMA_LIVE) {
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
	/* `parked` has as many places as there are receive requests. */
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
	if (!list_is_empty(&queue->needs_read))
		loop_defer(queue->rdma->loop, &queue->send);
}

/*
 * Only the last SEND of a batch is signaled. When `last` has completed, all SENDs of its batch have
 * completed, too.
 */
static void responses_completed(
	struct target_rdma_queue *queue, const struct target_rdma_command *last)
{
	struct target_rdma_command *slot;

	do {
		slot = list_first(&queue->responding, struct target_rdma_command, node);
		list_remove(&slot->node);
		free_slot(queue, slot);
		queue->responses--;
	} while (slot != last);
	if (!list_is_empty(&queue->needs_send))
		loop_defer(queue->rdma->loop, &queue->send);
	else if (queue->state == TARGET_RDMA_ENDING && queue->responses == 0)
		loop_defer(queue->rdma->loop, &queue->end);
	resume_waiting(queue);
}

void target_rdma_completed(struct rdma_completions *completions, const struct ibv_wc *wc)
{
	struct target_rdma_queue *queue =
		container_of(completions, struct target_rdma_queue, completions);
	uint32_t index = wc->wr_id & TARGET_RDMA_WR_INDEX;

	if (wc->status != IBV_WC_SUCCESS)
		target_rdma_queue_lose(queue);
	else if (wc->wr_id & TARGET_RDMA_WR_READ)
		read_completed(queue, &queue->slots[index]);
	else if (wc->wr_id & TARGET_RDMA_WR_RESPONSE)
		responses_completed(queue, &queue->slots[index]);
	else if (queue->state < TARGET_RDMA_ENDING)
		capsule_received(queue, wc);
}
