/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A few words more than cJSON has.
 *
 * cJSON keeps numbers as doubles; counters are 64 bits wide. json_add_count() writes the digits as
 * they are. When memory runs out cJSON hands out NULL and takes it back: what was to be added is
 * missing, and json_print() of nothing fails.
 */
#ifndef TOOLS_JSON_H
#define TOOLS_JSON_H

#include <stdint.h>

#include <cjson/cJSON.h>

#include "base/gid.h"

/* A new, empty object at the end of a list; the list's. */
cJSON *json_append_object(cJSON *list);

/* A whole number, all 64 bits of it. */
void json_add_count(cJSON *object, const char *name, uint64_t value);

/* An address as people write it, without a scope. */
void json_add_gid(cJSON *object, const char *name, const struct gid *gid);

/* Print `root` on standard output and free it. Returns 0, or a negative errno. */
int json_print(cJSON *root);

#endif
