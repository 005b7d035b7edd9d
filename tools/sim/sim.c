/* SPDX-License-Identifier: BSD-2-Clause */
/* urnic sim: runs a scenario in the simulated network. */
#include "sim/sim.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/command.h"

const char command_sim_help[] =
	"usage: urnic sim [OPTIONS] FILE\n"
	"       urnic sim explain [OPTIONS] FILE FLOW\n"
	"       urnic sim plan [--rate GBPS] [--cable METRES] [--mtu BYTES] [--buffer BYTES]\n"
	"                      [--ports COUNT] [--priorities COUNT] [--beta BETA]\n"
	"       urnic sim compare [--json] FILE FILE\n"
	"\n"
	"Runs a scenario in a simulated lossless network, and prints what its flows, queues\n"
	"and pauses did. The same file gives the same result on every machine. docs/fabric.md has\n"
	"the format of scenarios.\n"
	"\n"
	"  --json           print the results as JSON\n"
	"  --csv PREFIX     write queue lengths to PREFIX-queues.csv, rates to PREFIX-rates.csv\n"
	"  --html FILE      write a page with plots of rates, queues, pauses and times\n"
	"  --interval US    the time between two rows or points of these; the default is a 200th of\n"
	"                   the run\n"
	"  --pcap FILE      write the frames of all ports as pcapng, for Wireshark; hosts are engines\n"
	"  --seed NUMBER    use this seed instead of the scenario's\n"
	"\n"
	"`urnic sim explain` says why a flow took its time; flows count from 0 in their order.\n"
	"`urnic sim plan` prints how much headroom a cable needs for PFC, and with --buffer the\n"
	"thresholds of a switch. `urnic sim compare` runs two scenarios, and prints their results side\n"
	"by side, or as JSON; workloads of the same name are compared.\n"
	"\n"
	"Examples:\n"
	"  urnic sim examples/fabric/victim.json\n"
	"  urnic sim plan --rate 100 --cable 300 --mtu 4096 --buffer 32000000\n"
	"  urnic sim compare examples/fabric/incast.json examples/fabric/incast-dcqcn.json\n";

enum { SAMPLE_COUNT = 200 };

struct sim_options {
	const char *path;
	const char *csv_prefix;
	const char *pcap_path;
	const char *html_path;
	bool has_json;
	bool has_seed;
	bool is_explanation; /* urnic sim explain: say why a flow took its time */
	bool has_flow;
	uint64_t flow;
	uint64_t seed;
	double interval_us; /* 0: the default */
};

/* The place of an option's value that is the name of a file; NULL: it is none. */
static const char **path_of(struct sim_options *options, const char *name)
{
	if (strcmp(name, "--csv") == 0)
		return &options->csv_prefix;
	if (strcmp(name, "--pcap") == 0)
		return &options->pcap_path;
	return strcmp(name, "--html") == 0 ? &options->html_path : NULL;
}

static bool count_read(const char *name, const char *value, uint64_t *ret_count)
{
	char *end;

	errno = 0;
	*ret_count = strtoull(value, &end, 10);
	if (value[0] >= '0' && value[0] <= '9' && !*end && !errno)
		return true;
	complain("sim: %s is a whole number, not '%s'", name, value);
	return false;
}

static bool value_read(struct sim_options *options, const char *name, const char *value)
{
	char *end = NULL;

	if (path_of(options, name)) {
		*path_of(options, name) = value;
		return true;
	}
	if (strcmp(name, "--seed") == 0) {
		options->has_seed = true;
		return count_read(name, value, &options->seed);
	}
	options->interval_us = strtod(value, &end);
	if (end != value && !*end && options->interval_us >= 0.001 && options->interval_us <= 1e9)
		return true;
	complain("sim: --interval takes microseconds, from 0.001 to 1e9");
	return false;
}

static bool has_value(struct sim_options *options, const char *name)
{
	return path_of(options, name) || strcmp(name, "--seed") == 0 ||
		strcmp(name, "--interval") == 0;
}

