/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_TESTS_SIM_NVMF_H
#define URNIC_TESTS_SIM_NVMF_H

#include <stdbool.h>
#include <stdint.h>

struct nvmf_target_counts {
	uint64_t keep_alive_expired, injected, events;
	uint64_t refused_pdus, data_digest_errors;
};

struct nvmf_result {
	uint64_t requests, failed, unknown;
	uint64_t attempts, lost, associations, swaps, swapped;
	uint64_t faults, streams, bytes, inverted;
	uint64_t actions, undecided;
	uint64_t virtual_ns;
	struct nvmf_target_counts target;
};

/*
 * Two hosts and a target of NVMe over Fabrics: random commands while the network, the machines and
 * the disks fail, and then a period without failures. Every block has a linearizable history, every
 * request is done once and in time, and no object is left. Ends the program at the first error;
 * adds to *result.
 */
void nvmf_run(uint64_t seed, bool is_traced, struct nvmf_result *result);

#endif
