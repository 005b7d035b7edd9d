/* SPDX-License-Identifier: BSD-2-Clause */
/* The arrival of a command, and of its data. */
#include "nvmf/target/command/dispatch.h"

#include "nvmf/target/command/command.h"

/*
 * If the first half of a fused pair waits, join it with its second half, which must be the next
 * command (base 2.0, section 3.4.2). Returns whether `command` was the second half.
 */
static bool fused_join(struct target_command *command)
{
	struct target_queue *queue = command->queue;
	struct target_command *first = queue->fused;

	if (!first)
		return false;
	queue->fused = NULL;
	first->stage = TARGET_STAGE_WORKING;
	if (command->sqe.fuse == NVME_FUSE_SECOND && command->refusal == NVME_SUCCESS) {
		io_fused(first, command);
		return true;
	}
	command_finish(first, NVME_FUSED_MISSING);
	return false;
}

static bool fused_take(struct target_command *command)
{
	struct target_queue *queue = command->queue;

	if (command->sqe.fuse == NVME_FUSE_NONE)
		return false;
	if (command->sqe.fuse != NVME_FUSE_FIRST || command->sqe.opcode != NVME_IO_COMPARE ||
		queue->qid == 0 || !queue->is_connected) {
		command_finish(command,
			command->sqe.fuse == NVME_FUSE_SECOND ? NVME_FUSED_MISSING
							      : NVME_INVALID_FIELD);
		return true;
	}
	command->stage = TARGET_STAGE_FUSED;
	queue->fused = command;
	return true;
}

/*
 * Park the command if lost commands must end before it; returns whether it is parked. Fabrics
 * commands never wait, because they access no namespace.
 */
static bool waits_for_lost(struct target_command *command)
{
	return command->queue->qid != 0 && command->sqe.opcode != NVME_OPCODE_FABRICS &&
		peer_host_parks(command->queue->host, command);
}

static void command_dispatch(struct target_command *command)
{
	struct target_queue *queue = command->queue;
	struct target *target = queue->target;

	if (queue_is_lost(queue)) {
		command_finish(command, NVME_SQ_DELETED);
		return;
	}
	/*
	 * Join a pair before waiting for lost commands. The first half, which may be lost, cannot
	 * end without the second half, so a second half that waited for it would wait for ever.
	 */
	if (fused_join(command) || waits_for_lost(command))
		return;
	if (queue->qid == 0)
		target->counters.admin_commands++;
	if (fused_take(command))
		return;
	if (command->sqe.psdt != 1)
		command_finish(command, NVME_INVALID_FIELD);
	else if (command->refusal != NVME_SUCCESS)
		command_finish(command, command->refusal);
	else if (command->sqe.opcode == NVME_OPCODE_FABRICS)
		fabrics_command(command);
	else if (!queue->is_connected || !controller_is_ready(queue->controller))
		command_finish(command, NVME_SEQUENCE);
	else if (queue->qid == 0)
		admin_command(command);
	else
		io_command(command);
}

static bool has_conflict(struct target_queue *queue, const struct target_command *arrived)
{
	if (queue->cid_counts[arrived->sqe.cid & TARGET_CID_MASK]++ == 0)
		return false;
	list_for_each(command, &queue->commands, struct target_command, node)
		if (command != arrived && command->sqe.cid == arrived->sqe.cid)
			return true;
	return false;
}

bool target_queue_command(struct target_queue *queue, struct target_command *command)
{
	/* Before Connect a queue has one command at a time. */
	uint32_t limit = queue->entries ? queue->entries : 1;

	if (queue->pending >= limit) {
		queue->target->counters.too_many_commands++;
		return false;
	}
	command->queue = queue;
	command->stage = TARGET_STAGE_WORKING;
	command->direction = TARGET_NO_DATA;
	command->ready = NULL;
	command->run = command_dispatch;
	command->ns = NULL;
	command->pair = NULL;
	command->is_at_work = false;
	command->scratch = NULL;
	command->has_counted_scratch = false;
	command->cqe = (struct nvme_cqe){.cid = command->sqe.cid};
	list_init(&command->node);
	list_init(&command->parked);
	list_init(&command->lost);
	list_append(&queue->commands, &command->node);
	queue->pending++;
	queue->target->commands++;
	if (queue->controller)
		queue->controller->heard_ns = loop_now_ns(queue->target->loop);
	if (has_conflict(queue, command))
		command_finish(command, NVME_CID_CONFLICT);
	else if (list_is_empty(&queue->target->rules) || !inject_command(command))
		command_dispatch(command);
	return true;
}

void target_command_data_ready(struct target_command *command, uint16_t status)
{
	if (command->pair)
		io_fused_ready(command, status);
	else if (status != NVME_SUCCESS)
		command_finish(command, status);
	else
		command->ready(command);
}
