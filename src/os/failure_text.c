/* SPDX-License-Identifier: BSD-2-Clause */
#include "os/failure_text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/arith.h"
#include "memory/mr.h"
#include "qp/qp.h"
#include "queue/completion.h"
#include "wire/iwarp/rdmap.h"
#include "wire/opcode.h"

const struct reason_row reason_rows[] = {
/* clang-format off */
#define FAULT(fault, code, wc_status, text, facts, section, where, remedy) \
	{REASON_KIND_FAULT, (code), WC_##wc_status, 0, #fault, text, facts, section, where, remedy},
#define REFUSED(refused, code, text, facts, section, where, remedy) \
	{REASON_KIND_REFUSED, (code), 0, 0, #refused, text, facts, section, where, remedy},
#define CALL(call, code, errnum, text, facts, section, where, remedy) \
	{REASON_KIND_CALL, (code), 0, (errnum), #call, text, facts, section, where, remedy},
#define CONNECT(connect, code, text, facts, section, where, remedy) \
	{REASON_KIND_CONNECT, (code), 0, 0, #connect, text, facts, section, where, remedy},
#include "queue/reason.def"
	/* clang-format on */
};

const uint32_t reason_count = ARRAY_COUNT(reason_rows);

const struct fact_row fact_rows[FACT_COUNT] = {
#define FACT(fact, shape, text) [FACT_##fact] = {#fact, FACT_FORMAT_##shape, text},
#include "lane/fact.def"
#undef FACT
};

const struct reason_row *reason_find(uint32_t number)
{
	for (uint32_t i = 0; i < reason_count; i++)
		if (reason_rows[i].number == number)
			return &reason_rows[i];
	return NULL;
}

/* --- facts as text --- */

/* Text that is written piece by piece; what does not fit is cut off. */
struct text_sink {
	char *text;
	size_t room; /* with the terminating 0 */
	size_t bytes;
};

static void sink_add(struct text_sink *sink, const char *text, size_t bytes)
{
	size_t fits = min_u64(bytes, sink->room - 1 - sink->bytes);

	memcpy(sink->text + sink->bytes, text, fits);
	sink->bytes += fits;
	sink->text[sink->bytes] = '\0';
}

static void access_print(uint64_t access, char *ret_text, size_t room)
{
	static const struct {
		uint32_t bit;
		const char *name;
	} flags[] = {
		{MR_LOCAL_WRITE, "IBV_ACCESS_LOCAL_WRITE"},
		{MR_REMOTE_WRITE, "IBV_ACCESS_REMOTE_WRITE"},
		{MR_REMOTE_READ, "IBV_ACCESS_REMOTE_READ"},
		{MR_REMOTE_ATOMIC, "IBV_ACCESS_REMOTE_ATOMIC"},
		{MR_WINDOW_BIND, "IBV_ACCESS_MW_BIND"},
		{MR_ZERO_BASED, "IBV_ACCESS_ZERO_BASED"},
		{MR_ON_DEMAND, "IBV_ACCESS_ON_DEMAND"},
		{MR_FLUSH_GLOBAL, "IBV_ACCESS_FLUSH_GLOBAL"},
		{MR_RELAXED_ORDERING, "IBV_ACCESS_RELAXED_ORDERING"},
	};
	struct text_sink sink = {ret_text, room, 0};

	sink_add(&sink, "", 0);
	for (size_t i = 0; i < ARRAY_COUNT(flags); i++) {
		if (!(access & flags[i].bit))
			continue;
		if (sink.bytes)
			sink_add(&sink, " | ", strlen(" | "));
		sink_add(&sink, flags[i].name, strlen(flags[i].name));
	}
	if (!sink.bytes)
		sink_add(&sink, "0", 1);
}

static void time_print(uint64_t ns, char *ret_text, size_t room)
{
	if (ns == UINT64_MAX)
		snprintf(ret_text, room, "for ever");
	else if (ns < 1000000)
		snprintf(ret_text, room, "%.1f us", (double)ns / 1e3);
	else if (ns < 1000000000)
		snprintf(ret_text, room, "%.1f ms", (double)ns / 1e6);
	else
		snprintf(ret_text, room, "%.1f s", (double)ns / 1e9);
}

static const char *operation_name(uint64_t operation)
{
	static const char *const names[] = {
		[OPERATION_NONE] = "local request",
		[OPERATION_SEND] = "SEND",
		[OPERATION_WRITE] = "WRITE",
		[OPERATION_READ] = "READ",
		[OPERATION_COMPARE_SWAP] = "COMPARE SWAP",
		[OPERATION_FETCH_ADD] = "FETCH ADD",
		[OPERATION_ATOMIC_WRITE] = "ATOMIC WRITE",
		[OPERATION_FLUSH] = "FLUSH",
	};

	return operation < ARRAY_COUNT(names) && names[operation] ? names[operation] : "request";
}

static const char *first_name(uint64_t reason)
{
	const struct reason_row *row = reason_find((uint32_t)reason);

	return !reason || !row ? "none, so the program or the connection manager moved it there"
			       : row->name;
}

void fact_print(enum fact fact, uint64_t value, char *ret_text, size_t room)
{
	switch (fact_rows[fact].format) {
	case FACT_FORMAT_DECIMAL:
		snprintf(ret_text, room, "%" PRIu64, value);
		break;
	case FACT_FORMAT_HEX:
		snprintf(ret_text, room, "0x%" PRIx64, value);
		break;
	case FACT_FORMAT_BYTES:
		snprintf(ret_text, room, "%" PRIu64 " byte%s", value, value == 1 ? "" : "s");
		break;
	case FACT_FORMAT_TIME:
		time_print(value, ret_text, room);
		break;
	case FACT_FORMAT_ACCESS:
		access_print(value, ret_text, room);
		break;
	case FACT_FORMAT_OPCODE:
		snprintf(ret_text, room, "%s", operation_name(value));
		break;
	case FACT_FORMAT_STATE:
		snprintf(ret_text, room, "%s", qp_state_name((enum qp_state)value));
		break;
	case FACT_FORMAT_ATTRIBUTE:
		snprintf(ret_text, room, "%s", qp_attribute_name((uint32_t)value));
		break;
	case FACT_FORMAT_REASON:
		snprintf(ret_text, room, "%s", first_name(value));
		break;
	case FACT_FORMAT_ERRNO:
		snprintf(ret_text, room, "%s", strerror((int)value));
		break;
	case FACT_FORMAT_TERMINATE:
		snprintf(ret_text, room, "%s",
			value < RDMAP_ERROR_COUNT ? rdmap_error_sentence((enum rdmap_error)value)
						  : "an unknown error");
		break;
	}
}

/* --- sentences --- */

/* The value of a name in braces: a fact, or a member of the failure. */
static void name_print(
	const struct failure *failure, const char *name, size_t bytes, char *ret_text, size_t room)
{
	uint64_t value;

	snprintf(ret_text, room, "?");
	if (bytes == strlen("count") && !strncmp(name, "count", bytes))
		snprintf(ret_text, room, "%u", failure->count);
	if (bytes == strlen("dest_qpn") && !strncmp(name, "dest_qpn", bytes))
		snprintf(ret_text, room, "0x%06x", failure->dest_qpn);
	if (bytes == strlen("text") && !strncmp(name, "text", bytes))
		snprintf(ret_text, room, "%.*s", FAILURE_TEXT_BYTES - 1, failure->text);
	for (int fact = 0; fact < FACT_COUNT; fact++)
		if (strlen(fact_rows[fact].name) == bytes &&
			!strncmp(name, fact_rows[fact].name, bytes) &&
			failure_fact(failure, (enum fact)fact, &value))
			fact_print((enum fact)fact, value, ret_text, room);
}

static void template_fill(
	const struct failure *failure, const char *template, char *ret_text, size_t room)
{
	struct text_sink sink = {ret_text, room, 0};
	char value[256];

	sink_add(&sink, "", 0);
	while (*template) {
		size_t plain = strcspn(template, "{");

		sink_add(&sink, template, plain);
		template += plain;
		if (*template == '{') {
			size_t bytes = strcspn(++template, "}");

			name_print(failure, template, bytes, value, sizeof(value));
			sink_add(&sink, value, strlen(value));
			template += bytes + (template[bytes] == '}');
		}
	}
}

void reason_tell(const struct failure *failure, char *ret_text, size_t room)
{
	const struct reason_row *row = reason_find(failure->reason);

	if (!row)
		snprintf(ret_text, room, "reason %u, of another version of urnic", failure->reason);
	else
		template_fill(failure, row->seen ? row->seen : row->sentence, ret_text, room);
}

bool reason_tell_fact(const struct failure *failure, uint32_t index, char *ret_text, size_t room)
{
	uint32_t fact = failure->facts.fact[index];

	if (fact >= FACT_COUNT || !fact_rows[fact].sentence)
		return false;
	template_fill(failure, fact_rows[fact].sentence, ret_text, room);
	return true;
}
