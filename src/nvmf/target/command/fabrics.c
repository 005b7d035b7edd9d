/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fabrics commands: Connect, Disconnect and properties (NVMe base 2.0, sections 3.1.3 and 6).
 */
#include <string.h>

#include "nvmf/common/codec/fabrics.h"
#include "nvmf/target/command/command.h"

/* Byte offsets that a refusal of Connect reports: in the SQE, or with IN_DATA in the data. */
enum {
	QID_OFFSET = 42,
	SQSIZE_OFFSET = 44,
	KATO_OFFSET = 48,
	CNTLID_OFFSET = NVME_CONNECT_IN_DATA | 16,
	HOSTID_OFFSET = NVME_CONNECT_IN_DATA | 0,
	SUBNQN_OFFSET = NVME_CONNECT_IN_DATA | 256,
	HOSTNQN_OFFSET = NVME_CONNECT_IN_DATA | 512,
};

static void connect_refuse(struct target_command *command, uint16_t status, uint32_t offset)
{
	command->queue->target->counters.connects_refused++;
	command->cqe.result = offset;
	command_finish(command, status);
}

/* The queue belongs to the controller from now on. */
static void connect_grant(struct target_command *command, struct target_controller *controller,
	const struct nvme_connect *connect)
{
	struct target_queue *queue = command->queue;

	loop_timer_cancel(&queue->connect_timer);
	list_remove(&queue->node);
	list_append(&controller->queues, &queue->node);
	queue->controller = controller;
	queue->host = controller->host;
	queue->qid = connect->qid;
	queue->entries = (uint16_t)(connect->sqsize + 1);
	queue->is_connected = true;
	queue->has_flow_control = !(connect->cattr & NVME_CATTR_NO_FLOW_CONTROL);
	command_finish_result(command, controller->cntlid);
}

static bool set_entries(struct target_queue *queue, const struct nvme_connect *connect)
{
	return queue->transport->set_entries(queue, (uint16_t)(connect->sqsize + 1));
}

static void connect_admin(struct target_command *command, const struct nvme_connect *connect,
	const struct nvme_connect_data *data)
{
	struct target_queue *queue = command->queue;
	struct target_subsystem *subsystem = target_subsystem_find(queue->target, data->subnqn);
	struct target_controller *controller;

	if (!subsystem || !port_has(queue->port, subsystem)) {
		connect_refuse(command, NVME_CONNECT_PARAMETER, SUBNQN_OFFSET);
		return;
	}
	if (!subsystem_allows(subsystem, data->hostnqn)) {
		connect_refuse(command, NVME_CONNECT_HOST, 0);
		return;
	}
	if (data->cntlid != NVME_CNTLID_DYNAMIC) {
		connect_refuse(command, NVME_CONNECT_PARAMETER, CNTLID_OFFSET);
		return;
	}
	if (!set_entries(queue, connect)) {
		connect_refuse(command, NVME_INTERNAL, 0);
		return;
	}
	controller = controller_create(queue, subsystem, data, connect->kato_ms);
	if (!controller) {
		connect_refuse(command, NVME_CONNECT_BUSY, 0);
		return;
	}
	connect_grant(command, controller, connect);
}

static void connect_io(struct target_command *command, const struct nvme_connect *connect,
	const struct nvme_connect_data *data)
{
	struct target_queue *queue = command->queue;
	struct target_subsystem *subsystem = target_subsystem_find(queue->target, data->subnqn);
	struct target_controller *controller =
		subsystem ? subsystem_controller(subsystem, data->cntlid) : NULL;

	if (!subsystem)
		connect_refuse(command, NVME_CONNECT_PARAMETER, SUBNQN_OFFSET);
	else if (!controller || controller->transport != queue->transport ||
		controller->port != queue->port)
		connect_refuse(command, NVME_CONNECT_PARAMETER, CNTLID_OFFSET);
	else if (strcmp(controller->hostnqn, data->hostnqn) != 0)
		connect_refuse(command, NVME_CONNECT_PARAMETER, HOSTNQN_OFFSET);
	else if (memcmp(controller->hostid, data->hostid, sizeof(controller->hostid)) != 0)
		connect_refuse(command, NVME_CONNECT_PARAMETER, HOSTID_OFFSET);
	else if (connect->qid > controller->qids_granted)
		connect_refuse(command, NVME_CONNECT_PARAMETER, QID_OFFSET);
	else if (connect->kato_ms != 0)
		connect_refuse(command, NVME_CONNECT_PARAMETER, KATO_OFFSET);
	else if (!controller_is_ready(controller))
		connect_refuse(command, NVME_CONNECT_BUSY, 0);
	else if (controller_queue(controller, connect->qid))
		connect_refuse(command, NVME_SEQUENCE, 0);
	else if (!set_entries(queue, connect))
		connect_refuse(command, NVME_INTERNAL, 0);
	else
		connect_grant(command, controller, connect);
}

