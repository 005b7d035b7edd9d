/* SPDX-License-Identifier: BSD-2-Clause */
#include "check/model/object.h"

#include <stdlib.h>
#include <string.h>

#include "check/check.h"
#include "check/model/protect.h"
#include "check/report.h"
#include "check/site.h"
#include "check/table.h"

static struct table objects;

const char *object_kind_name(enum object_kind kind)
{
	static const char *const names[OBJECT_KIND_COUNT] = {
		[OBJECT_DEVICE] = "device context",
		[OBJECT_PD] = "protection domain",
		[OBJECT_MR] = "memory region",
		[OBJECT_CQ] = "completion queue",
		[OBJECT_QP] = "queue pair",
		[OBJECT_SRQ] = "shared receive queue",
		[OBJECT_AH] = "address handle",
		[OBJECT_CHANNEL] = "completion channel",
	};

	return names[kind];
}

void *object_record(enum object_kind kind, const void *pointer, size_t bytes)
{
	struct object *object = object_find(pointer);

	if (!object || object->kind != kind || object->is_live || !object->record)
		return calloc(1, bytes);
	return memset(object->record, 0, bytes);
}

struct object *object_add(enum object_kind kind, const void *pointer, void *record, uint32_t site)
{
	bool is_library = site_is_library(site);
	struct object *object;

	pthread_mutex_lock(&check_lock);
	object = table_find(&objects, (uintptr_t)pointer);
	if (!object && (object = calloc(1, sizeof(*object))))
		table_set(&objects, (uintptr_t)pointer, object);
	if (object) {
		object->pointer = pointer;
		object->kind = kind;
		object->record = record;
		object->site_made = site;
		object->site_destroyed = SITE_NONE;
		object->is_inherited = false;
		object->is_library = is_library;
		object->is_live = true;
	}
	pthread_mutex_unlock(&check_lock);
	return object;
}

struct object *object_find(const void *pointer)
{
	return table_find(&objects, (uintptr_t)pointer);
}

bool object_use(const void *pointer, enum object_kind kind, const char *call, uint32_t site)
{
	struct object *object = object_find(pointer);
	struct report report;

	if (!object || object->kind != kind || (object->is_live && !object->is_inherited))
		return true;
	report_begin(&report, object->is_live ? KIND_OBJECT_INHERITED : KIND_OBJECT_DESTROYED);
	report_say(&report, "%s() uses %s %p, which %s", call, object_kind_name(kind), pointer,
		object->is_live ? "belongs to the process that forked this one" : "was destroyed");
	report_site(&report, "used at", site);
	if (!object->is_live)
		report_site(&report, "destroyed at", object->site_destroyed);
	report_site(&report, "made at", object->site_made);
	report_end(&report);
	return false;
}

void objects_inherit(void)
{
	struct object *object;

	protect_inherit();
	for (uint32_t i = 0; (object = table_next(&objects, &i));)
		object->is_inherited = object->is_live;
}

void object_remove(const void *pointer, uint32_t site)
{
	struct object *object = object_find(pointer);

	if (!object)
		return;
	object->site_destroyed = site;
	object->is_live = false;
}

struct object *object_next(uint32_t *i)
{
	struct object *object;

	while ((object = table_next(&objects, i)))
		if (object->is_live && !object->is_inherited && !object->is_library)
			return object;
	return NULL;
}

struct context_record *context_of(const struct ibv_context *context)
{
	struct object *object = object_find(context);

	return object && object->kind == OBJECT_DEVICE ? object->record : NULL;
}
