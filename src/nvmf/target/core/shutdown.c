/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A normal shutdown makes durable what the host has written: it flushes all namespaces of the
 * subsystem. The flushes do not wait for pending writes, which were not acknowledged and are lost
 * with the I/O queues. If the host resets the controller or disconnects, the flushes go on.
 *
 * A subsystem has at most one round of flushes at a time, whatever hosts do. A controller that is
 * shut down meanwhile waits for the next round, because the present one may have missed its writes.
 */
#include <stdlib.h>

#include "nvmf/target/core/objects.h"

struct namespace_flush {
	struct target_job job; /* used if a job has the namespace, or waits for it */
	struct backend_request request;
	struct subsystem_flush *round;
	struct target_namespace *ns; /* holds a reference */
	bool is_exclusive;
};

struct subsystem_flush {
	struct target *target;
	struct target_subsystem *subsystem; /* NULL after its end */
	size_t pending; /* flushes, and 1 while they are begun */
	bool has_failed;
	struct namespace_flush flushes[];
};

static void round_begin(struct target_subsystem *subsystem);

/* End a round, and the wait of its controllers. Then begin the next round, if one is wanted. */
static void round_end(struct target_subsystem *subsystem, bool has_failed)
{
	subsystem->flush = NULL;
	list_for_each(controller, &subsystem->controllers, struct target_controller, node) {
		if (controller->flush_round != subsystem->flush_round)
			continue;
		controller->flush_round = 0;
		if (has_failed)
			controller->csts |= NVME_CSTS_CFS;
		controller_settle(controller);
	}
	if (subsystem->is_flush_wanted)
		round_begin(subsystem);
}

static void flush_over(struct subsystem_flush *round)
{
	if (--round->pending)
		return;
	round->target->flushes--;
	if (round->subsystem)
		round_end(round->subsystem, round->has_failed);
	free(round);
}

static void flush_done(struct backend_request *request, enum backend_status status)
{
	struct namespace_flush *flush = container_of(request, struct namespace_flush, request);
	struct subsystem_flush *round = flush->round;
	struct target_namespace *ns = flush->ns;

	round->has_failed |= status != BACKEND_OK;
	if (flush->is_exclusive)
		namespace_job_done(ns);
	else
		namespace_work_end(ns);
	namespace_unreference(ns);
	flush_over(round);
}

static void flush_submit(struct namespace_flush *flush)
{
	struct target *target = flush->round->target;

	flush->request = (struct backend_request){.operation = BACKEND_FLUSH, .done = flush_done};
	if (backend_ring_fd(target->ring) >= 0)
		loop_defer(target->loop, &target->flush);
	backend_submit(flush->ns->backend, target->ring, &flush->request);
}

static void flush_run(struct target_job *job)
{
	flush_submit(container_of(job, struct namespace_flush, job));
}

static void flush_begin(struct namespace_flush *flush)
{
	flush->round->pending++;
	flush->ns->references++;
	if (namespace_work_begin(flush->ns)) {
		flush_submit(flush);
		return;
	}
	flush->is_exclusive = true;
	flush->job.run = flush_run;
	list_init(&flush->job.node);
	namespace_exclude(flush->ns, &flush->job);
}

/* Begin a round of flushes. Without memory the round fails. */
static void round_begin(struct target_subsystem *subsystem)
{
	size_t count = subsystem->namespace_count;
	struct subsystem_flush *round =
		calloc(1, sizeof(*round) + count * sizeof(round->flushes[0]));

	subsystem->is_flush_wanted = false;
	subsystem->flush_round++;
	if (!round) {
		round_end(subsystem, true);
		return;
	}
	subsystem->flush = round;
	round->target = subsystem->target;
	round->target->flushes++;
	round->subsystem = subsystem;
	round->pending = 1;
	for (size_t i = 0; i < count; i++) {
		round->flushes[i].round = round;
		round->flushes[i].ns = subsystem->namespaces[i];
		flush_begin(&round->flushes[i]);
	}
	flush_over(round);
}

void shutdown_flush(struct target_controller *controller)
{
	struct target_subsystem *subsystem = controller->subsystem;

	controller->flush_round = subsystem->flush_round + 1;
	subsystem->is_flush_wanted = true;
	if (!subsystem->flush)
		round_begin(subsystem);
}

void shutdown_flush_leave(struct target_subsystem *subsystem)
{
	if (subsystem->flush)
		subsystem->flush->subsystem = NULL;
}
