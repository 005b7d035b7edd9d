/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Get Log Page. The target makes the whole page, and sends the part that the host asks for. Bytes
 * beyond the end of the page are zeroes.
 */
#include <stdlib.h>
#include <string.h>

#include "nvmf/common/bytes.h"
#include "nvmf/target/command/command.h"

struct log {
	uint8_t *bytes; /* allocated; NULL: there is no memory */
	size_t length;
};

static struct log log_make(size_t bytes)
{
	struct log log = {.bytes = calloc(1, bytes), .length = bytes};

	return log;
}

/* The page begins with the newest entry. */
static struct log page_errors(const struct target_controller *controller)
{
	struct log log = log_make(TARGET_ERRORS_MAX * LOG_ERROR_BYTES);
	uint64_t count = controller->error_count;

	for (uint64_t i = 0; log.bytes && i < TARGET_ERRORS_MAX && i < count; i++)
		log_error_encode(&controller->errors[(count - 1 - i) % TARGET_ERRORS_MAX],
			log.bytes + i * LOG_ERROR_BYTES);
	return log;
}

static struct log page_smart(const struct target_controller *controller)
{
	enum { ROOM_KELVIN = 298, SPARE = 100, THRESHOLD = 10, UNIT = 1000 };
	struct log log = log_make(LOG_SMART_BYTES);
	const struct log_smart health = {
		.temperature_kelvin = ROOM_KELVIN,
		.spare_percent = SPARE,
		.spare_threshold_percent = THRESHOLD,
		.data_units_read = (controller->read_blocks + UNIT - 1) / UNIT,
		.data_units_written = (controller->written_blocks + UNIT - 1) / UNIT,
		.reads = controller->reads,
		.writes = controller->writes,
		.error_entries = controller->error_count,
	};

	if (log.bytes)
		log_smart_encode(&health, log.bytes);
	return log;
}

static struct log page_firmware(const struct target_controller *controller)
{
	enum { SLOT_OFFSET = 8, SLOT_BYTES = 8 };
	struct log log = log_make(LOG_FIRMWARE_BYTES);

	if (!log.bytes)
		return log;
	log.bytes[0] = 1; /* the first slot is active */
	memset(log.bytes + SLOT_OFFSET, ' ', SLOT_BYTES);
	memcpy(log.bytes + SLOT_OFFSET, controller->subsystem->firmware,
		strnlen(controller->subsystem->firmware, SLOT_BYTES));
	return log;
}

static int nsid_compare(const void *left, const void *right)
{
	uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;

	return (a > b) - (a < b);
}

static struct log page_changed(struct target_controller *controller)
{
	struct log log = log_make(LOG_CHANGED_BYTES);

	if (!log.bytes)
		return log;
	if (controller->changed_count > TARGET_CHANGED_MAX) {
		le32_put(log.bytes, (uint32_t)NVME_NSID_ALL);
		return log;
	}
	qsort(controller->changed, controller->changed_count, sizeof(controller->changed[0]),
		nsid_compare);
	identify_list_encode(controller->changed, controller->changed_count, log.bytes);
	return log;
}

static struct log page_ana(const struct target_controller *controller, bool groups_only)
{
	enum { HEADER = 16, GROUP = 32, OPTIMIZED = 1 };
	const struct target_subsystem *subsystem = controller->subsystem;
	size_t count = groups_only ? 0 : subsystem->namespace_count;
	/* Always the length for MNAN namespaces, because hosts read that many bytes, in pieces. */
	struct log log = log_make(HEADER + GROUP + 4 * IDENTIFY_NSID_MAX);
	uint8_t *group;

	if (!log.bytes)
		return log;
	le16_put(log.bytes + 8, 1);
	group = log.bytes + HEADER;
	le32_put(group, TARGET_ANA_GROUP);
	le32_put(group + 4, (uint32_t)count);
	group[16] = OPTIMIZED;
	for (size_t i = 0; i < count; i++)
		le32_put(group + GROUP + 4 * i, subsystem->namespaces[i]->nsid);
	return log;
}

static struct log page_effects(const struct target_controller *controller)
{
	struct log log = log_make(LOG_EFFECTS_BYTES);

	if (log.bytes)
		log_effects_encode(log.bytes, controller->is_discovery);
	return log;
}

static bool is_known(const struct target_controller *controller, uint8_t lid)
{
	switch (lid) {
	case LOG_DISCOVERY:
		return controller->is_discovery;
	case LOG_ERROR:
	case LOG_SMART:
	case LOG_FIRMWARE:
	case LOG_CHANGED_NAMESPACES:
	case LOG_EFFECTS:
	case LOG_ANA:
		return !controller->is_discovery;
	default:
		return false;
	}
}

static struct log page_make(struct target_command *command, uint8_t lid)
{
	enum { RGO = 1 << 8 };
	struct target_controller *controller = command->queue->controller;
	struct log log = {0};

	switch (lid) {
	case LOG_ERROR:
		return page_errors(controller);
	case LOG_SMART:
		return page_smart(controller);
	case LOG_FIRMWARE:
		return page_firmware(controller);
	case LOG_CHANGED_NAMESPACES:
		return page_changed(controller);
	case LOG_EFFECTS:
		return page_effects(controller);
	case LOG_ANA:
		return page_ana(controller, command->sqe.cdw10 & RGO);
	case LOG_DISCOVERY:
		log.bytes = discovery_page(controller->port, controller->hostnqn, &log.length);
		return log;
	default:
		return log;
	}
}

/* Unless RAE is set, reading a page clears its event, and the list of changed namespaces. */
static void page_acknowledge(
	struct target_controller *controller, const struct log_request *request)
{
	if (request->keeps_event)
		return;
	if (request->lid == LOG_CHANGED_NAMESPACES) {
		controller->changed_count = 0;
		controller_event_clear(controller, EVENT_MASK_NAMESPACES);
	} else if (request->lid == LOG_ANA) {
		controller_event_clear(controller, EVENT_MASK_ANA);
	} else if (request->lid == LOG_DISCOVERY) {
		controller_event_clear(controller, EVENT_MASK_DISCOVERY);
	}
}

static void log_ready(struct target_command *command)
{
	struct log_request request = log_request_decode(&command->sqe);
	struct target_controller *controller = command->queue->controller;
	struct log log;
	size_t bytes;

	if (!controller || !controller->subsystem) {
		command_finish(command, NVME_SQ_DELETED);
		return;
	}
	log = page_make(command, request.lid);
	if (!log.bytes || request.offset > log.length) {
		command_finish(command, log.bytes ? NVME_INVALID_FIELD : NVME_INTERNAL);
		free(log.bytes);
		return;
	}
	bytes = log.length - (size_t)request.offset;
	if (bytes > command->data_bytes)
		bytes = command->data_bytes;
	memcpy(command->data, log.bytes + request.offset, bytes);
	memset(command->data + bytes, 0, command->data_bytes - bytes);
	free(log.bytes);
	page_acknowledge(controller, &request);
	command_finish(command, NVME_SUCCESS);
}

void admin_log_page(struct target_command *command)
{
	struct log_request request = log_request_decode(&command->sqe);

	if (!is_known(command->queue->controller, request.lid))
		command_finish(command, NVME_INVALID_LOG_PAGE);
	else if (request.has_index || request.offset % 4)
		command_finish(command, NVME_INVALID_FIELD);
	else
		command_expect(command, TARGET_FROM_CONTROLLER, request.bytes, log_ready);
}
