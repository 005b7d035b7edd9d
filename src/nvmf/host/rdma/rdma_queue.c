/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Commands and responses of a connected queue.
 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nvmf/common/bytes.h"
#include "nvmf/common/rdma/rdma_chain.h"
#include "nvmf/host/rdma/rdma_queue.h"

/* Byte offsets and values (NVMe base 2.0, sections 3.3.3.1, 3.3.3.2 and 4.1.2). */
enum {
	SQE_FLAGS = 1,
	SQE_CID = 2,
	SQE_SGL = 24,
	PSDT_SGL = 1 << 6,
	CQE_CID = 12,
	CQE_STATUS = 14,
	SGL_ADDRESS = 0,
	SGL_LENGTH = 8,
	SGL_KEY = 11,
	SGL_TYPE = 15,
	SGL_OFFSET_TYPE = 0x01, /* data block descriptor with an offset in the capsule */
	SGL_KEYED_TYPE = 0x40, /* keyed data block descriptor with an address */
	SGLS_OFFSETS = 1 << 20, /* in SGLS: the controller supports SGL_OFFSET_TYPE */
};

enum {
	INDEX_BITS = 10,
	INDEX_MASK = (1 << INDEX_BITS) - 1,
	GENERATIONS = 63, /* not 64, so that no command identifier is the reserved FFFFh */
	WR_SEND = 1 << 16, /* in wr_id, with a slot's index; without it: a receive buffer's index */
};

static struct host_rdma *rdma_of(struct host_queue *queue)
{
	return container_of(queue, struct host_rdma, queue);
}

static uint32_t index_of(const struct host_rdma *rdma, const struct host_rdma_slot *slot)
{
	return (uint32_t)(slot - rdma->slots);
}

static uint8_t *capsule_of(const struct host_rdma *rdma, const struct host_rdma_slot *slot)
{
	return rdma->capsules.bytes + (size_t)index_of(rdma, slot) * rdma->capsule_bytes;
}

static uint8_t *response_of(const struct host_rdma *rdma, uint32_t index)
{
	return rdma->capsules.bytes + (size_t)rdma->settings.depth * rdma->capsule_bytes +
		(size_t)index * HOST_RDMA_CAPSULE_ALIGN;
}

bool host_rdma_post_receive(struct host_rdma *rdma, uint32_t index)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)response_of(rdma, index),
		.length = HOST_CQE_BYTES,
		.lkey = rdma->capsules.mr->lkey,
	};
	struct ibv_recv_wr wr = {.wr_id = index, .sg_list = &sge, .num_sge = 1};
	struct ibv_recv_wr *bad;

	return ibv_post_recv(rdma->id->qp, &wr, &bad) == 0;
}

static void chain_add(struct host_rdma *rdma, struct rdma_chain *chain)
{
	struct host_rdma_slot *slot = list_first(&rdma->outgoing, struct host_rdma_slot, node);
	struct ibv_send_wr *wr = rdma_chain_add(chain, WR_SEND | index_of(rdma, slot), IBV_WR_SEND,
		capsule_of(rdma, slot), HOST_SQE_BYTES + slot->inline_bytes, rdma->capsules.mr);

	wr->send_flags = IBV_SEND_SIGNALED;
	list_remove(&slot->node);
	slot->is_posted = slot->awaits_send = slot->awaits_response = true;
}

void host_rdma_send(struct host_rdma *rdma)
{
	struct rdma_chain chain;

	while (rdma->state == HOST_RDMA_READY && !list_is_empty(&rdma->outgoing)) {
		struct ibv_send_wr *bad;
		int error;

		chain.count = 0;
		while (!list_is_empty(&rdma->outgoing) && chain.count < RDMA_CHAIN_MAX)
			chain_add(rdma, &chain);
		error = ibv_post_send(rdma->id->qp, chain.wrs, &bad);
		if (!error)
			continue;
		for (; bad; bad = bad->next)
			rdma->slots[bad->wr_id & INDEX_MASK].is_posted = false;
		host_rdma_lost(
			rdma, -error, "the RDMA queue pair takes no command: %s", strerror(error));
	}
}

static void send_run(struct loop_work *work)
{
	host_rdma_send(container_of(work, struct host_rdma, send));
}

