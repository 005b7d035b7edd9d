/* SPDX-License-Identifier: BSD-2-Clause */
#include "nvmf_load_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "nvmf/host/controller/sqe.h"
#include "nvmf_disk.h"

enum {
	OPEN_MAX = 4, /* writes to a block at once */
	TRIES = 8,
	READ_ALL_BLOCKS = 16,
	DSM_RANGE_BYTES = 16,
	DSM_DEALLOCATE = 1 << 2,
	COPY_RANGE_BYTES = 32,
	CONTROL_FUA = 1 << 30,
	CONTROL_DEALLOCATE = 1 << 25,
};

static void io_free(struct io *io)
{
	struct nvmf_load *load = io->load;

	free(io->data);
	io->data = NULL;
	io->is_pending = false;
	load->pending--;
	load->fused_pending -= io->fuse != NVME_FUSE_NONE;
}

static void io_check(const struct io *io, int error)
{
	const struct nvmf_world *world = io->load->world;
	unsigned host = io->load->settings.host;

	NVMF_CHECK(world, io->is_pending, "host %u: a request is done twice", host);
	NVMF_CHECK(world, !io->is_sent, "host %u: a request is done before its command", host);
	if (error == 0)
		NVMF_CHECK(world,
			io->has_ended && (io->end == HOST_COMPLETED || io->end == HOST_DAMAGED) &&
				io->request.status == io->status,
			"host %u: a request ends otherwise than its command", host);
	else if (error == -EIO)
		NVMF_CHECK(world, io->has_ended && io->end == HOST_LOST,
			"host %u: -EIO without a lost command", host);
	else
		NVMF_CHECK(world,
			error == -ENOTCONN &&
				(!io->has_ended || io->end == HOST_UNSENT ||
					io->request.is_repeatable),
			"host %u: a request that was sent is done with %d", host, error);
	if (io->is_final)
		NVMF_CHECK(world, !error && !io->request.status,
			"host %u cannot read block %u in the end: error %d, status %03x", host,
			block_of(io, io->range.first), error, io->request.status);
}

static void io_done(struct host_request *request, int error)
{
	struct io *io = container_of(request, struct io, request);
	struct nvmf_load_counts *counts = io->load->settings.counts;

	io_check(io, error);
	if (error)
		counts->unknown++;
	else if (request->status)
		counts->failed++;
	if (io->fuse == NVME_FUSE_SECOND) {
		counts->swaps++;
		counts->swapped += !error && !request->status;
	}
	io_free(io);
}

static struct io *io_take(struct nvmf_load *load, uint8_t opcode)
{
	struct io *io = load->ios;

	while (io->is_pending)
		io++;
	*io = (struct io){.load = load, .is_pending = true, .opcode = opcode};
	io->request.is_repeatable = load->plan->repeats;
	io->request.done = io_done;
	io->ns = (unsigned)nvmf_below(load->world, load->settings.plan->namespaces);
	load->pending++;
	load->settings.counts->requests++;
	return io;
}

/* Blocks from `low` to below `high` that may be written. False: the seed finds none. */
static bool range_choose(
	struct io *io, struct range *range, unsigned low, unsigned high, unsigned blocks_max)
{
	struct nvmf_load *load = io->load;
	struct register_set *registers = load->settings.registers;

	for (unsigned i = 0; i < TRIES; i++) {
		bool is_good = true;

		range->blocks = (unsigned)nvmf_any_size(load->world, 1, blocks_max);
		range->first =
			low + (unsigned)nvmf_below(load->world, high - low - range->blocks + 1);
		/* Some blocks see more than the others. */
		if (nvmf_below(load->world, 2))
			range->first = low;
		for (unsigned j = 0; j < range->blocks && is_good; j++) {
			unsigned block = block_of(io, range->first + j);

			is_good = register_open_count(registers, block) < OPEN_MAX &&
				!register_is_full(registers, block);
		}
		if (is_good)
			return true;
	}
	return false;
}

static void data_set(struct io *io, enum host_direction direction, uint32_t bytes)
{
	io->bytes = bytes;
	io->data = malloc(bytes);
	if (!io->data)
		abort();
	memset(io->data, 0, bytes);
	host_sqe_data(&io->request.command, direction, io->data, bytes);
}

