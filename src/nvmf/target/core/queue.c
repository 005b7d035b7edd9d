/* SPDX-License-Identifier: BSD-2-Clause */
/* Queues, and how their commands end. */
#include <assert.h>

#include "nvmf/target/core/objects.h"

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
	queue->cid_counts[command->sqe.cid & TARGET_CID_MASK]--;
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
