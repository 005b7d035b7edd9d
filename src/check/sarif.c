/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * SARIF 2.1.0: a rule for each kind, a result for each report. The first site is the result's
 * location, and each site is one of its stacks.
 */
#include <stdio.h>

#include "check/report.h"
#include "check/site.h"

static void string_write(int fd, const char *text)
{
	dprintf(fd, "\"");
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			dprintf(fd, "\\%c", *text);
		else if ((unsigned char)*text < ' ')
			dprintf(fd, "\\u%04x", (unsigned char)*text);
		else
			dprintf(fd, "%c", *text);
	}
	dprintf(fd, "\"");
}

void sarif_begin(int fd)
{
	dprintf(fd,
		"{\"version\": \"2.1.0\",\n"
		"\"$schema\": \"https://json.schemastore.org/sarif-2.1.0.json\",\n"
		"\"runs\": [{\"tool\": {\"driver\": {\"name\": \"urnic check\",\n"
		"\"version\": \"" URNIC_VERSION "\", \"rules\": [");
	for (int kind = 0; kind < KIND_COUNT; kind++) {
		dprintf(fd, "%s\n{\"id\": ", kind ? "," : "");
		string_write(fd, check_kind_name((enum check_kind)kind));
		dprintf(fd, ", \"shortDescription\": {\"text\": ");
		string_write(fd, check_kind_sentence((enum check_kind)kind));
		dprintf(fd, "}}");
	}
	dprintf(fd, "]}},\n\"results\": [");
}

struct frame_writer {
	int fd;
	uint32_t count;
};

/* Write the members of a physical location. */
static void location_write(int fd, const struct site_frame *frame)
{
	const char *place = frame->file ? frame->file : frame->object;

	dprintf(fd, "{\"physicalLocation\": {\"artifactLocation\": {\"uri\": ");
	string_write(fd, place ? place : "unknown");
	dprintf(fd, "}");
	if (frame->file && frame->line > 0)
		dprintf(fd, ", \"region\": {\"startLine\": %d}", frame->line);
	dprintf(fd, "}, \"logicalLocations\": [{\"name\": ");
	string_write(fd, frame->function ? frame->function : "unknown");
	dprintf(fd, "}]}");
}

static void location_first(const struct site_frame *frame, void *context)
{
	struct frame_writer *writer = context;

	if (writer->count++ == 0)
		location_write(writer->fd, frame);
}

static void frame_write(const struct site_frame *frame, void *context)
{
	struct frame_writer *writer = context;

	dprintf(writer->fd, "%s{\"location\": ", writer->count++ ? ", " : "");
	location_write(writer->fd, frame);
	dprintf(writer->fd, "}");
}

void sarif_result(int fd, const struct report *report, bool is_first)
{
	struct frame_writer first = {.fd = fd};

	dprintf(fd, "%s\n{\"ruleId\": ", is_first ? "" : ",");
	string_write(fd, check_kind_name(report->kind));
	dprintf(fd, ", \"level\": \"error\", \"message\": {\"text\": ");
	string_write(fd, report->text);
	dprintf(fd, "}, \"locations\": [");
	if (report->site_count > 0)
		site_frames(report->sites[0].site, location_first, &first);
	dprintf(fd, "], \"stacks\": [");
	for (uint32_t i = 0; i < report->site_count; i++) {
		struct frame_writer writer = {.fd = fd};

		dprintf(fd, "%s{\"message\": {\"text\": ", i ? ", " : "");
		string_write(fd, report->sites[i].what);
		dprintf(fd, "}, \"frames\": [");
		site_frames(report->sites[i].site, frame_write, &writer);
		dprintf(fd, "]}");
	}
	dprintf(fd, "]}");
}

void sarif_finish(int fd)
{
	dprintf(fd, "]}]}\n");
}
