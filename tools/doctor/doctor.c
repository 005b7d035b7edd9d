/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * urnic doctor: what this machine, this user and a program allow urnic to do. Each check tries what
 * a program would do, where that is possible.
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/version.h"
#include "common/command.h"
#include "common/json.h"
#include "common/libraries.h"
#include "doctor/checks.h"
#include "os/setting.h"

const char command_doctor_help[] =
	"usage: urnic doctor [--json] [--] [PROGRAM]\n"
	"\n"
	"Says whether RDMA programs work here on urnic, what is limited, and what to do about it: the\n"
	"kernel, namespaces, rights, system calls that a sandbox refuses, limits, urnicd, devices, and\n"
	"who has UDP port 4791. It tries what a program would do, and leaves everything as it was.\n"
	"\n"
	"For PROGRAM it also says which libibverbs and librdmacm `urnic run` would give it. PROGRAM is\n"
	"not run; its arguments may follow and are ignored.\n"
	"\n"
	"Each line begins with the result of a check:\n"
	"  ok        as it should be\n"
	"  note      nothing has to be done\n"
	"  limited   RDMA works; the line says what does not, and what to do\n"
	"  fails     RDMA does not work; the line says what to do\n"
	"\n"
	"  --json    the same for programs\n"
	"\n"
	"The exit status is 0 if RDMA works, 1 if a check fails.\n"
	"\n"
	"Examples:\n"
	"  urnic doctor\n"
	"  urnic doctor -- ucx_perftest\n";

struct report {
	struct findings findings;
	const char *program; /* NULL: none */
	struct program_facts facts;
};

static bool is_working(const struct report *report)
{
	return findings_count(&report->findings, FINDING_FAILS) == 0;
}

/* --- text --- */

/* All system calls that work share one line of the text. */
static bool is_call_that_works(const struct finding *finding)
{
	return strcmp(finding->check, "call") == 0 && finding->result == FINDING_OK;
}

static uint32_t working_calls(const struct findings *findings)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < findings->count; i++)
		count += is_call_that_works(&findings->items[i]);
	return count;
}

static void finding_print(const struct finding *finding)
{
	printf("%-8s %s%s%s: %s\n", finding_result_name(finding->result), finding->check,
		finding->subject[0] ? " " : "", finding->subject, finding->says);
}

static void verdict_print(const struct report *report)
{
	uint32_t limits = findings_count(&report->findings, FINDING_LIMITED);

	if (!is_working(report))
		printf("RDMA does not work%s%s.\n", report->program ? " for " : "",
			report->program ? report->program : "");
	else if (limits > 0)
		printf("RDMA works, with %u limit%s.\n", limits, limits == 1 ? "" : "s");
	else
		printf("RDMA works.\n");
}

static void report_print(const struct report *report)
{
	const struct findings *findings = &report->findings;
	bool has_calls = false;

	for (uint32_t i = 0; i < findings->count; i++) {
		if (!is_call_that_works(&findings->items[i])) {
			finding_print(&findings->items[i]);
			continue;
		}
		if (!has_calls)
			printf("%-8s call: %u system calls work\n", finding_result_name(FINDING_OK),
				working_calls(findings));
		has_calls = true;
	}
	verdict_print(report);
}

/* --- JSON --- */

static void add_text(cJSON *object, const char *name, const char *text)
{
	json_add_text(object, name, text[0] ? text : NULL);
}

static void add_finding(cJSON *list, const struct finding *finding)
{
	cJSON *object = json_append_object(list);

	cJSON_AddStringToObject(object, "check", finding->check);
	add_text(object, "subject", finding->subject);
	cJSON_AddStringToObject(object, "result", finding_result_name(finding->result));
	cJSON_AddStringToObject(object, "says", finding->says);
}

static void add_program(cJSON *root, const struct report *report)
{
	cJSON *object;

	if (!report->program) {
		cJSON_AddNullToObject(root, "program");
		return;
	}
	object = cJSON_AddObjectToObject(root, "program");
	cJSON_AddStringToObject(object, "name", report->program);
	add_text(object, "path", report->facts.path);
	add_text(object, "libibverbs", report->facts.libibverbs);
	add_text(object, "librdmacm", report->facts.librdmacm);
}

static int report_print_json(const struct report *report)
{
	cJSON *root = cJSON_CreateObject();
	cJSON *list;

	cJSON_AddStringToObject(root, "version", urnic_version());
	cJSON_AddBoolToObject(root, "works", is_working(report));
	list = cJSON_AddArrayToObject(root, "findings");
	for (uint32_t i = 0; i < report->findings.count; i++)
		add_finding(list, &report->findings.items[i]);
	add_program(root, report);
	return json_print(root);
}

/* --- the command --- */

struct options {
	bool is_json;
	const char *program; /* NULL: none */
};

static int parse_options(int argc, char **argv, struct options *ret_options)
{
	static const struct option names[] = {
		{"json", no_argument, NULL, 'j'},
		{0},
	};
	struct options options = {.is_json = false};
	int letter;

	while ((letter = getopt_long(argc, argv, "+", names, NULL)) != -1) {
		if (letter != 'j')
			return -EINVAL;
		options.is_json = true;
	}
	options.program = argv[optind];
	*ret_options = options;
	return 0;
}

/*
 * Choose the settings of this process. It has urnic's libraries linked in, so it would not find
 * urnicd in their directory. Its log has to contain errors, because in a trial the first line of
 * the log is the reason of a failure.
 */
static void settings_choose(const char *libraries)
{
	char *path;

	unsetenv("URNIC_LOG");
	if (asprintf(&path, "%s/urnicd", libraries) >= 0) {
		setenv("URNIC_URNICD", path, 0);
		free(path);
	}
	settings_read();
}

static void checks_run(struct report *report, const char *libraries)
{
	settings_choose(libraries);
	check_system(&report->findings);
	check_calls(&report->findings);
	check_network(&report->findings);
	if (report->program)
		check_program(&report->findings, report->program, libraries, &report->facts);
}

int command_doctor(int argc, char **argv)
{
	struct options options;
	struct report report = {.program = NULL};
	char *libraries;
	int result = 0;
	bool works;

	if (parse_options(argc, argv, &options) < 0)
		return EXIT_USAGE;
	libraries = libraries_find("doctor");
	if (!libraries)
		return EXIT_FAILED;
	report.program = options.program;
	checks_run(&report, libraries);
	free(libraries);
	if (report.findings.is_incomplete) {
		complain("doctor: out of memory");
		result = -ENOMEM;
	} else if (options.is_json) {
		result = report_print_json(&report);
	} else {
		report_print(&report);
	}
	works = is_working(&report);
	findings_done(&report.findings);
	return works && result == 0 ? EXIT_OK : EXIT_FAILED;
}
