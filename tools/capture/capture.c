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
	"usage: urnic capture [-w FILE] [-C MB [-W COUNT]] [-i DEVICE] [-p PID] [--qp QPN]\n"
	"                     [--opcode NAME] [-c COUNT] [-s BYTES | --snap headers] [--events]\n"
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
	"  -C MB          write FILE.0, FILE.1 and so on, each up to this size; then the first anew\n"
	"  -W COUNT       the number of these files, at least 2 (10)\n"
	"  -i DEVICE      only packets of this device or interface\n"
	"  -p PID         only packets of this process\n"
	"  --qp QPN       only packets to or from this queue pair\n"
	"  --opcode NAME  only packets whose opcode has this in its name: send, write, ack\n"
	"  -c COUNT       end after this number of packets\n"
	"  -s BYTES       keep this much of each packet, from the IP header on (100 has all headers);\n"
	"                 without it, all\n"
	"  --events       record posts, completions and state changes of queue pairs, too, for\n"
	"                 `urnic timeline`\n"
	"  --snap headers keep no payload, so that no data leaves the process; or BYTES as -s\n"
	"\n"
	"The exit status is PROGRAM's; without one 0, or 1 if capturing failed.\n"
	"\n"
	"Examples:\n"
	"  urnic capture\n"
	"  urnic capture -w - | wireshark -k -i -\n"
	"  urnic capture -w lat.pcapng -- ib_write_lat -F 192.0.2.7\n"
	"  urnic capture -w ring.pcapng -C 100 -W 5 --snap headers\n";

enum {
	BUSY_MS = 1,
	IDLE_MS = 5,
	RING_FILES = 10,
	MEGABYTE = 1000000,
	/* After so much of them the rings are emptied again: half of a ring's size at most */
	RECORD_BYTES_AT_ONCE = 1 << 19,
};

