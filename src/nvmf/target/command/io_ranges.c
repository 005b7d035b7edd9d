/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * I/O commands that take several steps: Dataset Management, Write Zeroes, Copy and Verify (NVM
 * command set 1.0, sections 3.2.2, 3.2.3, 3.2.7 and 3.2.8). The loop serves other hosts between two
 * steps of a command. Otherwise a long command would block them, because a backend in memory
 * finishes each step within backend_submit().
 */
#include <string.h>

#include "nvmf/common/bytes.h"
#include "nvmf/target/command/command.h"

enum {
	DSM_RANGE_BYTES = 16,
	DSM_DEALLOCATE = 1 << 2,
};

struct range {
	uint64_t slba;
	uint64_t blocks;
};

static struct range dsm_range(const struct target_command *command, uint32_t index)
{
	const uint8_t *bytes = command->data + index * DSM_RANGE_BYTES;

	return (struct range){.slba = le64_get(bytes + 8), .blocks = le32_get(bytes + 4)};
}

static uint32_t range_count(const struct target_command *command)
{
	return (command->sqe.opcode == NVME_IO_COPY ? command->sqe.cdw12 & 0xff
						    : command->sqe.cdw10 & 0xff) +
		1;
}

static uint64_t step_bytes(uint64_t total, uint64_t done, uint64_t most)
{
	return total - done < most ? total - done : most;
}

static void ranges_synced(struct backend_request *request, enum backend_status status)
{
	io_done(container_of(request, struct target_command, request), backend_status_nvme(status));
}

/* All steps are done, but not durable: flush if the command must be durable, then end it. */
static void finish_steps(struct target_command *command)
{
	if (io_is_durable(command))
		io_submit(command, BACKEND_FLUSH, 0, 0, NULL, false, ranges_synced);
	else
		io_done(command, NVME_SUCCESS);
}

static void dsm_step(struct target_command *command);

static void dsm_done(struct backend_request *request, enum backend_status status)
{
	struct target_command *command = container_of(request, struct target_command, request);

	command->done_bytes += request->length_bytes;
	if (status != BACKEND_OK)
		io_done(command, backend_status_nvme(status));
	else
		io_continue(command, dsm_step);
}

static void dsm_step(struct target_command *command)
{
	uint8_t shift = command->ns->block_shift;
	struct range range = {0};

	for (; command->index < range_count(command); command->index++) {
		range = dsm_range(command, command->index);
		if (command->done_bytes < range.blocks << shift)
			break;
		command->done_bytes = 0;
	}
	if (command->index == range_count(command))
		finish_steps(command);
	else if (!io_is_inside(command->ns, range.slba, range.blocks))
		/* A resize may have made the namespace smaller between two steps. */
		io_done(command, NVME_LBA_RANGE);
	else
		io_submit(command, BACKEND_DISCARD, (range.slba << shift) + command->done_bytes,
			step_bytes(range.blocks << shift, command->done_bytes, TARGET_ZERO_BYTES),
			NULL, false, dsm_done);
}

static void dsm_ready(struct target_command *command)
{
	for (uint32_t i = 0; i < range_count(command); i++) {
		struct range range = dsm_range(command, i);

		if (!io_is_inside(command->ns, range.slba, range.blocks)) {
			command_finish(command, NVME_LBA_RANGE);
			return;
		}
	}
	command->index = 0;
	command->done_bytes = 0;
	if (command->sqe.cdw11 & DSM_DEALLOCATE)
		namespace_run(command, dsm_step);
	else
		command_finish(command, NVME_SUCCESS);
}

void io_dataset_management(struct target_command *command)
{
	command_expect(
		command, TARGET_TO_CONTROLLER, range_count(command) * DSM_RANGE_BYTES, dsm_ready);
}

/*
 * The ranges are copied to the scratch buffer, after the room for data, because the host may still
 * write to `data`.
 */
static uint8_t *copy_ranges(const struct target_command *command)
{
	return (uint8_t *)command->scratch + TARGET_SCRATCH_BYTES;
}

static struct range copy_range(const struct target_command *command, uint32_t index)
{
	const uint8_t *bytes = copy_ranges(command) + index * TARGET_COPY_RANGE_BYTES;

	return (struct range){.slba = le64_get(bytes + 8), .blocks = le16_get(bytes + 16) + 1ull};
}

static uint64_t slba_of(const struct target_command *command)
{
	return command->sqe.cdw10 | (uint64_t)command->sqe.cdw11 << 32;
}

static void copy_step(struct target_command *command);

static void copy_written(struct backend_request *request, enum backend_status status)
{
	struct target_command *command = container_of(request, struct target_command, request);
	uint64_t total = copy_range(command, command->index).blocks << command->ns->block_shift;

	if (status != BACKEND_OK) {
		io_done(command, backend_status_nvme(status));
		return;
	}
	command->done_bytes += request->length_bytes;
	command->target_offset += request->length_bytes;
	if (command->done_bytes == total) {
		command->done_bytes = 0;
		command->index++;
	}
	if (command->index < range_count(command))
		io_continue(command, copy_step);
	else
		io_done(command, NVME_SUCCESS);
}

