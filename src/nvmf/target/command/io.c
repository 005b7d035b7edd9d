/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * I/O commands with one request to the backend: Read, Write, Compare, Flush; and the fused pair
 * Compare and Write (NVM command set 1.0, section 3.2).
 */
#include <stdlib.h>
#include <string.h>

#include "nvmf/target/command/command.h"

enum { FUA = 1 << 30, BLOCK_512_SHIFT = 9 };

static uint64_t slba_of(const struct target_command *command)
{
	return command->sqe.cdw10 | (uint64_t)command->sqe.cdw11 << 32;
}

static uint64_t blocks_of(const struct target_command *command)
{
	return (command->sqe.cdw12 & 0xffff) + 1ull;
}

static uint64_t bytes_of(const struct target_command *command)
{
	return blocks_of(command) << command->ns->block_shift;
}

static uint64_t offset_of(const struct target_command *command)
{
	return slba_of(command) << command->ns->block_shift;
}

bool io_is_inside(const struct target_namespace *ns, uint64_t slba, uint64_t blocks)
{
	return slba <= ns->blocks && blocks <= ns->blocks - slba;
}

static bool is_inside(const struct target_command *command)
{
	return io_is_inside(command->ns, slba_of(command), blocks_of(command));
}

bool io_is_durable(const struct target_command *command)
{
	const struct target_controller *controller = command->queue->controller;

	return command->sqe.cdw12 & FUA || (controller && !controller->write_cache);
}

void io_submit(struct target_command *command, enum backend_operation operation, uint64_t offset,
	uint64_t bytes, uint8_t *data, bool is_fua,
	void (*done)(struct backend_request *request, enum backend_status status))
{
	struct target *target = command->queue->target;

	command->iov = (struct iovec){.iov_base = data, .iov_len = (size_t)bytes};
	command->request.operation = operation;
	command->request.is_fua = is_fua;
	command->request.offset_bytes = offset;
	command->request.length_bytes = bytes;
	command->request.iov = &command->iov;
	command->request.iov_count = data ? 1 : 0;
	command->request.done = done;
	/* Defer target->flush first, because backend_submit() may end the command. */
	if (backend_ring_fd(target->ring) >= 0)
		loop_defer(target->loop, &target->flush);
	backend_submit(command->ns->backend, target->ring, &command->request);
}

static void step_run(struct loop_work *work)
{
	struct target_command *command = container_of(work, struct target_command, step);

	if (queue_is_lost(command->queue))
		io_done(command, NVME_SQ_DELETED);
	else
		command->run(command);
}

void io_continue(struct target_command *command, void (*run)(struct target_command *command))
{
	command->run = run;
	loop_work_init(&command->step, step_run);
	loop_defer(command->queue->target->loop, &command->step);
}

void io_done(struct target_command *command, uint16_t status)
{
	namespace_end(command->ns, command);
	command_finish(command, status);
}

static void request_done(struct backend_request *request, enum backend_status status)
{
	io_done(container_of(request, struct target_command, request), backend_status_nvme(status));
}

static void read_done(struct backend_request *request, enum backend_status status)
{
	struct target_command *command = container_of(request, struct target_command, request);

	if (status == BACKEND_OK)
		command->queue->target->counters.read_bytes += command->data_bytes;
	io_done(command, backend_status_nvme(status));
}

static void read_run(struct target_command *command)
{
	io_submit(command, BACKEND_READ, offset_of(command), command->data_bytes, command->data,
		false, read_done);
}

static void read_ready(struct target_command *command)
{
	namespace_run(command, read_run);
}

static void write_done(struct backend_request *request, enum backend_status status)
{
	struct target_command *command = container_of(request, struct target_command, request);

	if (status == BACKEND_OK)
		command->queue->target->counters.write_bytes += command->data_bytes;
	io_done(command, backend_status_nvme(status));
}

static void write_run(struct target_command *command)
{
	io_submit(command, BACKEND_WRITE, offset_of(command), command->data_bytes, command->data,
		io_is_durable(command), write_done);
}

static void write_ready(struct target_command *command)
{
	namespace_run(command, write_run);
}

static void compare_done(struct backend_request *request, enum backend_status status)
{
	struct target_command *command = container_of(request, struct target_command, request);
	bool is_equal = status == BACKEND_OK &&
		!memcmp(command->scratch, command->data, command->data_bytes);

	if (status != BACKEND_OK)
		io_done(command, backend_status_nvme(status));
	else
		io_done(command, is_equal ? NVME_SUCCESS : NVME_COMPARE_FAILED);
}

