/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * urnic stat: the counters of all processes that use urnic on this host.
 *
 * urnicd has a descriptor of each process's NIC memory, and passes it to urnic stat. urnic stat
 * reads the counters from there; the process itself does nothing for it.
 */
#include "stat/stat.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "common/command.h"
#include "segment/nic_memory.h"

const char command_stat_help[] =
	"usage: urnic stat [--json] [--all] [--device DEVICE] [--pid PID] [--qp NUMBER]\n"
	"\n"
	"Shows the counters of every process that runs on urnic in this network namespace: of each\n"
	"queue pair, with its device, state and peer, of each lane and its UDP port, and of urnicd. It\n"
	"does not disturb the processes. Only root sees other users' counters.\n"
	"\n"
	"  --all              also the counters that are zero\n"
	"  --device DEVICE    only queue pairs of this device or interface\n"
	"  --pid PID          only this process\n"
	"  --qp NUMBER        only this queue pair: 135467, 0x02112b\n"
	"  --json             everything, for programs\n"
	"\n"
	"`urnic explain NAME` says what a counter counts.\n"
	"\n"
	"The exit status is 0 if nothing runs, and 1 if nothing matches --device, --pid and --qp.\n";

struct filter {
	const char *device;
	bool has_pid;
	bool has_qpn;
	uint32_t pid;
	uint32_t qpn;
};

struct options {
	bool is_json;
	bool is_all;
	struct filter filter;
};

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

static bool filter_is_set(const struct filter *filter)
{
	return filter->device || filter->has_pid || filter->has_qpn;
}

static bool is_wanted_qp(
	const struct filter *filter, const struct stat_report *report, const struct stat_qp *qp)
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
	const struct filter *filter, const struct stat_report *report, struct stat_lane *lane)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < lane->qp_count; i++) {
		if (is_wanted_qp(filter, report, &lane->qps[i]))
			lane->qps[kept++] = lane->qps[i];
	}
	lane->qp_count = kept;
}

/* Remove what the filter excludes. Returns whether anything is left. */
static bool filter_memory(
	const struct filter *filter, const struct stat_report *report, struct stat_memory *memory)
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

static int add_process(
	const struct filter *filter, struct stat_report *report, const struct agent_process *agent)
{
	struct stat_process process = {.agent = *agent, .error = -EACCES};
	struct stat_process *longer;

	if (!has_slots(agent) || (filter->has_pid && agent->pid != filter->pid))
		return 0;
	if (agent->memory >= 0)
		process.error = nic_memory_check(agent->memory);
	if (agent->memory >= 0 && !process.error)
		process.error = stat_memory_read(agent->memory, (pid_t)agent->pid, &process.memory);
	if (!filter_memory(filter, report, &process.memory))
		return 0;
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
	struct agent_client *client, const struct filter *filter, struct stat_report *report)
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

static void report_done(struct stat_report *report)
{
	for (uint32_t i = 0; i < report->process_count; i++)
		stat_memory_done(&report->processes[i].memory);
	free(report->processes);
	free(report->devices);
}

/* Make the report. Returns 0, or -errno after a message. */
static int report_make(const struct filter *filter, struct stat_report *ret_report)
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
		report_done(&report);
		return result;
	}
	*ret_report = report;
	return 0;
}

/* The command */

static int parse_number(const char *what, const char *text, uint32_t max, uint32_t *ret_number)
{
	if (!text_number_or_hex(text, 0, max, ret_number)) {
		complain("stat: %s must be a number up to %u, not '%s'", what, max, text);
		return -EINVAL;
	}
	return 0;
}

static int parse_options(int argc, char **argv, struct options *ret_options)
{
	static const struct option names[] = {
		{"all", no_argument, NULL, 'a'},
		{"device", required_argument, NULL, 'd'},
		{"json", no_argument, NULL, 'j'},
		{"pid", required_argument, NULL, 'p'},
		{"qp", required_argument, NULL, 'q'},
		{0},
	};
	struct options options = {0};
	struct filter *filter = &options.filter;
	int letter, result = 0;

	while (result == 0 && (letter = getopt_long(argc, argv, "", names, NULL)) != -1) {
		if (letter == 'a')
			options.is_all = true;
		else if (letter == 'j')
			options.is_json = true;
		else if (letter == 'd')
			filter->device = optarg;
		else if (letter == 'p')
			result = parse_number("a process", optarg, INT32_MAX, &filter->pid);
		else if (letter == 'q')
			result = parse_number("a queue pair", optarg, 0xffffff, &filter->qpn);
		else
			return -EINVAL;
		filter->has_pid |= letter == 'p';
		filter->has_qpn |= letter == 'q';
	}
	if (result == 0 && optind != argc) {
		complain("stat: unknown argument '%s'; urnic stat --help", argv[optind]);
		return -EINVAL;
	}
	*ret_options = options;
	return result;
}

int command_stat(int argc, char **argv)
{
	struct options options;
	struct stat_report report;
	int status = EXIT_OK;

	if (parse_options(argc, argv, &options) < 0)
		return EXIT_USAGE;
	if (report_make(&options.filter, &report) < 0)
		return EXIT_FAILED;
	if (options.is_json) {
		if (stat_print_json(&report) < 0)
			status = EXIT_FAILED;
	} else if (report.is_running) {
		stat_print_table(&report, options.is_all);
	}
	if (!report.is_running)
		complain("stat: no urnicd runs here, so no program uses urnic in this network "
			 "namespace");
	if (filter_is_set(&options.filter) && report.process_count == 0) {
		complain("stat: no running program matches the options");
		status = EXIT_FAILED;
	}
	report_done(&report);
	return status;
}
