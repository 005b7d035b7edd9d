/* SPDX-License-Identifier: BSD-2-Clause */
#include "nvmf_load.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nvmf/common/command.h"
#include "nvmf/host/sqe.h"
#include "nvmf_disk.h"
#include "nvmf_network.h"

enum {
	IOS_MAX = 64,
	RANGES_MAX = 3,
	ACTIONS_MAX = NVMF_COMMAND_BLOCKS_MAX,
	OPEN_MAX = 4, /* writes to a block at once */
	TRIES = 8,
	READ_ALL_BLOCKS = 16,
	DSM_RANGE_BYTES = 16,
	DSM_DEALLOCATE = 1 << 2,
	COPY_RANGE_BYTES = 32,
	CONTROL_FUA = 1 << 30,
	CONTROL_DEALLOCATE = 1 << 25,
	CATTR_OFFSET = 46,
	CATTR_NO_FLOW_CONTROL = 4,
};

struct range {
	unsigned first; /* block of the namespace */
	unsigned blocks;
};

/* A request, and what its present attempt does to blocks. */
struct io {
	struct host_request request;
	struct nvmf_load *load;
	bool is_pending;
	bool is_final; /* of nvmf_load_read_all() */
	uint8_t opcode;
	unsigned ns;
	struct range range;
	struct range ranges[RANGES_MAX]; /* of Dataset Management, or the sources of Copy */
	unsigned range_count;
	bool is_durable;
	enum nvme_fuse fuse;
	uint64_t values[NVMF_COMMAND_BLOCKS_MAX]; /* to write, or to compare */
	uint64_t expected[NVMF_COMMAND_BLOCKS_MAX]; /* of a fused write */
	uint8_t *data;
	uint32_t bytes;

	void (*core_done)(struct host_command *command, enum host_end end);
	bool is_sent; /* an attempt is under way */
	unsigned sent_count; /* attempts of which something left the host */
	bool has_ended; /* some attempt has, as follows */
	enum host_end end;
	uint16_t status;
	unsigned actions[ACTIONS_MAX];
	unsigned action_count;
};

/* Actions on a namespace of attempts that were lost with an association. */
struct lost {
	unsigned *actions;
	unsigned count, room;
};

struct nvmf_load {
	struct nvmf_load_settings settings;
	struct nvmf_world *world;
	const struct nvmf_plan_host *plan;
	struct host_controller *controller;
	enum host_state state;
	struct loop_timer timer;
	struct io ios[IOS_MAX];
	unsigned pending;
	unsigned made;
	unsigned fused_pending;
	unsigned final_block; /* where reading all goes on */
	bool reads_all;
	uint64_t gap_ns; /* between requests, at most */
	struct lost lost[NVMF_NAMESPACES_MAX];
};

/* The transport's functions are not told whose they are. */
static struct nvmf_load *loads[NVMF_HOSTS];

/* --- what an attempt does to blocks --- */

static unsigned block_of(const struct io *io, unsigned number)
{
	return io->load->settings.plan->ns[io->ns].first_block + number;
}

static void action_begin(struct io *io, const struct register_action *action)
{
	NVMF_CHECK(io->load->world, io->action_count < ACTIONS_MAX, "too many blocks");
	io->actions[io->action_count++] = register_begin(io->load->settings.registers, action);
}

static void copy_begin(struct io *io)
{
	unsigned to = io->range.first;

	for (unsigned i = 0; i < io->range_count; i++) {
		for (unsigned j = 0; j < io->ranges[i].blocks; j++) {
			struct register_action action = {.kind = REGISTER_COPY,
				.block = block_of(io, to++),
				.other = block_of(io, io->ranges[i].first + j),
				.is_durable = io->is_durable};

			action_begin(io, &action);
		}
	}
}

static void discard_begin(struct io *io)
{
	for (unsigned i = 0; i < io->range_count; i++) {
		for (unsigned j = 0; j < io->ranges[i].blocks; j++) {
			struct register_action action = {.kind = REGISTER_DISCARD,
				.block = block_of(io, io->ranges[i].first + j)};

			action_begin(io, &action);
		}
	}
}

static void range_begin(struct io *io, enum register_kind kind)
{
	for (unsigned i = 0; i < io->range.blocks; i++) {
		struct register_action action = {.kind = kind,
			.block = block_of(io, io->range.first + i),
			.value = io->values[i],
			.other = io->expected[i],
			.is_durable = io->is_durable};

		action_begin(io, &action);
	}
}

