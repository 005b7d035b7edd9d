/* SPDX-License-Identifier: BSD-2-Clause */
#include "nvmf_load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nvmf/host/controller/sqe.h"
#include "nvmf_disk.h"
#include "nvmf_load_internal.h"
#include "nvmf_network.h"

enum {
	CATTR_OFFSET = 46, /* of Connect */
	CATTR_NO_FLOW_CONTROL = 4,
};

/* The transport's functions are not told whose they are. */
static struct nvmf_load *loads[NVMF_HOSTS];

/* --- what an attempt does to blocks --- */

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
			nvmf_request_make_final(load);
		else if (!load->reads_all && load->made < load->plan->requests)
			nvmf_request_make(load);
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
	snprintf(settings.hostnqn, sizeof(settings.hostnqn), NVMF_HOST_NQN, load->settings.host);
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

unsigned nvmf_load_pending_count(const struct nvmf_load *load)
{
	return load->pending;
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