/* Place the command's data and write the SGL descriptor. Returns false if the pool has no room. */
static bool place_data(struct host_rdma *rdma, struct host_rdma_slot *slot, uint8_t *sqe)
{
	const struct host_command *command = slot->command;
	bool is_to_controller = command->direction == HOST_TO_CONTROLLER;
	uint8_t *sgl = sqe + SQE_SGL;

	if (command->data_bytes == 0) {
		sgl[SGL_TYPE] = SGL_KEYED_TYPE;
		return true;
	}
	if (is_to_controller && command->data_bytes <= rdma->inline_bytes_max) {
		memcpy(sqe + HOST_SQE_BYTES, command->data, command->data_bytes);
		slot->inline_bytes = command->data_bytes;
		le32_put(sgl + SGL_LENGTH, command->data_bytes);
		sgl[SGL_TYPE] = SGL_OFFSET_TYPE;
		return true;
	}
	slot->buffer = rdma_pool_take(&rdma->pool, command->data_bytes);
	if (!slot->buffer)
		return false;
	if (is_to_controller)
		memcpy(slot->buffer, command->data, command->data_bytes);
	le64_put(sgl + SGL_ADDRESS, (uintptr_t)slot->buffer);
	le24_put(sgl + SGL_LENGTH, command->data_bytes);
	le32_put(sgl + SGL_KEY, rdma->pool.mr->rkey);
	sgl[SGL_TYPE] = SGL_KEYED_TYPE;
	return true;
}

/* Build the capsule and queue its SEND. Returns false if the pool has no room for the data. */
static bool slot_send(struct host_rdma *rdma, struct host_rdma_slot *slot)
{
	uint8_t *sqe = capsule_of(rdma, slot);

	memcpy(sqe, slot->command->sqe, HOST_SQE_BYTES);
	sqe[SQE_FLAGS] |= PSDT_SGL;
	le16_put(sqe + SQE_CID, slot->command->cid);
	if (!place_data(rdma, slot, sqe))
		return false;
	list_append(&rdma->outgoing, &slot->node);
	loop_defer(rdma->settings.loop, &rdma->send);
	return true;
}

void host_rdma_submit(struct host_queue *queue, struct host_command *command)
{
	struct host_rdma *rdma = rdma_of(queue);
	struct host_rdma_slot *slot = list_first(&rdma->free, struct host_rdma_slot, node);

	assert(!list_is_empty(&rdma->free));
	assert(command->data_bytes <= rdma->settings.data_bytes_max);
	list_remove(&slot->node);
	slot->command = command;
	slot->generation = (uint16_t)((slot->generation + 1) % GENERATIONS);
	command->cid = (uint16_t)(slot->generation << INDEX_BITS | index_of(rdma, slot));
	list_append(&rdma->pending, &command->node);
	if (rdma->state != HOST_RDMA_READY)
		return;
	if (!list_is_empty(&rdma->waiting) || !slot_send(rdma, slot))
		list_append(&rdma->waiting, &slot->node);
}

void host_rdma_resume(struct host_rdma *rdma)
{
	while (rdma->state == HOST_RDMA_READY && !list_is_empty(&rdma->waiting)) {
		struct host_rdma_slot *slot =
			list_first(&rdma->waiting, struct host_rdma_slot, node);

		list_remove(&slot->node);
		if (slot_send(rdma, slot))
			continue;
		/* The slot stays the first one of the list. */
		list_append(rdma->waiting.next, &slot->node);
		return;
	}
}

void host_rdma_finish(struct host_rdma *rdma, struct host_rdma_slot *slot, enum host_end end)
{
	struct host_command *command = slot->command;

	assert(command);
	if (slot->buffer)
		rdma_pool_give(&rdma->pool, slot->buffer, command->data_bytes);
	list_remove(&command->node);
	list_remove(&slot->node);
	slot->command = NULL;
	slot->buffer = NULL;
	slot->inline_bytes = 0;
	slot->is_posted = slot->awaits_send = slot->awaits_response = false;
	list_append(&rdma->free, &slot->node);
	rdma->done_count++;
	command->done(command, end);
}

/* End the command if its SEND has completed and its response has arrived. */
static void slot_advance(struct host_rdma *rdma, struct host_rdma_slot *slot)
{
	struct host_command *command = slot->command;

	if (slot->awaits_send || slot->awaits_response)
		return;
	/* Bit 0 is the phase tag, which Fabrics does not use. */
	if (command->direction == HOST_FROM_CONTROLLER && slot->buffer &&
		le16_get(command->cqe + CQE_STATUS) >> 1 == 0)
		memcpy(command->data, slot->buffer, command->data_bytes);
	host_rdma_finish(rdma, slot, HOST_COMPLETED);
	host_rdma_resume(rdma);
}

/* Take a response, which must have 16 bytes and name a command that awaits its response. */
static void response_received(struct host_rdma *rdma, const struct ibv_wc *wc)
{
	uint32_t receive = (uint32_t)wc->wr_id;
	struct host_rdma_slot *slot = NULL;
	uint8_t cqe[HOST_CQE_BYTES];
	uint16_t cid;

	if (wc->byte_len != HOST_CQE_BYTES || wc->wc_flags & (IBV_WC_WITH_IMM | IBV_WC_WITH_INV)) {
		host_rdma_lost(rdma, -EPROTO, "the controller has sent what is no response");
		return;
	}
	memcpy(cqe, response_of(rdma, receive), sizeof(cqe));
	cid = le16_get(cqe + CQE_CID);
	if ((cid & INDEX_MASK) < rdma->settings.depth)
		slot = &rdma->slots[cid & INDEX_MASK];
	if (!slot || !slot->command || slot->command->cid != cid || !slot->awaits_response) {
		host_rdma_lost(rdma, -EPROTO,
			"the controller has responded to command %u, which is not pending", cid);
		return;
	}
	memcpy(slot->command->cqe, cqe, sizeof(cqe));
	slot->awaits_response = false;
	if (!host_rdma_post_receive(rdma, receive)) {
		host_rdma_lost(rdma, -EIO, "the RDMA queue pair takes no receive request");
		return;
	}
	slot_advance(rdma, slot);
}

