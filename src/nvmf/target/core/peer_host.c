/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The hosts, each identified by its NQN, and the order of a host's commands after it has lost a
 * connection (NVMe base 2.0, sections 3.7.2 and 9.6).
 *
 * When a host loses a connection, it repeats the pending commands on another connection. The target
 * cannot stop a lost command that a backend is executing: a lost write could overwrite newer data
 * of the host. So further commands of the host to the same namespace wait until the lost command
 * has ended, on all controllers of the host. The end of a reset or shutdown also waits. Other hosts
 * and other namespaces do not wait.
 *
 * A host may know of a lost connection before the target does. So when a host begins a new
 * association, its pending commands count as lost, too. Among them are commands that have not
 * begun, because they wait for a delay, their namespace, memory, data, or their other half. Such a
 * command is lost only if it would change blocks. It may still begin; but if the target learns that
 * its connection is lost, the command ends without having begun.
 *
 * A lost command may itself wait for commands that were lost before it.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "nvmf/target/core/objects.h"

struct peer_host {
	struct target *target;
	struct list node;
	uint32_t controllers;
	struct list lost; /* lost commands, linked by `lost`, in the order of their loss */
	struct list parked; /* commands that wait for lost ones, in the order of arrival */
	struct loop_work resume;
	char nqn[NVME_NQN_BYTES];
};

static void free_if_unused(struct peer_host *host)
{
	if (host->controllers || !list_is_empty(&host->lost))
		return;
	assert(list_is_empty(&host->parked));
	/* A closed queue may still have a fused pair, not lost, that waits for its namespace. */
	list_for_each(queue, &host->target->connections, struct target_queue, connection)
		if (queue->host == host)
			queue->host = NULL;
	loop_defer_cancel(&host->resume);
	list_remove(&host->node);
	free(host);
}

static void settle_controllers(struct peer_host *host)
{
	list_for_each(subsystem, &host->target->subsystems, struct target_subsystem, node)
		list_for_each(controller, &subsystem->controllers, struct target_controller, node)
			if (controller->host == host)
				controller_settle(controller);
}

/*
 * A lost command has ended: start the parked commands. Those that have to wait for other lost
 * commands are parked again.
 */
static void resume_run(struct loop_work *work)
{
	struct peer_host *host = container_of(work, struct peer_host, resume);
	struct list waiting;

	settle_controllers(host);
	list_init(&waiting);
	while (!list_is_empty(&host->parked)) {
		struct list *node = host->parked.next;

		list_remove(node);
		list_append(&waiting, node);
	}
	while (!list_is_empty(&waiting)) {
		struct target_command *command =
			list_first(&waiting, struct target_command, parked);

		list_remove(&command->parked);
		command->stage = TARGET_STAGE_WORKING;
		command->run(command);
	}
}

static struct peer_host *peer_find(struct target *target, const char *nqn)
{
	list_for_each(host, &target->peer_hosts, struct peer_host, node)
		if (!strcmp(host->nqn, nqn))
			return host;
	return NULL;
}

/*
 * Whether a command that is not at work may still begin and change blocks. A command that error
 * injection has dropped does not begin. A Compare that is half of a fused pair counts, too, because
 * its Write changes blocks.
 */
static bool may_begin(const struct target_command *command)
{
	if (queue_is_lost(command->queue) || command->queue->qid == 0 ||
		(command->stage == TARGET_STAGE_DELAYED && !list_is_linked(&command->delay.node)))
		return false;
	return nvme_io_changes_blocks(command->sqe.opcode) || command->sqe.fuse;
}

static void commands_lose(struct target_queue *queue)
{
	list_for_each(command, &queue->commands, struct target_command, node) {
		if (!command->is_at_work && !may_begin(command))
			command_over(command);
		else if (!list_is_linked(&command->lost))
			list_append(&queue->host->lost, &command->lost);
	}
}

struct peer_host *peer_host_reference(struct target *target, const char *nqn)
{
	struct peer_host *host = peer_find(target, nqn);

	if (!host) {
		host = calloc(1, sizeof(*host));
		if (!host)
			return NULL;
		host->target = target;
		memcpy(host->nqn, nqn, strlen(nqn));
		list_init(&host->lost);
		list_init(&host->parked);
		loop_work_init(&host->resume, resume_run);
		list_append(&target->peer_hosts, &host->node);
	}
	host->controllers++;
	return host;
}

void peer_host_lose_all(struct peer_host *host)
{
	list_for_each(queue, &host->target->connections, struct target_queue, connection)
		if (queue->host == host)
			commands_lose(queue);
}

void peer_host_unreference(struct peer_host *host)
{
	host->controllers--;
	free_if_unused(host);
}

bool peer_host_has_lost(const struct peer_host *host)
{
	list_for_each(lost, &host->lost, struct target_command, lost)
		if (lost->is_at_work)
			return true;
	return false;
}

/*
 * The namespace of an I/O command; NULL if it does not exist. A command without `ns` belongs to a
 * queue that is not lost, so its controller exists.
 */
static const struct target_namespace *namespace_of(const struct target_command *command)
{
	return command->ns
		? command->ns
		: namespace_find(command->queue->controller->subsystem, command->sqe.nsid);
}

static bool has_lost_before(const struct peer_host *host, const struct target_command *command)
{
	const struct target_namespace *ns = namespace_of(command);

	list_for_each(lost, &host->lost, struct target_command, lost) {
		if (lost == command)
			return false;
		if (ns && namespace_of(lost) == ns)
			return true;
	}
	return false;
}

/*
 * Whether the command is the second half of a fused pair, and a command of its queue is parked. As
 * that can be the first half, the second half must wait, too.
 */
static bool is_second_of_parked(const struct peer_host *host, const struct target_command *command)
{
	if (command->sqe.fuse != NVME_FUSE_SECOND)
		return false;
	list_for_each(parked, &host->parked, struct target_command, parked)
		if (parked->queue == command->queue)
			return true;
	return false;
}

bool peer_host_parks(struct peer_host *host, struct target_command *command)
{
	if (!has_lost_before(host, command) && !is_second_of_parked(host, command))
		return false;
	host->target->counters.waited_for_lost++;
	command->stage = TARGET_STAGE_PARKED;
	list_append(&host->parked, &command->parked);
	return true;
}

bool queue_is_lost(const struct target_queue *queue)
{
	return queue->is_closing || queue->is_closed;
}

void queue_lose(struct target_queue *queue)
{
	if (queue->host)
		commands_lose(queue);
}

void command_work_begin(struct target_command *command)
{
	command->is_at_work = true;
}

void command_work_end(struct target_command *command)
{
	assert(command->is_at_work);
	command->is_at_work = false;
}

void command_over(struct target_command *command)
{
	struct peer_host *host = command->queue->host;

	if (!list_is_linked(&command->lost))
		return;
	list_remove(&command->lost);
	loop_defer(host->target->loop, &host->resume);
	free_if_unused(host);
}