static void attempt_begin(struct io *io)
{
	struct register_action flush = {.kind = REGISTER_FLUSH,
		.block = block_of(io, 0),
		.other = io->load->settings.plan->ns[io->ns].blocks};

	io->action_count = 0;
	switch (io->opcode) {
	case NVME_IO_READ:
		memset(io->data, 0xa5, io->bytes);
		range_begin(io, REGISTER_READ);
		break;
	case NVME_IO_COMPARE:
		range_begin(io, REGISTER_READ);
		break;
	case NVME_IO_WRITE:
		range_begin(io, io->fuse ? REGISTER_SWAP : REGISTER_WRITE);
		break;
	case NVME_IO_WRITE_ZEROES:
		range_begin(io, REGISTER_WRITE);
		break;
	case NVME_IO_DATASET_MANAGEMENT:
		discard_begin(io);
		break;
	case NVME_IO_COPY:
		copy_begin(io);
		break;
	case NVME_IO_FLUSH:
		action_begin(io, &flush);
		break;
	default:
		break;
	}
}

/* Statuses of commands that have done nothing, and do nothing later. */
static bool is_never(uint16_t status)
{
	switch (status & HOST_STATUS_MASK) {
	case NVME_TRANSIENT_TRANSPORT:
	case NVME_INVALID_NAMESPACE:
	case NVME_FUSED_FAILED:
	case NVME_FUSED_MISSING:
	case NVME_ABORTED:
	case NVME_COMPARE_FAILED:
	case NVME_INVALID_FIELD:
		return true;
	default:
		return false;
	}
}

static uint64_t value_at(const struct io *io, unsigned number)
{
	uint32_t bytes = io->load->settings.plan->ns[io->ns].block_bytes;
	uint64_t value = nvmf_content_value(io->data + number * bytes, bytes);

	NVMF_CHECK(io->load->world, value != NVMF_GARBAGE, "host %u reads garbage from block %u",
		io->load->settings.host, block_of(io, io->range.first + number));
	return value;
}

static void lost_close(struct nvmf_load *load, unsigned ns)
{
	struct lost *lost = &load->lost[ns];

	for (unsigned i = 0; i < lost->count; i++)
		register_close(load->settings.registers, lost->actions[i]);
	lost->count = 0;
}

static void attempt_succeeded(struct io *io)
{
	struct nvmf_load *load = io->load;
	bool has_value = io->opcode == NVME_IO_READ || io->opcode == NVME_IO_WRITE ||
		io->opcode == NVME_IO_COMPARE || io->opcode == NVME_IO_WRITE_ZEROES;

	for (unsigned i = 0; i < io->action_count; i++) {
		uint64_t value = io->opcode == NVME_IO_READ ? value_at(io, i) : io->values[i];

		register_end(load->settings.registers, io->actions[i], REGISTER_DONE, value);
		if (has_value)
			load->settings.recent[block_of(io, io->range.first + i)] = value;
	}
	/* What was lost before this association can happen no more. */
	lost_close(load, io->ns);
}

static void actions_lose(struct io *io)
{
	struct lost *lost = &io->load->lost[io->ns];

	if (lost->count + ACTIONS_MAX > lost->room) {
		lost->room = 2 * lost->room + ACTIONS_MAX;
		lost->actions = realloc(lost->actions, lost->room * sizeof(*lost->actions));
		if (!lost->actions)
			abort();
	}
	for (unsigned i = 0; i < io->action_count; i++) {
		register_lose(io->load->settings.registers, io->actions[i]);
		lost->actions[lost->count++] = io->actions[i];
	}
}

static void actions_end(struct io *io, enum register_outcome outcome)
{
	for (unsigned i = 0; i < io->action_count; i++)
		register_end(io->load->settings.registers, io->actions[i], outcome, 0);
}

static void attempt_end(struct io *io)
{
	struct register_set *registers = io->load->settings.registers;
	bool is_read = io->opcode == NVME_IO_READ || io->opcode == NVME_IO_COMPARE;

	if (io->end == HOST_LOST)
		actions_lose(io);
	else if (io->end == HOST_UNSENT || io->end == HOST_DAMAGED)
		actions_end(
			io, is_read || io->end == HOST_UNSENT ? REGISTER_NEVER : REGISTER_MAYBE);
	else if (io->status == 0)
		attempt_succeeded(io);
	else if (io->opcode == NVME_IO_COMPARE && io->range.blocks == 1 &&
		(io->status & HOST_STATUS_MASK) == NVME_COMPARE_FAILED)
		register_refute(registers, io->actions[0], io->values[0]);
	else
		actions_end(io, is_read || is_never(io->status) ? REGISTER_NEVER : REGISTER_MAYBE);
	io->action_count = 0;
}

/* --- the wrapped transport --- */