struct options {
	const char *file; /* NULL: print lines */
	struct capture_filter filter;
	uint32_t pid;
	uint32_t count_max; /* 0: no limit */
	uint32_t snap_bytes;
	bool is_headers; /* record no payload */
	bool with_events;
	struct capture_ring ring;
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

static int parse_snap(struct options *options, const char *text)
{
	options->is_headers = strcmp(text, "headers") == 0;
	return options->is_headers ? 0 : parse_number("a length", text, &options->snap_bytes);
}

static int parse_qpn(const char *text, uint32_t *ret_qpn)
{
	if (text_number_or_hex(text, 1, U24_MASK, ret_qpn))
		return 0;
	complain("capture: a queue pair must be a number of 24 bits, not '%s'", text);
	return -EINVAL;
}

static int parse_option(int letter, struct options *options)
{
	uint32_t megabytes = 0;
	int result = 0;

	switch (letter) {
	case 'w':
		options->file = optarg;
		break;
	case 'C':
		result = parse_number("a size", optarg, &megabytes);
		options->ring.bytes_max = (uint64_t)megabytes * MEGABYTE;
		break;
	case 'W':
		result = parse_number("a count", optarg, &options->ring.file_count);
		break;
	case 'i':
		options->filter.device = optarg;
		break;
	case 'p':
		result = parse_number("a process", optarg, &options->pid);
		break;
	case 'q':
		result = parse_qpn(optarg, &options->filter.qpn);
		break;
	case 'o':
		options->filter.opcode = optarg;
		break;
	case 'e':
		options->with_events = true;
		break;
	case 'c':
		result = parse_number("a count", optarg, &options->count_max);
		break;
	case 's':
		result = parse_snap(options, optarg);
		break;
	default:
		result = -EINVAL;
		break;
	}
	return result;
}

static int parse_options(int argc, char **argv, struct options *ret_options)
{
	static const struct option names[] = {
		{"qp", required_argument, NULL, 'q'},
		{"opcode", required_argument, NULL, 'o'},
		{"snap", required_argument, NULL, 's'},
		{"events", no_argument, NULL, 'e'},
		{NULL, 0, NULL, 0},
	};
	struct options options = {.ring = {.file_count = RING_FILES}};
	int letter, result = 0;

	while (result == 0 &&
		(letter = getopt_long(argc, argv, "+w:C:W:i:p:c:s:", names, NULL)) != -1)
		result = parse_option(letter, &options);
	if (result == 0 && options.ring.bytes_max &&
		(!options.file || strcmp(options.file, "-") == 0)) {
		complain("capture: -C needs -w with the name of a file");
		result = -EINVAL;
	}
	if (result == 0 && options.ring.file_count < 2) {
		complain("capture: -W needs 2 files or more: the next one is emptied first");
		result = -EINVAL;
	}
	if (optind < argc)
		options.program = argv + optind;
	options.ring.path = options.file;
	*ret_options = options;
	return result;
}

/* --- the file --- */

static FILE *file_open(const struct options *options)
{
	FILE *file = stdout;

	if (options->file && strcmp(options->file, "-") != 0)
		file = capture_ring_open(&options->ring);
	else if (options->file && isatty(STDOUT_FILENO)) {
		complain("capture: a terminal cannot show a capture file; omit -w to print lines");
		return NULL;
	}
	if (!file)
		complain("capture: cannot write %s: %s", options->file, strerror(errno));
	return file;
}

/*
 * Close the file. Returns false if a part could not be written. It is no failure that the reader of
 * a pipe has closed it (EPIPE).
 */
static bool output_close(const struct capture_output *output)
{
	FILE *file = output->file;
	bool is_well = fflush(file) == 0 && !ferror(file);

	if (file != stdout)
		is_well = fclose(file) == 0 && is_well;
	if (!is_well && errno != EPIPE) {
		complain("capture: cannot write: %s", strerror(errno));
		return false;
	}
	if (output->has_failed)
		complain("capture: a file of the ring is not complete");
	return !output->has_failed;
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

static void record_output(struct capture_output *output, struct capture_lane *lane)
{
	struct capture_origin origin = {lane->process->pid, lane->process->comm, 0, lane->blocks};

	lane->has_record = false;
	if (lane->is_repetition && !lane->dropped &&
		capture_output_repetition(output, lane->blocks, &lane->repetition))
		return;
	if (!capture_lane_expand(lane))
		return;
	origin.dropped = lane->dropped;
	lane->dropped = 0;
	capture_output_packet(output, lane->head, lane->bytes, &origin);
}

/* `count_max`: so many packets are written; 0: all. */
static bool output_wants_more(const struct capture_output *output, uint64_t count_max)
{
	return (!count_max || output->packets < count_max) && !ferror_unlocked(output->file);
}

/*
 * Write records that are not newer than capture_sources_begin(): all, or RECORD_BYTES_AT_ONCE of
 * them. Returns how many bytes they had.
 */
static uint32_t sources_drain(
	struct capture_sources *sources, struct capture_output *output, uint64_t count_max)
{
	struct capture_lane *lane;
	uint32_t taken = 0;

	if (!output_wants_more(output, count_max))
		return 0;
	while (taken < RECORD_BYTES_AT_ONCE && output_wants_more(output, count_max) &&
		(lane = capture_sources_next(sources))) {
		taken += lane->record_bytes;
		record_output(output, lane);
	}
	if (taken)
		capture_output_flush(output);
	return taken;
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
	uint32_t taken = 0;
	bool is_last = false;

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
		capture_sources_begin(sources);
		taken = sources_drain(sources, output, options->count_max);
		if (!is_last && taken < RECORD_BYTES_AT_ONCE)
			poll(&pollfd, 1, taken ? BUSY_MS : IDLE_MS);
	}
	/* Take the records that were there at the end; a second signal leaves them. */
	has_signal = 0;
	while (taken >= RECORD_BYTES_AT_ONCE && !has_signal)
		taken = sources_drain(sources, output, options->count_max);
	return status;
}

static void signals_take(void)
{
	struct sigaction action = {.sa_handler = on_signal};

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	signal(SIGPIPE, SIG_IGN);
}

/* How many bytes of each packet the processes have to record. */
static uint32_t recorded_bytes(const struct options *options)
{
	if (options->is_headers)
		return CAPTURE_HEADERS;
	return options->snap_bytes ? options->snap_bytes : CAPTURED_BYTES_MAX;
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
	if (capture_output_begin(&output, file, !options.file, options.snap_bytes, &options.filter,
		    &options.ring)) {
		complain("capture: cannot list the devices");
	} else if (!capture_sources_open(&sources, recorded_bytes(&options), options.with_events,
			   (pid_t)options.pid)) {
		output.is_headers = options.is_headers;
		if (!capture_output_has_wanted(&output))
			complain(
				"capture: no device or interface is called %s; urnic devices lists them",
				options.filter.device);
		status = capture_run(&options, &sources, &output);
		capture_output_end(&output, capture_sources_dropped(&sources));
		capture_sources_close(&sources);
		fprintf(stderr, "urnic: capture: %lu packet%s, %lu lost\n",
			(unsigned long)output.packets, output.packets == 1 ? "" : "s",
			(unsigned long)output.dropped);
	}
	return output_close(&output) ? status : EXIT_FAILED;
}
