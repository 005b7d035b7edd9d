/* SPDX-License-Identifier: BSD-2-Clause */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "nvmf/target/core/objects.h"

static size_t place_of(const struct target_subsystem *subsystem, uint32_t nsid)
{
	size_t low = 0, high = subsystem->namespace_count;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (subsystem->namespaces[middle]->nsid < nsid)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

struct target_namespace *namespace_find(const struct target_subsystem *subsystem, uint32_t nsid)
{
	size_t place = place_of(subsystem, nsid);

	if (place < subsystem->namespace_count && subsystem->namespaces[place]->nsid == nsid)
		return subsystem->namespaces[place];
	return NULL;
}

struct target_namespace *target_namespace_find(struct target_subsystem *subsystem, uint32_t nsid)
{
	return namespace_find(subsystem, nsid);
}

static void tell_hosts(struct target_subsystem *subsystem, uint32_t nsid)
{
	list_for_each(controller, &subsystem->controllers, struct target_controller, node)
		controller_namespace_changed(controller, nsid);
}

/* Derive a UUID of version 8 (RFC 9562) from NQN and NSID, so that it survives a restart. */
static void uuid_make(const char *nqn, uint32_t nsid, uint8_t uuid[16])
{
	uint64_t hash[2] = {0xcbf29ce484222325u ^ nsid, 0x84222325cbf29ce4u + nsid};

	for (; *nqn; nqn++)
		for (int i = 0; i < 2; i++)
			hash[i] = (hash[i] ^ (uint8_t)*nqn) * (0x100000001b3u + 2 * i);
	memcpy(uuid, hash, 16);
	uuid[6] = (uint8_t)((uuid[6] & 0x0f) | 0x80);
	uuid[8] = (uint8_t)((uuid[8] & 0x3f) | 0x80);
}

int target_namespace_add(struct target_subsystem *subsystem,
	const struct target_namespace_settings *settings, struct target_namespace **ret_ns)
{
	static const uint8_t zeroes[16];
	size_t place = place_of(subsystem, settings->nsid);
	struct target_namespace **grown;
	struct target_namespace *ns;

	if (settings->nsid == 0 || settings->nsid == (uint32_t)NVME_NSID_ALL ||
		subsystem->is_discovery)
		return -EINVAL;
	if (namespace_find(subsystem, settings->nsid))
		return -EEXIST;
	if (subsystem->namespace_count == IDENTIFY_NSID_MAX)
		return -ENOSPC;
	grown = realloc(subsystem->namespaces,
		(subsystem->namespace_count + 1) * sizeof(struct target_namespace *));
	if (!grown)
		return -ENOMEM;
	subsystem->namespaces = grown;
	ns = calloc(1, sizeof(*ns));
	if (!ns)
		return -ENOMEM;
	ns->subsystem = subsystem;
	ns->target = subsystem->target;
	ns->backend = settings->backend;
	ns->nsid = settings->nsid;
	ns->block_shift = (uint8_t)__builtin_ctz(backend_block_bytes(ns->backend));
	ns->blocks = backend_size_bytes(ns->backend) >> ns->block_shift;
	memcpy(ns->nguid, settings->nguid, sizeof(ns->nguid));
	memcpy(ns->uuid, settings->uuid, sizeof(ns->uuid));
	if (!memcmp(ns->uuid, zeroes, sizeof(zeroes)))
		uuid_make(subsystem->nqn, ns->nsid, ns->uuid);
	list_init(&ns->parked);
	list_init(&ns->jobs);
	ns->references = 1;
	memmove(grown + place + 1, grown + place,
		(subsystem->namespace_count - place) * sizeof(struct target_namespace *));
	grown[place] = ns;
	subsystem->namespace_count++;
	tell_hosts(subsystem, ns->nsid);
	*ret_ns = ns;
	return 0;
}

void namespace_unreference(struct target_namespace *ns)
{
	assert(ns->references > 0);
	if (--ns->references > 0)
		return;
	backend_close(ns->backend);
	free(ns);
}

void target_namespace_remove(struct target_namespace *ns)
{
	struct target_subsystem *subsystem = ns->subsystem;
	size_t place = place_of(subsystem, ns->nsid);

	subsystem->namespace_count--;
	memmove(subsystem->namespaces + place, subsystem->namespaces + place + 1,
		(subsystem->namespace_count - place) * sizeof(struct target_namespace *));
	ns->subsystem = NULL;
	tell_hosts(subsystem, ns->nsid);
	namespace_unreference(ns);
}

bool namespace_work_begin(struct target_namespace *ns)
{
	if (!ns->is_resuming && (ns->is_exclusive || !list_is_empty(&ns->jobs)))
		return false;
	ns->working++;
	return true;
}

/*
 * Begin the command's work in the namespace. Returns false if an exclusive job runs or waits: then
 * the command is parked.
 */
static bool work_begin_or_park(struct target_namespace *ns, struct target_command *command)
{
	if (!namespace_work_begin(ns)) {
		command->stage = TARGET_STAGE_PARKED;
		list_append(&ns->parked, &command->parked);
		return false;
	}
	command_work_begin(command);
	return true;
}

void namespace_run(struct target_command *command, void (*run)(struct target_command *command))
{
	command->run = run;
	if (queue_is_lost(command->queue))
		command_finish(command, NVME_SQ_DELETED);
	else if (work_begin_or_park(command->ns, command))
		run(command);
}

static void start_job(struct target_namespace *ns)
{
	struct target_job *job;

	if (ns->working || ns->is_exclusive || ns->is_resuming || list_is_empty(&ns->jobs))
		return;
	job = list_first(&ns->jobs, struct target_job, node);
	list_remove(&job->node);
	ns->is_exclusive = true;
	job->run(job);
}

void namespace_work_end(struct target_namespace *ns)
{
	assert(ns->working > 0);
	ns->working--;
	start_job(ns);
}

void namespace_end(struct target_namespace *ns, struct target_command *command)
{
	command_work_end(command);
	namespace_work_end(ns);
}

void namespace_exclude(struct target_namespace *ns, struct target_job *job)
{
	list_append(&ns->jobs, &job->node);
	start_job(ns);
}

/*
 * Run all parked commands before the next job. Otherwise a host that always has a fused pair
 * waiting would keep the commands of other hosts parked for ever.
 */
static void resume_parked(struct target_namespace *ns)
{
	ns->is_resuming = true;
	while (!list_is_empty(&ns->parked)) {
		struct target_command *command =
			list_first(&ns->parked, struct target_command, parked);

		list_remove(&command->parked);
		command->stage = TARGET_STAGE_WORKING;
		namespace_run(command, command->run);
	}
	ns->is_resuming = false;
}

void namespace_job_done(struct target_namespace *ns)
{
	assert(ns->references > 0);
	ns->is_exclusive = false;
	resume_parked(ns);
	start_job(ns);
}

struct resize {
	struct target_job job;
	struct target_namespace *ns;
	uint64_t size_bytes;
	void (*done)(void *context, int error, const char *sentence);
	void *context;
};

static void resize_run(struct target_job *job)
{
	struct resize *resize = container_of(job, struct resize, job);
	struct target_namespace *ns = resize->ns;
	char sentence[BACKEND_SENTENCE_BYTES] = "";
	int error = backend_resize(ns->backend, resize->size_bytes, sentence);

	ns->blocks = backend_size_bytes(ns->backend) >> ns->block_shift;
	if (!error && ns->subsystem)
		tell_hosts(ns->subsystem, ns->nsid);
	resize->done(resize->context, error, sentence);
	free(resize);
	namespace_job_done(ns);
	namespace_unreference(ns);
}

void target_namespace_resize(struct target_namespace *ns, uint64_t size_bytes,
	void (*done)(void *context, int error, const char *sentence), void *context)
{
	struct resize *resize = calloc(1, sizeof(*resize));

	if (!resize) {
		done(context, -ENOMEM, "there is not enough memory");
		return;
	}
	*resize = (struct resize){
		.job.run = resize_run,
		.ns = ns,
		.size_bytes = size_bytes,
		.done = done,
		.context = context,
	};
	ns->references++;
	list_init(&resize->job.node);
	namespace_exclude(ns, &resize->job);
}
