/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TOOLS_SCENARIO_WORKLOAD_H
#define TOOLS_SCENARIO_WORKLOAD_H

/* The item "workloads" of a scenario while it is read. */

#include "sim/scenario/scenario.h"

struct workload_numbers {
	uint64_t bytes;
	uint64_t start_ps;
	uint64_t step_ps;
	uint64_t dscp;
	uint64_t priority;
	uint64_t rate_mbps;
	uint64_t flows;
	uint64_t read_percent;
	uint64_t operations;
	uint64_t load_percent;
};

struct workload {
	const struct scenario_text *text;
	struct scenario *scenario;
	const cJSON *item;
	struct workload_numbers numbers;
	bool is_ecn_capable;
	uint16_t pkey; /* 0: that of the path */
	uint32_t capacity; /* of scenario->flows */
};

/* Add a flow. Returns false, after a sentence, if there are too many, or no memory. */
bool workload_add(struct workload *workload, uint32_t source, uint32_t destination, uint64_t bytes,
	uint64_t start_ps);

/* Add the flows of a pair of hosts, which begin one step after those of the pair before. */
bool workload_add_pair(struct workload *workload, uint32_t source, uint32_t destination);

/* Kinds of workloads whose flows depend on each other or on chance (scenario_pattern.c). */
bool all_reduce_read(struct workload *workload);
bool storage_read(struct workload *workload);
bool sizes_read(struct workload *workload);
bool trace_read(struct workload *workload);

/* Flows to a multicast group of their own (scenario_group.c). */
bool group_read(struct workload *workload);

#endif
