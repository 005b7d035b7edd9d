/* SPDX-License-Identifier: BSD-2-Clause */
/* The parser of aimed faults. */
#include <string.h>

#include "base/arith.h"
#include "base/why.h"
#include "impair/plan.h"
#include "impair/value.h"
#include "wire/opcode.h"

enum { WORDS_MAX = 16, LINE_SHOWN_BYTES_MAX = 80, TIMES_MAX = 1000000, NUMBER_MAX = 1000000000 };

enum fault_form { FORM_PACKET, FORM_RNR, FORM_KILL };

static const struct {
	const char *name;
	enum fault_form form;
	const char *syntax;
} verbs[IMPAIR_VERB_COUNT] = {
#define VERB(name, form, syntax) [IMPAIR_VERB_##name] = {#name, FORM_##form, syntax},
#include "impair/verb.def"
#undef VERB
};

#define BIT(operation) (1u << OPERATION_##operation)
static const struct {
	const char *words;
	uint32_t operations;
} kinds[] = {
#define KIND(words, operations) {words, operations},
#include "impair/packet_kind.def"
#undef KIND
};
#undef BIT

/* The words of one fault. `next` is the index of the first word that is not parsed yet. */
struct words {
	struct text_part all;
	struct text_part word[WORDS_MAX];
	uint32_t count;
	uint32_t next;
};

/* Split a fault at its blanks. Returns false if it has more than WORDS_MAX words. */
static bool words_split(const struct text_part *line, struct words *words)
{
	size_t i = 0;

	*words = (struct words){.all = *line};
	for (;;) {
		size_t first;

		while (i < line->bytes && (line->text[i] == ' ' || line->text[i] == '\t'))
			i++;
		if (i == line->bytes)
			return true;
		if (words->count == WORDS_MAX)
			return false;
		first = i;
		while (i < line->bytes && line->text[i] != ' ' && line->text[i] != '\t')
			i++;
		words->word[words->count++] = (struct text_part){line->text + first, i - first};
	}
}

static bool words_are_over(const struct words *words)
{
	return words->next == words->count;
}

static bool word_take(struct words *words, const char *expected)
{
	if (words_are_over(words) || !text_part_is(&words->word[words->next], expected))
		return false;
	words->next++;
	return true;
}

static bool number_take(struct words *words, uint32_t highest, uint32_t *ret_number)
{
	if (words_are_over(words) ||
		!text_part_number(&words->word[words->next], 1, highest, ret_number))
		return false;
	words->next++;
	return true;
}

static bool time_take(struct words *words, uint64_t *ret_ns)
{
	if (words_are_over(words) || !impair_time_parse(&words->word[words->next], ret_ns))
		return false;
	words->next++;
	return true;
}

/* Take the name of a kind of packet: the word or two words of `text`, if they come next. */
static bool kind_take_words(struct words *words, const char *text)
{
	const char *blank = strchr(text, ' ');
	struct text_part first = {text, blank ? (size_t)(blank - text) : strlen(text)};
	const struct text_part *word = &words->word[words->next];

	if (words_are_over(words) || word->bytes != first.bytes ||
		memcmp(word->text, first.text, first.bytes) != 0)
		return false;
	if (!blank) {
		words->next++;
		return true;
	}
	if (words->next + 1 == words->count || !text_part_is(word + 1, blank + 1))
		return false;
	words->next += 2;
	return true;
}

static bool kind_take(struct words *words, uint32_t *ret_operations)
{
	for (size_t i = 0; i < ARRAY_COUNT(kinds); i++)
		if (kind_take_words(words, kinds[i].words)) {
			*ret_operations = kinds[i].operations;
			return true;
		}
	return false;
}

/* Take "[of qp K]". */
static bool qp_take(struct words *words, struct impair_fault *fault)
{
	if (!word_take(words, "of"))
		return true;
	return word_take(words, "qp") && number_take(words, NUMBER_MAX, &fault->qp);
}

/*
 * Take "[TIMES times]". Without these words the fault hits once, or without end if it is periodic.
 */
static bool times_take(struct words *words, struct impair_fault *fault)
{
	fault->times = fault->is_periodic ? UINT32_MAX : 1;
	return !number_take(words, TIMES_MAX, &fault->times) || word_take(words, "times");
}

/* Take "PACKET [every] N [by TIME] [TIMES times] [of qp K]". */
static bool packet_take(struct words *words, struct impair_fault *fault)
{
	if (!kind_take(words, &fault->operations))
		return false;
	fault->is_periodic = word_take(words, "every");
	if (!number_take(words, NUMBER_MAX, &fault->number))
		return false;
	if (fault->verb == IMPAIR_VERB_delay &&
		!(word_take(words, "by") && time_take(words, &fault->amount)))
		return false;
	return times_take(words, fault) && qp_take(words, fault);
}

/* Take "N times [of qp K]", or "every N [TIMES times] [of qp K]" with an N of 2 or more. */
static bool rnr_take(struct words *words, struct impair_fault *fault)
{
	fault->is_periodic = word_take(words, "every");
	if (fault->is_periodic)
		return number_take(words, NUMBER_MAX, &fault->number) && fault->number > 1 &&
			times_take(words, fault) && qp_take(words, fault);
	return number_take(words, TIMES_MAX, &fault->times) && word_take(words, "times") &&
		qp_take(words, fault);
}

