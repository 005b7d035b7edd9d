/* SPDX-License-Identifier: BSD-2-Clause */
/* urnic explain: the meaning of counters, statuses and reasons, and why processes failed. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "common/command.h"
#include "explain/explain.h"

const char command_explain_help[] =
	"usage: urnic explain [--json] [WORD...]\n"
	"       urnic explain [--json] --failed\n"
	"       urnic explain [--json] --log FILE\n"
	"\n"
	"Says why requests and calls failed: what was seen, which check refused it, where to look, and\n"
	"what would have made it work. It also says in a sentence what a counter of `urnic stat`\n"
	"counts, and what a parameter of congestion control is. Without a WORD it explains\n"
	"everything.\n"
	"\n"
	"A WORD is one of\n"
	"  the number of a process, which runs or has ended within the last hour: its last 64 failures\n"
	"  the name of a counter or parameter: rnr_nak_rcvd, rp_ai_rate\n"
	"  a completion status by number, name or text: 12, IBV_WC_RETRY_EXC_ERR, 'transport retry\n"
	"    counter exceeded'\n"
	"  a completion's vendor_err (perftest calls it syndrom): 7 or 0x7\n"
	"  a capture, pcap or pcapng: refusals and the checks behind them, packets that were sent again\n"
	"    or dropped, requests without an answer\n"
	"  a part of a name: retry\n"
	"A number is explained as all that it may be.\n"
	"\n"
	"  --failed    list your processes that have failed within the last hour\n"
	"  --log FILE  explain the lines of a log that was written with URNIC_LOG=info; - is standard\n"
	"              input\n"
	"  --json      the same for programs\n"
	"\n"
	"The exit status is 1 if a WORD is unknown.\n";

struct explain_options {
	bool is_json;
	bool is_failed;
	const char *log; /* NULL: none */
};

/* What is to be printed as JSON; all NULL without --json. */
struct explain_output {
	cJSON *root;
	cJSON *topics;
	cJSON *processes;
	cJSON *lines;
	cJSON *captures;
};

static bool options_read(int argc, char **argv, struct explain_options *options)
{
	static const struct option long_options[] = {
		{"json", no_argument, NULL, 'j'},
		{"failed", no_argument, NULL, 'f'},
		{"log", required_argument, NULL, 'l'},
		{NULL, 0, NULL, 0},
	};
	int option;

	optind = 1;
	opterr = 0;
	while ((option = getopt_long(argc, argv, "+", long_options, NULL)) != -1) {
		switch (option) {
		case 'j':
			options->is_json = true;
			break;
		case 'f':
			options->is_failed = true;
			break;
		case 'l':
			options->log = optarg;
			break;
		default:
			complain("explain: no option %s; urnic explain --help", argv[optind - 1]);
			return false;
		}
	}
	if ((options->is_failed || options->log) && optind < argc) {
		complain("explain: a WORD goes with neither --failed nor --log");
		return false;
	}
	return true;
}

static void output_begin(struct explain_output *output, bool is_json)
{
	*output = (struct explain_output){.root = is_json ? cJSON_CreateObject() : NULL};
	output->topics = cJSON_AddArrayToObject(output->root, "topics");
	output->processes = cJSON_AddArrayToObject(output->root, "processes");
	output->lines = cJSON_AddArrayToObject(output->root, "lines");
	output->captures = cJSON_AddArrayToObject(output->root, "captures");
}

static void topic_show(const struct explain_output *output, const struct topic *topic)
{
	if (output->root)
		topic_add(output->topics, topic);
	else
		topic_print(topic);
}

static bool topics_show(const struct explain_output *output,
	bool (*matches)(const struct topic *topic, const char *word), const char *word)
{
	bool is_found = false;

	for (int i = 0; i < topic_count; i++) {
		if (matches(&topics[i], word)) {
			topic_show(output, &topics[i]);
			is_found = true;
		}
	}
	return is_found;
}

