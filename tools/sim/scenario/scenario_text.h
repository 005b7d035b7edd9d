/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TOOLS_SCENARIO_TEXT_H
#define TOOLS_SCENARIO_TEXT_H

/*
 * A scenario as JSON, and complaints about it that name the file and the line.
 *
 * Each function that reads prints one sentence about the first fault that it finds, and returns
 * false.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>

struct scenario_text {
	const char *path;
	char *text;
	cJSON *root;
};

/* Read a file. The caller calls scenario_text_done() in any case. */
bool scenario_text_read(struct scenario_text *text, const char *path);
void scenario_text_done(struct scenario_text *text);

/* The path of a file that the scenario names: relative to the scenario's folder. */
bool scenario_join_path(
	const struct scenario_text *text, const char *name, char *path, size_t bytes);

/* Print "urnic: FILE:LINE: <message>" with the line of `item`. Returns false. */
bool scenario_refuse(const struct scenario_text *text, const cJSON *item, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* The member of an object with this name, or NULL. */
static inline const cJSON *scenario_member(const cJSON *object, const char *name)
{
	return cJSON_GetObjectItemCaseSensitive(object, name);
}

/*
 * A member of an object. A number is stored as a uint64_t at `offset`, multiplied by `scale`; it is
 * between `low` and `high`, and a whole number after the multiplication. Members of other kinds are
 * only known by their names.
 */
struct scenario_field {
	const char *name;
	size_t offset;
	double scale; /* 0: not a number */
	double low;
	double high;
};

#define SCENARIO_NUMBER(type, member, name, scale, low, high)  \
	{                                                      \
		name, offsetof(type, member), scale, low, high \
	}
#define SCENARIO_OTHER(name)     \
	{                        \
		name, 0, 0, 0, 0 \
	}

/*
 * Read the members of `object` into `target`. A number that the object lacks keeps its value in
 * `target`. `where` names the object in a complaint. Refuses a value that is no object, an unknown
 * name, a name twice, and a number out of range.
 */
bool scenario_read_object(const struct scenario_text *text, const cJSON *object, const char *where,
	const struct scenario_field *fields, uint32_t count, void *target);

/* The member `name`, a string; *ret_string is not changed when there is none. */
bool scenario_read_string(const struct scenario_text *text, const cJSON *object, const char *name,
	const char **ret_string);

/* The member `name`, true or false. */
bool scenario_read_bool(
	const struct scenario_text *text, const cJSON *object, const char *name, bool *ret_value);

/* The place of `word` in a list of words that ends with NULL. `what` names it in a complaint. */
bool scenario_read_word(const struct scenario_text *text, const cJSON *item, const char *what,
	const char *const *words, uint32_t *ret_place);

#endif
