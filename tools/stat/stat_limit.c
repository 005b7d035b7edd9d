/* SPDX-License-Identifier: BSD-2-Clause */
#include "stat/stat_limit.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/command.h"
#include "stat/stat_fields.h"

static const struct stat_field *field_find(enum stat_family family, const char *name)
{
	uint32_t count;
	const struct stat_field *fields = stat_fields(family, &count);

	for (uint32_t i = 0; i < count; i++)
		if (strcmp(fields[i].name, name) == 0)
			return &fields[i];
	return NULL;
}

static bool is_counter(const char *name)
{
	for (int family = 0; family < STAT_FAMILIES; family++)
		if (field_find((enum stat_family)family, name))
			return true;
	return false;
}

/* Parse the whole text as a decimal number of 64 bits. */
static bool number_parse(const char *text, uint64_t *ret_number)
{
	char *end;

	if (text[0] < '0' || text[0] > '9')
		return false;
	errno = 0;
	*ret_number = strtoull(text, &end, 10);
	return errno == 0 && *end == '\0';
}

int stat_limit_parse(const char *text, struct stat_limit *ret_limit)
{
	struct stat_limit limit = {.is_less = false};
	const char *sign = strpbrk(text, "<>");
	size_t bytes = sign ? (size_t)(sign - text) : 0;

	while (bytes > 0 && text[bytes - 1] == ' ')
		bytes--;
	if (bytes == 0 || bytes >= sizeof(limit.name) ||
		!number_parse(sign + 1 + strspn(sign + 1, " "), &limit.number)) {
		complain("stat: --fail-if must be COUNTER>N or COUNTER<N, not '%s'", text);
		return -EINVAL;
	}
	memcpy(limit.name, text, bytes);
	limit.is_less = *sign == '<';
	if (!is_counter(limit.name)) {
		complain("stat: there is no counter '%s'; urnic explain lists them", limit.name);
		return -EINVAL;
	}
	*ret_limit = limit;
	return 0;
}

struct sum {
	const char *name;
	uint64_t total;
};

static void sum_object(void *context, const struct stat_object *object)
{
	struct sum *sum = context;
	const struct stat_field *field = field_find(object->family, sum->name);

	if (field)
		sum->total += *stat_value(object, field);
}

bool stat_limit_check(const struct stat_limit *limit, struct stat_report *report)
{
	struct sum sum = {.name = limit->name};

	stat_each_object(report, sum_object, &sum);
	if (limit->is_less ? sum.total >= limit->number : sum.total <= limit->number)
		return true;
	complain("stat: %s is %" PRIu64 ", %s than %" PRIu64
		 "; urnic explain %s says what it counts",
		limit->name, sum.total, limit->is_less ? "less" : "more", limit->number,
		limit->name);
	return false;
}
