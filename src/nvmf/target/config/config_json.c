/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nvmf/target/config/config.h"
#include "nvmf/target/config/config_json.h"

static __attribute__((format(printf, 3, 0))) bool refuse_at(
	struct config_reader *reader, size_t position, const char *format, va_list arguments)
{
	unsigned line = 1, column = 1;
	int used;

	for (size_t i = 0; i < position && i < reader->bytes; i++) {
		column++;
		if (reader->text[i] == '\n') {
			line++;
			column = 1;
		}
	}
	used = snprintf(reader->sentence, CONFIG_SENTENCE_BYTES, "%u:%u: ", line, column);
	vsnprintf(reader->sentence + used, CONFIG_SENTENCE_BYTES - (size_t)used, format, arguments);
	reader->error = -EINVAL;
	return false;
}

bool config_refuse_at(struct config_reader *reader, size_t position, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	refuse_at(reader, position, format, arguments);
	va_end(arguments);
	return false;
}

bool config_refuse_memory(struct config_reader *reader)
{
	snprintf(reader->sentence, CONFIG_SENTENCE_BYTES, "1:1: no memory for the description");
	reader->error = -ENOMEM;
	return false;
}

/* Count the nodes before `node` in the order of the text. Returns whether `node` was found. */
static bool count_nodes(const cJSON *from, const cJSON *node, size_t *count)
{
	for (; from; from = from->next) {
		if (from == node)
			return true;
		(*count)++;
		if (from->child && count_nodes(from->child, node, count))
			return true;
	}
	return false;
}

static size_t skip_space(const struct config_reader *reader, size_t at)
{
	while (at < reader->bytes && (unsigned char)reader->text[at] <= ' ')
		at++;
	return at;
}

/* `at` is the opening quotation mark of a string. Returns the index after the closing one. */
static size_t skip_string(const struct config_reader *reader, size_t at)
{
	for (at++; at < reader->bytes && reader->text[at] != '"'; at++) {
		if (reader->text[at] == '\\')
			at++;
	}
	return at + 1;
}

/*
 * Find where a node begins in the text. cJSON keeps no positions, so count the values in the text,
 * which is valid JSON: a string before a colon is a key; every other token that is not punctuation
 * begins a value.
 */
static size_t find_position(const struct config_reader *reader, size_t nodes_before)
{
	size_t at = 0;

	if (reader->bytes >= 3 && memcmp(reader->text, "\xef\xbb\xbf", 3) == 0)
		at = 3;
	while ((at = skip_space(reader, at)) < reader->bytes) {
		size_t begin = at;
		char c = reader->text[at];

		if (c && strchr(",:]}", c)) {
			at++;
			continue;
		}
		if (c == '"') {
			size_t end = skip_string(reader, at);

			at = skip_space(reader, end);
			if (at < reader->bytes && reader->text[at] == ':')
				continue;
		} else if (c == '{' || c == '[') {
			at++;
		} else {
			while (at < reader->bytes && (unsigned char)reader->text[at] > ' ' &&
				!strchr(",]}", reader->text[at]))
				at++;
		}
		if (nodes_before-- == 0)
			return begin;
	}
	return reader->bytes;
}

bool config_refuse(struct config_reader *reader, const cJSON *node, const char *format, ...)
{
	size_t nodes_before = 0;
	va_list arguments;

	count_nodes(reader->root, node, &nodes_before);
	va_start(arguments, format);
	refuse_at(reader, find_position(reader, nodes_before), format, arguments);
	va_end(arguments);
	return false;
}

/* Check that each key of the object is known and occurs once. */
static bool check_keys(struct config_reader *reader, const cJSON *node, const char *what,
	const struct config_field *fields, size_t count)
{
	const cJSON *child;

	cJSON_ArrayForEach(child, node)
	{
		size_t row = 0;

		while (row < count && strcmp(fields[row].key, child->string) != 0)
			row++;
		if (row == count)
			return config_refuse(reader, child,
				"\"%.60s\" is no setting of %s; correct or remove it",
				child->string, what);
		if (cJSON_GetObjectItemCaseSensitive(node, child->string) != child)
			return config_refuse(reader, child,
				"\"%.60s\" is there twice; remove one of them", child->string);
	}
	return true;
}

