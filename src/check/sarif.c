/* SPDX-License-Identifier: BSD-2-Clause */
#include "check/sarif.h"

#include "check/output.h"
#include "check/site.h"

static void string_write(const char *text)
{
	output_say("\"");
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			output_say("\\%c", *text);
		else if ((unsigned char)*text < ' ')
			output_say("\\u%04x", (unsigned char)*text);
		else
			output_say("%c", *text);
	}
	output_say("\"");
}

void sarif_begin(void)
{
	output_say("{\"version\": \"2.1.0\",\n"
		   "\"$schema\": \"https://json.schemastore.org/sarif-2.1.0.json\",\n"
		   "\"runs\": [{\"tool\": {\"driver\": {\"name\": \"urnic check\",\n"
		   "\"version\": \"" URNIC_VERSION "\", \"rules\": [");
	for (int kind = 0; kind < KIND_COUNT; kind++) {
		output_say("%s\n{\"id\": ", kind ? "," : "");
		string_write(check_kind_name((enum check_kind)kind));
		output_say(", \"shortDescription\": {\"text\": ");
		string_write(check_kind_sentence((enum check_kind)kind));
		output_say("}}");
	}
	output_say("]}},\n\"results\": [");
}

/* Write the members of a physical location. */
static void location_write(const struct site_frame *frame)
{
	const char *place = frame->file ? frame->file : frame->object;

	output_say("{\"physicalLocation\": {\"artifactLocation\": {\"uri\": ");
	string_write(place ? place : "unknown");
	output_say("}");
	if (frame->file && frame->line > 0)
		output_say(", \"region\": {\"startLine\": %d}", frame->line);
	output_say("}, \"logicalLocations\": [{\"name\": ");
	string_write(frame->function ? frame->function : "unknown");
	output_say("}]}");
}

static void location_first(const struct site_frame *frame, void *context)
{
	uint32_t *count = context;

	if ((*count)++ == 0)
		location_write(frame);
}

static void frame_write(const struct site_frame *frame, void *context)
{
	uint32_t *count = context;

	output_say("%s{\"location\": ", (*count)++ ? ", " : "");
	location_write(frame);
	output_say("}");
}

void sarif_result(const struct report *report)
{
	uint32_t count = 0;

	output_say("\n{\"ruleId\": ");
	string_write(check_kind_name(report->kind));
	output_say(", \"level\": \"error\", \"message\": {\"text\": ");
	string_write(report->text);
	output_say("}, \"locations\": [");
	if (report->site_count > 0)
		site_frames(report->sites[0].site, location_first, &count);
	output_say("], \"stacks\": [");
	for (uint32_t i = 0; i < report->site_count; i++) {
		count = 0;
		output_say("%s{\"message\": {\"text\": ", i ? ", " : "");
		string_write(report->sites[i].what);
		output_say("}, \"frames\": [");
		site_frames(report->sites[i].site, frame_write, &count);
		output_say("]}");
	}
	output_say("]}");
}
