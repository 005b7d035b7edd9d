/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Hosts as their NQNs tell them apart, and the order of their commands around the end of a
 * connection (NVMe base 2.0, sections 3.7.2 and 9.6).
 *
 * A host repeats elsewhere the commands that it has lost with a connection. A lost command that is
 * at work in a backend cannot be called back, and would overwrite what the host writes next. So the
 * host's I/O commands wait until its lost ones have ended, whichever controller they come by. So
 * does the end of a reset and of a shutdown. Other hosts do not wait.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "nvmf/target/objects.h"

struct peer_host {
	struct target *target;
	struct list node;
	uint32_t controllers;
	uint32_t lost; /* commands at work in backends whose queue is closing or closed */
	struct list parked; /* I/O commands that wait until none is lost */
	struct loop_work resume;
	char nqn[NVME_NQN_BYTES];
};

static void free_if_unused(struct peer_host *host)
{
	if (host->controllers || host->lost)
		return;
	assert(list_is_empty(&host->parked));
	loop_defer_cancel(&host->resume);
	list_remove(&host->node);
	free(host);
}

/* No command is lost any more. Those that go on may be lost in turn. */
static void resume_run(struct loop_work *work)
{
	struct peer_host *host = container_of(work, struct peer_host, resume);
	struct target *target = host->target;

	list_for_each(subsystem, &target->subsystems, struct target_subsystem, node)
		list_for_each(controller, &subsystem->controllers, struct target_controller, node)
			if (controller->host == host)
				controller_settle(controller);
	while (!host->lost && !list_is_empty(&host->parked)) {
		struct target_command *command =
			list_first(&host->parked, struct target_command, parked);

		list_remove(&command->parked);
		command->stage = TARGET_STAGE_WORKING;
		command_dispatch(command);
	}
}

static struct peer_host *find(struct target *target, const char *nqn)
{
	list_for_each(host, &target->peer_hosts, struct peer_host, node)
		if (!strcmp(host->nqn, nqn))
			return host;
	return NULL;
}

struct peer_host *peer_host_reference(struct target *target, const char *nqn)
{
	struct peer_host *host = find(target, nqn);

	if (!host) {
		host = calloc(1, sizeof(*host));
		if (!host)
			return NULL;
		host->target = target;
		memcpy(host->nqn, nqn, strlen(nqn));
		list_init(&host->parked);
		loop_work_init(&host->resume, resume_run);
		list_append(&target->peer_hosts, &host->node);
	}
	host->controllers++;
	return host;
}

void peer_host_unreference(struct peer_host *host)
{
	host->controllers--;
	free_if_unused(host);
}

bool peer_host_has_lost(const struct peer_host *host)
{
	return host->lost > 0;
}

void peer_host_park(struct peer_host *host, struct target_command *command)
{
	host->target->counters.waited_for_lost++;
	command->stage = TARGET_STAGE_PARKED;
	list_append(&host->parked, &command->parked);
}

bool queue_is_lost(const struct target_queue *queue)
{
	return queue->is_closing || queue->is_closed;
}

void queue_lose(struct target_queue *queue)
{
	if (queue->host)
		queue->host->lost += queue->working;
}

void queue_work_begin(struct target_queue *queue)
{
	queue->working++;
}

void queue_work_end(struct target_queue *queue)
{
	struct peer_host *host = queue->host;

	assert(queue->working > 0);
	queue->working--;
	if (!queue_is_lost(queue) || --host->lost)
		return;
	loop_defer(host->target->loop, &host->resume);
	free_if_unused(host);
}
