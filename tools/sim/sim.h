/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TOOLS_SIM_H
#define TOOLS_SIM_H

/* The run of a scenario, and its output. */

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/arena.h"
#include "fabric/fabric.h"
#include "fabric/traffic/engine_host.h"
#include "fabric/traffic/source.h"
#include "sim/scenario/scenario.h"
#include "sim/sim_samples.h"

enum { SIM_PORT_NAME_BYTES = 24 };

struct sim_run {
	struct scenario scenario;
	struct fabric *fabric;
	struct sources *sources; /* one of these two */
	struct engine_hosts *hosts;
	struct arena arena; /* of the engines */
	void *arena_memory;
	FILE *queues; /* CSV; NULL: none */
	FILE *rates;
	FILE *capture; /* pcapng; NULL: none */
	struct sim_hop *hops; /* of the explained flow, by port; NULL: none is explained */
	uint32_t explained;
	uint64_t interval_ps; /* between two rows of CSV, and two points of a page */
	uint64_t *sampled_bytes; /* of each flow at the last row */
	bool has_samples; /* for a page */
	struct sim_samples samples;
};

/*
 * Build the network of run->scenario, which has been read. Returns false, after a sentence, if
 * there is no memory. The caller calls sim_run_done() in any case.
 */
bool sim_run_init(struct sim_run *run);
void sim_run_done(struct sim_run *run);

/* Let the time of the scenario pass. Returns false, after a sentence, if there is no memory. */
bool sim_run_execute(struct sim_run *run);

/* --- CSV (sim_csv.c) --- */

/* Open PREFIX-queues.csv and PREFIX-rates.csv. */
bool sim_csv_open(struct sim_run *run, const char *prefix);

/* Write the rows for the present time. */
void sim_csv_sample(struct sim_run *run);

/* Close the files. Returns false, after a sentence, if something could not be written. */
bool sim_csv_close(struct sim_run *run);

/* --- pcapng (sim_pcap.c) --- */

/*
 * Capture from now on what each port sends, and what is dropped where. The hosts have to be
 * engines, since plain sources have no packets. Both functions print a sentence and return false
 * when the file cannot be written.
 */
bool sim_pcap_open(struct sim_run *run, const char *path);
bool sim_pcap_close(struct sim_run *run);

/* --- why a flow took its time (sim_explain.c) --- */

/* Note from now on what happens to a flow's frames; the flow exists. */
bool sim_explain_init(struct sim_run *run, uint32_t flow);
void sim_explain_print(const struct sim_run *run);

/* --- results --- */

/* What a flow got while it was active, in Mbit/s of payload; multicast: the mean of receivers. */
double sim_flow_mbps(const struct sim_run *run, uint32_t number);

/* "h0>h3", or "h0>g1" of a flow to a group. */
void sim_flow_name(const struct fabric_flow *flow, char *ret_name, size_t bytes);

/* Retransmitted packets; 0 for plain sources. */
uint64_t sim_flow_retransmitted(const struct sim_run *run, uint32_t flow);

/* "s0>h3": the port of s0 towards h3. */
void sim_port_name(
	const struct fabric *fabric, uint32_t number, char ret_name[SIM_PORT_NAME_BYTES]);

/* The mean length of an egress queue over the whole run, in bytes. */
uint64_t sim_queue_mean(const struct fabric *fabric, uint32_t port, uint32_t priority);

/* Has this priority of the port sent, received, paused or discarded anything? */
bool sim_priority_is_used(const struct fabric_port *port, uint32_t priority);

/* The times that the finished flows of a workload took, sorted. Returns their number. */
uint32_t sim_times_collect(
	const struct sim_run *run, const struct scenario_workload *workload, uint64_t *times);

/* The rates and times of the flows of a workload. */
struct sim_workload_result {
	uint32_t flows;
	uint32_t finished;
	double least_gbps; /* the rate of the slowest flow */
	double mean_gbps;
	double most_gbps;
	double jain;
	double median_us; /* of the times of finished flows; 0: none is finished */
	double p99_us;
	double longest_us;
};

struct sim_workload_result sim_workload_result_of(
	const struct sim_run *run, const struct scenario_workload *workload);

/* Frames of all ports. */
struct sim_totals {
	uint64_t pauses;
	uint64_t marks;
	uint64_t discards;
	uint64_t storm_drops;
	uint64_t lost;
	uint64_t corrupted;
};

struct sim_totals sim_totals_of(const struct fabric *fabric);

/* InfiniBand's part of a report and of JSON (sim_subnet.c). Ethernet may call the last two, too. */
void sim_subnet_totals_print(const struct fabric *fabric);
void sim_subnet_print(const struct sim_run *run);
void sim_subnet_add(const struct sim_run *run, cJSON *root);

void sim_report_print(const struct sim_run *run);
bool sim_json_print(const struct sim_run *run);

/* Write the page; `scenario` is its title. Returns false, after a sentence, if that fails. */
bool sim_page_write(const struct sim_run *run, const char *path, const char *scenario);

/* The part of the page with the network (sim_topology.c). */
void sim_topology_write(const struct sim_run *run, FILE *file);

/* urnic sim plan, urnic sim compare */
int sim_plan(int argc, char **argv);
int sim_compare(int argc, char **argv);

#endif
