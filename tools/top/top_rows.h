/* SPDX-License-Identifier: BSD-2-Clause */
/* The rows of `urnic top`: rates of queue pairs, or of processes. */
#ifndef TOOLS_TOP_ROWS_H
#define TOOLS_TOP_ROWS_H

#include <stdbool.h>
#include <stdint.h>

#include "stat/stat.h"

/* What a row has per second. In the order of the columns. */
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
	const struct stat_qp *qp; /* of a queue pair's row; NULL: a process */
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
 * `gained`       A report of what the counters have gained (baseline_subtract). Outlives the rows.
 * `elapsed_ns`   In which time; at least 1.
 * `is_by_qp`     A row for each queue pair, else one for each process.
 *
 * Returns 0 or -ENOMEM. `ret_rows` is for top_rows_done() in both cases.
 */
int top_rows_make(const struct stat_report *gained, uint64_t elapsed_ns, bool is_by_qp,
	struct top_rows *ret_rows);

void top_rows_done(struct top_rows *rows);

/* Sort by a rate, the largest first; by process number where the rates are equal. */
void top_rows_sort(struct top_rows *rows, enum top_rate rate);

/* Print a number in at most six characters: 999, 12.3K, 4.5G. Units are powers of 1000. */
void top_number_print(uint64_t number, char text[8]);

#endif
