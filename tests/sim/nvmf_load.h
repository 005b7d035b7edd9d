/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A host of an NVMe over Fabrics history: its controller, and requests of each kind at random.
 *
 * The load wraps the host's transport. So it sees each attempt of a request, its association, and
 * its result, and can request queues without flow control. Each attempt becomes actions of the
 * register set. A lost attempt has no further effect after a command to the same namespace has
 * succeeded on the host's next association.
 *
 * The load ends the run if a request is done twice, if its result is not that of its last attempt,
 * or if a request that is not repeatable was repeated.
 */
#ifndef URNIC_TESTS_SIM_NVMF_LOAD_H
#define URNIC_TESTS_SIM_NVMF_LOAD_H

#include "nvmf_plan.h"
#include "nvmf_register.h"

#include "nvmf/host/controller/controller.h"

struct nvmf_load;

struct nvmf_load_counts {
	uint64_t requests, failed, unknown; /* all, and those that were done so */
	uint64_t attempts, lost;
	uint64_t associations;
	uint64_t swaps, swapped; /* fused pairs, and those that succeeded */
};

struct nvmf_load_settings {
	unsigned host;
	struct nvmf_world *world;
	const struct nvmf_plan *plan;
	struct register_set *registers;
	/* What carries the commands; it outlives the load. */
	const struct host_transport *transport;
	struct nvmf_load_counts *counts;
	/* The last value that some host saw or wrote, for comparisons: plan->blocks of them. */
	uint64_t *recent;
};

struct nvmf_load *nvmf_load_create(const struct nvmf_load_settings *settings);
/* The process ends: its pending requests fail. */
void nvmf_load_destroy(struct nvmf_load *load);

/* It ends, and starts again later. */
void nvmf_load_stop(struct nvmf_load *load);
void nvmf_load_start(struct nvmf_load *load);

/* Make the other requests soon. */
void nvmf_load_hurry(struct nvmf_load *load);
/* All requests were made and are done. */
bool nvmf_load_is_finished(const struct nvmf_load *load);
unsigned nvmf_load_pending_count(const struct nvmf_load *load);
bool nvmf_load_is_live(const struct nvmf_load *load);

/* Read all blocks; nvmf_load_is_finished() says when that is over. */
void nvmf_load_read_all(struct nvmf_load *load);
bool nvmf_load_has_read_all(const struct nvmf_load *load);

/* The target has crashed: what was sent to it does not happen any more. */
void nvmf_load_target_crashed(struct nvmf_load *load);

#endif
