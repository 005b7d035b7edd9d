/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What `urnic stat` found, and the two ways to print it.
 *
 * stat.c asks urnicd and fills this in, filters applied; stat_table.c and stat_json.c print it.
 */
#ifndef TOOLS_STAT_H
#define TOOLS_STAT_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/agent_client.h"
#include "common/device_facts.h"
#include "common/stat_memory.h"

struct stat_process {
	struct agent_process agent; /* its memory's descriptor is closed by now */
	int error; /* why `memory` is empty: 0, or -EACCES for another user's, or another -errno */
	struct stat_memory memory;
};

struct stat_report {
	bool is_running; /* whether there is an urnicd */
	struct agent_counters counters; /* urnicd's own */
	uint32_t process_count;
	struct stat_process *processes;
	uint32_t device_count;
	struct device_facts *devices; /* to put names to ifindexes */
};

/* The name of the device; of the interface, if it has no device any more; or else a number. */
const char *stat_device_name(
	const struct stat_report *report, uint32_t ifindex, char text[IF_NAMESIZE]);

/* RC, UC, UD. */
const char *stat_qp_type_name(enum qp_type type);

/* Why a process's counters cannot be shown: stat_process.error. */
const char *stat_error_sentence(int error);

/* `is_all`: with the counters that are zero. */
void stat_print_table(const struct stat_report *report, bool is_all);

/* Returns 0 or -errno. */
int stat_print_json(const struct stat_report *report);

#endif