/* Take "peer|server|client after SIZE". "peer" means the server. */
static bool kill_take(struct words *words, struct impair_fault *fault)
{
	fault->times = 1;
	fault->victim = IMPAIR_SIDE_SERVER;
	if (word_take(words, "client"))
		fault->victim = IMPAIR_SIDE_CLIENT;
	else if (!word_take(words, "server") && !word_take(words, "peer"))
		return false;
	if (!word_take(words, "after") || words_are_over(words) ||
		!impair_size_parse(&words->word[words->next], &fault->amount))
		return false;
	words->next++;
	return true;
}

/* Take "[at server|client]". */
static bool side_take(struct words *words, struct impair_fault *fault)
{
	if (!word_take(words, "at"))
		return true;
	if (words_are_over(words) || !impair_side_parse(&words->word[words->next], &fault->at))
		return false;
	words->next++;
	return true;
}

static bool rest_take(struct words *words, struct impair_fault *fault)
{
	bool is_good = false;

	switch (verbs[fault->verb].form) {
	case FORM_PACKET:
		is_good = packet_take(words, fault);
		break;
	case FORM_RNR:
		is_good = rnr_take(words, fault);
		break;
	case FORM_KILL:
		is_good = kill_take(words, fault);
		break;
	}
	return is_good && side_take(words, fault) && words_are_over(words);
}

static void why_verb(char why[IMPAIR_WHY_BYTES], const struct text_part *word)
{
	why[0] = '\0';
	why_add(why, IMPAIR_WHY_BYTES, "there is no fault '");
	why_add_part(why, IMPAIR_WHY_BYTES, word);
	why_add(why, IMPAIR_WHY_BYTES, "'; a fault begins with");
#define VERB(name, form, syntax) \
	why_add(why, IMPAIR_WHY_BYTES, IMPAIR_VERB_##name ? ", " #name : " " #name);
#include "impair/verb.def"
#undef VERB
}

static void why_rest(
	char why[IMPAIR_WHY_BYTES], const struct words *words, const struct impair_fault *fault)
{
	const struct text_part end = {"the end", 7};
	const struct text_part cut = {words->all.text,
		words->all.bytes < LINE_SHOWN_BYTES_MAX ? words->all.bytes : LINE_SHOWN_BYTES_MAX};
	bool is_packet = verbs[fault->verb].form == FORM_PACKET && words->next == 1;

	why[0] = '\0';
	why_add(why, IMPAIR_WHY_BYTES, "'");
	why_add_part(
		why, IMPAIR_WHY_BYTES, words_are_over(words) ? &end : &words->word[words->next]);
	why_add(why, IMPAIR_WHY_BYTES, "' is wrong in '");
	why_add_part(why, IMPAIR_WHY_BYTES, &cut);
	why_add(why, IMPAIR_WHY_BYTES, "'; write ");
	why_add(why, IMPAIR_WHY_BYTES, verbs[fault->verb].syntax);
	if (!is_packet)
		return;
	why_add(why, IMPAIR_WHY_BYTES, " with PACKET one of: ");
	for (size_t i = 0; i < ARRAY_COUNT(kinds); i++) {
		why_add(why, IMPAIR_WHY_BYTES, i ? ", " : "");
		why_add(why, IMPAIR_WHY_BYTES, kinds[i].words);
	}
}

static bool verb_take(struct words *words, struct impair_fault *fault)
{
	for (int verb = 0; verb < IMPAIR_VERB_COUNT; verb++)
		if (word_take(words, verbs[verb].name)) {
			fault->verb = (enum impair_verb)verb;
			return true;
		}
	return false;
}

static bool fault_parse(
	struct impair_plan *plan, const struct text_part *line, char why[IMPAIR_WHY_BYTES])
{
	struct impair_fault fault = {.verb = IMPAIR_VERB_drop};
	struct words words;

	if (!words_split(line, &words) || plan->fault_count == IMPAIR_FAULTS_MAX) {
		why[0] = '\0';
		why_add(why, IMPAIR_WHY_BYTES, "too many words, or more than 64 faults, at '");
		why_add_part(why, IMPAIR_WHY_BYTES, line);
		why_add(why, IMPAIR_WHY_BYTES, "'");
		return false;
	}
	if (words.count == 0)
		return true;
	if (!verb_take(&words, &fault)) {
		why_verb(why, &words.word[0]);
		return false;
	}
	if (!rest_take(&words, &fault)) {
		why_rest(why, &words, &fault);
		return false;
	}
	if (fault.at == IMPAIR_SIDE_NONE || fault.at == plan->side)
		plan->faults[plan->fault_count++] = fault;
	return true;
}

bool impair_faults_parse(struct impair_plan *plan, const char *text, char ret_why[IMPAIR_WHY_BYTES])
{
	while (*text) {
		size_t line_bytes = strcspn(text, "\n");
		size_t used_bytes = strcspn(text, "#\n");
		size_t first = 0;

		/*
		 * `used_bytes` ends before the comment, so semicolons in the comment separate no
		 * faults.
		 */
		while (first <= used_bytes) {
			const char *end = memchr(text + first, ';', used_bytes - first);
			struct text_part line = {text + first,
				end ? (size_t)(end - text) - first : used_bytes - first};

			if (!fault_parse(plan, &line, ret_why))
				return false;
			first += line.bytes + 1;
		}
		text += line_bytes + (text[line_bytes] == '\n');
	}
	return true;
}