static void compare_run(struct target_command *command)
{
	io_submit(command, BACKEND_READ, offset_of(command), command->data_bytes, command->scratch,
		false, compare_done);
}

static void compare_ready(struct target_command *command)
{
	command->scratch = malloc(command->data_bytes);
	if (command->scratch)
		namespace_run(command, compare_run);
	else
		command_finish(command, NVME_INTERNAL);
}

static void flush_run(struct target_command *command)
{
	io_submit(command, BACKEND_FLUSH, 0, 0, NULL, false, request_done);
}

static void flush_ready(struct target_command *command)
{
	namespace_run(command, flush_run);
}

static void command_count(struct target_command *command)
{
	struct target_controller *controller = command->queue->controller;
	struct target_counters *counters = &command->queue->target->counters;
	uint64_t blocks = bytes_of(command) >> BLOCK_512_SHIFT;

	if (command->sqe.opcode == NVME_IO_READ) {
		counters->reads++;
		controller->reads++;
		controller->read_blocks += blocks;
	} else if (command->sqe.opcode == NVME_IO_WRITE) {
		counters->writes++;
		controller->writes++;
		controller->written_blocks += blocks;
	} else {
		counters->other_io_commands++;
	}
}

static bool has_range(uint8_t opcode)
{
	return opcode == NVME_IO_READ || opcode == NVME_IO_WRITE || opcode == NVME_IO_COMPARE ||
		opcode == NVME_IO_WRITE_ZEROES || opcode == NVME_IO_VERIFY;
}

void io_command(struct target_command *command)
{
	uint8_t opcode = command->sqe.opcode;

	if (!nvme_io_name(opcode)) {
		command_finish(command, NVME_INVALID_OPCODE);
		return;
	}
	command->ns = namespace_find(command->queue->controller->subsystem, command->sqe.nsid);
	if (!command->ns) {
		command_finish(command, NVME_INVALID_NAMESPACE);
		return;
	}
	command->ns->references++;
	command_count(command);
	if (has_range(opcode) && !is_inside(command)) {
		command_finish(command, NVME_LBA_RANGE);
		return;
	}
	switch (opcode) {
	case NVME_IO_READ:
		command_expect(command, TARGET_FROM_CONTROLLER, bytes_of(command), read_ready);
		return;
	case NVME_IO_WRITE:
		command_expect(command, TARGET_TO_CONTROLLER, bytes_of(command), write_ready);
		return;
	case NVME_IO_COMPARE:
		command_expect(command, TARGET_TO_CONTROLLER, bytes_of(command), compare_ready);
		return;
	case NVME_IO_FLUSH:
		command_expect(command, TARGET_NO_DATA, 0, flush_ready);
		return;
	case NVME_IO_WRITE_ZEROES:
		io_write_zeroes(command);
		return;
	case NVME_IO_DATASET_MANAGEMENT:
		io_dataset_management(command);
		return;
	case NVME_IO_COPY:
		io_copy(command);
		return;
	case NVME_IO_VERIFY:
		io_verify(command);
		return;
	default:
		command_finish(command, NVME_INVALID_OPCODE);
	}
}

/* A fused Compare and Write has the namespace exclusively from its read to the end of its write. */
struct target_pair {
	struct target_job job;
	struct target_command *compare, *write;
	unsigned waiting; /* how many halves wait for their data */
	uint16_t statuses[2]; /* errors of the data of compare and write; 0: none */
};

static void pair_finish(struct target_pair *pair, uint16_t compare_status, uint16_t write_status)
{
	struct target_command *compare = pair->compare, *write = pair->write;

	compare->pair = NULL;
	write->pair = NULL;
	free(pair);
	command_finish(compare, compare_status);
	command_finish(write, write_status);
}

/* End both commands, and the pair's exclusive use of the namespace. */
static void pair_leave(struct target_pair *pair, uint16_t compare_status, uint16_t write_status)
{
	struct target_namespace *ns = pair->compare->ns;

	ns->references++;
	pair_finish(pair, compare_status, write_status);
	namespace_job_done(ns);
	namespace_unreference(ns);
}

