/* SPDX-License-Identifier: BSD-2-Clause */
#include "stat/stat_diff.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cjson/cJSON.h>

#include "common/command.h"

enum { FILE_BYTES_MAX = 256 << 20 };

/* --- items --- */

static int items_compare(const void *a, const void *b)
{
	const struct baseline_item *x = a, *y = b;

	if (x->family != y->family)
		return x->family < y->family ? -1 : 1;
	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	if (x->number != y->number)
		return x->number < y->number ? -1 : 1;
	return x->field < y->field ? -1 : x->field > y->field;
}

static void items_sort(struct baseline *baseline)
{
	if (baseline->count > 0)
		qsort(baseline->items, baseline->count, sizeof(*baseline->items), items_compare);
}

static void item_add(struct baseline *baseline, const struct baseline_item *item)
{
	struct baseline_item *longer = baseline->items;

	/* If the count is 0 or a power of two, the array is full. */
	if ((baseline->count & (baseline->count - 1)) == 0)
		longer = reallocarray(
			longer, baseline->count ? 2 * (size_t)baseline->count : 1, sizeof(*longer));
	if (!longer) {
		baseline->is_incomplete = true;
		return;
	}
	baseline->items = longer;
	longer[baseline->count++] = *item;
}

void baseline_done(struct baseline *baseline)
{
	free(baseline->items);
	*baseline = (struct baseline){.count = 0};
}

static uint32_t pid_of(const struct stat_object *object)
{
	return object->process ? object->process->agent.pid : 0;
}

/* --- from a report --- */

static void object_add(void *context, const struct stat_object *object)
{
	uint32_t count;
	const struct stat_field *fields = stat_fields(object->family, &count);

	for (uint32_t i = 0; i < count; i++) {
		const struct baseline_item item = {object->family, pid_of(object), object->number,
			i, *stat_value(object, &fields[i])};

		item_add(context, &item);
	}
}

struct baseline baseline_of(struct stat_report *report)
{
	struct baseline baseline = {.count = 0};

	stat_each_object(report, object_add, &baseline);
	items_sort(&baseline);
	return baseline;
}

/* --- from a file --- */

/* The value of a member of an object; 0 if the member is no number. */
static uint64_t number_of(const cJSON *object, const char *name)
{
	const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);

	return cJSON_IsNumber(item) && item->valuedouble > 0 && item->valuedouble < 0x1p64
		? (uint64_t)item->valuedouble
		: 0;
}

static void counters_add(struct baseline *baseline, enum stat_family family, uint32_t pid,
	uint32_t number, const cJSON *object, const char *member)
{
	const cJSON *counters = cJSON_GetObjectItemCaseSensitive(object, member);
	uint32_t count;
	const struct stat_field *fields = stat_fields(family, &count);

	for (uint32_t i = 0; cJSON_IsObject(counters) && i < count; i++) {
		const struct baseline_item item = {
			family, pid, number, i, number_of(counters, fields[i].name)};

		item_add(baseline, &item);
	}
}

static void process_add(struct baseline *baseline, const cJSON *process)
{
	uint32_t pid = (uint32_t)number_of(process, "pid");
	const cJSON *item;

	cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(process, "lanes"))
	{
		uint32_t index = (uint32_t)number_of(item, "index");

		counters_add(baseline, STAT_LANE, pid, index, item, "counters");
		counters_add(baseline, STAT_PORT, pid, index, item, "port_counters");
	}
	cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(process, "queue_pairs"))
		counters_add(
			baseline, STAT_QP, pid, (uint32_t)number_of(item, "qpn"), item, "counters");
	counters_add(baseline, STAT_CM, pid, 0,
		cJSON_GetObjectItemCaseSensitive(process, "connection_manager"), "counters");
}

/* Read a whole file. Returns a string that the caller frees, or NULL with errno set. */
static char *file_read(const char *path)
{
	FILE *file = fopen(path, "re");
	char *text = NULL;
	size_t used = 0, room = 0;

	while (file && !ferror(file) && !feof(file) && used < FILE_BYTES_MAX) {
		if (room - used < 2) {
			char *longer = realloc(text, room = 2 * room + 65536);

			if (!longer)
				break;
			text = longer;
		}
		used += fread(text + used, 1, room - used - 1, file);
	}
	if (!file || ferror(file) || !feof(file)) {
		free(text);
		text = NULL;
	}
	if (file)
		fclose(file);
	if (text)
		text[used] = '\0';
	return text;
}

int baseline_read(const char *path, struct baseline *ret_baseline)
{
	struct baseline baseline = {.count = 0};
	char *text = file_read(path);
	cJSON *root = text ? cJSON_Parse(text) : NULL;
	const cJSON *processes = cJSON_GetObjectItemCaseSensitive(root, "processes"), *process;
	int result = 0;

	if (!text) {
		complain("stat: cannot read %s: %s", path, strerror(errno));
		result = -EIO;
	} else if (!cJSON_IsArray(processes)) {
		complain("stat: %s was not written by `urnic stat --json`", path);
		result = -EINVAL;
	}
	cJSON_ArrayForEach(process, processes) process_add(&baseline, process);
	if (result == 0)
		counters_add(&baseline, STAT_URNICD, 0, 0,
			cJSON_GetObjectItemCaseSensitive(root, "urnicd"), "counters");
	cJSON_Delete(root);
	free(text);
	if (baseline.is_incomplete) {
		complain("stat: no memory for the counters of %s", path);
		result = -ENOMEM;
	}
	items_sort(&baseline);
	*ret_baseline = baseline;
	return result;
}

/* --- the difference --- */

static void object_subtract(void *context, const struct stat_object *object)
{
	const struct baseline *baseline = context;
	uint32_t count;
	const struct stat_field *fields = stat_fields(object->family, &count);

	for (uint32_t i = 0; i < count && baseline->count > 0; i++) {
		const struct baseline_item key = {
			object->family, pid_of(object), object->number, i, 0};
		const struct baseline_item *before =
			bsearch(&key, baseline->items, baseline->count, sizeof(key), items_compare);
		uint64_t *value = stat_value(object, &fields[i]);

		if (before && before->value <= *value && !stat_field_is_gauge(&fields[i]))
			*value -= before->value;
	}
}

void baseline_subtract(const struct baseline *baseline, struct stat_report *report)
{
	stat_each_object(report, object_subtract, (void *)baseline);
}
