/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The report of `urnic stat`. stat.c fills it from urnicd and applies filters; stat_table.c and
 * stat_json.c print it.
 */
#ifndef TOOLS_STAT_H
#define TOOLS_STAT_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/agent_client.h"
#include "common/device_facts.h"
#include "common/stat_memory.h"

struct stat_process {
	struct agent_process agent; /* its memory's descriptor is closed */
	int error; /* why `memory` is empty: 0, -EACCES for another user's, or another -errno */
	struct stat_memory memory;
};

struct stat_report {
	bool is_running; /* there is an urnicd */
	struct agent_counters counters; /* urnicd's own */
	uint32_t process_count;
	struct stat_process *processes;
	uint32_t device_count;
	struct device_facts *devices; /* for the names of interfaces */
};

/* The name of the device; else that of the interface; else a number. */
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