static void copy_read(struct backend_request *request, enum backend_status status)
{
	struct target_command *command = container_of(request, struct target_command, request);

	if (status != BACKEND_OK)
		io_done(command, backend_status_nvme(status));
	else
		io_submit(command, BACKEND_WRITE, command->target_offset, request->length_bytes,
			command->scratch, io_is_durable(command), copy_written);
}

static void copy_step(struct target_command *command)
{
	uint8_t shift = command->ns->block_shift;
	struct range range = copy_range(command, command->index);

	io_submit(command, BACKEND_READ, (range.slba << shift) + command->done_bytes,
		step_bytes(range.blocks << shift, command->done_bytes, TARGET_SCRATCH_BYTES),
		command->scratch, false, copy_read);
}

static uint16_t copy_verdict(const struct target_command *command)
{
	uint64_t blocks = 0;

	for (uint32_t i = 0; i < range_count(command); i++) {
		struct range range = copy_range(command, i);

		if (range.blocks > TARGET_COPY_RANGE_BLOCKS)
			return NVME_COPY_LIMIT;
		if (!io_is_inside(command->ns, range.slba, range.blocks))
			return NVME_LBA_RANGE;
		blocks += range.blocks;
	}
	if (blocks > TARGET_COPY_BLOCKS)
		return NVME_COPY_LIMIT;
	if (!io_is_inside(command->ns, slba_of(command), blocks))
		return NVME_LBA_RANGE;
	return NVME_SUCCESS;
}

/* Check the ranges again, because the namespace may have become smaller before the command ran. */
static void copy_run(struct target_command *command)
{
	uint16_t verdict = copy_verdict(command);

	if (verdict == NVME_SUCCESS)
		copy_step(command);
	else
		io_done(command, verdict);
}

static void copy_begin(struct target_command *command)
{
	uint16_t verdict;

	command->index = 0;
	command->done_bytes = 0;
	command->target_offset = slba_of(command) << command->ns->block_shift;
	memcpy(copy_ranges(command), command->data, range_count(command) * TARGET_COPY_RANGE_BYTES);
	verdict = copy_verdict(command);
	if (verdict == NVME_SUCCESS)
		namespace_run(command, copy_run);
	else
		command_finish(command, verdict);
}

static void copy_ready(struct target_command *command)
{
	scratch_take(command, copy_begin);
}

void io_copy(struct target_command *command)
{
	enum { FORMAT_SHIFT = 8, FORMAT_MASK = 15 };

	if (command->sqe.cdw12 >> FORMAT_SHIFT & FORMAT_MASK)
		command_finish(command, NVME_INVALID_FIELD);
	else if (range_count(command) > TARGET_COPY_RANGES)
		command_finish(command, NVME_COPY_LIMIT);
	else
		command_expect(command, TARGET_TO_CONTROLLER,
			range_count(command) * TARGET_COPY_RANGE_BYTES, copy_ready);
}

/* The length of a Verify or Write Zeroes in bytes. */
static uint64_t total_bytes(const struct target_command *command)
{
	return ((command->sqe.cdw12 & 0xffff) + 1ull) << command->ns->block_shift;
}

static void verify_step(struct target_command *command);

static void verify_done(struct backend_request *request, enum backend_status status)
{
	struct target_command *command = container_of(request, struct target_command, request);

	command->done_bytes += request->length_bytes;
	if (status != BACKEND_OK || command->done_bytes == total_bytes(command))
		io_done(command, backend_status_nvme(status));
	else
		io_continue(command, verify_step);
}

static void verify_step(struct target_command *command)
{
	io_submit(command, BACKEND_READ,
		(slba_of(command) << command->ns->block_shift) + command->done_bytes,
		step_bytes(total_bytes(command), command->done_bytes, TARGET_SCRATCH_BYTES),
		command->scratch, false, verify_done);
}

static void verify_begin(struct target_command *command)
{
	command->done_bytes = 0;
	namespace_run(command, verify_step);
}

static void verify_ready(struct target_command *command)
{
	scratch_take(command, verify_begin);
}

void io_verify(struct target_command *command)
{
	command_expect(command, TARGET_NO_DATA, 0, verify_ready);
}

static void zeroes_step(struct target_command *command);

static void zeroes_done(struct backend_request *request, enum backend_status status)
{
	struct target_command *command = container_of(request, struct target_command, request);

	command->done_bytes += request->length_bytes;
	if (status != BACKEND_OK)
		io_done(command, backend_status_nvme(status));
	else if (command->done_bytes < total_bytes(command))
		io_continue(command, zeroes_step);
	else
		finish_steps(command);
}

static void zeroes_step(struct target_command *command)
{
	io_submit(command, BACKEND_WRITE_ZEROES,
		(slba_of(command) << command->ns->block_shift) + command->done_bytes,
		step_bytes(total_bytes(command), command->done_bytes, TARGET_ZERO_BYTES), NULL,
		false, zeroes_done);
}

static void zeroes_ready(struct target_command *command)
{
	command->done_bytes = 0;
	namespace_run(command, zeroes_step);
}

void io_write_zeroes(struct target_command *command)
{
	command_expect(command, TARGET_NO_DATA, 0, zeroes_ready);
}
