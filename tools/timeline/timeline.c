/* SPDX-License-Identifier: BSD-2-Clause */
/* urnic timeline: a capture as a sequence diagram, one HTML page that needs nothing else. */
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "common/command.h"
#include "common/packet_story.h"
#include "os/failure_text.h"
#include "timeline/timeline_faults.h"

const char command_timeline_help[] =
	"usage: urnic timeline [-o FILE] [-m COUNT] CAPTURE\n"
	"\n"
	"Draws the packets of a capture as a sequence diagram: requests and responses of all hosts,\n"
	"packets that were sent again and why, refusals with the checks that may be behind them, and\n"
	"marks of congestion. At their times it also has the failures that your processes at the\n"
	"captured addresses have kept (urnic explain --failed). The page has zoom, search and filters,\n"
	"and needs no other file.\n"
	"\n"
	"CAPTURE is a pcap or pcapng file, of `urnic pair --capture`, `urnic capture -w`, tcpdump or\n"
	"Wireshark; - is standard input.\n"
	"\n"
	"  -o FILE   write the page into FILE, not to standard output\n"
	"  -m COUNT  draw at most this many events (50000)\n"
	"\n"
	"Examples:\n"
	"  urnic timeline -o run.html run.pcapng\n";

/* A failure up to so long after the last packet belongs to the capture. */
#define FAULTS_AFTER_NS 2000000000u

/* The kinds of page.html that a story does not have. */
enum { KIND_POST = STORY_UNANSWERED + 1, KIND_COMPLETION, KIND_STATE, KIND_FAULT };
enum { EVENTS_DEFAULT = 50000, EVENTS_MAX = 10000000, HOSTS_MAX = 64, GAP_US = 1000 };

static const char page[] =
#include "page.inc"
	;
static const char one_line[] = "";
static const char *const sides[] = {" (requester)", " (responder)"};
static const char marker[] = "@EVENTS@\n";

/*
 * A vertical line of the diagram: an address. Two queue pairs of one address have two lines, for
 * the side of requesters and that of responders.
 */
struct timeline_host {
	struct gid gid;
	const char *side; /* "": the address has one line */
};

struct timeline {
	FILE *file;
	uint32_t host_count;
	struct timeline_host hosts[HOSTS_MAX];
	uint32_t events;
	uint32_t events_max;
	uint64_t omitted;
	uint64_t first_ns;
	struct timeline_faults faults;
	uint32_t fault_next;
};

/* Write a string of JSON, in UTF-8 as `text`, that may stand in a script element. */
static void string_write(FILE *file, const char *text)
{
	fputc('"', file);
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			fprintf(file, "\\%c", *text);
		else if ((unsigned char)*text < ' ' || *text == '\x7f' || *text == '<')
			fprintf(file, "\\u%04x", (unsigned char)*text);
		else
			fputc(*text, file);
	}
	fputc('"', file);
}

/* The index of a host. The last one stands for all hosts that have no index of their own. */
static uint32_t host_of(struct timeline *timeline, const struct gid *gid, const char *side)
{
	uint32_t i = 0;

	while (i < timeline->host_count &&
		!(gid_is_equal(&timeline->hosts[i].gid, gid) && timeline->hosts[i].side == side))
		i++;
	if (i == timeline->host_count && i < HOSTS_MAX)
		timeline->hosts[timeline->host_count++] = (struct timeline_host){*gid, side};
	return i < HOSTS_MAX ? i : HOSTS_MAX - 1;
}

/* --- events --- */

static void reasons_write(FILE *file, const struct story_entry *entry)
{
	fputs(",[", file);
	for (uint32_t i = 0; i < entry->reason_count; i++)
		fprintf(file, "%s%u", i ? "," : "", entry->reasons[i]);
	fputc(']', file);
}

/* Begin an event. Returns false if there are too many. */
static bool event_begin(struct timeline *timeline, uint64_t time_ns)
{
	if (timeline->events == timeline->events_max) {
		timeline->omitted++;
		return false;
	}
	if (!timeline->events++)
		timeline->first_ns = time_ns;
	else
		fputs(",\n", timeline->file);
	fprintf(timeline->file, "[%.3f,", (double)(int64_t)(time_ns - timeline->first_ns) / 1e3);
	return true;
}

static void fault_write(
	struct timeline *timeline, const struct timeline_fault *fault, uint32_t host)
{
	const struct failure *failure = &fault->failure;
	const struct reason_row *row = reason_find(failure->reason);
	char text[REASON_SENTENCE_BYTES];

