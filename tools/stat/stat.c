/* SPDX-License-Identifier: BSD-2-Clause */
/* urnic stat: the counters of all processes that use urnic on this host. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/text.h"
#include "common/command.h"
#include "stat/stat.h"
#include "stat/stat_diff.h"
#include "stat/stat_limit.h"

const char command_stat_help[] =
	"usage: urnic stat [--json | --format table|json|prometheus] [--all]\n"
	"                  [--device DEVICE] [--pid PID] [--qp NUMBER]\n"
	"                  [--diff FILE | --watch [SECONDS]] [--fail-if 'COUNTER>N']...\n"
	"\n"
	"Shows the counters of every process that runs on urnic in this network namespace: of each\n"
	"queue pair, with its device, state and peer, of each lane and its UDP port, and of urnicd. It\n"
	"does not disturb the processes. Only root sees other users' counters.\n"
	"\n"
	"  --all              also the counters that are zero\n"
	"  --device DEVICE    only queue pairs of this device or interface\n"
	"  --pid PID          only this process\n"
	"  --qp NUMBER        only this queue pair: 135467, 0x02112b\n"
	"  --json             everything, for programs; the same as --format json\n"
	"  --format FORMAT    table (the default), json, or prometheus: text that Prometheus scrapes\n"
	"  --diff FILE        what the counters have gained since FILE was written by --json\n"
	"  --watch [SECONDS]  what they gain in each interval, of one second by default, until ^C\n"
	"  --fail-if LIMIT    end with 1 and a sentence if a counter, summed over all that is shown, is\n"
	"                     more or less than a number: 'retransmitted_pkts>0', 'sent_pkts<1'\n"
	"\n"
	"`urnic explain NAME` says what a counter counts.\n"
	"\n"
	"The exit status is 0 if nothing runs, and 1 if nothing matches --device, --pid and --qp, or a\n"
	"limit of --fail-if is passed.\n";

enum {
	LIMITS_MAX = 32,
	WATCH_SECONDS = 1,
	WATCH_SECONDS_MAX = 86400,
};

enum format { FORMAT_TABLE, FORMAT_JSON, FORMAT_PROMETHEUS, FORMAT_COUNT };

static const char *const format_names[FORMAT_COUNT] = {"table", "json", "prometheus"};

struct options {
	enum format format;
	bool is_all;
	uint32_t watch_s; /* 0: once */
	const char *diff; /* path of the baseline file; NULL: print no differences */
	uint32_t limit_count;
	struct stat_limit limits[LIMITS_MAX];
	struct stat_filter filter;
};

/* --- options --- */

static int parse_number(
	const char *what, const char *text, uint32_t min, uint32_t max, uint32_t *ret_number)
{
	if (!text_number_or_hex(text, min, max, ret_number)) {
		complain("stat: %s must be a number from %u to %u, not '%s'", what, min, max, text);
		return -EINVAL;
	}
	return 0;
}

static int parse_format(const char *text, enum format *ret_format)
{
	for (int i = 0; i < FORMAT_COUNT; i++) {
		if (strcmp(text, format_names[i]) == 0) {
			*ret_format = (enum format)i;
			return 0;
		}
	}
	complain("stat: --format must be table, json or prometheus, not '%s'", text);
	return -EINVAL;
}

static int parse_limit(const char *text, struct options *options)
{
	if (options->limit_count == LIMITS_MAX) {
		complain("stat: at most %d limits", LIMITS_MAX);
		return -EINVAL;
	}
	return stat_limit_parse(text, &options->limits[options->limit_count++]);
}

static int parse_watch(const char *text, struct options *options)
{
	options->watch_s = WATCH_SECONDS;
	return text ? parse_number("an interval", text, 1, WATCH_SECONDS_MAX, &options->watch_s)
		    : 0;
}

/* Parse one option. Returns 0 or -EINVAL. */
static int parse_option(int letter, const char *value, struct options *options)
{
	struct stat_filter *filter = &options->filter;

	switch (letter) {
	case 'a':
		options->is_all = true;
		return 0;
	case 'd':
		filter->device = value;
		return 0;
	case 'f':
		return parse_format(value, &options->format);
	case 'i':
		options->diff = value;
		return 0;
	case 'j':
		options->format = FORMAT_JSON;
		return 0;
	case 'l':
		return parse_limit(value, options);
	case 'p':
		filter->has_pid = true;
		return parse_number("a process", value, 0, INT32_MAX, &filter->pid);
	case 'q':
		filter->has_qpn = true;
		return parse_number("a queue pair", value, 0, 0xffffff, &filter->qpn);
	case 'w':
		return parse_watch(value, options);
	default:
		return -EINVAL;
	}
}