static void connect_ready(struct target_command *command)
{
	struct nvme_connect connect = nvme_connect_decode(&command->sqe);
	uint8_t bytes[NVME_CONNECT_DATA_BYTES];
	struct nvme_connect_data data;
	uint16_t offset;

	/* Copy the data, because a host over iWARP may write to the buffer during decoding. */
	memcpy(bytes, command->data, sizeof(bytes));
	/*
	 * While this command waited for its data, another Connect may have succeeded, or the queue
	 * may have been closed.
	 */
	if (command->queue->is_connected || command->queue->is_closing)
		connect_refuse(command, NVME_SEQUENCE, 0);
	else if (!nvme_connect_data_decode(bytes, &data, &offset))
		connect_refuse(command, NVME_CONNECT_PARAMETER, NVME_CONNECT_IN_DATA | offset);
	else if (connect.qid == 0)
		connect_admin(command, &connect, &data);
	else
		connect_io(command, &connect, &data);
}

static void connect_begin(struct target_command *command)
{
	struct nvme_connect connect = nvme_connect_decode(&command->sqe);
	uint32_t entries_max;

	if (command->queue->is_connected) {
		connect_refuse(command, NVME_SEQUENCE, 0);
		return;
	}
	if (command->queue->is_surplus) {
		connect_refuse(command, NVME_CONNECT_BUSY, 0);
		return;
	}
	entries_max = connect.qid ? command->queue->port->queue_entries : TARGET_ADMIN_ENTRIES_MAX;
	if (connect.recfmt != 0)
		connect_refuse(command, NVME_CONNECT_FORMAT, 0);
	else if (connect.sqsize == 0 || connect.sqsize >= entries_max)
		connect_refuse(command, NVME_CONNECT_PARAMETER, SQSIZE_OFFSET);
	else
		command_expect(
			command, TARGET_TO_CONTROLLER, NVME_CONNECT_DATA_BYTES, connect_ready);
}

static void property_get(struct target_command *command)
{
	struct nvme_property_access access = nvme_property_decode(&command->sqe);
	const struct target_controller *controller = command->queue->controller;
	uint8_t bytes = access.attrib & 7 ? 8 : 4;

	if ((access.attrib & 7) > 1 || nvme_property_bytes(access.offset) != bytes) {
		command_finish(command, NVME_INVALID_FIELD);
		return;
	}
	switch (access.offset) {
	case NVME_CAP:
		command_finish_result(command, controller_capabilities(controller));
		return;
	case NVME_VS:
		command_finish_result(command, NVME_VS_1_4);
		return;
	case NVME_CC:
		command_finish_result(command, controller->cc);
		return;
	case NVME_CSTS:
		command_finish_result(command, controller->csts);
		return;
	default:
		command_finish(command, NVME_INVALID_FIELD);
	}
}

static void property_set(struct target_command *command)
{
	struct nvme_property_access access = nvme_property_decode(&command->sqe);

	if (access.attrib & 7 || access.offset != NVME_CC || access.value >> 32 ||
		!controller_configure(command->queue->controller, (uint32_t)access.value))
		command_finish(command, NVME_INVALID_FIELD);
	else
		command_finish(command, NVME_SUCCESS);
}

/* Disconnect can delete only I/O queues (section 3.3.2.4). Its response precedes the deletion. */
static void queue_disconnect(struct target_command *command)
{
	struct target_queue *queue = command->queue;

	if (queue->qid == 0) {
		command_finish(command, NVME_INVALID_QUEUE_TYPE);
	} else if (command->sqe.cdw10 & 0xffff) {
		command_finish(command, NVME_CONNECT_FORMAT);
	} else {
		command_finish(command, NVME_SUCCESS);
		queue_close(queue);
	}
}

void fabrics_command(struct target_command *command)
{
	uint8_t fctype = nvme_fctype(&command->sqe);
	bool is_admin = command->queue->qid == 0;

	if (fctype == NVME_FABRICS_CONNECT)
		connect_begin(command);
	else if (!command->queue->is_connected)
		command_finish(command, NVME_SEQUENCE);
	else if (fctype == NVME_FABRICS_PROPERTY_GET && is_admin)
		property_get(command);
	else if (fctype == NVME_FABRICS_PROPERTY_SET && is_admin)
		property_set(command);
	else if (fctype == NVME_FABRICS_DISCONNECT)
		queue_disconnect(command);
	else
		command_finish(command, NVME_INVALID_OPCODE);
}
