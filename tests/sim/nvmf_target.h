/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The target of an NVMe over Fabrics history: the real core and transports, on simulated disks.
 */
#ifndef URNIC_TESTS_SIM_NVMF_TARGET_H
#define URNIC_TESTS_SIM_NVMF_TARGET_H

#include "nvmf.h"
#include "nvmf_disk.h"
#include "nvmf_network.h"
#include "nvmf_plan.h"
#include "nvmf_verbs.h"

struct nvmf_target;

struct nvmf_target *nvmf_target_create(struct nvmf_world *world, const struct nvmf_plan *plan,
	struct nvmf_network *network, struct register_set *registers);
/* Adds to *counts. */
void nvmf_target_destroy(struct nvmf_target *target, struct nvmf_target_counts *counts);

/* Its program starts, with all namespaces. */
void nvmf_target_start(struct nvmf_target *target);
bool nvmf_target_is_up(const struct nvmf_target *target);

/*
 * The program ends at once. With `is_machine` its machine does, too: hosts get no reset, and disks
 * may lose volatile data. The caller then reports the crash to the register set.
 */
void nvmf_target_crash(struct nvmf_target *target, bool is_machine);

/* Remove a namespace that the seed chooses, add one that is missing, or resize one. */
void nvmf_target_change_namespace(struct nvmf_target *target);
/* Bring all namespaces back, with their whole size. False: some cannot yet be. */
bool nvmf_target_restore_namespaces(struct nvmf_target *target);

/* A rule of error injection. */
void nvmf_target_inject(struct nvmf_target *target);
/* A rule that delays writes of a host, which come in the next `wait_ns`. */
void nvmf_target_delay_writes(struct nvmf_target *target, unsigned host, uint64_t wait_ns);
void nvmf_target_inject_clear(struct nvmf_target *target);
void nvmf_target_disconnect_all(struct nvmf_target *target);
void nvmf_target_trouble(struct nvmf_target *target, unsigned fails_one_of, uint64_t delay_ns_max);

/* No connection and no command is left. */
bool nvmf_target_is_idle(const struct nvmf_target *target);
unsigned nvmf_target_connection_count(const struct nvmf_target *target);

#endif
