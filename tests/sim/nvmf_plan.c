/* SPDX-License-Identifier: BSD-2-Clause */
#include "nvmf_plan.h"

static void plan_host(struct nvmf_plan_host *host, struct nvmf_world *world)
{
	host->io_queues = 1u << nvmf_below(world, 3);
	host->io_depth = (uint32_t)nvmf_any_size(world, 1, 32);
	host->has_header_digest = nvmf_below(world, 2);
	/* Mostly both or neither, because bits are inverted only where both are on. */
	host->has_data_digest =
		nvmf_below(world, 4) ? host->has_header_digest : !host->has_header_digest;
	host->has_flow_control = nvmf_below(world, 2);
	host->polls = nvmf_below(world, 4) == 0;
	host->fails_fast = nvmf_below(world, 8) == 0;
	host->repeats = nvmf_below(world, 2);
	host->pending_max = (unsigned)nvmf_any_size(world, 1, 48);
	host->requests = (unsigned)nvmf_between(world, 50, 300);
}

void nvmf_plan_make(struct nvmf_plan *plan, struct nvmf_world *world)
{
	*plan = (struct nvmf_plan){.namespaces = 1 + (unsigned)nvmf_below(world, 3)};
	for (unsigned i = 0; i < NVMF_HOSTS; i++)
		plan_host(&plan->host[i], world);
	for (unsigned i = 0; i < plan->namespaces; i++) {
		plan->ns[i].block_bytes = nvmf_below(world, 4) ? 512 : 4096;
		plan->ns[i].blocks =
			(unsigned)nvmf_between(world, NVMF_COMMAND_BLOCKS_MAX, NVMF_BLOCKS_MAX);
		plan->ns[i].first_block = plan->blocks;
		plan->blocks += plan->ns[i].blocks;
	}
	plan->latency_ns = nvmf_any_size(world, 10 * NVMF_US, 5 * NVMF_MS);
	plan->is_rdma = nvmf_below(world, 3) == 0;
	plan->in_capsule_bytes = 16 * (uint32_t)nvmf_below(world, 513);
	plan->h2c_bytes_max = 4096 << nvmf_below(world, 6);
	plan->r2t_bytes_max = 4096 << nvmf_below(world, 7);
	plan->queue_entries = (uint16_t)nvmf_any_size(world, 2, 128);
	plan->kato_ms = (uint32_t)nvmf_between(world, 200, 2000);
	plan->connect_timeout_ns = nvmf_between(world, 500, 3000) * NVMF_MS;
	plan->reconnect_delay_ns = nvmf_any_size(world, 10, 1000) * NVMF_MS;
	plan->io_timeout_ns = nvmf_between(world, 500, 4000) * NVMF_MS;
	plan->disk_delay_ns = nvmf_any_size(world, 100 * NVMF_US, 2 * NVMF_S);
	plan->has_cuts = nvmf_below(world, 4);
	plan->loses_writes = nvmf_below(world, 2);
	plan->fault_gap_ns = nvmf_any_size(world, 20 * NVMF_MS, 2 * NVMF_S);
	plan->fault_ns = 2 * plan->fault_gap_ns + NVMF_S;
	plan->faults = (unsigned)nvmf_below(world, 64);
}