bool config_read_object(struct config_reader *reader, const cJSON *node, const char *what,
	const struct config_field *fields, size_t count, void *object)
{
	if (!cJSON_IsObject(node))
		return config_refuse(reader, node, "%s is an object in braces", what);
	if (!check_keys(reader, node, what, fields, count))
		return false;
	for (size_t row = 0; row < count; row++) {
		const cJSON *child = cJSON_GetObjectItemCaseSensitive(node, fields[row].key);

		if (!child && fields[row].is_required)
			return config_refuse(
				reader, node, "%s needs \"%s\"; add it", what, fields[row].key);
		if (child &&
			!fields[row].read(
				reader, child, &fields[row], (char *)object + fields[row].offset))
			return false;
	}
	return true;
}

bool config_read_array(struct config_reader *reader, const cJSON *node, size_t element_bytes,
	void **ret_array, size_t *ret_count,
	bool (*read)(struct config_reader *reader, const cJSON *node, void *object, size_t index),
	void *object)
{
	const cJSON *child;
	size_t count = 0;

	if (!cJSON_IsArray(node))
		return config_refuse(
			reader, node, "\"%s\" is a list in square brackets", node->string);
	cJSON_ArrayForEach(child, node) count++;
	if (count == 0)
		return true;
	*ret_array = calloc(count, element_bytes);
	if (!*ret_array)
		return config_refuse_memory(reader);
	*ret_count = count;
	count = 0;
	cJSON_ArrayForEach(child, node)
	{
		if (!read(reader, child, object, count++))
			return false;
	}
	return true;
}

bool config_read_text(struct config_reader *reader, const cJSON *node,
	const struct config_field *field, void *place)
{
	size_t bytes;

	if (!cJSON_IsString(node))
		return config_refuse(
			reader, node, "\"%s\" is a text in quotation marks", field->key);
	bytes = strlen(node->valuestring);
	if (bytes < field->min)
		return config_refuse(reader, node, "\"%s\" is empty; give it a value", field->key);
	if (bytes > field->max)
		return config_refuse(reader, node, "\"%s\" has at most %llu bytes, not %zu",
			field->key, (unsigned long long)field->max, bytes);
	memcpy(place, node->valuestring, bytes + 1);
	return true;
}

/* Read a JSON number, or a string of digits. */
static bool number_of(const cJSON *node, uint64_t *ret_value)
{
	char *end;

	if (cJSON_IsNumber(node)) {
		double value = node->valuedouble;

		/* A double represents each integer up to 2^53 exactly. */
		if (!(value >= 0 && value <= 9007199254740992.0) ||
			value != (double)(uint64_t)value)
			return false;
		*ret_value = (uint64_t)value;
		return true;
	}
	if (!cJSON_IsString(node) || node->valuestring[0] < '0' || node->valuestring[0] > '9')
		return false;
	errno = 0;
	*ret_value = strtoull(node->valuestring, &end, 10);
	return errno == 0 && *end == '\0';
}

bool config_read_number(struct config_reader *reader, const cJSON *node,
	const struct config_field *field, void *place)
{
	uint64_t value;

	if (!number_of(node, &value) || value < field->min || value > field->max)
		return config_refuse(reader, node, "\"%s\" is a number from %llu to %llu",
			field->key, (unsigned long long)field->min, (unsigned long long)field->max);
	*(uint32_t *)place = (uint32_t)value;
	return true;
}

bool config_read_flag(struct config_reader *reader, const cJSON *node,
	const struct config_field *field, void *place)
{
	uint64_t value;

	if (cJSON_IsBool(node))
		value = cJSON_IsTrue(node);
	else if (!number_of(node, &value) || value > 1)
		return config_refuse(reader, node, "\"%s\" is 0 or 1", field->key);
	*(bool *)place = value == 1;
	return true;
}

bool config_read_ignored(struct config_reader *reader, const cJSON *node,
	const struct config_field *field, void *place)
{
	(void)reader, (void)node, (void)field, (void)place;
	return true;
}