static void blocks_fill(struct io *io, const uint64_t *values)
{
	uint32_t bytes = io->load->settings.plan->ns[io->ns].block_bytes;

	data_set(io, HOST_TO_CONTROLLER, io->range.blocks * bytes);
	for (unsigned i = 0; i < io->range.blocks; i++)
		nvmf_content_fill(io->data + i * bytes, bytes, values[i]);
}

static void sqe_make(struct io *io, uint32_t dword_12)
{
	struct host_command *command = &io->request.command;

	host_sqe_init(command, io->opcode, io->ns + 1);
	host_sqe_dword(command, 10, io->range.first);
	host_sqe_dword(command, 12, dword_12 | (io->is_durable ? CONTROL_FUA : 0));
	command->sqe[1] = (uint8_t)io->fuse;
}

static void io_send(struct io *io)
{
	host_submit(io->load->controller, &io->request);
}

static void read_make(struct io *io)
{
	uint32_t bytes = io->load->settings.plan->ns[io->ns].block_bytes;

	sqe_make(io, io->range.blocks - 1);
	data_set(io, HOST_FROM_CONTROLLER, io->range.blocks * bytes);
}

static void write_make(struct io *io)
{
	struct nvmf_load *load = io->load;

	for (unsigned i = 0; i < io->range.blocks; i++)
		io->values[i] =
			register_value(load->settings.registers, block_of(io, io->range.first + i));
	io->is_durable = nvmf_below(load->world, 4) == 0;
	sqe_make(io, io->range.blocks - 1);
	blocks_fill(io, io->values);
}

static void compare_make(struct io *io)
{
	for (unsigned i = 0; i < io->range.blocks; i++)
		io->values[i] = io->load->settings.recent[block_of(io, io->range.first + i)];
	sqe_make(io, io->range.blocks - 1);
	blocks_fill(io, io->values);
}

static void zeroes_make(struct io *io)
{
	io->is_durable = nvmf_below(io->load->world, 4) == 0;
	sqe_make(io,
		(io->range.blocks - 1) |
			(nvmf_below(io->load->world, 2) ? CONTROL_DEALLOCATE : 0u));
}

/* Ranges that do not overlap: one in each part of the namespace. */
static bool ranges_choose(struct io *io, unsigned low, unsigned high, unsigned blocks_max)
{
	unsigned count = 1 + (unsigned)nvmf_below(io->load->world, RANGES_MAX);
	unsigned part = (high - low) / count;

	for (unsigned i = 0; i < count; i++) {
		struct range *range = &io->ranges[io->range_count];

		if (range_choose(io, range, low + i * part, low + (i + 1) * part,
			    blocks_max < part ? blocks_max : part))
			io->range_count++;
	}
	return io->range_count > 0;
}

static bool discard_make(struct io *io)
{
	if (!ranges_choose(io, 0, io->load->settings.plan->ns[io->ns].blocks, 8))
		return false;
	sqe_make(io, 0);
	host_sqe_dword(&io->request.command, 10, io->range_count - 1);
	host_sqe_dword(&io->request.command, 11, DSM_DEALLOCATE);
	data_set(io, HOST_TO_CONTROLLER, io->range_count * DSM_RANGE_BYTES);
	for (unsigned i = 0; i < io->range_count; i++) {
		le32_put(io->data + i * DSM_RANGE_BYTES + 4, io->ranges[i].blocks);
		le64_put(io->data + i * DSM_RANGE_BYTES + 8, io->ranges[i].first);
	}
	return true;
}

/* From the lower half of a namespace to the upper one, so that no copy is copied. */
static bool copy_make(struct io *io)
{
	unsigned blocks = io->load->settings.plan->ns[io->ns].blocks;
	unsigned sum = 0;

	if (!ranges_choose(io, 0, blocks / 2, 4))
		return false;
	for (unsigned i = 0; i < io->range_count; i++)
		sum += io->ranges[i].blocks;
	do {
		if (!range_choose(io, &io->range, blocks / 2, blocks, sum))
			return false;
	} while (io->range.blocks != sum);
	io->is_durable = nvmf_below(io->load->world, 4) == 0;
	sqe_make(io, io->range_count - 1);
	data_set(io, HOST_TO_CONTROLLER, io->range_count * COPY_RANGE_BYTES);
	for (unsigned i = 0; i < io->range_count; i++) {
		le64_put(io->data + i * COPY_RANGE_BYTES + 8, io->ranges[i].first);
		le16_put(
			io->data + i * COPY_RANGE_BYTES + 16, (uint16_t)(io->ranges[i].blocks - 1));
	}
	return true;
}

