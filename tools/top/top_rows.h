/* SPDX-License-Identifier: BSD-2-Clause */
/* The rows of `urnic top`: rates of queue pairs, or of processes. */
#ifndef TOOLS_TOP_ROWS_H
#define TOOLS_TOP_ROWS_H

#include <stdbool.h>
#include <stdint.h>

#include "stat/stat.h"

/* What a row counts per second, in the order of the columns. */
enum top_rate {
	TOP_SENT, /* payload bytes */
	TOP_RECEIVED,
	TOP_REQUESTS, /* send work requests posted */
	TOP_PACKETS, /* sent and received */
	TOP_REPEATED, /* packets sent more than once */
	TOP_RATES,
};

struct top_row {
	uint32_t pid;
	const char *command; /* borrowed from the report */
	uint32_t qp_count;
	const struct stat_qp *qp; /* the row's queue pair; NULL: the row is a process's */
	uint64_t per_s[TOP_RATES];
	uint32_t waiting; /* send requests that are not completed yet */
};

struct top_rows {
	uint32_t count;
	struct top_row *rows;
};

/*
 * Make the rows, which are not sorted.
 *
 * `gained`       What the counters have gained (baseline_subtract()). The report outlives the rows.
 * `elapsed_ns`   The time in which they have gained it; at least 1.
 * `is_by_qp`     A row for each queue pair; false: a row for each process.
 *
 * Returns 0 or -ENOMEM. `ret_rows` is for top_rows_done() in both cases.
 */
int top_rows_make(const struct stat_report *gained, uint64_t elapsed_ns, bool is_by_qp,
	struct top_rows *ret_rows);

void top_rows_done(struct top_rows *rows);

/* Sort by a rate, the largest first; rows with equal rates by process ID. */
void top_rows_sort(struct top_rows *rows, enum top_rate rate);

/* Print a number in at most six characters: 999, 12.3K, 4.5G. Units are powers of 1000. */
void top_number_print(uint64_t number, char text[8]);

#endif
