/* SPDX-License-Identifier: BSD-2-Clause */
#include "sim/scenario/scenario_text.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/command.h"

enum { SCENARIO_BYTES_MAX = 16 << 20, MESSAGE_BYTES = 500 };

/* --- places in the text --- */

/* The number of values that precede `item` in the text: cJSON keeps their order. */
static bool value_count_before(const cJSON *at, const cJSON *item, uint32_t *count)
{
	for (; at; at = at->next) {
		if (at == item)
			return true;
		++*count;
		if (value_count_before(at->child, item, count))
			return true;
	}
	return false;
}

/* The place behind the string that begins at `at`. The text is well-formed. */
static const char *string_end(const char *at)
{
	for (at++; *at && *at != '"'; at++)
		if (*at == '\\' && at[1])
			at++;
	return *at ? at + 1 : at;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* Is the string that ends before `at` the name of a member? */
static bool is_name_end(const char *at)
{
	while (is_blank(*at))
		at++;
	return *at == ':';
}

/* The place of the value that has `count` values before it. */
static const char *value_find(const char *at, uint32_t count)
{
	while (*at) {
		const char *end = at + 1;
		bool is_value = *at == '{' || *at == '[';

		if (*at == '"') {
			end = string_end(at);
			is_value = !is_name_end(end);
		} else if (isalnum((unsigned char)*at) || *at == '-') {
			is_value = true;
			while (isalnum((unsigned char)*end) || (*end && strchr("+-.", *end)))
				end++;
		}
		if (is_value && !count--)
			return at;
		at = end;
	}
	return at;
}

static uint32_t line_of(const char *text, const char *at)
{
	uint32_t line = 1;

	for (; text < at; text++)
		line += *text == '\n';
	return line;
}

bool scenario_refuse(const struct scenario_text *text, const cJSON *item, const char *format, ...)
{
	char message[MESSAGE_BYTES];
	uint32_t count = 0;
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(message, sizeof(message), format, arguments);
	va_end(arguments);
	value_count_before(text->root, item, &count);
	complain("%s:%u: %s", text->path, line_of(text->text, value_find(text->text, count)),
		message);
	return false;
}

/* --- the file --- */

static bool file_read(struct scenario_text *text, FILE *file)
{
	size_t bytes = 0;

	text->text = (char *)malloc(SCENARIO_BYTES_MAX + 1);
	if (!text->text) {
		complain("no memory for %s", text->path);
		return false;
	}
	bytes = fread(text->text, 1, SCENARIO_BYTES_MAX, file);
	if (ferror(file)) {
		complain("%s: %s", text->path, strerror(errno));
		return false;
	}
	if (!feof(file)) {
		complain("%s: larger than %d MiB", text->path, SCENARIO_BYTES_MAX >> 20);
		return false;
	}
	text->text[bytes] = 0;
	if (strlen(text->text) != bytes) {
		complain("%s:%u: a zero byte", text->path,
			line_of(text->text, text->text + strlen(text->text)));
		return false;
	}
	return true;
}

bool scenario_text_read(struct scenario_text *text, const char *path)
{
	FILE *file = fopen(path, "re");
	const char *end = NULL;
	bool is_read;

	*text = (struct scenario_text){.path = path};
	if (!file) {
		complain("%s: %s", path, strerror(errno));
		return false;
	}
	is_read = file_read(text, file);
	fclose(file);
	if (!is_read)
		return false;
	text->root = cJSON_ParseWithOpts(text->text, &end, 1);
	if (!text->root)
		complain("%s:%u: this is not JSON", path, line_of(text->text, end));
	return text->root;
}

void scenario_text_done(struct scenario_text *text)
{
	cJSON_Delete(text->root);
	free(text->text);
	*text = (struct scenario_text){0};
}

bool scenario_join_path(
	const struct scenario_text *text, const char *name, char *path, size_t bytes)
{
	const char *end = strrchr(text->path, '/');
	int folder_bytes = name[0] != '/' && end ? (int)(end - text->path + 1) : 0;

	if ((size_t)snprintf(path, bytes, "%.*s%s", folder_bytes, text->path, name) < bytes)
		return true;
	complain("%s: the name is too long", name);
	return false;
}

/* --- members --- */

static const struct scenario_field *field_find(
	const struct scenario_field *fields, uint32_t count, const char *name)
{
	for (uint32_t i = 0; i < count; i++)
		if (strcmp(fields[i].name, name) == 0)
			return &fields[i];
	return NULL;
}

static bool name_refuse(const struct scenario_text *text, const cJSON *item, const char *where,
	const struct scenario_field *fields, uint32_t count)
{
	char names[MESSAGE_BYTES / 2] = "";
	size_t used = 0;

	for (uint32_t i = 0; i < count && used < sizeof(names); i++)
		used += (size_t)snprintf(
			names + used, sizeof(names) - used, "%s%s", i ? ", " : "", fields[i].name);
	return scenario_refuse(
		text, item, "unknown key \"%s\": %s has %s", item->string, where, names);
}

static bool number_read(const struct scenario_text *text, const cJSON *item,
	const struct scenario_field *field, void *target)
{
	double scaled = item->valuedouble * field->scale;
	uint64_t number;

	if (!cJSON_IsNumber(item))
		return scenario_refuse(text, item, "\"%s\" is not a number", field->name);
	if (!(item->valuedouble >= field->low && item->valuedouble <= field->high))
		return scenario_refuse(text, item, "\"%s\" is %.15g: it is from %.15g to %.15g",
			field->name, item->valuedouble, field->low, field->high);
	/* Decimal fractions are inexact, so take a product that is nearly whole for whole. */
	if (fabs(scaled - nearbyint(scaled)) > 1e-6)
		return scenario_refuse(text, item, "\"%s\" is %.15g: it is a multiple of %.15g",
			field->name, item->valuedouble, 1 / field->scale);
	number = (uint64_t)nearbyint(scaled);
	memcpy((char *)target + field->offset, &number, sizeof(number));
	return true;
}

bool scenario_read_object(const struct scenario_text *text, const cJSON *object, const char *where,
	const struct scenario_field *fields, uint32_t count, void *target)
{
	const cJSON *item;

	if (!cJSON_IsObject(object))
		return scenario_refuse(text, object, "%s is not an object", where);
	cJSON_ArrayForEach(item, object)
	{
		const struct scenario_field *field = field_find(fields, count, item->string);

		if (!field)
			return name_refuse(text, item, where, fields, count);
		for (const cJSON *other = object->child; other != item; other = other->next)
			if (strcmp(other->string, item->string) == 0)
				return scenario_refuse(
					text, item, "\"%s\" is there twice", item->string);
		if (field->scale != 0 && !number_read(text, item, field, target))
			return false;
	}
	return true;
}

bool scenario_read_string(const struct scenario_text *text, const cJSON *object, const char *name,
	const char **ret_string)
{
	const cJSON *item = scenario_member(object, name);

	if (!item)
		return true;
	if (!cJSON_IsString(item))
		return scenario_refuse(text, item, "\"%s\" is not a string", name);
	*ret_string = item->valuestring;
	return true;
}

bool scenario_read_bool(
	const struct scenario_text *text, const cJSON *object, const char *name, bool *ret_value)
{
	const cJSON *item = scenario_member(object, name);

	if (!item)
		return true;
	if (!cJSON_IsBool(item))
		return scenario_refuse(text, item, "\"%s\" is neither true nor false", name);
	*ret_value = cJSON_IsTrue(item);
	return true;
}

bool scenario_read_word(const struct scenario_text *text, const cJSON *item, const char *what,
	const char *const *words, uint32_t *ret_place)
{
	char known[MESSAGE_BYTES / 2] = "";
	size_t used = 0;

	if (!cJSON_IsString(item))
		return scenario_refuse(text, item, "%s is not a string", what);
	for (uint32_t i = 0; words[i]; i++) {
		if (strcmp(words[i], item->valuestring) == 0) {
			*ret_place = i;
			return true;
		}
		if (used < sizeof(known))
			used += (size_t)snprintf(known + used, sizeof(known) - used, "%s%s",
				i ? ", " : "", words[i]);
	}
	return scenario_refuse(
		text, item, "unknown %s \"%s\": there is %s", what, item->valuestring, known);
}