	if (!event_begin(timeline, failure->wall_ns))
		return;
	fprintf(timeline->file, "%u,-1,%d,", host, KIND_FAULT);
	string_write(timeline->file, row ? row->name : "?");
	fprintf(timeline->file, ",0,0,0,0,%u,0,", failure->qpn);
	reason_tell(failure, text, sizeof(text));
	string_write(timeline->file, text);
	if (failure->has_wr_id)
		snprintf(text, sizeof(text), "process %u (%s), work request %llu", fault->pid,
			fault->comm, (unsigned long long)failure->wr_id);
	else
		snprintf(text, sizeof(text), "process %u (%s)", fault->pid, fault->comm);
	fputc(',', timeline->file);
	string_write(timeline->file, text);
	fprintf(timeline->file, ",[%u]]", failure->reason);
}

/* Write the failures of the hosts so far, up to a time. */
static void faults_write(struct timeline *timeline, uint64_t until_ns)
{
	while (timeline->fault_next < timeline->faults.count) {
		const struct timeline_fault *fault = &timeline->faults.fault[timeline->fault_next];
		uint32_t host = 0;

		if (fault->failure.wall_ns > until_ns)
			return;
		timeline->fault_next++;
		while (host < timeline->host_count &&
			!gid_is_equal(&timeline->hosts[host].gid, &fault->failure.local))
			host++;
		if (timeline->events && fault->failure.wall_ns >= timeline->first_ns &&
			host < timeline->host_count)
			fault_write(timeline, fault, host);
	}
}

/* The order of the numbers is that of the constants in page.html. */
static void event_write(
	struct timeline *timeline, const struct story_entry *entry, const char *comment)
{
	bool is_one = gid_is_equal(&entry->source, &entry->destination);
	uint32_t from =
		host_of(timeline, &entry->source, is_one ? sides[entry->is_response] : one_line);
	uint32_t to = host_of(
		timeline, &entry->destination, is_one ? sides[!entry->is_response] : one_line);

	faults_write(timeline, entry->time_ns);
	if (!event_begin(timeline, entry->time_ns))
		return;
	fprintf(timeline->file, "%u,%u,%d,", from, to, entry->kind);
	string_write(timeline->file, entry->name);
	fprintf(timeline->file, ",%u,%u,%u,%u,%u,%u,", entry->psn, entry->bytes, entry->about,
		entry->qpn, entry->from_qpn, entry->number);
	string_write(timeline->file, entry->text);
	fputc(',', timeline->file);
	string_write(timeline->file, comment);
	if (entry->reason_count)
		reasons_write(timeline->file, entry);
	fputc(']', timeline->file);
}

static bool address_read(const char *text, struct gid *ret_gid)
{
	uint8_t ipv4[4];

	if (inet_pton(AF_INET, text, ipv4) == 1) {
		*ret_gid = gid_from_ipv4(ipv4);
		return true;
	}
	return inet_pton(AF_INET6, text, ret_gid->raw) == 1;
}

/* The line of a queue pair's event. A receive belongs to the side of responders. */
static uint32_t marker_host(struct timeline *timeline, const struct gid *gid, const char *what)
{
	bool is_receive = strstr(what, "of a receive");

	for (uint32_t i = 0; i < timeline->host_count; i++) {
		const struct timeline_host *host = &timeline->hosts[i];

		if (gid_is_equal(&host->gid, gid) &&
			(host->side == one_line || host->side == sides[is_receive]))
			return i;
	}
	return host_of(timeline, gid, one_line);
}

/* Write an event of `urnic capture --events`: "ADDRESS QPN WORD REST". */
static void marker_take(struct timeline *timeline, const struct capture_file_frame *frame)
{
	char line[256], address[64], what[256];
	uint32_t count = frame->count < sizeof(line) - 1 ? frame->count : sizeof(line) - 1;
	struct gid gid;
	unsigned qpn;

	memcpy(line, frame->bytes, count);
	line[count] = '\0';
	text_make_printable(line);
	if (sscanf(line, "%63s 0x%x %255[^\n]", address, &qpn, what) != 3 ||
		!address_read(address, &gid) || !event_begin(timeline, frame->time_ns))
		return;
	fprintf(timeline->file, "%u,-1,%d,", marker_host(timeline, &gid, what),
		!strncmp(what, "post", 4)            ? KIND_POST
			: !strncmp(what, "state", 5) ? KIND_STATE
						     : KIND_COMPLETION);
	string_write(timeline->file, what);
	fprintf(timeline->file, ",0,0,0,0,%u,%u,\"\",", qpn, frame->number);
	string_write(timeline->file, frame->comment);
	fputc(']', timeline->file);
}

static void events_write(
	struct timeline *timeline, struct capture_file *capture, struct story *story)
{
	struct capture_file_frame frame;
	struct story_entry entry;
	uint64_t last_ns = 0;

