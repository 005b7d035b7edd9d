/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TOOLS_SIM_SAMPLES_H
#define TOOLS_SIM_SAMPLES_H

/*
 * What a page plots: rates and queues of a run at equal intervals.
 *
 * A line is a flow, or a workload when there are many flows. Queues are those of switches, of the
 * priorities that flows have.
 */

#include <stdbool.h>
#include <stdint.h>

struct sim_run;

enum { SIM_SAMPLES_MAX = 2000, SIM_LINES_MAX = 20 };

struct sim_samples {
	uint32_t count;
	uint32_t capacity;
	uint32_t line_count;
	bool are_lines_flows;
	uint64_t *received_bytes; /* by sample and line */
	uint32_t queue_count;
	uint32_t *queue_ports;
	uint8_t *queue_priorities;
	uint64_t *queue_bytes; /* by sample and queue */
	uint64_t *paused_ps; /* by sample and queue: since the beginning */
};

/* Returns false, after a sentence, if there is no memory. */
bool sim_samples_init(struct sim_samples *samples, const struct sim_run *run);
void sim_samples_done(struct sim_samples *samples);

/* Take a sample at the present time, unless there are SIM_SAMPLES_MAX samples already. */
void sim_samples_take(struct sim_samples *samples, const struct sim_run *run);

/* The queues with the longest mean, longest first. Returns their number, at most `count`. */
uint32_t sim_samples_longest(
	const struct sim_samples *samples, uint32_t count, uint32_t *ret_queues);

#endif
