/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The report of `urnic stat`. stat_report.c fills it from urnicd and applies filters; stat_diff.c
 * subtracts an earlier one; stat_table.c, stat_json.c and stat_prometheus.c print it.
 */
#ifndef TOOLS_STAT_H
#define TOOLS_STAT_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/agent_client.h"
#include "common/device_facts.h"
#include "common/stat_memory.h"

struct stat_process {
	struct agent_process agent; /* the descriptor agent.memory is closed */
	/*
	 * Why `memory` is empty: -EACCES for another user's process, or another -errno. 0: it is
	 * not empty.
	 */
	int error;
	struct stat_memory memory;
};

struct stat_report {
	bool is_running; /* an urnicd runs */
	struct agent_counters counters; /* urnicd's own */
	uint32_t process_count;
	struct stat_process *processes;
	uint32_t device_count;
	struct device_facts *devices; /* for the names of interfaces */
};

/* Which objects the report has. */
struct stat_filter {
	const char *device; /* the name of a device or an interface; NULL: all */
	bool has_pid;
	bool has_qpn;
	uint32_t pid;
	uint32_t qpn;
};

bool stat_filter_is_set(const struct stat_filter *filter);

/*
 * Make the report. Without urnicd it is empty.
 *
 * `ret_report`  On success the caller passes it to stat_report_done().
 *
 * Returns 0, or -errno after a complaint.
 */
int stat_report_make(const struct stat_filter *filter, struct stat_report *ret_report);
void stat_report_done(struct stat_report *report);

/*
 * The name of the device on the interface `ifindex`. Without a device: the interface's name. If the
 * interface is gone: the number `ifindex`. `text` is memory for the interface's name or number.
 */
const char *stat_device_name(
	const struct stat_report *report, uint32_t ifindex, char text[IF_NAMESIZE]);

/* "RC", "UC", "UD" and so on. */
const char *stat_qp_type_name(enum qp_type type);

/* A sentence for `error`, a value of stat_process.error that is not 0. */
const char *stat_error_sentence(int error);

/* Print the table. `is_all`: print the counters that are zero, too. */
void stat_print_table(const struct stat_report *report, bool is_all);

/* Print everything in JSON. `is_line`: on one line, without blanks. Returns 0 or -errno. */
int stat_print_json(const struct stat_report *report, bool is_line);

/* Print the report in the text format that Prometheus scrapes. */
void stat_print_prometheus(struct stat_report *report);

#endif
