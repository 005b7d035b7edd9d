/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Hosts as their NQNs tell them apart, and the order of their commands around the end of a
 * connection (NVMe base 2.0, sections 3.7.2 and 9.6).
 *
 * A host repeats elsewhere the commands that it has lost with a connection. A lost command that is
 * at work in a backend cannot be called back, and would overwrite what the host writes next. So the
 * host's commands to that namespace wait until it has ended, whichever controller they come by. So
 * does the end of a reset and of a shutdown. Other hosts and namespaces do not wait.
 *
 * A new association is a sign, too: the host may know of a lost connection before the target does.
 *
 * A fused pair needs none of this: it waits until its namespace has no other command at work.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "nvmf/target/core/objects.h"

struct peer_host {
	struct target *target;
	struct list node;
	uint32_t controllers;
	struct list lost; /* commands at work, by `parked` */
	struct list parked; /* commands that wait for them, in order */
	struct loop_work resume;
	char nqn[NVME_NQN_BYTES];
};

static void free_if_unused(struct peer_host *host)
{
	if (host->controllers || !list_is_empty(&host->lost))
		return;
	assert(list_is_empty(&host->parked));
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

/* A lost command has ended: those that wait for another one are parked again. */
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
		command_dispatch(command);
	}
}

static struct peer_host *peer_find(struct target *target, const char *nqn)
{
	list_for_each(host, &target->peer_hosts, struct peer_host, node)
		if (!strcmp(host->nqn, nqn))
			return host;
	return NULL;
}

static void commands_lose(struct target_queue *queue)
{
	list_for_each(command, &queue->commands, struct target_command, node)
		if (command->is_at_work && !list_is_linked(&command->parked))
			list_append(&queue->host->lost, &command->parked);
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
	return !list_is_empty(&host->lost);
}

bool peer_host_parks(struct peer_host *host, struct target_command *command)
{
	const struct target_namespace *ns;
	bool is_waiting = false;

	if (list_is_empty(&host->lost) || command->sqe.fuse)
		return false;
	ns = namespace_find(command->queue->controller->subsystem, command->sqe.nsid);
	list_for_each(lost, &host->lost, struct target_command, parked)
		is_waiting |= lost->ns == ns;
	if (!ns || !is_waiting)
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
	struct peer_host *host = command->queue->host;

	assert(command->is_at_work);
	command->is_at_work = false;
	if (!list_is_linked(&command->parked))
		return;
	list_remove(&command->parked);
	loop_defer(host->target->loop, &host->resume);
	free_if_unused(host);
}
