/* SPDX-License-Identifier: BSD-2-Clause */
/* The words that are explained: rows of the tables that the NIC itself uses. */
#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/arith.h"
#include "base/text.h"
#include "explain/explain.h"
#include "front/verbs/abi.h"
#include "queue/completion.h"

#define STATUS_PREFIX "IBV_WC_"
#define EVENT_PREFIX  "RDMA_CM_EVENT_"

enum { COLUMNS_MAX = 96, INDENT = 4 };

const struct topic topics[] = {
/* clang-format off */
#define COUNTER(counter, text) {.kind = TOPIC_QP_COUNTER, .name = #counter, .sentence = text},
#include "lane/counter.def"
#undef COUNTER
#define DROP(drop, text) {.kind = TOPIC_LANE_COUNTER, .name = #drop, .sentence = text},
#include "engine/drop.def"
#undef DROP
#define COUNTER(counter, text) {.kind = TOPIC_PORT_COUNTER, .name = #counter, .sentence = text},
#include "port/udp/udp_counters.def"
#undef COUNTER
#define COUNTER(counter, text) {.kind = TOPIC_CM_COUNTER, .name = #counter, .sentence = text},
#include "cm/cm_counter.def"
#undef COUNTER
#define COUNTER(counter, text) {.kind = TOPIC_URNICD_COUNTER, .name = #counter, .sentence = text},
#include "agent/agent_counters.def"
#undef COUNTER
#define PARAMETER(parameter, lowest, highest, sigcomm15, ms_ns3, cx4, unit_text, text) \
	{.kind = TOPIC_CC_PARAMETER, .name = #parameter, \
		.sentence = text " (" #lowest " to " #highest "; sigcomm15 " #sigcomm15 ", ms-ns3 " \
			#ms_ns3 ", cx4+ " #cx4 ")", .unit = unit_text},
#include "congestion/parameter.def"
#undef PARAMETER
#define STATUS(status_name, text, look_at) \
	{.kind = TOPIC_STATUS, .number = WC_##status_name, .name = #status_name, .sentence = text, \
		.look = look_at},
#include "explain/wc_status.def"
#undef STATUS
#define FAULT(fault, code, status_name, text, facts, section, where, remedy) \
	{.kind = TOPIC_FAULT, .number = (code), .status = WC_##status_name, .name = #fault, \
		.sentence = text, .clause = section, .look = where, .fix = remedy},
#define REFUSED(refused, code, text, facts, section, where, remedy) \
	{.kind = TOPIC_REFUSED, .number = (code), .name = #refused, .sentence = text, \
		.clause = section, .look = where, .fix = remedy},
#define CALL(call, code, errnum, text, facts, section, where, remedy) \
	{.kind = TOPIC_CALL, .number = (code), .name = #call, .sentence = text, \
		.clause = section, .look = where, .fix = remedy},
#define CONNECT(connect, code, text, facts, section, where, remedy) \
	{.kind = TOPIC_CONNECT, .number = (code), .name = #connect, .sentence = text, \
		.clause = section, .look = where, .fix = remedy},
#include "queue/reason.def"
	/* clang-format on */
};

const int topic_count = ARRAY_COUNT(topics);

#define STATUS(name, sentence, advice) static_assert((int)WC_##name == (int)IBV_WC_##name, #name);
#include "explain/wc_status.def"
#undef STATUS

const char *status_name(unsigned number)
{
	for (int i = 0; i < topic_count; i++) {
		if (topics[i].kind == TOPIC_STATUS && topics[i].number == number)
			return topics[i].name;
	}
	return "?";
}

static void heading_print(const struct topic *topic)
{
	switch (topic->kind) {
	case TOPIC_QP_COUNTER:
		printf("%s (counter of a queue pair)\n", topic->name);
		break;
	case TOPIC_LANE_COUNTER:
		printf("%s (counter of a lane)\n", topic->name);
		break;
	case TOPIC_PORT_COUNTER:
		printf("%s (counter of a lane's UDP port)\n", topic->name);
		break;
	case TOPIC_CM_COUNTER:
		printf("%s (counter of a connection manager)\n", topic->name);
		break;
	case TOPIC_URNICD_COUNTER:
		printf("%s (counter of urnicd)\n", topic->name);
		break;
	case TOPIC_CC_PARAMETER:
		printf("%s (parameter of congestion control%s%s)\n", topic->name,
			topic->unit[0] ? ", in " : "", topic->unit);
		break;
	case TOPIC_STATUS:
		printf(STATUS_PREFIX "%s (completion status %u, \"%s\")\n", topic->name,
			topic->number, ibv_wc_status_str((enum ibv_wc_status)topic->number));
		break;
	case TOPIC_FAULT:
		printf("%s (vendor_err %u of " STATUS_PREFIX "%s)\n", topic->name, topic->number,
			status_name(topic->status));
		break;
	case TOPIC_REFUSED:
		printf("%s (a request of the peer that is refused here)\n", topic->name);
		break;
	case TOPIC_CALL:
		printf("%s (a call that fails)\n", topic->name);
		break;
	case TOPIC_CONNECT:
		printf("%s (a connection that fails)\n", topic->name);
		break;
	}
}

void paragraph_print(unsigned indent, const char *label, const char *text)
{
	unsigned column = indent + (unsigned)strlen(label);
	bool is_first = true;

	if (!text)
		return;
	printf("%*s%s", (int)indent, "", label);
	while (*text) {
		unsigned bytes = (unsigned)strcspn(text, " ");

		if (!is_first && column + 1 + bytes > COLUMNS_MAX) {
			printf("\n%*s", (int)indent + 2, "");
			column = indent + 2;
		} else if (!is_first) {
			printf(" ");
			column++;
		}
		printf("%.*s", (int)bytes, text);
		column += bytes;
		is_first = false;
		text += bytes + (text[bytes] == ' ');
	}
	printf("\n");
}

void advice_print(const char *clause, const char *look, const char *fix)
{
	paragraph_print(INDENT, "check: ", clause);
	paragraph_print(INDENT, "look at: ", look);
	paragraph_print(INDENT, "what works: ", fix);
}

void topic_print(const struct topic *topic)
{
	heading_print(topic);
	paragraph_print(INDENT, "", topic->sentence);
	advice_print(topic->clause, topic->look, topic->fix);
}

static const char *const kind_names[] = {
	[TOPIC_QP_COUNTER] = "queue pair counter",
	[TOPIC_LANE_COUNTER] = "lane counter",
	[TOPIC_PORT_COUNTER] = "port counter",
	[TOPIC_CM_COUNTER] = "connection manager counter",
	[TOPIC_URNICD_COUNTER] = "urnicd counter",
	[TOPIC_CC_PARAMETER] = "congestion control parameter",
	[TOPIC_STATUS] = "status",
	[TOPIC_FAULT] = "fault",
	[TOPIC_REFUSED] = "refused request",
	[TOPIC_CALL] = "call",
	[TOPIC_CONNECT] = "connection",
};

void topic_add(cJSON *list, const struct topic *topic)
{
	cJSON *object = json_append_object(list);

	cJSON_AddStringToObject(object, "kind", kind_names[topic->kind]);
	cJSON_AddStringToObject(object, "name", topic->name);
	if (topic->kind >= TOPIC_STATUS)
		json_add_count(object, "number", topic->number);
	else
		cJSON_AddNullToObject(object, "number");
	json_add_text(
		object, "status", topic->kind == TOPIC_FAULT ? status_name(topic->status) : NULL);
	cJSON_AddStringToObject(object, "sentence", topic->sentence);
	json_add_text(object, "check", topic->clause);
	json_add_text(object, "look_at", topic->look);
	json_add_text(object, "what_works", topic->fix);
}

/* May a call of libibverbs or librdmacm fail for this reason? */
static bool is_reason_of_call(const char *reason, const char *word)
{
	static const struct {
		const char *call;
		const char *reason;
	} refusals[] = {
#define REFUSAL(name, cause) {#name, #cause},
#include "queue/refusal.def"
#include "queue/refusal_cm.def"
#undef REFUSAL
	};

	for (size_t i = 0; i < ARRAY_COUNT(refusals); i++)
		if (strcmp(refusals[i].call, word) == 0 && strcmp(refusals[i].reason, reason) == 0)
			return true;
	return false;
}

/* May an event of rdma_cm have an error for this reason? */
static bool is_reason_of_event(const char *reason, const char *word)
{
	static const struct {
		const char *event;
		const char *reason;
	} causes[] = {
#define EVENT_CAUSE(name, type, status, cause, why) {EVENT_PREFIX #type, #cause},
#include "queue/event_cause.def"
#undef EVENT_CAUSE
	};

	for (size_t i = 0; i < ARRAY_COUNT(causes); i++)
		if (strcasecmp(causes[i].event, word) == 0 && strcmp(causes[i].reason, reason) == 0)
			return true;
	return false;
}

bool topic_is_named(const struct topic *topic, const char *word)
{
	uint32_t number;

	if (text_number_or_hex(word, 0, UINT32_MAX, &number))
		return topic->kind >= TOPIC_STATUS && topic->number == number;
	if (topic->kind == TOPIC_CALL && is_reason_of_call(topic->name, word))
		return true;
	if (topic->kind >= TOPIC_CALL && is_reason_of_event(topic->name, word))
		return true;
	if (topic->kind == TOPIC_STATUS) {
		if (strncasecmp(word, STATUS_PREFIX, strlen(STATUS_PREFIX)) == 0)
			word += strlen(STATUS_PREFIX);
		if (strcasecmp(word, ibv_wc_status_str((enum ibv_wc_status)topic->number)) == 0)
			return true;
	}
	return strcasecmp(word, topic->name) == 0;
}

bool topic_has_part(const struct topic *topic, const char *word)
{
	return strcasestr(topic->name, word) != NULL;
}