static void command_done(struct host_command *command, enum host_end end)
{
	struct host_request *request = container_of(command, struct host_request, command);
	struct io *io = container_of(request, struct io, request);

	NVMF_CHECK(io->load->world, io->is_sent, "a command is done that is not under way");
	io->is_sent = false;
	io->has_ended = true;
	io->end = end;
	io->sent_count += end != HOST_UNSENT;
	io->status = end == HOST_DAMAGED ? HOST_STATUS_TRANSIENT
					 : (uint16_t)(le16_get(command->cqe + 14) >> 1);
	io->load->settings.counts->lost += end == HOST_LOST;
	nvmf_trace(io->load->world, "host %u: cid %04x, block %u + %u %s, status %03x",
		io->load->settings.host, command->cid, io->range.first, io->range.blocks,
		end == HOST_COMPLETED         ? "completed"
			: end == HOST_DAMAGED ? "damaged"
			: end == HOST_LOST    ? "lost"
					      : "unsent",
		io->status);
	attempt_end(io);
	io->core_done(command, end);
}

static struct nvmf_load *load_of(const struct host_command *command)
{
	const char *place = (const char *)command;

	for (unsigned i = 0; i < NVMF_HOSTS; i++)
		if (loads[i] && place >= (const char *)loads[i]->ios &&
			place < (const char *)(loads[i]->ios + IOS_MAX))
			return loads[i];
	return NULL;
}

static struct nvmf_load *load_of_loop(const struct loop *loop)
{
	return loads[0] && loads[0]->world->loop[0] == loop ? loads[0] : loads[1];
}

static const struct host_transport wrapped[2];

static const struct host_transport *inner(void)
{
	return (loads[0] ? loads[0] : loads[1])->settings.transport;
}

static int wrapped_open(
	const struct host_queue_settings *settings, struct host_queue **ret_queue, char *ret_reason)
{
	struct nvmf_load *load = load_of_loop(settings->loop);
	int error = load->settings.transport->open(settings, ret_queue, ret_reason);

	if (!error)
		(*ret_queue)->transport = &wrapped[load->plan->has_flow_control];
	return error;
}

static void wrapped_submit(struct host_queue *queue, struct host_command *command)
{
	struct nvmf_load *load = load_of(command);

	if (load) {
		struct host_request *request = container_of(command, struct host_request, command);
		struct io *io = container_of(request, struct io, request);

		NVMF_CHECK(load->world, io->is_pending && !io->is_sent,
			"a request is sent that is not pending");
		NVMF_CHECK(load->world, request->is_repeatable || io->sent_count == 0,
			"a request is repeated that may not be");
		io->is_sent = true;
		io->core_done = command->done;
		command->done = command_done;
		load->settings.counts->attempts++;
		attempt_begin(io);
		inner()->submit(queue, command);
		nvmf_trace(load->world,
			"host %u: sends cid %04x, opcode %02x, namespace %u, block %u + %u",
			load->settings.host, command->cid, io->opcode, io->ns + 1, io->range.first,
			io->range.blocks);
		return;
	}
	inner()->submit(queue, command);
}

/* The host's core asks for flow control; this queue is one of a host that does not want it. */
static void wrapped_submit_without(struct host_queue *queue, struct host_command *command)
{
	if (command->sqe[0] == NVME_OPCODE_FABRICS && command->sqe[4] == NVME_FABRICS_CONNECT)
		command->sqe[CATTR_OFFSET] |= CATTR_NO_FLOW_CONTROL;
	wrapped_submit(queue, command);
}

static unsigned wrapped_poll(struct host_queue *queue)
{
	return inner()->poll(queue);
}

static void wrapped_close(struct host_queue *queue)
{
	inner()->close(queue);
}

static const struct host_transport wrapped[2] = {
	{
		.name = "tcp",
		.trtype = 3,
		.open = wrapped_open,
		.submit = wrapped_submit_without,
		.poll = wrapped_poll,
		.close = wrapped_close,
	},
	{
		.name = "tcp",
		.trtype = 3,
		.open = wrapped_open,
		.submit = wrapped_submit,
		.poll = wrapped_poll,
		.close = wrapped_close,
	},
};

/* --- requests --- */

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
	else
		counts->succeeded++;
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

static void request_make(struct nvmf_load *load)
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

static void final_read_make(struct nvmf_load *load)
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

static void timer_expired(struct loop_timer *timer)
{
	struct nvmf_load *load = container_of(timer, struct nvmf_load, timer);
	unsigned host = load->settings.host;
	unsigned burst = (unsigned)nvmf_any_size(load->world, 1, 16);

	loop_timer_set(load->world->clock, timer,
		load->world->now_ns + nvmf_any_size(load->world, 10 * NVMF_US, load->gap_ns));
	if (load->world->is_paused[host] || !load->controller)
		return;
	if (load->plan->polls)
		(void)host_controller_poll(load->controller);
	for (unsigned i = 0; i < burst && load->pending < load->plan->pending_max; i++) {
		if (load->reads_all && load->final_block < load->settings.plan->blocks)
			final_read_make(load);
		else if (!load->reads_all && load->made < load->plan->requests)
			request_make(load);
	}
}

