/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Additions to cJSON.
 *
 * cJSON stores numbers as doubles, but counters have 64 bits; json_add_count() writes all digits.
 * When out of memory, cJSON's functions return NULL, and accept it as an argument. Then the output
 * lacks an item, or json_print() fails.
 */
#ifndef TOOLS_JSON_H
#define TOOLS_JSON_H

#include <stdint.h>

#include <cjson/cJSON.h>

#include "base/gid.h"

/* Append a new, empty object to a list, which owns it. */
cJSON *json_append_object(cJSON *list);

/* Add a whole number of 64 bits. */
void json_add_count(cJSON *object, const char *name, uint64_t value);

/* Add a text; null if it is NULL. */
void json_add_text(cJSON *object, const char *name, const char *text);

/* Add an address in its usual notation, without a scope. */
void json_add_gid(cJSON *object, const char *name, const struct gid *gid);

/*
 * Print `root` on standard output and free it. json_print_line() prints one line without blanks.
 * Both return 0, or a negative errno.
 */
int json_print(cJSON *root);
int json_print_line(cJSON *root);

#endif
