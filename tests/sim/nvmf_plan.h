/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a seed chooses for a history of NVMe over Fabrics.
 */
#ifndef URNIC_TESTS_SIM_NVMF_PLAN_H
#define URNIC_TESTS_SIM_NVMF_PLAN_H

#include "nvmf_world.h"

enum {
	NVMF_NAMESPACES_MAX = 3,
	NVMF_BLOCKS_MAX = 96, /* of a namespace */
	NVMF_COMMAND_BLOCKS_MAX = 48, /* of a command */
};

/* A format. */
#define NVMF_HOST_NQN "nqn.2026-01.org.urnic:host%u"

struct nvmf_plan_host {
	unsigned io_queues;
	uint32_t io_depth;
	bool has_header_digest, has_data_digest;
	bool has_flow_control;
	bool polls; /* looks for responses now and then */
	bool fails_fast;
	bool repeats; /* requests are repeatable */
	unsigned pending_max; /* requests at once */
	unsigned requests; /* in all */
};

struct nvmf_plan {
	struct nvmf_plan_host host[NVMF_HOSTS];
	unsigned namespaces;
	struct {
		uint32_t block_bytes;
		unsigned blocks;
		unsigned first_block; /* in the register set */
	} ns[NVMF_NAMESPACES_MAX];
	unsigned blocks; /* of all namespaces */
	uint64_t latency_ns;
	bool is_rdma; /* else TCP */
	uint32_t in_capsule_bytes, h2c_bytes_max, r2t_bytes_max;
	uint16_t queue_entries; /* that the port grants */
	uint32_t kato_ms;
	uint64_t io_timeout_ns, connect_timeout_ns, reconnect_delay_ns;
	uint64_t disk_delay_ns; /* while there is trouble */
	bool loses_writes; /* a crash does */
	bool has_cuts; /* of the network: the target may not hear of the end of a connection */
	uint64_t fault_gap_ns; /* between two faults, at most */
	uint64_t fault_ns; /* how long one lasts, at most */
	unsigned faults;
};

void nvmf_plan_make(struct nvmf_plan *plan, struct nvmf_world *world);

#endif
