/* SPDX-License-Identifier: BSD-2-Clause */
#include "top/top_rows.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NS_PER_S 1000000000.0

static void row_add_qp(struct top_row *row, const struct stat_qp *qp, uint64_t elapsed_ns)
{
	const uint64_t gained[TOP_RATES] = {
		[TOP_SENT] = qp->counters[COUNTER_sent_bytes],
		[TOP_RECEIVED] = qp->counters[COUNTER_rcvd_bytes],
		[TOP_REQUESTS] = qp->counters[COUNTER_posted_sends],
		[TOP_PACKETS] = qp->counters[COUNTER_sent_pkts] + qp->counters[COUNTER_rcvd_pkts],
		[TOP_REPEATED] = qp->counters[COUNTER_retransmitted_pkts],
	};

	for (int i = 0; i < TOP_RATES; i++)
		row->per_s[i] += (uint64_t)((double)gained[i] * NS_PER_S / (double)elapsed_ns);
	row->qp_count++;
	if (qp->send_queue.is_known)
		row->waiting += qp->send_queue.waiting;
}

static struct top_row *row_append(struct top_rows *rows, const struct stat_process *process)
{
	struct top_row *longer = reallocarray(rows->rows, rows->count + 1, sizeof(*longer));

	if (!longer)
		return NULL;
	rows->rows = longer;
	longer += rows->count++;
	*longer = (struct top_row){.pid = process->agent.pid, .command = process->agent.comm};
	return longer;
}

static int process_add(struct top_rows *rows, const struct stat_process *process,
	uint64_t elapsed_ns, bool is_by_qp)
{
	struct top_row *row = is_by_qp ? NULL : row_append(rows, process);

	if (!is_by_qp && !row)
		return -ENOMEM;
	for (uint32_t i = 0; i < process->memory.lane_count; i++) {
		const struct stat_lane *lane = &process->memory.lanes[i];

		for (uint32_t j = 0; j < lane->qp_count; j++) {
			if (is_by_qp)
				row = row_append(rows, process);
			if (!row)
				return -ENOMEM;
			if (is_by_qp)
				row->qp = &lane->qps[j];
			row_add_qp(row, &lane->qps[j], elapsed_ns);
		}
	}
	return 0;
}

int top_rows_make(const struct stat_report *gained, uint64_t elapsed_ns, bool is_by_qp,
	struct top_rows *ret_rows)
{
	int result = 0;

	*ret_rows = (struct top_rows){.count = 0};
	for (uint32_t i = 0; i < gained->process_count && result == 0; i++)
		result = process_add(ret_rows, &gained->processes[i], elapsed_ns, is_by_qp);
	return result;
}

void top_rows_done(struct top_rows *rows)
{
	free(rows->rows);
}

static int rows_compare(const void *a, const void *b, void *context)
{
	const struct top_row *x = a, *y = b;
	const enum top_rate *rate = context;

	if (x->per_s[*rate] != y->per_s[*rate])
		return x->per_s[*rate] > y->per_s[*rate] ? -1 : 1;
	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	if (!x->qp || !y->qp)
		return 0;
	return x->qp->qpn < y->qp->qpn ? -1 : x->qp->qpn > y->qp->qpn;
}

void top_rows_sort(struct top_rows *rows, enum top_rate rate)
{
	if (rows->count > 0)
		qsort_r(rows->rows, rows->count, sizeof(*rows->rows), rows_compare, &rate);
}

void top_number_print(uint64_t number, char text[8])
{
	static const char units[] = {'K', 'M', 'G', 'T', 'P', 'E'};
	double value = (double)number;
	size_t unit = 0;

	if (number < 1000) {
		snprintf(text, 8, "%u", (unsigned)number);
		return;
	}
	/* A value that would be rounded to 1000 gets the next unit. */
	for (value /= 1000; value >= 999.95 && unit + 1 < sizeof(units); unit++)
		value /= 1000;
	snprintf(text, 8, "%.1f%c", value, units[unit]);
}
