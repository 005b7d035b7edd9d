/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Limits on counters, for scripts: `urnic stat --fail-if 'retransmitted_pkts>0'`. A limit is about
 * the sum of a counter over the whole report.
 */
#ifndef TOOLS_STAT_LIMIT_H
#define TOOLS_STAT_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

#include "stat/stat.h"

enum { STAT_LIMIT_NAME_BYTES = 64 };

struct stat_limit {
	char name[STAT_LIMIT_NAME_BYTES];
	bool is_less; /* a sum below `number` fails; false: a sum above it */
	uint64_t number;
};

/* Parse COUNTER>N or COUNTER<N. Returns 0, or -EINVAL after a complaint. */
int stat_limit_parse(const char *text, struct stat_limit *ret_limit);

/* Is the report within the limit? Complains if not. */
bool stat_limit_check(const struct stat_limit *limit, struct stat_report *report);

#endif
