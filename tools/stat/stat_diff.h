/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Differences: what the counters of a report have gained since an earlier report, the baseline.
 *
 * Two objects are the same one if they have the same family, process ID and number. But if a
 * counter is smaller than in the baseline, another object has these numbers now. Such a counter
 * keeps its value.
 */
#ifndef TOOLS_STAT_DIFF_H
#define TOOLS_STAT_DIFF_H

#include <stdbool.h>
#include <stdint.h>

#include "stat/stat_fields.h"

struct baseline_item {
	enum stat_family family;
	uint32_t pid;
	uint32_t number;
	uint32_t field; /* the index of the counter in its family */
	uint64_t value;
};

struct baseline {
	uint32_t count;
	struct baseline_item *items; /* sorted */
	bool is_incomplete; /* there was no memory for an item */
};

/* The counters of a report. The caller checks `is_incomplete`. */
struct baseline baseline_of(struct stat_report *report);

/*
 * The counters in a file of `urnic stat --json`. Counters above 2^53 lose their last digits,
 * because cJSON stores them as doubles.
 *
 * Returns 0, or -errno after a complaint.
 */
int baseline_read(const char *path, struct baseline *ret_baseline);

void baseline_done(struct baseline *baseline);

/* Replace the counters of the report by what they have gained. Gauges keep their values. */
void baseline_subtract(const struct baseline *baseline, struct stat_report *report);

#endif
