/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * urnic stat --json. The names of members are an interface: a version may add names, and renames
 * none. docs/man/urnic-stat.1 lists them.
 */

#include "common/json.h"
#include "stat/stat.h"

static void add_queue(cJSON *qp, const char *name, const struct stat_queue *queue)
{
	cJSON *object;

	if (!queue->is_known) {
		cJSON_AddNullToObject(qp, name);
		return;
	}
	object = cJSON_AddObjectToObject(qp, name);
	json_add_count(object, "depth", queue->depth);
	json_add_count(object, "waiting", queue->waiting);
}

static void add_device(cJSON *qp, const struct stat_report *report, uint32_t ifindex)
{
	const struct device_facts *device =
		device_facts_find(report->devices, report->device_count, ifindex);
	char text[IF_NAMESIZE];

	cJSON_AddStringToObject(qp, "device", stat_device_name(report, ifindex, text));
	if (device)
		cJSON_AddStringToObject(qp, "interface", device->interface);
	else
		cJSON_AddNullToObject(qp, "interface");
	json_add_count(qp, "ifindex", ifindex);
}

static void add_qp(cJSON *list, const struct stat_report *report, const struct stat_lane *lane,
	const struct stat_qp *qp)
{
	cJSON *object = json_append_object(list);
	cJSON *counters;

	add_device(object, report, qp->ifindex);
	json_add_count(object, "lane", lane->index);
	json_add_count(object, "qpn", qp->qpn);
	cJSON_AddStringToObject(object, "type", stat_qp_type_name(qp->type));
	cJSON_AddStringToObject(object, "state", qp_state_name(qp->state));
	json_add_gid(object, "local_gid", &qp->local);
	json_add_gid(object, "remote_gid", &qp->remote);
	json_add_count(object, "remote_qpn", qp->dest_qpn);
	add_queue(object, "send_queue", &qp->send_queue);
	add_queue(object, "receive_queue", &qp->recv_queue);
	counters = cJSON_AddObjectToObject(object, "counters");
	for (int i = 0; i < COUNTER_COUNT; i++)
		json_add_count(counters, counter_name((enum counter)i), qp->counters[i]);
}

static void add_lane(cJSON *list, const struct stat_lane *lane)
{
	cJSON *object = json_append_object(list);
	cJSON *counters, *port;

	json_add_count(object, "index", lane->index);
	json_add_count(object, "slot", lane->slot);
	cJSON_AddBoolToObject(object, "complete", lane->is_complete);
	counters = cJSON_AddObjectToObject(object, "counters");
	for (int i = 0; i < DROP_COUNT; i++)
		json_add_count(counters, drop_name((enum drop)i), lane->drops[i]);
	port = cJSON_AddObjectToObject(object, "port_counters");
#define COUNTER(name, sentence) json_add_count(port, #name, lane->port.name);
#include "port/udp/udp_counters.def"
#undef COUNTER
}

static void add_slots(cJSON *process, const struct agent_slots *slots)
{
	cJSON *list = cJSON_AddArrayToObject(process, "slots");

	for (unsigned slot = 0; slot < AGENT_SLOTS; slot++) {
		if (agent_slots_has(slots, (uint8_t)slot))
			cJSON_AddItemToArray(list, cJSON_CreateNumber(slot));
	}
}

static void add_srqs(cJSON *process, const struct stat_memory *memory)
{
	cJSON *list = cJSON_AddArrayToObject(process, "shared_receive_queues");

	for (uint32_t i = 0; i < memory->srq_count; i++) {
		cJSON *object = json_append_object(list);

		json_add_count(object, "number", memory->srqs[i].number);
		add_queue(object, "receive_queue", &memory->srqs[i].recv_queue);
	}
}

static void add_cm(cJSON *process, const struct cm_counters *cm)
{
	cJSON *object = cJSON_AddObjectToObject(process, "connection_manager");
	cJSON *counters = cJSON_AddObjectToObject(object, "counters");

#define COUNTER(name, sentence) json_add_count(counters, #name, cm->name);
#include "cm/cm_counter.def"
#undef COUNTER
}

static void add_cc(cJSON *process, const struct stat_memory *memory)
{
	const struct cc_params *cc = &memory->cc;
	cJSON *object, *parameters;

	if (!memory->has_cc) {
		cJSON_AddNullToObject(process, "congestion_control");
		return;
	}
	object = cJSON_AddObjectToObject(process, "congestion_control");
	cJSON_AddStringToObject(object, "algorithm", cc_algorithm_name(cc->algorithm));
	cJSON_AddStringToObject(object, "preset", cc_preset_name(cc->preset));
	parameters = cJSON_AddObjectToObject(object, "parameters");
#define PARAMETER(name, lowest, highest, sigcomm15, ms_ns3, cx4, unit, sentence) \
	json_add_count(parameters, #name, cc->name);
#include "congestion/parameter.def"
#undef PARAMETER
}

static void add_process(
	cJSON *list, const struct stat_report *report, const struct stat_process *process)
{
	const struct stat_memory *memory = &process->memory;
	cJSON *object = json_append_object(list);
	cJSON *lanes, *qps;

	json_add_count(object, "pid", process->agent.pid);
	json_add_count(object, "uid", process->agent.uid);
	cJSON_AddStringToObject(object, "command", process->agent.comm);
	add_slots(object, &process->agent.slots);
	if (process->error == 0)
		cJSON_AddNullToObject(object, "error");
	else
		cJSON_AddStringToObject(object, "error", stat_error_sentence(process->error));
	json_add_count(object, "memory_regions", memory->mr_count);
	lanes = cJSON_AddArrayToObject(object, "lanes");
	qps = cJSON_AddArrayToObject(object, "queue_pairs");
	for (uint32_t i = 0; i < memory->lane_count; i++) {
		add_lane(lanes, &memory->lanes[i]);
		for (uint32_t j = 0; j < memory->lanes[i].qp_count; j++)
			add_qp(qps, report, &memory->lanes[i], &memory->lanes[i].qps[j]);
	}
	add_srqs(object, memory);
	add_cc(object, memory);
	add_cm(object, &memory->cm);
}

static void add_urnicd(cJSON *root, const struct stat_report *report)
{
	cJSON *counters;

	if (!report->is_running) {
		cJSON_AddNullToObject(root, "urnicd");
		return;
	}
	counters = cJSON_AddObjectToObject(cJSON_AddObjectToObject(root, "urnicd"), "counters");
#define COUNTER(name, sentence) json_add_count(counters, #name, report->counters.name);
#include "agent/agent_counters.def"
#undef COUNTER
}

int stat_print_json(const struct stat_report *report, bool is_line)
{
	cJSON *root = cJSON_CreateObject();
	cJSON *processes = cJSON_AddArrayToObject(root, "processes");

	for (uint32_t i = 0; i < report->process_count; i++)
		add_process(processes, report, &report->processes[i]);
	add_urnicd(root, report);
	return is_line ? json_print_line(root) : json_print(root);
}
