/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * urnic capture: shows same-host traffic, which needs no packets, as the packets that a wire would
 * carry.
 */
#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/text.h"
#include "capture/capture_output.h"
#include "capture/capture_source.h"
#include "common/command.h"
#include "os/clock.h"

const char command_capture_help[] =
	"usage: urnic capture [-w FILE] [-i DEVICE] [-p PID] [-c COUNT] [-s BYTES]\n"
	"                     [--] [PROGRAM [ARGUMENTS]]\n"
	"\n"
	"Captures the messages that processes of this host exchange without packets (RC, UC, XRC, UD),\n"
	"and shows them as packets. It captures your processes in this network namespace that run on\n"
	"urnic; as root, those of all users. It captures processes that start later from their first\n"
	"request on. Processes never wait for it: records that it does not read in time are lost and\n"
	"counted. tcpdump and others show real packets on the network interface.\n"
	"\n"
	"With PROGRAM, runs it on urnic (urnic run) and captures until it ends; else until interrupted.\n"
	"\n"
	"  -w FILE        write a pcapng file, for Wireshark or tshark; - is standard output. Without\n"
	"                 it, print a line for each packet.\n"
	"  -i DEVICE      only packets of this device or interface\n"
	"  -p PID         only packets of this process\n"
	"  -c COUNT       end after this number of packets\n"
	"  -s BYTES       keep this much of each packet, from the IP header on (100 has all headers);\n"
	"                 without it, all\n"
	"\n"
	"The exit status is PROGRAM's; without one 0, or 1 if capturing failed.\n"
	"\n"
	"Examples:\n"
	"  urnic capture\n"
	"  urnic capture -w - | wireshark -k -i -\n"
	"  urnic capture -w lat.pcapng -- ib_write_lat -F 192.0.2.7\n";

enum { BUSY_MS = 1, IDLE_MS = 5 };

struct options {
	const char *file; /* NULL: print lines */
	struct capture_filter filter;
	uint32_t pid;
	uint32_t count_max; /* 0: no limit */
	uint32_t snap_bytes;
	char **program; /* NULL: none */
};

static volatile sig_atomic_t has_signal;

static void on_signal(int number)
{
	has_signal = number;
}

static int parse_number(const char *what, const char *text, uint32_t *ret_number)
{
	if (!text_number(text, 1, INT32_MAX, ret_number)) {
		complain("capture: %s must be a number of at least 1, not '%s'", what, text);
		return -EINVAL;
	}
	return 0;
}

static int parse_options(int argc, char **argv, struct options *ret_options)
{
	struct options options = {0};
	int letter, result = 0;

	while (result == 0 && (letter = getopt(argc, argv, "+w:i:p:c:s:")) != -1) {
		if (letter == 'w')
			options.file = optarg;
		else if (letter == 'i')
			options.filter.device = optarg;
		else if (letter == 'p')
			result = parse_number("a process", optarg, &options.pid);
		else if (letter == 'c')
			result = parse_number("a count", optarg, &options.count_max);
		else if (letter == 's')
			result = parse_number("a length", optarg, &options.snap_bytes);
		else
			return -EINVAL;
	}
	if (optind < argc)
		options.program = argv + optind;
	*ret_options = options;
	return result;
}

/* --- the file --- */

static FILE *file_open(const struct options *options)
{
	FILE *file = stdout;

	if (options->file && strcmp(options->file, "-") != 0)
		file = fopen(options->file, "we");
	else if (options->file && isatty(STDOUT_FILENO)) {
		complain("capture: a terminal cannot show a capture file; omit -w to print lines");
		return NULL;
	}
	if (!file)
		complain("capture: cannot write %s: %s", options->file, strerror(errno));
	return file;
}

/* Close the file. Returns whether everything was written. */
static bool file_close(FILE *file)
{
	bool is_well = fflush(file) == 0 && !ferror(file);

	return file == stdout ? is_well : fclose(file) == 0 && is_well;
}

/* --- the program --- */