static int parse_options(int argc, char **argv, struct options *options)
{
	static const struct option names[] = {
		{"all", no_argument, NULL, 'a'},
		{"device", required_argument, NULL, 'd'},
		{"diff", required_argument, NULL, 'i'},
		{"fail-if", required_argument, NULL, 'l'},
		{"format", required_argument, NULL, 'f'},
		{"json", no_argument, NULL, 'j'},
		{"pid", required_argument, NULL, 'p'},
		{"qp", required_argument, NULL, 'q'},
		{"watch", optional_argument, NULL, 'w'},
		{0},
	};
	int letter, result = 0;

	memset(options, 0, sizeof(*options));
	while (result == 0 && (letter = getopt_long(argc, argv, "", names, NULL)) != -1)
		result = parse_option(letter, optarg, options);
	/* getopt takes the seconds only from --watch=SECONDS; take them as a separate word, too. */
	if (result == 0 && options->watch_s && optind + 1 == argc)
		result = parse_watch(argv[optind++], options);
	if (result == 0 && optind != argc) {
		complain("stat: unknown argument '%s'; urnic stat --help", argv[optind]);
		result = -EINVAL;
	}
	if (result == 0 && options->watch_s && options->diff) {
		complain("stat: --watch and --diff exclude each other");
		result = -EINVAL;
	}
	return result;
}

/* --- output --- */

/* Print the report, and check the limits. Returns the exit status. */
static int report_show(const struct options *options, struct stat_report *report)
{
	int status = EXIT_OK;

	if (options->format == FORMAT_PROMETHEUS)
		stat_print_prometheus(report);
	else if (options->format == FORMAT_TABLE && report->is_running)
		stat_print_table(report, options->is_all);
	else if (options->format == FORMAT_JSON &&
		stat_print_json(report, options->watch_s > 0) < 0)
		status = EXIT_FAILED;
	if (fflush(stdout) != 0) {
		complain("stat: cannot write the output: %s", strerror(errno));
		status = EXIT_FAILED;
	}
	if (!report->is_running)
		complain("stat: no urnicd runs here, so no program uses urnic in this network "
			 "namespace");
	if (stat_filter_is_set(&options->filter) && report->process_count == 0) {
		complain("stat: no running program matches the options");
		status = EXIT_FAILED;
	}
	for (uint32_t i = 0; i < options->limit_count; i++)
		if (!stat_limit_check(&options->limits[i], report))
			status = EXIT_FAILED;
	return status;
}

static int show_once(const struct options *options)
{
	struct baseline baseline = {.count = 0};
	struct stat_report report;
	int status = EXIT_FAILED;

	if (options->diff && baseline_read(options->diff, &baseline) < 0) {
		baseline_done(&baseline);
		return EXIT_FAILED;
	}
	if (stat_report_make(&options->filter, &report) == 0) {
		baseline_subtract(&baseline, &report);
		status = report_show(options, &report);
		stat_report_done(&report);
	}
	baseline_done(&baseline);
	return status;
}

/* Before the table of an interval, clear the terminal, if there is one, and print the time. */
static void interval_begin(const struct options *options)
{
	time_t now = time(NULL);
	char text[32];

	if (options->format != FORMAT_TABLE)
		return;
	strftime(text, sizeof(text), "%H:%M:%S", localtime(&now));
	printf("%s%s, gained in %u s\n", isatty(STDOUT_FILENO) ? "\033[H\033[2J" : "", text,
		options->watch_s);
}

/* Show what the counters gain in each interval, until the gain violates a limit. */
static int watch_loop(const struct options *options)
{
	struct baseline before = {.count = 0};
	bool is_first = true;
	int status = EXIT_OK;

	while (status == EXIT_OK) {
		struct stat_report report;
		struct baseline now;

		if (stat_report_make(&options->filter, &report) < 0) {
			status = EXIT_FAILED;
			break;
		}
		now = baseline_of(&report);
		if (now.is_incomplete) {
			complain("stat: no memory for the counters");
			status = EXIT_FAILED;
		} else if (!is_first) {
			interval_begin(options);
			baseline_subtract(&before, &report);
			status = report_show(options, &report);
		}
		stat_report_done(&report);
		baseline_done(&before);
		before = now;
		is_first = false;
		if (status == EXIT_OK)
			sleep(options->watch_s);
	}
	baseline_done(&before);
	return status;
}

int command_stat(int argc, char **argv)
{
	static struct options options;

	if (parse_options(argc, argv, &options) < 0)
		return EXIT_USAGE;
	return options.watch_s ? watch_loop(&options) : show_once(&options);
}