/* --- the life of a host --- */

static void state_changed(void *context, enum host_state state)
{
	struct nvmf_load *load = context;

	load->state = state;
	load->settings.counts->associations += state == HOST_LIVE;
	nvmf_trace(load->world, "host %u: %s: %s", load->settings.host,
		state == HOST_LIVE                 ? "live"
			: state == HOST_CONNECTING ? "connecting"
			: state == HOST_FAILED     ? "failed"
						   : "reconnecting",
		host_controller_reason(load->controller));
}

static void event_came(void *context, uint32_t result)
{
	struct nvmf_load *load = context;

	nvmf_trace(load->world, "host %u: event %x", load->settings.host, result);
}

void nvmf_load_start(struct nvmf_load *load)
{
	const struct nvmf_plan *plan = load->settings.plan;
	struct host_controller_settings settings = {
		.loop = load->world->loop[load->settings.host],
		.transport = &wrapped[load->plan->has_flow_control],
		.io_queues = load->plan->io_queues,
		.io_depth = load->plan->io_depth,
		.wants_header_digest = load->plan->has_header_digest,
		.wants_data_digest = load->plan->has_data_digest,
		.kato_ms = plan->kato_ms,
		.io_timeout_ns = plan->io_timeout_ns,
		.admin_timeout_ns = plan->io_timeout_ns,
		.connect_timeout_ns = plan->connect_timeout_ns,
		.reconnect_delay_ns = plan->reconnect_delay_ns,
		.loss_ns = HOST_NEVER_NS,
		.fast_fail_ns = load->plan->fails_fast ? NVMF_S : HOST_NEVER_NS,
		.keeps_trying = true,
		.changed = state_changed,
		.event = event_came,
		.context = load,
	};

	nvmf_network_address(&settings.remote);
	snprintf(settings.subnqn, sizeof(settings.subnqn), "nqn.2026-01.org.urnic:sim");
	snprintf(settings.hostnqn, sizeof(settings.hostnqn), "nqn.2026-01.org.urnic:host%u",
		load->settings.host);
	settings.hostid[0] = (uint8_t)(load->settings.host + 1);
	if (load->controller)
		return;
	load->state = HOST_CONNECTING;
	if (host_controller_create(&settings, &load->controller))
		abort();
}

struct nvmf_load *nvmf_load_create(const struct nvmf_load_settings *settings)
{
	struct nvmf_load *load = calloc(1, sizeof(*load));

	if (!load)
		abort();
	load->settings = *settings;
	load->world = settings->world;
	load->plan = &settings->plan->host[settings->host];
	load->gap_ns = settings->plan->fault_gap_ns / 2;
	loads[settings->host] = load;
	loop_timer_init(&load->timer, timer_expired);
	loop_timer_set(load->world->clock, &load->timer, load->world->now_ns);
	nvmf_load_start(load);
	return load;
}

void nvmf_load_stop(struct nvmf_load *load)
{
	host_controller_destroy(load->controller);
	load->controller = NULL;
	load->state = HOST_FAILED;
	NVMF_CHECK(load->world, load->pending == 0, "host %u: %u requests are never done",
		load->settings.host, load->pending);
}

void nvmf_load_destroy(struct nvmf_load *load)
{
	if (!load)
		return;
	nvmf_load_stop(load);
	loop_timer_cancel(&load->timer);
	for (unsigned i = 0; i < NVMF_NAMESPACES_MAX; i++) {
		lost_close(load, i);
		free(load->lost[i].actions);
	}
	loads[load->settings.host] = NULL;
	free(load);
}

void nvmf_load_hurry(struct nvmf_load *load)
{
	load->gap_ns = NVMF_MS;
}

bool nvmf_load_is_finished(const struct nvmf_load *load)
{
	return load->made >= load->plan->requests && load->pending == 0;
}

bool nvmf_load_is_live(const struct nvmf_load *load)
{
	return load->state == HOST_LIVE;
}

void nvmf_load_read_all(struct nvmf_load *load)
{
	load->reads_all = true;
}

bool nvmf_load_has_read_all(const struct nvmf_load *load)
{
	return load->final_block == load->settings.plan->blocks && load->pending == 0;
}

void nvmf_load_target_crashed(struct nvmf_load *load)
{
	for (unsigned i = 0; i < IOS_MAX; i++)
		for (unsigned j = 0; j < load->ios[i].action_count; j++)
			register_close(load->settings.registers, load->ios[i].actions[j]);
	for (unsigned i = 0; i < NVMF_NAMESPACES_MAX; i++)
		lost_close(load, i);
}