/* If packets go to standard output, the program's output goes to standard error. */
static pid_t program_start(const struct options *options)
{
	pid_t pid = fork();
	char *arguments[] = {(char *)"urnic", (char *)"run", (char *)"--", NULL};
	size_t count = 0;
	char **all;

	if (pid != 0)
		return pid;
	if (!options->file || strcmp(options->file, "-") == 0)
		dup2(STDERR_FILENO, STDOUT_FILENO);
	signal(SIGINT, SIG_DFL);
	signal(SIGTERM, SIG_DFL);
	signal(SIGPIPE, SIG_DFL);
	while (options->program[count])
		count++;
	all = calloc(3 + count + 1, sizeof(*all));
	if (all) {
		memcpy(all, arguments, 3 * sizeof(*all));
		memcpy(all + 3, options->program, count * sizeof(*all));
		execv("/proc/self/exe", all);
	}
	complain("capture: cannot run %s: %s", options->program[0], strerror(errno));
	_exit(EXIT_NOT_RUN);
}

/* Has the program ended, and with which status? */
static bool program_has_ended(pid_t program, int *ret_status)
{
	int status;

	if (waitpid(program, &status, WNOHANG) != program)
		return false;
	*ret_status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	return true;
}

/* --- capturing --- */

/* Write all records that are not newer than this call. Returns whether there were any. */
static bool sources_drain(
	struct capture_sources *sources, struct capture_output *output, uint64_t count_max)
{
	uint64_t until_ns = clock_now_ns();
	struct capture_lane *lane;
	bool has_any = false;

	while ((!count_max || output->packets < count_max) && !ferror(output->file) &&
		(lane = capture_sources_next(sources, until_ns))) {
		const struct captured *head = (const void *)lane->record;
		struct capture_origin origin = {
			lane->process->pid, lane->process->comm, lane->dropped};

		capture_output_packet(output, head, lane->record + sizeof(*head), &origin);
		lane->has_record = false;
		lane->dropped = 0;
		has_any = true;
	}
	if (has_any)
		fflush(output->file);
	return has_any;
}

/*
 * Is the capture to end now? With a program it ends when the program ends. SIGINT from the terminal
 * reaches the program, too, so the program decides whether to end. This function passes SIGTERM on
 * to the program.
 */
static bool shall_end(const struct options *options, const struct capture_output *output,
	pid_t program, int *ret_status)
{
	if (program > 0 && program_has_ended(program, ret_status))
		return true;
	if (program > 0 && has_signal == SIGTERM) {
		kill(program, SIGTERM);
		has_signal = 0;
	}
	if (program <= 0 && has_signal)
		return true;
	return ferror(output->file) ||
		(program <= 0 && options->count_max && output->packets >= options->count_max);
}

static int capture_run(const struct options *options, struct capture_sources *sources,
	struct capture_output *output)
{
	pid_t program = 0;
	int status = EXIT_OK;
	bool is_last = false, has_any;

	if (options->program)
		program = program_start(options);
	if (program < 0) {
		complain("capture: cannot run %s: %s", options->program[0], strerror(errno));
		return EXIT_FAILED;
	}
	while (!is_last) {
		struct pollfd pollfd = {.fd = sources->listener.socket, .events = POLLIN};

		is_last = shall_end(options, output, program, &status);
		capture_sources_update(sources);
		has_any = sources_drain(sources, output, options->count_max);
		if (!is_last)
			poll(&pollfd, 1, has_any ? BUSY_MS : IDLE_MS);
	}
	return status;
}

static void signals_take(void)
{
	struct sigaction action = {.sa_handler = on_signal};

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	signal(SIGPIPE, SIG_IGN);
}

int command_capture(int argc, char **argv)
{
	static struct capture_output output;
	struct capture_sources sources;
	struct options options;
	FILE *file;
	int status = EXIT_FAILED;

	if (parse_options(argc, argv, &options) < 0)
		return EXIT_USAGE;
	file = file_open(&options);
	if (!file)
		return EXIT_FAILED;
	signals_take();
	if (capture_output_begin(
		    &output, file, !options.file, options.snap_bytes, &options.filter)) {
		complain("capture: cannot list the devices");
	} else if (!capture_sources_open(&sources,
			   options.snap_bytes ? options.snap_bytes : CAPTURED_BYTES_MAX,
			   (pid_t)options.pid)) {
		if (!capture_output_has_wanted(&output))
			complain(
				"capture: no device or interface is called %s; urnic devices lists them",
				options.filter.device);
		status = capture_run(&options, &sources, &output);
		capture_output_end(&output, capture_sources_dropped(&sources));
		capture_sources_close(&sources);
		fprintf(stderr, "urnic: capture: %lu packets, %lu lost\n",
			(unsigned long)output.packets, (unsigned long)output.dropped);
	}
	if (!file_close(file) && errno != EPIPE) {
		complain("capture: cannot write: %s", strerror(errno));
		status = EXIT_FAILED;
	}
	return status;
}
