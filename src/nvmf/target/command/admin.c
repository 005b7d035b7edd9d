/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Admin commands: their dispatch, features and Abort. admin_identify.c has Identify, admin_log.c
 * has Get Log Page, controller.c has Asynchronous Event Request.
 */
#include <stddef.h>

#include "nvmf/target/command/command.h"

static void abort_command(struct target_command *command)
{
	enum { NOT_ABORTED = 1 };
	uint16_t qid = (uint16_t)command->sqe.cdw10;
	uint16_t cid = (uint16_t)(command->sqe.cdw10 >> 16);
	struct target_queue *queue = controller_queue(command->queue->controller, qid);

	if (queue)
		list_for_each(other, &queue->commands, struct target_command, node)
			if (other->sqe.cid == cid && other != command && command_abort(other)) {
				command_finish(command, NVME_SUCCESS);
				return;
			}
	command_finish_result(command, NOT_ABORTED);
}

static bool is_feature_known(const struct target_controller *controller, uint8_t fid)
{
	switch (fid) {
	case FEATURE_ASYNC_EVENTS:
	case FEATURE_KEEP_ALIVE:
		return true;
	case FEATURE_ARBITRATION:
	case FEATURE_POWER:
	case FEATURE_TEMPERATURE:
	case FEATURE_ERROR_RECOVERY:
	case FEATURE_WRITE_CACHE:
	case FEATURE_QUEUES:
	case FEATURE_WRITE_ATOMICITY:
	case FEATURE_HOST_ID:
		return !controller->is_discovery;
	default:
		return false;
	}
}

static uint32_t queues_granted(const struct target_controller *controller)
{
	uint32_t zero_based = controller->qids_granted - 1u;

	return zero_based | zero_based << 16;
}

/*
 * Grant the I/O queues that the host has, and as many more as it may still open connections. With a
 * larger grant the host would open too many connections, and its attempt to connect would fail.
 */
static void grant_queues(struct target_controller *controller)
{
	uint32_t count = connections_left(controller->admin);

	list_for_each(queue, &controller->queues, struct target_queue, node)
		count += queue->qid != 0;
	if (count > controller->qid_max)
		count = controller->qid_max;
	controller->qids_granted = count ? (uint16_t)count : 1;
}

void admin_set_features(struct target_command *command)
{
	struct target_controller *controller = command->queue->controller;
	uint8_t fid = (uint8_t)command->sqe.cdw10;
	uint32_t value = command->sqe.cdw11;

	if (!is_feature_known(controller, fid) || command->data_bytes) {
		command_finish(command, NVME_INVALID_FIELD);
	} else if (command->sqe.cdw10 >> 31) {
		command_finish(command, NVME_NOT_SAVEABLE);
	} else if (fid == FEATURE_ASYNC_EVENTS) {
		controller->event_wanted = value &
			(controller->is_discovery ? EVENT_MASK_DISCOVERY : EVENT_MASK_NAMESPACES);
		command_finish(command, NVME_SUCCESS);
	} else if (fid == FEATURE_KEEP_ALIVE) {
		controller_set_kato(controller, value);
		command_finish(command, NVME_SUCCESS);
	} else if (fid == FEATURE_QUEUES) {
		if ((value & 0xffff) == 0xffff || value >> 16 == 0xffff) {
			command_finish(command, NVME_INVALID_FIELD);
		} else {
			grant_queues(controller);
			command_finish_result(command, queues_granted(controller));
		}
	} else if (fid == FEATURE_WRITE_CACHE) {
		controller->write_cache = value & 1;
		command_finish(command, NVME_SUCCESS);
	} else {
		command_finish(
			command, fid == FEATURE_HOST_ID ? NVME_SEQUENCE : NVME_NOT_CHANGEABLE);
	}
}

void admin_get_features(struct target_command *command)
{
	enum { SELECT_CAPABILITIES = 3, CHANGEABLE = 4 };
	const struct target_controller *controller = command->queue->controller;
	uint8_t fid = (uint8_t)command->sqe.cdw10;
	uint32_t select = command->sqe.cdw10 >> 8 & 7;
	uint32_t value = 0;

	if (!is_feature_known(controller, fid) || command->data_bytes) {
		command_finish(command, NVME_INVALID_FIELD);
		return;
	}
	if (fid == FEATURE_HOST_ID) {
		command_finish(command, NVME_SEQUENCE);
		return;
	}
	if (fid == FEATURE_ASYNC_EVENTS)
		value = controller->event_wanted;
	else if (fid == FEATURE_KEEP_ALIVE)
		value = controller->kato_ms;
	else if (fid == FEATURE_QUEUES)
		value = queues_granted(controller);
	else if (fid == FEATURE_WRITE_CACHE)
		value = controller->write_cache;
	if (select == SELECT_CAPABILITIES)
		value = CHANGEABLE;
	command_finish_result(command, value);
}

void admin_command(struct target_command *command)
{
	struct target_controller *controller = command->queue->controller;

	switch (command->sqe.opcode) {
	case NVME_ADMIN_IDENTIFY:
		admin_identify(command);
		return;
	case NVME_ADMIN_GET_LOG_PAGE:
		admin_log_page(command);
		return;
	case NVME_ADMIN_SET_FEATURES:
		admin_set_features(command);
		return;
	case NVME_ADMIN_GET_FEATURES:
		admin_get_features(command);
		return;
	case NVME_ADMIN_ASYNC_EVENT:
		controller_wait_event(controller, command);
		return;
	case NVME_ADMIN_KEEP_ALIVE:
		command_finish(command, NVME_SUCCESS);
		return;
	case NVME_ADMIN_ABORT:
		if (controller->is_discovery)
			command_finish(command, NVME_INVALID_OPCODE);
		else
			abort_command(command);
		return;
	default:
		command_finish(command, NVME_INVALID_OPCODE);
	}
}