/* A fused pair: one after the other in the only queue. It is never repeated. */
static bool swap_send(struct nvmf_load *load)
{
	struct io *compare, *write;

	if (load->plan->io_queues != 1 || host_controller_io_depth(load->controller) < 2 ||
		load->fused_pending || load->pending + 2 > load->plan->pending_max)
		return false;
	compare = io_take(load, NVME_IO_COMPARE);
	if (!range_choose(
		    compare, &compare->range, 0, load->settings.plan->ns[compare->ns].blocks, 3)) {
		io_free(compare);
		return false;
	}
	write = io_take(load, NVME_IO_WRITE);
	write->ns = compare->ns;
	write->range = compare->range;
	compare->fuse = NVME_FUSE_FIRST;
	write->fuse = NVME_FUSE_SECOND;
	compare->request.is_repeatable = write->request.is_repeatable = false;
	load->fused_pending = 2;
	compare_make(compare);
	write_make(write);
	memcpy(write->expected, compare->values, sizeof(write->expected));
	io_send(compare);
	io_send(write);
	return true;
}

static const struct {
	uint8_t opcode;
	unsigned weight;
} mix[] = {
	{NVME_IO_READ, 36},
	{NVME_IO_WRITE, 36},
	{NVME_IO_FLUSH, 6},
	{NVME_IO_COMPARE, 6},
	{NVME_IO_WRITE_ZEROES, 4},
	{NVME_IO_DATASET_MANAGEMENT, 4},
	{NVME_IO_COPY, 4},
	{NVME_IO_VERIFY, 4},
};

static uint8_t opcode_choose(struct nvmf_load *load)
{
	unsigned left = (unsigned)nvmf_below(load->world, 100);
	unsigned i = 0;

	while (left >= mix[i].weight)
		left -= mix[i++].weight;
	return mix[i].opcode;
}

/* False: there is no place for such a request now. */
static bool io_make(struct io *io)
{
	unsigned blocks = io->load->settings.plan->ns[io->ns].blocks;
	unsigned blocks_max = io->opcode == NVME_IO_WRITE_ZEROES ? 8 : NVMF_COMMAND_BLOCKS_MAX;

	if (io->opcode == NVME_IO_DATASET_MANAGEMENT)
		return discard_make(io);
	if (io->opcode == NVME_IO_COPY)
		return copy_make(io);
	if (io->opcode == NVME_IO_FLUSH) {
		sqe_make(io, 0);
		return true;
	}
	if (!range_choose(io, &io->range, 0, blocks, blocks_max))
		return false;
	if (io->opcode == NVME_IO_READ)
		read_make(io);
	else if (io->opcode == NVME_IO_WRITE)
		write_make(io);
	else if (io->opcode == NVME_IO_COMPARE)
		compare_make(io);
	else if (io->opcode == NVME_IO_WRITE_ZEROES)
		zeroes_make(io);
	else
		sqe_make(io, io->range.blocks - 1);
	return true;
}

void nvmf_request_make(struct nvmf_load *load)
{
	struct io *io;

	load->made++;
	if (nvmf_below(load->world, 8) == 0 && swap_send(load))
		return;
	io = io_take(load, opcode_choose(load));
	if (io_make(io))
		io_send(io);
	else
		io_free(io);
}

void nvmf_request_make_final(struct nvmf_load *load)
{
	const struct nvmf_plan *plan = load->settings.plan;
	struct io *io = io_take(load, NVME_IO_READ);
	unsigned left;

	io->ns = 0;
	while (load->final_block >= plan->ns[io->ns].first_block + plan->ns[io->ns].blocks)
		io->ns++;
	io->range.first = load->final_block - plan->ns[io->ns].first_block;
	left = plan->ns[io->ns].blocks - io->range.first;
	io->range.blocks = left < READ_ALL_BLOCKS ? left : READ_ALL_BLOCKS;
	io->is_final = true;
	io->request.is_repeatable = true;
	load->final_block += io->range.blocks;
	read_make(io);
	io_send(io);
}
