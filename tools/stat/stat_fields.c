/* SPDX-License-Identifier: BSD-2-Clause */
#include "stat/stat_fields.h"

#include <string.h>

#include "base/arith.h"

static const struct stat_field qp_fields[] = {
#define COUNTER(name, sentence) \
	{#name, sentence, offsetof(struct stat_qp, counters) + COUNTER_##name * sizeof(uint64_t)},
#include "lane/counter.def"
#undef COUNTER
};

static const struct stat_field lane_fields[] = {
#define DROP(name, sentence) \
	{#name, sentence, offsetof(struct stat_lane, drops) + DROP_##name * sizeof(uint64_t)},
#include "engine/drop.def"
#undef DROP
};

static const struct stat_field port_fields[] = {
#define COUNTER(name, sentence) {#name, sentence, offsetof(struct port_udp_counters, name)},
#include "port/udp/udp_counters.def"
#undef COUNTER
};

static const struct stat_field cm_fields[] = {
#define COUNTER(name, sentence) {#name, sentence, offsetof(struct cm_counters, name)},
#include "cm/cm_counter.def"
#undef COUNTER
};

static const struct stat_field urnicd_fields[] = {
#define COUNTER(name, sentence) {#name, sentence, offsetof(struct agent_counters, name)},
#include "agent/agent_counters.def"
#undef COUNTER
};

static const struct {
	const struct stat_field *fields;
	uint32_t count;
} families[STAT_FAMILIES] = {
	[STAT_QP] = {qp_fields, ARRAY_COUNT(qp_fields)},
	[STAT_LANE] = {lane_fields, ARRAY_COUNT(lane_fields)},
	[STAT_PORT] = {port_fields, ARRAY_COUNT(port_fields)},
	[STAT_CM] = {cm_fields, ARRAY_COUNT(cm_fields)},
	[STAT_URNICD] = {urnicd_fields, ARRAY_COUNT(urnicd_fields)},
};

const struct stat_field *stat_fields(enum stat_family family, uint32_t *ret_count)
{
	*ret_count = families[family].count;
	return families[family].fields;
}

bool stat_field_is_gauge(const struct stat_field *field)
{
	return strcmp(field->name, "claims_held") == 0 || strcmp(field->name, "channels_open") == 0;
}

static void lane_visit(
	struct stat_process *process, struct stat_lane *lane, stat_visit *visit, void *context)
{
	struct stat_object object = {.number = lane->index, .process = process};

	object.family = STAT_LANE;
	object.base = lane;
	visit(context, &object);
	object.family = STAT_PORT;
	object.base = &lane->port;
	visit(context, &object);
	object.family = STAT_QP;
	for (uint32_t i = 0; i < lane->qp_count; i++) {
		object.base = &lane->qps[i];
		object.number = lane->qps[i].qpn;
		object.qp = &lane->qps[i];
		visit(context, &object);
	}
}

static void process_visit(struct stat_process *process, stat_visit *visit, void *context)
{
	const struct stat_object cm = {
		.family = STAT_CM, .base = &process->memory.cm, .process = process};

	for (uint32_t i = 0; i < process->memory.lane_count; i++)
		lane_visit(process, &process->memory.lanes[i], visit, context);
	if (process->error == 0)
		visit(context, &cm);
}

void stat_each_object(struct stat_report *report, stat_visit *visit, void *context)
{
	const struct stat_object urnicd = {.family = STAT_URNICD, .base = &report->counters};

	for (uint32_t i = 0; i < report->process_count; i++)
		process_visit(&report->processes[i], visit, context);
	if (report->is_running)
		visit(context, &urnicd);
}

struct selection {
	enum stat_family family;
	stat_visit *visit;
	void *context;
};

static void selected_visit(void *context, const struct stat_object *object)
{
	const struct selection *selection = context;

	if (object->family == selection->family)
		selection->visit(selection->context, object);
}

void stat_each_of(
	struct stat_report *report, enum stat_family family, stat_visit *visit, void *context)
{
	struct selection selection = {family, visit, context};

	stat_each_object(report, selected_visit, &selection);
}
