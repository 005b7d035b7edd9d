/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * urnic stat --format prometheus: the text exposition format, version 0.0.4. All samples of a
 * metric stand together. Names of metrics and labels are an interface: they may be added, never
 * renamed.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/arith.h"
#include "stat/stat_fields.h"

static const char *const family_names[STAT_FAMILIES] = {
	[STAT_QP] = "queue_pair",
	[STAT_LANE] = "lane",
	[STAT_PORT] = "port",
	[STAT_CM] = "connection_manager",
	[STAT_URNICD] = "urnicd",
};

/* Print a label; control characters have been replaced. */
static void label_print(const char *before, const char *name, const char *value)
{
	printf("%s%s=\"", before, name);
	for (; *value; value++) {
		if (*value == '\\' || *value == '"')
			putchar('\\');
		putchar(*value);
	}
	putchar('"');
}

static void labels_print(const struct stat_report *report, const struct stat_object *object)
{
	char text[IF_NAMESIZE];

	if (!object->process)
		return;
	printf("{pid=\"%u\"", object->process->agent.pid);
	label_print(",", "command", object->process->agent.comm);
	if (object->family == STAT_LANE || object->family == STAT_PORT)
		printf(",lane=\"%u\"", object->number);
	if (object->qp) {
		printf(",qpn=\"%u\",type=\"%s\"", object->number,
			stat_qp_type_name(object->qp->type));
		label_print(",", "device", stat_device_name(report, object->qp->ifindex, text));
	}
	putchar('}');
}

/* Print the two lines with which a metric begins. */
static void metric_print(const char *family, const char *name, const char *suffix, const char *type,
	const char *sentence)
{
	printf("# HELP urnic_%s_%s%s %s\n", family, name, suffix, sentence);
	printf("# TYPE urnic_%s_%s%s %s\n", family, name, suffix, type);
}

struct sample {
	const struct stat_report *report;
	const struct stat_field *field;
	const char *suffix;
};

static void sample_print(void *context, const struct stat_object *object)
{
	const struct sample *sample = context;

	printf("urnic_%s_%s%s", family_names[object->family], sample->field->name, sample->suffix);
	labels_print(sample->report, object);
	printf(" %" PRIu64 "\n", *stat_value(object, sample->field));
}

static void family_print(struct stat_report *report, enum stat_family family)
{
	uint32_t count;
	const struct stat_field *fields = stat_fields(family, &count);

	for (uint32_t i = 0; i < count; i++) {
		bool falls = stat_field_is_gauge(&fields[i]);
		struct sample sample = {report, &fields[i], falls ? "" : "_total"};

		metric_print(family_names[family], fields[i].name, sample.suffix,
			falls ? "gauge" : "counter", fields[i].sentence);
		stat_each_of(report, family, sample_print, &sample);
	}
}

static void waiting_print(void *context, const struct stat_object *object)
{
	const struct sample *sample = context;
	bool is_send = strcmp(sample->suffix, "send") == 0;
	const struct stat_queue *queue =
		is_send ? &object->qp->send_queue : &object->qp->recv_queue;

	if (!queue->is_known)
		return;
	printf("urnic_queue_pair_%ss_waiting", sample->suffix);
	labels_print(sample->report, object);
	printf(" %u\n", queue->waiting);
}

static void queues_print(struct stat_report *report)
{
	struct sample sends = {report, NULL, "send"}, receives = {report, NULL, "receive"};

	metric_print("queue_pair", "sends_waiting", "", "gauge", "send requests not completed yet");
	stat_each_of(report, STAT_QP, waiting_print, &sends);
	metric_print("queue_pair", "receives_waiting", "", "gauge",
		"receive requests that wait for a message");
	stat_each_of(report, STAT_QP, waiting_print, &receives);
}

static void memory_regions_print(struct stat_report *report)
{
	metric_print("process", "memory_regions", "", "gauge", "memory regions registered");
	for (uint32_t i = 0; i < report->process_count; i++) {
		const struct stat_object object = {
			.family = STAT_CM, .process = &report->processes[i]};

		printf("urnic_process_memory_regions");
		labels_print(report, &object);
		printf(" %u\n", report->processes[i].memory.mr_count);
	}
}

void stat_print_prometheus(struct stat_report *report)
{
	metric_print("urnicd", "up", "", "gauge", "1 if urnicd runs in this network namespace");
	printf("urnic_urnicd_up %d\n", report->is_running);
	memory_regions_print(report);
	queues_print(report);
	for (int family = 0; family < STAT_FAMILIES; family++)
		family_print(report, (enum stat_family)family);
}