	fputs("{\"events\":[\n", timeline->file);
	while (capture_file_next(capture, &frame))
		if (frame.is_event) {
			marker_take(timeline, &frame);
		} else if (story_take(story, &frame, &entry)) {
			event_write(timeline, &entry, frame.comment);
			last_ns = entry.time_ns;
		}
	faults_write(timeline, last_ns + FAULTS_AFTER_NS);
	while (story_next_unanswered(story, &entry))
		event_write(timeline, &entry, "");
	fputs("\n],\n", timeline->file);
}

static void hosts_write(const struct timeline *timeline)
{
	char name[INET6_ADDRSTRLEN];

	fputs("\"hosts\":[", timeline->file);
	for (uint32_t i = 0; i < timeline->host_count; i++) {
		const struct gid *gid = &timeline->hosts[i].gid;
		bool is_ipv4 = gid_is_ipv4(gid);

		inet_ntop(is_ipv4 ? AF_INET : AF_INET6, is_ipv4 ? gid->raw + 12 : gid->raw, name,
			sizeof(name));
		fprintf(timeline->file, "%s\"%s%s\"", i ? "," : "",
			gid_is_zero(gid) ? "not connected" : name, timeline->hosts[i].side);
	}
	fputs("],\n\"reasons\":{", timeline->file);
	for (uint32_t i = 0; i < reason_count; i++) {
		fprintf(timeline->file, "%s\"%u\":", i ? ",\n" : "", reason_rows[i].number);
		char text[1024];

		snprintf(text, sizeof(text), "%s: %s%s%s", reason_rows[i].name,
			reason_rows[i].sentence, reason_rows[i].fix ? "; what works: " : "",
			reason_rows[i].fix ? reason_rows[i].fix : "");
		string_write(timeline->file, text);
	}
	fprintf(timeline->file, "},\n\"gap\":%d,\"omitted\":%llu,\"title\":", GAP_US,
		(unsigned long long)timeline->omitted);
}

static int page_write(
	struct timeline *timeline, struct capture_file *capture, const char *capture_name)
{
	const char *place = strstr(page, marker);
	struct story *story = story_create();
	char title[256];

	if (!story) {
		complain("timeline: out of memory");
		return EXIT_FAILED;
	}
	fwrite(page, 1, (size_t)(place - page), timeline->file);
	events_write(timeline, capture, story);
	hosts_write(timeline);
	snprintf(title, sizeof(title), "urnic timeline: %s", capture_name);
	string_write(timeline->file, title);
	fputs("}\n", timeline->file);
	fputs(place + strlen(marker), timeline->file);
	story_destroy(story);
	if (!timeline->events)
		complain("timeline: %s has no packet of RoCEv2 or iWARP", capture_name);
	return timeline->events ? EXIT_OK : EXIT_FAILED;
}

/* --- the command --- */

struct timeline_options {
	const char *output; /* NULL: standard output */
	uint32_t events_max;
	const char *capture;
};

static bool options_read(int argc, char **argv, struct timeline_options *options)
{
	int letter;

	*options = (struct timeline_options){.events_max = EVENTS_DEFAULT};
	while ((letter = getopt(argc, argv, "+o:m:")) != -1) {
		if (letter == 'o') {
			options->output = optarg;
		} else if (letter != 'm') {
			return false;
		} else if (!text_number(optarg, 1, EVENTS_MAX, &options->events_max)) {
			complain("timeline: a count must be a number of 1 to %d, not '%s'",
				EVENTS_MAX, optarg);
			return false;
		}
	}
	if (optind + 1 != argc) {
		complain("timeline: one CAPTURE is needed; urnic timeline --help");
		return false;
	}
	options->capture = argv[optind];
	return true;
}

static int timeline_run(const struct timeline_options *options, struct capture_file *capture)
{
	struct timeline timeline = {.events_max = options->events_max, .file = stdout};
	int status;

	if (options->output && !(timeline.file = fopen(options->output, "we"))) {
		complain("timeline: cannot write %s: %s", options->output, strerror(errno));
		return EXIT_FAILED;
	}
	timeline_faults_read(&timeline.faults);
	status = page_write(&timeline, capture, options->capture);
	free(timeline.faults.fault);
	if (fflush(timeline.file) || ferror(timeline.file)) {
		complain("timeline: the page is not complete: %s", strerror(errno));
		status = EXIT_FAILED;
	}
	if (options->output)
		fclose(timeline.file);
	return status;
}

int command_timeline(int argc, char **argv)
{
	struct timeline_options options;
	struct capture_file *capture;
	int status, error;

	if (!options_read(argc, argv, &options))
		return EXIT_USAGE;
	error = capture_file_open(options.capture, &capture);
	if (error) {
		complain("timeline: %s: %s", options.capture,
			error == -EBADMSG ? "neither pcap nor pcapng" : strerror(-error));
		return EXIT_FAILED;
	}
	status = timeline_run(&options, capture);
	capture_file_close(capture);
	return status;
}
