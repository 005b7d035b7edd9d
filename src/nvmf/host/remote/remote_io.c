/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests of a remote namespace: how a block request is split into commands, and how it ends.
 */
#include <errno.h>

#include "nvmf/host/controller/sqe.h"
#include "nvmf/host/remote/remote_internal.h"

enum {
	BLOCKS_MAX = 65536, /* blocks of one command: NLB is 0's based and has 16 bits */
	CONTROL_FUA = 1 << 30,
	CONTROL_DEALLOCATE = 1 << 25,
	DSM_DEALLOCATE = 1 << 2,
};

static int status_errno(uint16_t status)
{
	switch (status & HOST_STATUS_MASK) {
	case 0x000:
		return 0;
	case 0x001:
		return -EOPNOTSUPP;
	case 0x020:
		return -EROFS;
	case 0x080:
	case 0x081:
		return -ENOSPC;
	default:
		return -EIO;
	}
}

/* How many bytes of the request the next command covers. */
static uint64_t part_bytes(const struct remote *remote, const struct block_request *block)
{
	uint64_t left = block->length_bytes - remote->split_bytes;
	uint64_t limit = (uint64_t)BLOCKS_MAX << remote->block_shift;
	uint32_t data_bytes_max = host_controller_data_bytes_max(remote->controller);

	/* After a reconnect MDTS may be less than a block; then the command fails. */
	if (data_bytes_max < 1u << remote->block_shift)
		data_bytes_max = 1u << remote->block_shift;
	if (block->op == BLOCK_TRIM)
		limit = (uint64_t)UINT32_MAX << remote->block_shift;
	else if (block->op != BLOCK_WRITE_ZEROES && limit > data_bytes_max)
		limit = data_bytes_max;
	return left < limit ? left : limit;
}

static void range_put(struct remote_part *part, uint64_t slba, uint64_t blocks)
{
	le32_put(part->range, 0);
	le32_put(part->range + 4, (uint32_t)blocks);
	le64_put(part->range + 8, slba);
	host_sqe_data(&part->request.command, HOST_TO_CONTROLLER, part->range, sizeof(part->range));
	host_sqe_dword(&part->request.command, 10, 0);
	host_sqe_dword(&part->request.command, 11, DSM_DEALLOCATE);
}

static void blocks_put(
	struct host_command *command, uint64_t slba, uint64_t blocks, uint32_t control)
{
	host_sqe_dword(command, 10, (uint32_t)slba);
	host_sqe_dword(command, 11, (uint32_t)(slba >> 32));
	host_sqe_dword(command, 12, (uint32_t)(blocks - 1) | control);
}

static void part_make(struct remote_part *part, const struct block_request *block, uint64_t offset,
	uint64_t bytes)
{
	struct remote *remote = part->remote;
	struct host_command *command = &part->request.command;
	uint64_t slba = (block->offset_bytes + offset) >> remote->block_shift;
	uint64_t blocks = bytes >> remote->block_shift;
	uint32_t control = block->flags & BLOCK_FUA ? CONTROL_FUA : 0;

	switch (part->op) {
	case BLOCK_READ:
		host_sqe_init(command, NVME_IO_READ, remote->nsid);
		host_sqe_data(command, HOST_FROM_CONTROLLER, (uint8_t *)block->data + offset,
			(uint32_t)bytes);
		blocks_put(command, slba, blocks, 0);
		break;
	case BLOCK_WRITE:
		host_sqe_init(command, NVME_IO_WRITE, remote->nsid);
		host_sqe_data(command, HOST_TO_CONTROLLER, (uint8_t *)block->data + offset,
			(uint32_t)bytes);
		blocks_put(command, slba, blocks, control);
		break;
	case BLOCK_WRITE_ZEROES:
		if (!(block->flags & BLOCK_NO_HOLE) && remote->can_deallocate_zeroes)
			control |= CONTROL_DEALLOCATE;
		host_sqe_init(command, NVME_IO_WRITE_ZEROES, remote->nsid);
		blocks_put(command, slba, blocks, control);
		break;
	case BLOCK_TRIM:
		host_sqe_init(command, NVME_IO_DATASET_MANAGEMENT, remote->nsid);
		range_put(part, slba, blocks);
		break;
	case BLOCK_FLUSH:
		host_sqe_init(command, NVME_IO_FLUSH, remote->nsid);
		break;
	}
}

static void part_done(struct host_request *request, int error);

/* Send one command of `block`. `free_parts` is not empty. */
static void part_send(struct remote *remote, struct block_request *block, enum block_op op,
	uint64_t offset, uint64_t bytes)
{
	struct remote_part *part = list_first(&remote->free_parts, struct remote_part, node);

	list_remove(&part->node);
	part->request = (struct host_request){.is_repeatable = true, .done = part_done};
	part->remote = remote;
	part->block = block;
	part->op = op;
	part_make(part, block, offset, bytes);
	block->parts_pending++;
	host_submit(remote->controller, &part->request);
}

/*
 * Send commands of the waiting requests. A request leaves `waiting` before its last command is
 * sent, because part_done(), which may run inside host_submit(), ends a request only when it is no
 * more in `waiting`.
 */
static void request_split(struct remote *remote)
{
	if (remote->is_splitting)
		return;
	remote->is_splitting = true;
	while (!list_is_empty(&remote->waiting) && !list_is_empty(&remote->free_parts)) {
		struct block_request *block =
			list_first(&remote->waiting, struct block_request, link);
		uint64_t offset = remote->split_bytes;
		uint64_t bytes = block->op == BLOCK_FLUSH ? 0 : part_bytes(remote, block);

		remote->split_bytes += bytes;
		if (block->op == BLOCK_FLUSH || remote->split_bytes == block->length_bytes) {
			list_remove(&block->link);
			remote->split_bytes = 0;
		}
		part_send(remote, block, block->op, offset, bytes);
	}
	remote->is_splitting = false;
}

/* Dataset Management has no FUA bit, so a flush makes a trim durable. */
static bool is_flush_needed(const struct remote_part *part)
{
	return part->op == BLOCK_TRIM && (part->block->flags & BLOCK_FUA) &&
		part->block->error == 0 && part->remote->device.has_write_cache;
}

static void part_done(struct host_request *request, int error)
{
	struct remote_part *part = container_of(request, struct remote_part, request);
	struct remote *remote = part->remote;
	struct block_request *block = part->block;

	if (!error)
		error = status_errno(request->status);
	if (error && !block->error)
		block->error = error;
	block->parts_pending--;
	list_append(&remote->free_parts, &part->node);
	/* A request that is still in `waiting` has more commands to send. */
	if (block->parts_pending == 0 && !list_is_linked(&block->link)) {
		if (is_flush_needed(part))
			part_send(remote, block, BLOCK_FLUSH, 0, 0);
		else
			block->done(block, block->error);
	}
	request_split(remote);
}

void remote_submit(struct block_device *device, struct block_request *request)
{
	struct remote *remote = container_of(device, struct remote, device);

	request->parts_pending = 0;
	request->error = 0;
	list_append(&remote->waiting, &request->link);
	request_split(remote);
}
