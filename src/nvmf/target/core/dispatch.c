/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The way of a command through the core: its arrival, its data, its completion.
 */
#include <assert.h>

#include "nvmf/target/core/objects.h"

enum { CID_MASK = 255 };

#define NS_PER_SECOND 1000000000u

static void connect_expired(struct loop_timer *timer)
{
	struct target_queue *queue = container_of(timer, struct target_queue, connect_timer);

	queue->target->counters.connect_timeouts++;
	queue_close(queue);
}

void target_queue_open(struct target *target, struct target_queue *queue)
{
	queue->target = target;
	list_init(&queue->commands);
	list_init(&queue->node);
	scratch_open(queue);
	list_append(&target->opening, &queue->node);
	connection_opened(queue);
	loop_timer_init(&queue->connect_timer, connect_expired);
	loop_timer_set(target->loop, &queue->connect_timer,
		loop_now_ns(target->loop) + (uint64_t)TARGET_CONNECT_SECONDS * NS_PER_SECOND);
	target->queues++;
	target->counters.connections++;
}

void queue_close(struct target_queue *queue)
{
	if (queue->is_closing || queue->is_closed)
		return;
	queue->is_closing = true;
	queue_lose(queue);
	loop_timer_cancel(&queue->connect_timer);
	/*
	 * Waiting commands end only in target_queue_closed(), so that no response to them is sent.
	 */
	queue->transport->close(queue);
}

static bool stage_leave(struct target_command *command)
{
	switch (command->stage) {
	case TARGET_STAGE_WORKING:
		return false;
	case TARGET_STAGE_EVENT:
		command->queue->controller->event_count--;
		list_remove(&command->parked);
		break;
	case TARGET_STAGE_PARKED:
		list_remove(&command->parked);
		break;
	case TARGET_STAGE_FUSED:
		command->queue->fused = NULL;
		break;
	case TARGET_STAGE_DELAYED:
		loop_timer_cancel(&command->delay);
		break;
	}
	command->stage = TARGET_STAGE_WORKING;
	return true;
}

static bool cancel_first(struct target_queue *queue)
{
	list_for_each(command, &queue->commands, struct target_command, node) {
		if (!stage_leave(command))
			continue;
		command_finish(command, NVME_SQ_DELETED);
		return true;
	}
	return false;
}

/* End all commands of the queue that wait in the core. */
static void cancel_all(struct target_queue *queue)
{
	while (cancel_first(queue))
		;
}

bool command_abort(struct target_command *command)
{
	if (!stage_leave(command))
		return false;
	command_finish(command, NVME_ABORTED);
	return true;
}

void target_queue_closed(struct target_queue *queue)
{
	struct target *target = queue->target;

	assert(!queue->is_closed);
	queue->is_closed = true;
	if (!queue->is_closing)
		queue_lose(queue);
	loop_timer_cancel(&queue->connect_timer);
	cancel_all(queue);
	scratch_close(queue);
	target->queues--;
	if (queue->controller)
		controller_queue_closed(queue->controller, queue);
	else
		list_remove(&queue->node);
	queue->controller = NULL;
	connection_check(queue);
}

static bool has_conflict(struct target_queue *queue, const struct target_command *arrived)
{
	if (queue->cid_counts[arrived->sqe.cid & CID_MASK]++ == 0)
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

void command_dispatch(struct target_command *command)
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

void command_expect(struct target_command *command, enum target_direction direction, uint64_t bytes,
	void (*ready)(struct target_command *command))
{
	const struct target_transport *transport = command->queue->transport;

	if (command->data_bytes > transport->data_bytes_max || bytes > transport->data_bytes_max) {
		command_finish(command, NVME_INVALID_FIELD);
		return;
	}
	if (command->data_bytes != bytes) {
		command_finish(command, NVME_SGL_LENGTH);
		return;
	}
	if (direction == TARGET_FROM_CONTROLLER && command->is_in_capsule) {
		command_finish(command, NVME_INVALID_FIELD);
		return;
	}
	command->direction = bytes ? direction : TARGET_NO_DATA;
	command->ready = ready;
	if (bytes == 0)
		ready(command);
	else if (direction == TARGET_FROM_CONTROLLER)
		transport->prepare(command);
	else
		transport->fetch(command);
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

void command_finish_result(struct target_command *command, uint64_t result)
{
	command->cqe.result = result;
	command_finish(command, NVME_SUCCESS);
}

void command_finish(struct target_command *command, uint16_t status)
{
	struct target_queue *queue = command->queue;
	struct target *target = queue->target;

	assert(command->stage == TARGET_STAGE_WORKING && queue->pending > 0);
	command_over(command);
	command->cqe.status = status;
	command->cqe.may_not_repeat = status != NVME_SUCCESS && !nvme_status_may_repeat(status);
	if (status != NVME_SUCCESS) {
		target->counters.failed_commands++;
		if (queue->controller)
			controller_log_error(queue->controller, command);
	}
	if (status != NVME_SUCCESS || command->direction != TARGET_FROM_CONTROLLER)
		command->data_bytes = 0;
	if (command->ns)
		namespace_unreference(command->ns);
	command->ns = NULL;
	scratch_give(command);
	list_remove(&command->node);
	queue->cid_counts[command->sqe.cid & CID_MASK]--;
	queue->pending--;
	target->commands--;
	connection_check(queue);
	if (queue->has_flow_control && queue->entries) {
		queue->sqhd = (uint16_t)((queue->sqhd + 1) % queue->entries);
		command->cqe.sqhd = queue->sqhd;
	} else if (queue->is_connected && command->sqe.opcode == NVME_OPCODE_FABRICS) {
		command->cqe.sqhd = NVME_SQHD_NONE;
	}
	queue->transport->respond(command);
}
