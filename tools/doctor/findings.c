/* SPDX-License-Identifier: BSD-2-Clause */
#include "doctor/findings.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/text.h"

void finding_add(struct findings *findings, const char *check, const char *subject,
	enum finding_result result, const char *format, ...)
{
	struct finding *longer =
		reallocarray(findings->items, findings->count + 1, sizeof(*longer));
	struct finding *finding;
	va_list arguments;

	if (!longer) {
		findings->is_incomplete = true;
		return;
	}
	findings->items = longer;
	finding = &longer[findings->count++];
	finding->check = check;
	finding->result = result;
	snprintf(finding->subject, sizeof(finding->subject), "%s", subject ? subject : "");
	va_start(arguments, format);
	vsnprintf(finding->says, sizeof(finding->says), format, arguments);
	va_end(arguments);
	text_make_printable(finding->subject);
	text_make_printable(finding->says);
}

void findings_done(struct findings *findings)
{
	free(findings->items);
}

uint32_t findings_count(const struct findings *findings, enum finding_result result)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < findings->count; i++)
		count += findings->items[i].result == result;
	return count;
}

const char *finding_result_name(enum finding_result result)
{
	static const char *const names[FINDING_RESULTS] = {
		[FINDING_OK] = "ok",
		[FINDING_NOTE] = "note",
		[FINDING_LIMITED] = "limited",
		[FINDING_FAILS] = "fails",
	};

	return names[result];
}