/*
 * Show each process with the process ID `word`: the kernel may have given the ID to several, one
 * after the other. Returns whether there was one.
 */
static bool process_show(const struct explain_output *output,
	const struct explain_processes *processes, const char *word)
{
	bool is_found = false;
	uint32_t pid;

	if (!text_number(word, 1, UINT32_MAX, &pid))
		return false;
	for (uint32_t i = 0; i < processes->count; i++) {
		const struct failure_file *file = &processes->file[i];

		if (file->head.pid != pid)
			continue;
		if (output->root)
			process_add(output->processes, processes, file);
		else
			process_print(processes, file);
		is_found = true;
	}
	return is_found;
}

static bool word_show(const struct explain_output *output,
	const struct explain_processes *processes, const char *word)
{
	bool is_process = process_show(output, processes, word);

	return topics_show(output, topic_is_named, word) || is_process ||
		capture_show(output->captures, processes, word) ||
		topics_show(output, topic_has_part, word);
}

static void failed_show(
	const struct explain_output *output, const struct explain_processes *processes)
{
	for (uint32_t i = 0; i < processes->count; i++) {
		if (output->root)
			process_add(output->processes, processes, &processes->file[i]);
		else
			process_print_line(&processes->file[i]);
	}
	if (!processes->count && !output->root)
		printf("none of your processes has failed within the last hour\n");
}

/* --- logs --- */

/* The reason whose name in brackets ends the line; NULL: none. Cuts the line's end off. */
static const struct topic *line_topic(char *line)
{
	size_t bytes = strcspn(line, "\r\n");
	char *bracket;

	line[bytes] = '\0';
	bracket = strrchr(line, '[');
	if (!bracket || bytes == 0 || line[bytes - 1] != ']')
		return NULL;
	for (int i = 0; i < topic_count; i++)
		if (topics[i].kind >= TOPIC_FAULT &&
			strlen(topics[i].name) == strlen(bracket) - 2 &&
			!strncmp(bracket + 1, topics[i].name, strlen(topics[i].name)))
			return &topics[i];
	return NULL;
}

static void line_show(
	const struct explain_output *output, const char *line, const struct topic *topic)
{
	cJSON *object;

	if (output->root) {
		object = json_append_object(output->lines);
		cJSON_AddStringToObject(object, "line", line);
		cJSON_AddStringToObject(object, "reason", topic->name);
		topic_add(output->topics, topic);
		return;
	}
	printf("%s\n", line);
	advice_print(topic->clause, topic->look, topic->fix);
}

static int log_show(const struct explain_output *output, const char *path)
{
	FILE *file = strcmp(path, "-") ? fopen(path, "re") : stdin;
	char *line = NULL;
	size_t room = 0;

	if (!file) {
		complain("explain: %s: %s", path, strerror(errno));
		return EXIT_FAILED;
	}
	while (getline(&line, &room, file) > 0) {
		const struct topic *topic = line_topic(line);

		text_make_printable(line);
		if (topic)
			line_show(output, line, topic);
	}
	free(line);
	if (file != stdin)
		fclose(file);
	return EXIT_OK;
}

int command_explain(int argc, char **argv)
{
	struct explain_options options = {.log = NULL};
	struct explain_processes processes;
	struct explain_output output;
	int status = EXIT_OK;

	if (!options_read(argc, argv, &options))
		return EXIT_USAGE;
	output_begin(&output, options.is_json);
	processes_read(&processes);
	if (options.log)
		status = log_show(&output, options.log);
	else if (options.is_failed)
		failed_show(&output, &processes);
	else if (optind == argc)
		topics_show(&output, topic_has_part, "");
	for (int i = optind; i < argc; i++) {
		if (word_show(&output, &processes, argv[i]))
			continue;
		complain("explain: nothing is known about '%s'; urnic explain lists everything",
			argv[i]);
		status = EXIT_FAILED;
	}
	free(processes.file);
	if (output.root && json_print(output.root))
		status = EXIT_FAILED;
	return status;
}
