/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The report of `urnic stat`. urnicd has a descriptor of each process's NIC memory, and passes it
 * to urnic stat. urnic stat reads the counters from there; the process itself does nothing for it.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "common/command.h"
#include "segment/nic_memory.h"
#include "stat/stat.h"

const char *stat_device_name(
	const struct stat_report *report, uint32_t ifindex, char text[IF_NAMESIZE])
{
	const struct device_facts *device =
		device_facts_find(report->devices, report->device_count, ifindex);

	if (device)
		return device->name;
	if (!if_indextoname(ifindex, text))
		snprintf(text, IF_NAMESIZE, "#%u", ifindex);
	text_make_printable(text);
	return text;
}

const char *stat_qp_type_name(enum qp_type type)
{
	static const char *const names[QP_TYPE_COUNT] = {
		[QP_TYPE_RC] = "RC",
		[QP_TYPE_UC] = "UC",
		[QP_TYPE_UD] = "UD",
		[QP_TYPE_XRC_SEND] = "XRC_SEND",
		[QP_TYPE_XRC_RECV] = "XRC_RECV",
		[QP_TYPE_RAW_PACKET] = "RAW_PACKET",
		[QP_TYPE_IWARP] = "IWARP",
	};

	return names[type];
}

const char *stat_error_sentence(int error)
{
	if (error == -EACCES)
		return "another user's, so its counters are for that user and root to see";
	if (error == -EPROTO)
		return "its counters are of another version of urnic";
	if (error == -EBADF)
		return "its NIC memory is not that of a NIC";
	return strerror(-error);
}

/* Filtering */

bool stat_filter_is_set(const struct stat_filter *filter)
{
	return filter->device || filter->has_pid || filter->has_qpn;
}

static bool is_wanted_qp(const struct stat_filter *filter, const struct stat_report *report,
	const struct stat_qp *qp)
{
	char text[IF_NAMESIZE];

	if (filter->has_qpn && qp->qpn != filter->qpn)
		return false;
	if (!filter->device)
		return true;
	return strcmp(filter->device, stat_device_name(report, qp->ifindex, text)) == 0 ||
		if_nametoindex(filter->device) == qp->ifindex;
}

static void filter_lane(
	const struct stat_filter *filter, const struct stat_report *report, struct stat_lane *lane)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < lane->qp_count; i++) {
		if (is_wanted_qp(filter, report, &lane->qps[i]))
			lane->qps[kept++] = lane->qps[i];
	}
	lane->qp_count = kept;
}

/* Remove what the filter excludes. Returns whether anything is left. */
static bool filter_memory(const struct stat_filter *filter, const struct stat_report *report,
	struct stat_memory *memory)
{
	uint32_t kept = 0;

	if (!filter->device && !filter->has_qpn)
		return true;
	for (uint32_t i = 0; i < memory->lane_count; i++) {
		struct stat_lane *lane = &memory->lanes[i];

		filter_lane(filter, report, lane);
		if (lane->qp_count > 0)
			memory->lanes[kept++] = *lane;
		else
			free(lane->qps);
	}
	memory->lane_count = kept;
	return kept > 0;
}

/* Requests to urnicd */

/* Has the process any slots? Clients of urnicd that only read, such as this process, have none. */
static bool has_slots(const struct agent_process *process)
{
	static const struct agent_slots none;

	return memcmp(&process->slots, &none, sizeof(none)) != 0;
}

static int add_process(const struct stat_filter *filter, struct stat_report *report,
	const struct agent_process *agent)
{
	struct stat_process process = {.agent = *agent, .error = -EACCES};
	struct stat_process *longer;

	if (!has_slots(agent) || (filter->has_pid && agent->pid != filter->pid))
		return 0;
	if (agent->memory >= 0)
		process.error = nic_memory_check(agent->memory);
	if (agent->memory >= 0 && !process.error)
		process.error = stat_memory_read(agent->memory, (pid_t)agent->pid, &process.memory);
	if (!filter_memory(filter, report, &process.memory)) {
		stat_memory_done(&process.memory);
		return 0;
	}
	longer = reallocarray(report->processes, report->process_count + 1, sizeof(*longer));
	if (!longer) {
		stat_memory_done(&process.memory);
		return -ENOMEM;
	}
	text_make_printable(process.agent.comm);
	report->processes = longer;
	report->processes[report->process_count++] = process;
	return 0;
}

static int urnicd_request(
	struct agent_client *client, const struct stat_filter *filter, struct stat_report *report)
{
	struct agent_process agent;
	uint32_t index = 0;
	int result = agent_client_stat(client, &report->counters);

	if (result < 0)
		return result;
	while ((result = agent_client_list(client, &index, &agent)) == 0) {
		result = add_process(filter, report, &agent);
		if (agent.memory >= 0)
			close(agent.memory);
		if (result < 0)
			return result;
	}
	return result == -ENOENT ? 0 : result;
}

void stat_report_done(struct stat_report *report)
{
	for (uint32_t i = 0; i < report->process_count; i++)
		stat_memory_done(&report->processes[i].memory);
	free(report->processes);
	free(report->devices);
}

int stat_report_make(const struct stat_filter *filter, struct stat_report *ret_report)
{
	struct stat_report report = {0};
	struct agent_client client;
	int result = agent_client_connect_running(&client);

	if (result == -ECONNREFUSED) {
		*ret_report = report;
		return 0;
	}
	if (result < 0) {
		complain("stat: %s", client.why);
		return result;
	}
	report.is_running = true;
	result = device_facts_create(&report.devices, &report.device_count);
	if (result == 0)
		device_facts_make_printable(report.devices, report.device_count);
	if (result == 0)
		result = urnicd_request(&client, filter, &report);
	agent_client_done(&client);
	if (result < 0) {
		complain("stat: cannot read the counters: %s", strerror(-result));
		stat_report_done(&report);
		return result;
	}
	*ret_report = report;
	return 0;
}