static void pair_end(struct target_pair *pair, uint16_t compare_status, uint16_t write_status)
{
	command_work_end(pair->compare);
	pair_leave(pair, compare_status, write_status);
}

static void pair_written(struct backend_request *request, enum backend_status status)
{
	struct target_command *write = container_of(request, struct target_command, request);

	if (status == BACKEND_OK)
		write->queue->target->counters.write_bytes += write->data_bytes;
	pair_end(write->pair, NVME_SUCCESS, backend_status_nvme(status));
}

static void pair_read(struct backend_request *request, enum backend_status status)
{
	struct target_command *compare = container_of(request, struct target_command, request);
	struct target_pair *pair = compare->pair;

	if (status != BACKEND_OK)
		pair_end(pair, backend_status_nvme(status), NVME_FUSED_FAILED);
	else if (memcmp(compare->scratch, compare->data, compare->data_bytes) != 0)
		pair_end(pair, NVME_COMPARE_FAILED, NVME_FUSED_FAILED);
	else
		io_submit(pair->write, BACKEND_WRITE, offset_of(pair->write),
			pair->write->data_bytes, pair->write->data, io_is_durable(pair->write),
			pair_written);
}

static void pair_run(struct target_job *job)
{
	struct target_pair *pair = container_of(job, struct target_pair, job);
	struct target_command *compare = pair->compare;

	if (queue_is_lost(compare->queue)) {
		pair_leave(pair, NVME_SQ_DELETED, NVME_SQ_DELETED);
		return;
	}
	command_work_begin(compare);
	io_submit(compare, BACKEND_READ, offset_of(compare), compare->data_bytes, compare->scratch,
		false, pair_read);
}

void io_fused_ready(struct target_command *command, uint16_t status)
{
	struct target_pair *pair = command->pair;

	if (status != NVME_SUCCESS)
		pair->statuses[command == pair->write] = status;
	if (--pair->waiting)
		return;
	if (!pair->statuses[0] && !pair->statuses[1]) {
		namespace_exclude(pair->compare->ns, &pair->job);
		return;
	}
	for (int i = 0; i < 2; i++)
		if (!pair->statuses[i])
			pair->statuses[i] = NVME_FUSED_FAILED;
	pair_finish(pair, pair->statuses[0], pair->statuses[1]);
}

static uint16_t pair_verdict(struct target_command *compare, struct target_command *write)
{
	if (compare->sqe.psdt != 1 || write->sqe.psdt != 1 || write->sqe.opcode != NVME_IO_WRITE ||
		slba_of(compare) != slba_of(write) || compare->sqe.nsid != write->sqe.nsid ||
		blocks_of(compare) != blocks_of(write))
		return NVME_INVALID_FIELD;
	if (compare->refusal != NVME_SUCCESS)
		return compare->refusal;
	if (!controller_is_ready(compare->queue->controller))
		return NVME_SEQUENCE;
	compare->ns = namespace_find(compare->queue->controller->subsystem, compare->sqe.nsid);
	if (!compare->ns)
		return NVME_INVALID_NAMESPACE;
	compare->ns->references++;
	if (!is_inside(compare))
		return NVME_LBA_RANGE;
	if (bytes_of(compare) > compare->queue->transport->data_bytes_max)
		return NVME_INVALID_FIELD;
	if (compare->data_bytes != bytes_of(compare) || write->data_bytes != bytes_of(compare))
		return NVME_SGL_LENGTH;
	return NVME_SUCCESS;
}

void io_fused(struct target_command *compare, struct target_command *write)
{
	uint16_t verdict = pair_verdict(compare, write);
	struct target_pair *pair = verdict == NVME_SUCCESS ? calloc(1, sizeof(*pair)) : NULL;

	if (pair)
		compare->scratch = malloc(compare->data_bytes);
	if (!pair || !compare->scratch) {
		free(pair);
		command_finish(compare, verdict ? verdict : NVME_INTERNAL);
		command_finish(write, NVME_FUSED_FAILED);
		return;
	}
	pair->job.run = pair_run;
	list_init(&pair->job.node);
	pair->compare = compare;
	pair->write = write;
	pair->waiting = 2;
	write->ns = compare->ns;
	write->ns->references++;
	compare->pair = write->pair = pair;
	compare->direction = write->direction = TARGET_TO_CONTROLLER;
	command_count(compare);
	command_count(write);
	compare->queue->transport->fetch(compare);
	write->queue->transport->fetch(write);
}
