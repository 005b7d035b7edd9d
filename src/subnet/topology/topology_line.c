/* SPDX-License-Identifier: BSD-2-Clause */
#include <string.h>

#include "base/arith.h"
#include "subnet/topology/topology_internal.h"

/* The rest of a line, which the functions below read. */
struct reader {
	const char *at;
	const char *end;
};

static bool is_blank(char letter)
{
	return letter == ' ' || letter == '\t' || letter == '\r';
}

static void blanks_skip(struct reader *reader)
{
	while (reader->at < reader->end && is_blank(*reader->at))
		reader->at++;
}

static bool at_end(const struct reader *reader)
{
	return reader->at == reader->end;
}

/* Skip a letter if it is next. */
static bool letter_take(struct reader *reader, char letter)
{
	if (at_end(reader) || *reader->at != letter)
		return false;
	reader->at++;
	return true;
}

static int digit_value(char letter)
{
	if (letter >= '0' && letter <= '9')
		return letter - '0';
	letter |= 0x20;
	return letter >= 'a' && letter <= 'f' ? letter - 'a' + 10 : -1;
}

/* Take a number in `base`. In base 16, 0x may precede it. */
static bool number_take(struct reader *reader, int base, uint64_t limit, uint64_t *ret_value)
{
	const char *start;
	uint64_t value = 0;

	if (base == 16 && reader->end - reader->at > 2 && reader->at[0] == '0' &&
		(reader->at[1] | 0x20) == 'x')
		reader->at += 2;
	for (start = reader->at; reader->at < reader->end; reader->at++) {
		int digit = digit_value(*reader->at);

		if (digit < 0 || digit >= base)
			break;
		if (value > (limit - (uint64_t)digit) / (uint64_t)base)
			return false;
		value = value * (uint64_t)base + (uint64_t)digit;
	}
	*ret_value = value;
	return reader->at > start;
}

static bool small_take(struct reader *reader, uint32_t *ret_value)
{
	uint64_t value;

	if (!number_take(reader, 10, UINT32_MAX, &value))
		return false;
	*ret_value = (uint32_t)value;
	return true;
}

/* Take a text in quotation marks. */
static bool quoted_take(struct reader *reader, struct topology_word *ret_word)
{
	const char *start;

	if (!letter_take(reader, '"'))
		return false;
	start = reader->at;
	while (reader->at < reader->end && *reader->at != '"')
		reader->at++;
	*ret_word = (struct topology_word){start, (uint32_t)(reader->at - start)};
	return letter_take(reader, '"');
}

static struct topology_word word_take(struct reader *reader)
{
	const char *start = reader->at;

	while (reader->at < reader->end && !is_blank(*reader->at) && *reader->at != '=')
		reader->at++;
	return (struct topology_word){start, (uint32_t)(reader->at - start)};
}

static bool word_is(const struct topology_word *word, const char *text)
{
	return word->bytes == strlen(text) && memcmp(word->text, text, word->bytes) == 0;
}

static void line_wrong(struct topology_line *line, const char *why)
{
	line->kind = TOPOLOGY_LINE_WRONG;
	line->why = why;
}

/* --- cables --- */

/* Take [port], perhaps (guid), and perhaps [ext port], the number on a switch's case. */
static bool port_take(struct reader *reader, uint32_t *ret_port, uint64_t *ret_guid)
{
	if (!letter_take(reader, '[') || !small_take(reader, ret_port) || !letter_take(reader, ']'))
		return false;
	if (letter_take(reader, '(') &&
		(!number_take(reader, 16, UINT64_MAX, ret_guid) || !letter_take(reader, ')')))
		return false;
	if (reader->end - reader->at > 4 && memcmp(reader->at, "[ext", 4) == 0) {
		while (reader->at < reader->end && *reader->at != ']')
			reader->at++;
		return letter_take(reader, ']');
	}
	return true;
}

static bool width_is_possible(uint64_t width)
{
	return width == 1 || width == 2 || width == 4 || width == 8 || width == 12;
}

/* Find a width and a speed such as 4xEDR. Other text says nothing about the cable. */
static void rate_find(struct topology_line *line, struct reader reader)
{
	static const struct {
		const char *name;
		enum topology_speed speed;
	} speeds[] = {
		{"SDR", TOPOLOGY_SDR},
		{"DDR", TOPOLOGY_DDR},
		{"QDR", TOPOLOGY_QDR},
		{"FDR10", TOPOLOGY_QDR}, /* the same rate, with another encoding */
		{"FDR", TOPOLOGY_FDR},
		{"EDR", TOPOLOGY_EDR},
		{"HDR", TOPOLOGY_HDR},
		{"NDR", TOPOLOGY_NDR},
	};
	struct topology_word word;
	uint64_t width;

	if (!number_take(&reader, 10, 12, &width) || !letter_take(&reader, 'x') ||
		!width_is_possible(width))
		return;
	word = word_take(&reader);
	for (size_t i = 0; i < ARRAY_COUNT(speeds); i++) {
		if (word_is(&word, speeds[i].name)) {
			line->width = (uint32_t)width;
			line->has_speed = true;
			line->speed = speeds[i].speed;
		}
	}
}

