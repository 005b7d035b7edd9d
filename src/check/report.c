/* SPDX-License-Identifier: BSD-2-Clause */
#include "check/report.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check/check.h"
#include "check/output.h"
#include "check/sarif.h"
#include "check/site.h"

enum { SEEN_COUNT_MAX = 1024, SUPPRESSION_COUNT_MAX = 256, WORD_BYTES = 256 };

static const struct {
	const char *name;
	const char *sentence;
} kinds[KIND_COUNT] = {
#define KIND(name, ...) [KIND_##name] = {__VA_ARGS__},
#include "check/kind.def"
};

/*
 * A line of a suppression file: a kind or *, and a part of the name of a frame's function, file or
 * object.
 */
struct suppression {
	char kind[WORD_BYTES];
	char text[WORD_BYTES];
};

static struct suppression *suppressions;
static uint32_t suppression_count;
static uint64_t seen[SEEN_COUNT_MAX]; /* the keys of the reports that were made */
static uint32_t seen_count;
static uint32_t shown_count, suppressed_count;
static pthread_mutex_t report_lock = PTHREAD_MUTEX_INITIALIZER;

const char *check_kind_name(enum check_kind kind)
{
	return kinds[kind].name;
}

const char *check_kind_sentence(enum check_kind kind)
{
	return kinds[kind].sentence;
}

void report_begin(struct report *report, enum check_kind kind)
{
	report->kind = kind;
	report->text[0] = '\0';
	report->site_count = 0;
}

void report_say(struct report *report, const char *format, ...)
{
	size_t length = strlen(report->text);
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(report->text + length, sizeof(report->text) - length, format, arguments);
	va_end(arguments);
}

void report_site(struct report *report, const char *what, uint32_t site)
{
	if (site == SITE_NONE || report->site_count == REPORT_SITES_MAX)
		return;
	report->sites[report->site_count].what = what;
	report->sites[report->site_count++].site = site;
}

/* Note a report. Returns false if it was made before. report_lock is locked. */
static bool report_is_new(const struct report *report)
{
	uint64_t key = (uint64_t)report->kind << 56;

	for (uint32_t i = 0; i < 2 && i < report->site_count; i++)
		key |= (uint64_t)report->sites[i].site << (24 * i);
	for (uint32_t i = 0; i < seen_count; i++)
		if (seen[i] == key)
			return false;
	if (seen_count == SEEN_COUNT_MAX)
		return false;
	seen[seen_count++] = key;
	return true;
}

struct match {
	const struct suppression *suppression;
	bool is_found;
};

static bool text_has(const char *text, const char *part)
{
	return text && strstr(text, part);
}

static void frame_match(const struct site_frame *frame, void *context)
{
	struct match *match = context;
	const char *text = match->suppression->text;

	match->is_found |= text_has(frame->function, text) || text_has(frame->file, text) ||
		text_has(frame->object, text);
}

static bool report_is_suppressed(const struct report *report)
{
	for (uint32_t i = 0; i < suppression_count; i++) {
		struct match match = {.suppression = &suppressions[i]};

		if (strcmp(match.suppression->kind, "*") != 0 &&
			strcmp(match.suppression->kind, kinds[report->kind].name) != 0)
			continue;
		match.is_found = strcmp(match.suppression->text, "*") == 0;
		for (uint32_t k = 0; k < report->site_count && !match.is_found; k++)
			site_frames(report->sites[k].site, frame_match, &match);
		if (match.is_found)
			return true;
	}
	return false;
}

static void frame_print(const struct site_frame *frame, void *context)
{
	uint32_t *index = context;

	output_say("    #%u %s", (*index)++, frame->function ? frame->function : "??");
	if (frame->file)
		output_say(" %s:%d\n", frame->file, frame->line);
	else
		output_say(" (%s+0x%lx)\n", frame->object ? frame->object : "??",
			(unsigned long)frame->offset);
}

static void text_result(const struct report *report)
{
	output_say("urnic check[%d]: %s: %s\n", (int)getpid(), kinds[report->kind].name,
		kinds[report->kind].sentence);
	output_say("  %s\n", report->text);
	for (uint32_t i = 0; i < report->site_count; i++) {
		uint32_t index = 0;

		output_say("  %s\n", report->sites[i].what);
		site_frames(report->sites[i].site, frame_print, &index);
	}
}

static void report_show(const struct report *report)
{
	shown_count++;
	if (output_is_sarif())
		sarif_result(report);
	else
		text_result(report);
	output_end();
}

void report_end(const struct report *report)
{
	check_depth++;
	/*
	 * Look up the sites before report_lock is locked, because that takes the loader's lock. A
	 * thread that unloads a library has the loader's lock, and may report.
	 */
	for (uint32_t i = 0; i < report->site_count; i++)
		site_look_up(report->sites[i].site);
	pthread_mutex_lock(&report_lock);
	if (report_is_new(report)) {
		if (report_is_suppressed(report))
			suppressed_count++;
		else
			report_show(report);
	}
	pthread_mutex_unlock(&report_lock);
	check_depth--;
}

uint32_t report_count(void)
{
	return shown_count;
}

static bool kind_is_known(const char *name)
{
	for (int i = 0; i < KIND_COUNT; i++)
		if (strcmp(kinds[i].name, name) == 0)
			return true;
	return strcmp(name, "*") == 0;
}

/* Read a line `KIND:TEXT`. Returns false if it is not such a line, or a word is too long. */
static bool suppression_read(char *line, struct suppression *suppression)
{
	size_t length = strlen(line);

	while (length > 0 && strchr(" \t\r\n", line[length - 1]))
		line[--length] = '\0';
	return length < WORD_BYTES &&
		sscanf(line, " %255[^: \t] : %255[^\n]", suppression->kind, suppression->text) ==
		2 &&
		kind_is_known(suppression->kind);
}

/*
 * Read a file of suppressions. Empty lines and lines that begin with # are ignored. Any other wrong
 * line is reported.
 */
static void suppressions_read(const char *path)
{
	FILE *file = fopen(path, "re");
	char line[2 * WORD_BYTES];
	uint32_t number = 0;

	if (!file) {
		fprintf(stderr, "urnic check: %s: %m\n", path);
		_exit(2);
	}
	suppressions = calloc(SUPPRESSION_COUNT_MAX, sizeof(*suppressions));
	while (suppressions && suppression_count < SUPPRESSION_COUNT_MAX &&
		fgets(line, sizeof(line), file)) {
		number++;
		if (line[strspn(line, " \t\r\n")] == '\0' || line[0] == '#')
			continue;
		if (suppression_read(line, &suppressions[suppression_count]))
			suppression_count++;
		else
			fprintf(stderr, "urnic check: %s:%u: no line KIND:TEXT with a known kind\n",
				path, number);
	}
	if (suppression_count == SUPPRESSION_COUNT_MAX)
		fprintf(stderr, "urnic check: %s:%u: no more than %d lines are read\n", path,
			number, SUPPRESSION_COUNT_MAX);
	fclose(file);
}

void report_start(const char *path, const char *suppressions_path)
{
	if (suppressions_path)
		suppressions_read(suppressions_path);
	if (path)
		output_open(path);
}

void report_inherit(void)
{
	pthread_mutex_init(&report_lock, NULL);
	shown_count = 0;
	suppressed_count = 0;
}

void report_finish(void)
{
	if (shown_count > 0 || suppressed_count > 0)
		dprintf(STDERR_FILENO, "urnic check[%d]: %u report%s, %u suppressed\n",
			(int)getpid(), shown_count, shown_count == 1 ? "" : "s", suppressed_count);
}