static bool options_read(struct sim_options *options, int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--json") == 0) {
			options->has_json = true;
		} else if (has_value(options, argv[i])) {
			if (i + 1 == argc) {
				complain("sim: %s takes a value", argv[i]);
				return false;
			}
			if (!value_read(options, argv[i], argv[i + 1]))
				return false;
			i++;
		} else if (argv[i][0] == '-') {
			complain("sim: unknown option '%s'; urnic sim --help lists them", argv[i]);
			return false;
		} else if (options->is_explanation && options->path && !options->has_flow) {
			options->has_flow = true;
			if (!count_read("the flow", argv[i], &options->flow))
				return false;
		} else if (options->path) {
			complain("sim: one scenario, not '%s' and '%s'", options->path, argv[i]);
			return false;
		} else {
			options->path = argv[i];
		}
	}
	if (!options->path)
		complain("sim: no scenario; urnic sim --help says how to call it");
	else if (options->is_explanation && !options->has_flow)
		complain("sim: which flow? urnic sim explain takes a scenario and a flow's number");
	return options->path && options->has_flow == options->is_explanation;
}

static bool flow_explain(struct sim_run *run, const struct sim_options *options)
{
	if (options->flow >= run->scenario.flow_count) {
		complain("sim: there is no flow %llu: flows are 0 to %u",
			(unsigned long long)options->flow, run->scenario.flow_count - 1);
		return false;
	}
	if (options->pcap_path || options->has_json) {
		complain("sim: explain takes no %s", options->pcap_path ? "--pcap" : "--json");
		return false;
	}
	return sim_explain_init(run, (uint32_t)options->flow);
}

static bool scenario_execute(struct sim_run *run, const struct sim_options *options)
{
	if (!sim_run_init(run))
		return false;
	run->interval_ps = options->interval_us > 0
		? (uint64_t)(options->interval_us * FABRIC_PS_PER_US)
		: run->scenario.duration_ps / SAMPLE_COUNT;
	if (options->csv_prefix && !sim_csv_open(run, options->csv_prefix))
		return false;
	run->has_samples = options->html_path;
	if (run->has_samples && !sim_samples_init(&run->samples, run))
		return false;
	if (options->has_flow && !flow_explain(run, options))
		return false;
	if (options->pcap_path && !sim_pcap_open(run, options->pcap_path))
		return false;
	return sim_run_execute(run);
}

static bool results_print(const struct sim_run *run, const struct sim_options *options)
{
	if (options->has_json)
		return sim_json_print(run);
	if (run->hops)
		sim_explain_print(run);
	else
		sim_report_print(run);
	if (!fflush(stdout) && !ferror(stdout))
		return true;
	complain("the results cannot be printed: %s", strerror(errno));
	return false;
}

int command_sim(int argc, char **argv)
{
	struct sim_options options = {0};
	struct sim_run run = {0};
	bool is_done;

	if (argc > 1 && strcmp(argv[1], "plan") == 0)
		return sim_plan(argc - 1, argv + 1);
	if (argc > 1 && strcmp(argv[1], "compare") == 0)
		return sim_compare(argc - 1, argv + 1);
	if (argc > 1 && strcmp(argv[1], "explain") == 0) {
		options.is_explanation = true;
		argc--;
		argv++;
	}
	if (!options_read(&options, argc, argv))
		return EXIT_USAGE;
	if (!scenario_read(&run.scenario, options.path, options.has_seed ? &options.seed : NULL)) {
		scenario_done(&run.scenario);
		return EXIT_USAGE;
	}
	is_done = scenario_execute(&run, &options);
	is_done = sim_csv_close(&run) && is_done;
	is_done = sim_pcap_close(&run) && is_done;
	if (is_done && options.html_path)
		is_done = sim_page_write(&run, options.html_path, options.path);
	is_done = is_done && results_print(&run, &options);
	sim_run_done(&run);
	return is_done ? EXIT_OK : EXIT_FAILED;
}
