/* SPDX-License-Identifier: BSD-2-Clause */
#include <string.h>

#include "common/command.h"
#include "common/json.h"
#include "fabric/deadlock/deadlock.h"
#include "sim/sim.h"

static double us_of(uint64_t ps)
{
	return (double)ps / FABRIC_PS_PER_US;
}

/* `kind` is 'h' for a host, 'g' for a group. */
static void node_add(cJSON *object, const char *name, char kind, uint32_t number)
{
	char text[SIM_PORT_NAME_BYTES];

	snprintf(text, sizeof(text), "%c%u", kind, number);
	cJSON_AddStringToObject(object, name, text);
}

static void time_add(cJSON *object, const char *name, uint64_t at_ps)
{
	if (at_ps == FABRIC_NEVER)
		cJSON_AddNullToObject(object, name);
	else
		cJSON_AddNumberToObject(object, name, us_of(at_ps));
}

static void flow_add(const struct sim_run *run, cJSON *list, const char *workload, uint32_t number)
{
	const struct fabric_flow *flow = &run->scenario.flows[number];
	cJSON *object = json_append_object(list);

	cJSON_AddStringToObject(object, "workload", workload);
	node_add(object, "source", 'h', flow->source);
	node_add(object, "destination", flow->is_multicast ? 'g' : 'h', flow->destination);
	json_add_count(object, "priority", flow->priority);
	time_add(object, "start_us", flow->start_ps);
	time_add(object, "finish_us", flow->finish_ps);
	cJSON_AddBoolToObject(object, "failed", flow->has_failed);
	json_add_count(object, "sent_bytes", flow->sent_bytes);
	json_add_count(object, "received_bytes", flow->received_bytes);
	json_add_count(object, "marked_frames", flow->marked_frames);
	json_add_count(object, "np_cnp_sent", flow->cnp_count);
	json_add_count(object, "retransmitted_pkts", sim_flow_retransmitted(run, number));
	cJSON_AddNumberToObject(object, "mbps", sim_flow_mbps(run, number));
}

static void flows_add(const struct sim_run *run, cJSON *root)
{
	cJSON *list = cJSON_AddArrayToObject(root, "flows");

	for (uint32_t i = 0; i < run->scenario.workload_count; i++) {
		const struct scenario_workload *workload = &run->scenario.workloads[i];

		for (uint32_t j = 0; j < workload->flow_count; j++)
			flow_add(run, list, workload->name, workload->first_flow + j);
	}
}

static void priority_add(
	const struct fabric *fabric, cJSON *list, uint32_t number, uint32_t priority)
{
	const struct fabric_port *port = &fabric->ports[number];
	const struct port_counters *counters = &port->priority[priority].counters;
	char name[SIM_PORT_NAME_BYTES];
	cJSON *object = json_append_object(list);

	sim_port_name(fabric, number, name);
	cJSON_AddStringToObject(object, "port", name);
	json_add_count(object, "priority", priority);
	json_add_count(object, "tx_packets", counters->sent_frames);
	json_add_count(object, "tx_bytes", counters->sent_bytes);
	json_add_count(object, "rx_packets", counters->received_frames);
	json_add_count(object, "rx_bytes", counters->received_bytes);
	json_add_count(object, "tx_pause", counters->sent_pauses);
	json_add_count(object, "rx_pause", counters->received_pauses);
	cJSON_AddNumberToObject(
		object, "rx_pause_duration_us", us_of(pause_total_ps(fabric, number, priority)));
	json_add_count(object, "rx_discards", counters->discarded_frames);
	json_add_count(object, "marked_frames", counters->marked_frames);
	json_add_count(object, "queue_bytes_mean", sim_queue_mean(fabric, number, priority));
	json_add_count(object, "queue_bytes_max", counters->queue_bytes_max);
	json_add_count(
		object, "headroom_bytes_max", port->priority[priority].group.headroom_bytes_max);
	json_add_count(object, "storms", counters->storms);
	json_add_count(object, "storm_drops", counters->storm_drops);
}

static void ports_add(const struct fabric *fabric, cJSON *root)
{
	cJSON *list = cJSON_AddArrayToObject(root, "ports");

	for (uint32_t i = 0; i < fabric->port_count; i++)
		for (uint32_t j = 0; j < FABRIC_PRIORITY_COUNT; j++)
			if (sim_priority_is_used(&fabric->ports[i], j))
				priority_add(fabric, list, i, j);
}

static void switches_add(const struct fabric *fabric, cJSON *root)
{
	cJSON *list = cJSON_AddArrayToObject(root, "switches");

	for (uint32_t i = 0; i < fabric->switch_count; i++) {
		const struct fabric_switch *at = &fabric->switches[i];
		char name[SIM_PORT_NAME_BYTES];
		cJSON *object = json_append_object(list);

		snprintf(name, sizeof(name), "s%u", i);
		cJSON_AddStringToObject(object, "switch", name);
		json_add_count(object, "size", at->config.pool_bytes);
		json_add_count(object, "used_bytes_max", at->buffer.used_bytes_max);
		json_add_count(object, "unroutable_packets", at->unroutable_frames);
	}
}

static void deadlock_add(const struct fabric *fabric, cJSON *root)
{
	struct deadlock deadlock;
	cJSON *object;
	cJSON *ports;

	if (!deadlock_find(fabric, &deadlock)) {
		cJSON_AddNullToObject(root, "deadlock");
		return;
	}
	object = cJSON_AddObjectToObject(root, "deadlock");
	json_add_count(object, "priority", deadlock.priority);
	cJSON_AddNumberToObject(object, "since_us", us_of(deadlock.since_ps));
	ports = cJSON_AddArrayToObject(object, "ports");
	for (uint32_t i = 0; i < deadlock.port_count; i++) {
		char name[SIM_PORT_NAME_BYTES];

		sim_port_name(fabric, deadlock.ports[i], name);
		cJSON_AddItemToArray(ports, cJSON_CreateString(name));
	}
}

bool sim_json_print(const struct sim_run *run)
{
	const struct fabric *fabric = run->fabric;
	cJSON *root = cJSON_CreateObject();
	char hash[20];
	int error;

	snprintf(hash, sizeof(hash), "%016llx", (unsigned long long)fabric->hash);
	json_add_count(root, "seed", fabric->config.seed);
	cJSON_AddNumberToObject(root, "time_us", us_of(fabric->now_ps));
	json_add_count(root, "events", fabric->event_count);
	cJSON_AddStringToObject(root, "hash", hash);
	json_add_count(root, "hosts", fabric->host_count);
	flows_add(run, root);
	switches_add(fabric, root);
	ports_add(fabric, root);
	sim_subnet_add(run, root);
	deadlock_add(fabric, root);
	error = json_print(root);
	if (error)
		complain("the results cannot be printed: %s", strerror(-error));
	return !error;
}