/* Find the width and speed in the last word of a comment. */
static void comment_rate_find(struct topology_line *line, struct reader reader)
{
	const char *start;

	while (reader.end > reader.at && is_blank(reader.end[-1]))
		reader.end--;
	for (start = reader.end; start > reader.at && !is_blank(start[-1]);)
		start--;
	reader.at = start;
	rate_find(line, reader);
}

/* ibsim's w=4 or s=4: the width in lanes, the speed as PortInfo has it. */
static bool setting_take(struct topology_line *line, struct reader *reader)
{
	const struct topology_word word = word_take(reader);
	uint64_t value;

	if (!letter_take(reader, '=') || !number_take(reader, 10, 12, &value))
		return false;
	if (word_is(&word, "w") && width_is_possible(value)) {
		line->width = (uint32_t)value;
		return true;
	}
	if (!word_is(&word, "s") || (value != 1 && value != 2 && value != 4))
		return false;
	line->has_speed = true;
	line->speed = value == 1 ? TOPOLOGY_SDR : value == 2 ? TOPOLOGY_DDR : TOPOLOGY_QDR;
	return true;
}

static void cable_parse(struct topology_line *line, struct reader reader)
{
	line->kind = TOPOLOGY_LINE_CABLE;
	if (!port_take(&reader, &line->port, &line->guid)) {
		line_wrong(line, "a cable begins with its port, such as [1]");
		return;
	}
	blanks_skip(&reader);
	if (!quoted_take(&reader, &line->name) ||
		!port_take(&reader, &line->peer_port, &line->peer_guid)) {
		line_wrong(line, "a cable's other end is a name in quotes and a port: \"S1\"[1]");
		return;
	}
	for (blanks_skip(&reader); !at_end(&reader) && *reader.at != '#'; blanks_skip(&reader)) {
		if (!setting_take(line, &reader)) {
			line_wrong(line, "behind a cable are w=1, 2, 4, 8 or 12, and s=1, 2 or 4");
			return;
		}
	}
	if (letter_take(&reader, '#'))
		comment_rate_find(line, reader);
}

/* --- nodes --- */

static void value_parse(
	struct topology_line *line, struct reader reader, const struct topology_word *name)
{
	line->kind = TOPOLOGY_LINE_VALUE;
	line->name = *name;
	if (!number_take(&reader, 16, UINT64_MAX, &line->value))
		line_wrong(line, "the value is not a number in hexadecimal");
}

static void node_parse(
	struct topology_line *line, struct reader reader, enum topology_node_kind kind)
{
	line->kind = TOPOLOGY_LINE_NODE;
	line->node_kind = kind;
	blanks_skip(&reader);
	if (!small_take(&reader, &line->port)) {
		line_wrong(line, "a node's kind is followed by the number of its ports");
		return;
	}
	blanks_skip(&reader);
	if (!quoted_take(&reader, &line->name)) {
		line_wrong(line, "a node's name is in quotes");
		return;
	}
	blanks_skip(&reader);
	if (!at_end(&reader) && !letter_take(&reader, '#')) {
		line_wrong(line, "a comment begins with #");
		return;
	}
	blanks_skip(&reader);
	if (!quoted_take(&reader, &line->description))
		line->description.bytes = 0;
}

void topology_line_parse(struct topology_line *line, const char *text, size_t bytes)
{
	struct reader reader = {text, text + bytes};
	struct topology_word word;

	memset(line, 0, sizeof(*line));
	blanks_skip(&reader);
	if (at_end(&reader))
		return;
	if (*reader.at == '#') {
		line->kind = TOPOLOGY_LINE_COMMENT;
		return;
	}
	if (*reader.at == '[') {
		cable_parse(line, reader);
		return;
	}
	word = word_take(&reader);
	if (letter_take(&reader, '='))
		value_parse(line, reader, &word);
	else if (word_is(&word, "Switch"))
		node_parse(line, reader, TOPOLOGY_SWITCH);
	else if (word_is(&word, "Ca") || word_is(&word, "Hca"))
		node_parse(line, reader, TOPOLOGY_CA);
	else if (word_is(&word, "Rt"))
		line_wrong(line, "routers between subnets are not supported");
	else
		line_wrong(
			line, "a line begins with Switch, Ca, Hca, a port such as [1], or name=");
}
