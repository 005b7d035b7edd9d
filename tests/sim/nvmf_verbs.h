/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Simulated RDMA adapters for NVMe over Fabrics: the functions of libibverbs and librdmacm that the
 * transports call, between the machines of a simulated network.
 *
 * A queue pair executes its requests in order, late, and several at a time. An executed request may
 * still complete with an error, if its acknowledgement is lost. When the network is cut, a queue
 * pair that sends fails after a while, and its peer notices nothing. Keys, rights and lengths are
 * checked.
 *
 * There is one set of adapters at a time, because the functions are those of libraries.
 */
#ifndef URNIC_TESTS_SIM_NVMF_VERBS_H
#define URNIC_TESTS_SIM_NVMF_VERBS_H

#include "nvmf_network.h"

/* Whose functions are called is world->running. */
void nvmf_verbs_begin(struct nvmf_world *world, struct nvmf_network *network, uint64_t latency_ns);
void nvmf_verbs_end(void);

/* A descriptor of a channel is watched. */
void nvmf_verbs_watch(struct loop_watch *watch);
bool nvmf_verbs_report(unsigned machine);

/* A connection that the seed chooses ends; with `is_half`, only one end hears of it. */
void nvmf_verbs_reset(bool is_half);
/* As nvmf_network_crash(). */
void nvmf_verbs_crash(unsigned machine, bool has_reset);

/* Objects that exist at this machine. */
unsigned nvmf_verbs_object_count(unsigned machine);

#endif
