/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * urnic explain: the meaning of counters, and reasons of failed requests. The sentences are those
 * of the tables that the NIC itself uses.
 */
#include <assert.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"
#include "common/command.h"
#include "front/verbs/abi.h"
#include "queue/completion.h"

const char command_explain_help[] =
	"usage: urnic explain [WORD...]\n"
	"\n"
	"Says in a sentence what a counter of `urnic stat` counts, what a parameter of congestion\n"
	"control is, or what a failed completion means and what to check. Without a WORD it explains\n"
	"everything.\n"
	"\n"
	"A WORD is one of\n"
	"  the name of a counter or parameter: rnr_nak_rcvd, rp_ai_rate\n"
	"  a completion status by number, name or text: 12, IBV_WC_RETRY_EXC_ERR, 'transport retry\n"
	"    counter exceeded'\n"
	"  a completion's vendor_err (perftest calls it syndrom): 7 or 0x7. A number is explained as\n"
	"    both, status and vendor_err.\n"
	"  a part of a name: retry\n"
	"\n"
	"The exit status is 1 if a WORD is unknown.\n";

#define STATUS_PREFIX "IBV_WC_"

enum topic_kind {
	TOPIC_QP_COUNTER,
	TOPIC_LANE_COUNTER,
	TOPIC_PORT_COUNTER,
	TOPIC_CM_COUNTER,
	TOPIC_URNICD_COUNTER,
	TOPIC_CC_PARAMETER,
	TOPIC_STATUS,
	TOPIC_FAULT,
};

struct topic {
	enum topic_kind kind;
	unsigned number; /* the number of the status or fault */
	unsigned status; /* status that a fault causes */
	const char *name;
	const char *sentence;
	const char *advice; /* NULL: none */
	const char *unit_text; /* of a parameter */
};

static const struct topic topics[] = {
/* clang-format off */
#define COUNTER(counter, text) {.kind = TOPIC_QP_COUNTER, .name = #counter, .sentence = text},
#include "lane/counter.def"
#undef COUNTER
#define DROP(drop, text) {.kind = TOPIC_LANE_COUNTER, .name = #drop, .sentence = text},
#include "engine/drop.def"
#undef DROP
#define COUNTER(counter, text) {.kind = TOPIC_PORT_COUNTER, .name = #counter, .sentence = text},
#include "port/udp_counters.def"
#undef COUNTER
#define COUNTER(counter, text) {.kind = TOPIC_CM_COUNTER, .name = #counter, .sentence = text},
#include "cm/cm_counter.def"
#undef COUNTER
#define COUNTER(counter, text) {.kind = TOPIC_URNICD_COUNTER, .name = #counter, .sentence = text},
#include "agent/agent_counters.def"
#undef COUNTER
#define PARAMETER(parameter, lowest, highest, sigcomm15, ms_ns3, cx4, unit, text) \
	{.kind = TOPIC_CC_PARAMETER, .name = #parameter, \
		.sentence = text " (" #lowest " to " #highest "; sigcomm15 " #sigcomm15 ", ms-ns3 " \
			#ms_ns3 ", cx4+ " #cx4 ")", .unit_text = unit},
#include "congestion/parameter.def"
#undef PARAMETER
#define STATUS(status_name, text, look_at) \
	{.kind = TOPIC_STATUS, .number = WC_##status_name, .name = #status_name, .sentence = text, \
		.advice = look_at},
#include "explain/wc_status.def"
#undef STATUS
#define FAULT(fault, fault_number, status_name, text) \
	{.kind = TOPIC_FAULT, .number = (fault_number), .status = WC_##status_name, .name = #fault, \
		.sentence = text},
#include "queue/fault.def"
#undef FAULT
	/* clang-format on */
};

enum { TOPIC_COUNT = sizeof(topics) / sizeof(topics[0]) };

#define STATUS(name, sentence, advice) static_assert((int)WC_##name == (int)IBV_WC_##name, #name);
#include "explain/wc_status.def"
#undef STATUS

static const char *status_name(unsigned number)
{
	for (int i = 0; i < TOPIC_COUNT; i++) {
		if (topics[i].kind == TOPIC_STATUS && topics[i].number == number)
			return topics[i].name;
	}
	return "?";
}

static void print_heading(const struct topic *topic)
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
			topic->unit_text[0] ? ", in " : "", topic->unit_text);
		break;
	case TOPIC_STATUS:
		printf(STATUS_PREFIX "%s (completion status %u, \"%s\")\n", topic->name,
			topic->number, ibv_wc_status_str((enum ibv_wc_status)topic->number));
		break;
	case TOPIC_FAULT:
		printf("%s (vendor_err %u of " STATUS_PREFIX "%s)\n", topic->name, topic->number,
			status_name(topic->status));
		break;
	}
}

static void print_topic(const struct topic *topic)
{
	print_heading(topic);
	printf("    %s\n", topic->sentence);
	if (topic->advice)
		printf("    look at: %s\n", topic->advice);
}

static bool has_number(const struct topic *topic)
{
	return topic->kind == TOPIC_STATUS || topic->kind == TOPIC_FAULT;
}

/* Does the word name exactly this topic, in one of the forms that programs use? */
static bool is_named(const struct topic *topic, const char *word)
{
	uint32_t number;

	if (text_number_or_hex(word, 0, UINT32_MAX, &number))
		return has_number(topic) && topic->number == number;
	if (topic->kind == TOPIC_STATUS) {
		if (strncasecmp(word, STATUS_PREFIX, strlen(STATUS_PREFIX)) == 0)
			word += strlen(STATUS_PREFIX);
		if (strcasecmp(word, ibv_wc_status_str((enum ibv_wc_status)topic->number)) == 0)
			return true;
	}
	return strcasecmp(word, topic->name) == 0;
}

static bool is_part_of_name(const struct topic *topic, const char *word)
{
	return strcasestr(topic->name, word) != NULL;
}

static bool explain_where(
	bool (*matches)(const struct topic *topic, const char *word), const char *word)
{
	bool is_found = false;

	for (int i = 0; i < TOPIC_COUNT; i++) {
		if (matches(&topics[i], word)) {
			print_topic(&topics[i]);
			is_found = true;
		}
	}
	return is_found;
}

int command_explain(int argc, char **argv)
{
	int status = EXIT_OK;

	if (argc > 1 && argv[1][0] == '-') {
		complain("explain: no option %s; urnic explain --help", argv[1]);
		return EXIT_USAGE;
	}
	if (argc == 1)
		explain_where(is_part_of_name, "");
	for (int i = 1; i < argc; i++) {
		if (explain_where(is_named, argv[i]) || explain_where(is_part_of_name, argv[i]))
			continue;
		complain("explain: nothing is known about '%s'; urnic explain lists everything",
			argv[i]);
		status = EXIT_FAILED;
	}
	return status;
}
