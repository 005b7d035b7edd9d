/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The counters of a report, one by one. A report has objects of five families; all objects of a
 * family have the same fields.
 */
#ifndef TOOLS_STAT_FIELDS_H
#define TOOLS_STAT_FIELDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stat/stat.h"

enum stat_family { STAT_QP, STAT_LANE, STAT_PORT, STAT_CM, STAT_URNICD, STAT_FAMILIES };

/* A counter of each object of a family. */
struct stat_field {
	const char *name;
	const char *sentence;
	size_t offset; /* of the uint64_t in stat_object.base */
};

/* An object of a report. The report owns what the pointers lead to. */
struct stat_object {
	enum stat_family family;
	void *base;
	uint32_t number; /* of the queue pair or the lane; else 0 */
	const struct stat_process *process; /* NULL for urnicd */
	const struct stat_qp *qp; /* NULL for other families */
};

/* Is the field a gauge of urnicd, which may also fall, and no counter? */
bool stat_field_is_gauge(const struct stat_field *field);

/* The fields of a family, in the order of its table. */
const struct stat_field *stat_fields(enum stat_family family, uint32_t *ret_count);

static inline uint64_t *stat_value(const struct stat_object *object, const struct stat_field *field)
{
	return (uint64_t *)(void *)((char *)object->base + field->offset);
}

typedef void stat_visit(void *context, const struct stat_object *object);

/* Visit all objects, or those of one family. Visitors may change the counters. */
void stat_each_object(struct stat_report *report, stat_visit *visit, void *context);
void stat_each_of(
	struct stat_report *report, enum stat_family family, stat_visit *visit, void *context);

#endif
