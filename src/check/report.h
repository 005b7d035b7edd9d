/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reports: a kind, a sentence, and sites. Reports of one kind with the same first sites are made
 * only once. The text goes to standard error, or to the file of the setting (output.h); a file
 * whose name ends with .sarif has the format SARIF 2.1.0. A suppressed report is counted and not
 * shown.
 */
#ifndef URNIC_CHECK_REPORT_H
#define URNIC_CHECK_REPORT_H

#include <stdbool.h>
#include <stdint.h>

enum check_kind {
#define KIND(name, ...) KIND_##name,
#include "check/kind.def"
	KIND_COUNT,
};

enum { REPORT_SITES_MAX = 4, REPORT_TEXT_BYTES = 512 };

struct report {
	enum check_kind kind;
	char text[REPORT_TEXT_BYTES];
	uint32_t site_count;
	struct {
		const char *what; /* "posted at" */
		uint32_t site;
	} sites[REPORT_SITES_MAX];
};

const char *check_kind_name(enum check_kind kind);
const char *check_kind_sentence(enum check_kind kind);

void report_begin(struct report *report, enum check_kind kind);
void report_say(struct report *report, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Add a site, the most important first; SITE_NONE adds nothing. `what` is a literal. */
void report_site(struct report *report, const char *what, uint32_t site);

/* Show the report, unless it was shown before or is suppressed. check_lock is not locked. */
void report_end(const struct report *report);

/* The number of reports that were shown. */
uint32_t report_count(void);

/* Set where reports go (NULL: standard error), and read a file of suppressions (NULL: none). */
void report_start(const char *path, const char *suppressions);

/* The process is a forked child, with no report so far. */
void report_inherit(void);

/* Write the summary, at exit. */
void report_finish(void);

#endif
