/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What `urnic doctor` finds: a list of sentences, each with its check and a result.
 *
 * The names of checks and results are an interface (docs/schema/doctor.json): they may be added,
 * never renamed.
 */
#ifndef TOOLS_FINDINGS_H
#define TOOLS_FINDINGS_H

#include <stdbool.h>
#include <stdint.h>

enum finding_result {
	FINDING_OK, /* the check has succeeded */
	FINDING_NOTE, /* a fact; the user has nothing to do */
	FINDING_LIMITED, /* RDMA works; the sentence says what does not, and what to do */
	FINDING_FAILS, /* RDMA does not work; the sentence says what to do */
	FINDING_RESULTS,
};

enum { FINDING_SUBJECT_BYTES = 128, FINDING_SAYS_BYTES = 768 };

struct finding {
	const char *check;
	char subject[FINDING_SUBJECT_BYTES]; /* an interface, a system call ...; "": none */
	enum finding_result result;
	char says[FINDING_SAYS_BYTES];
};

struct findings {
	uint32_t count;
	struct finding *items;
	bool is_incomplete; /* there was no memory for a finding */
};

/*
 * Append a finding.
 *
 * `check`    A string that stays valid as long as the findings.
 * `subject`  NULL: none.
 *
 * Control characters in the texts are replaced, because other users may choose the names of
 * processes and interfaces.
 */
void finding_add(struct findings *findings, const char *check, const char *subject,
	enum finding_result result, const char *format, ...) __attribute__((format(printf, 5, 6)));

void findings_done(struct findings *findings);

/* How many findings have this result? */
uint32_t findings_count(const struct findings *findings, enum finding_result result);

/* The name of a result in JSON and in the text. */
const char *finding_result_name(enum finding_result result);

#endif