void host_rdma_completed(struct rdma_completions *completions, const struct ibv_wc *wc)
{
	struct host_rdma *rdma = container_of(completions, struct host_rdma, completions);
	struct host_rdma_slot *slot;

	if (wc->status != IBV_WC_SUCCESS) {
		/* Before the REP, an event of rdma_cm reports the failure. */
		if (rdma->state == HOST_RDMA_READY)
			host_rdma_lost(rdma, -ECONNRESET, "the RDMA connection has failed: %s",
				ibv_wc_status_str(wc->status));
		return;
	}
	if (!(wc->wr_id & WR_SEND)) {
		response_received(rdma, wc);
		return;
	}
	slot = &rdma->slots[wc->wr_id & INDEX_MASK];
	slot->awaits_send = false;
	slot_advance(rdma, slot);
}

static unsigned queue_poll(struct host_queue *queue)
{
	struct host_rdma *rdma = rdma_of(queue);

	rdma->done_count = 0;
	host_rdma_send(rdma);
	if (rdma->state == HOST_RDMA_READY && rdma_completions_poll(&rdma->completions))
		host_rdma_send(rdma);
	return rdma->done_count;
}

static void queue_close(struct host_queue *queue)
{
	struct host_rdma *rdma = rdma_of(queue);

	loop_defer_cancel(&rdma->send);
	/* From now on a command that done() submits is not sent. */
	rdma->state = HOST_RDMA_LOST;
	for (uint32_t i = 0; i < rdma->settings.depth; i++)
		rdma->slots[i].buffer = NULL;
	host_rdma_disconnect(rdma);
	while (!list_is_empty(&rdma->pending)) {
		struct host_command *command =
			list_first(&rdma->pending, struct host_command, node);
		struct host_rdma_slot *slot = &rdma->slots[command->cid & INDEX_MASK];

		host_rdma_finish(rdma, slot, slot->is_posted ? HOST_LOST : HOST_UNSENT);
	}
	free(rdma->slots);
	free(rdma);
}

static uint32_t round_up(uint32_t bytes)
{
	return (bytes + HOST_RDMA_CAPSULE_ALIGN - 1) & ~(uint32_t)(HOST_RDMA_CAPSULE_ALIGN - 1);
}

static int queue_open(
	const struct host_queue_settings *settings, struct host_queue **ret_queue, char *ret_reason)
{
	struct host_rdma *rdma = calloc(1, sizeof(*rdma));
	int error = -ENOMEM;

	assert(settings->depth > 0 && settings->depth <= HOST_DEPTH_MAX);
	assert(settings->data_bytes_max <= HOST_RDMA_DATA_BYTES_MAX);
	if (!rdma)
		goto fail;
	rdma->slots = calloc(settings->depth, sizeof(*rdma->slots));
	if (!rdma->slots)
		goto fail;
	rdma->queue.transport = &host_rdma;
	rdma->settings = *settings;
	if (settings->qid > 0 && settings->sgls & SGLS_OFFSETS)
		rdma->inline_bytes_max = settings->in_capsule_bytes < HOST_RDMA_INLINE_BYTES_MAX
			? settings->in_capsule_bytes
			: HOST_RDMA_INLINE_BYTES_MAX;
	rdma->capsule_bytes = round_up(HOST_SQE_BYTES + rdma->inline_bytes_max);
	/* A queue of depth + 1 entries has at most `depth` pending commands. */
	rdma->receive_count = settings->depth + 1;
	loop_work_init(&rdma->send, send_run);
	list_init(&rdma->free);
	list_init(&rdma->outgoing);
	list_init(&rdma->waiting);
	list_init(&rdma->pending);
	for (uint32_t i = 0; i < settings->depth; i++)
		list_append(&rdma->free, &rdma->slots[i].node);
	error = host_rdma_connect(rdma, ret_reason);
	if (error == 0) {
		*ret_queue = &rdma->queue;
		return 0;
	}
	free(rdma->slots);
	free(rdma);
	return error;

fail:
	free(rdma);
	snprintf(ret_reason, HOST_REASON_BYTES, "no memory for a queue");
	return error;
}

const struct host_transport host_rdma = {
	.name = "rdma",
	.trtype = 1,
	.open = queue_open,
	.submit = host_rdma_submit,
	.poll = queue_poll,
	.close = queue_close,
};
