/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_BASE_TEXT_H
#define URNIC_BASE_TEXT_H

/*
 * text_make_printable() is for text that other users choose, such as the names of processes and of
 * network interfaces. A terminal obeys control characters in such text, and a line break in it
 * could forge a line of the log.
 *
 * The other functions parse settings: numbers, and comma-separated lists. All functions are pure;
 * any thread may call them.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Replace each byte that is not printable ASCII by '?'. */
static inline void text_make_printable(char *text)
{
	for (; *text; text++)
		if (*text < ' ' || *text > '~')
			*text = '?';
}

/* Part of a string, without a terminating 0. */
struct text_part {
	const char *text;
	size_t bytes;
};

/*
 * Take the next item off a comma-separated list, without surrounding blanks; empty items are
 * skipped.
 *
 * `list`  In: the rest of the list. Out: moved behind the item that was taken.
 *
 * Returns false at the end of the list.
 */
static inline bool text_item_next(const char **list, struct text_part *ret_item)
{
	const char *text = *list + strspn(*list, ", \t");
	size_t bytes = strcspn(text, ",");

	*list = text + bytes;
	while (bytes > 0 && (text[bytes - 1] == ' ' || text[bytes - 1] == '\t'))
		bytes--;
	*ret_item = (struct text_part){text, bytes};
	return bytes > 0;
}

static inline bool text_part_is(const struct text_part *part, const char *word)
{
	return part->bytes == strlen(word) && memcmp(part->text, word, part->bytes) == 0;
}

/*
 * Parse the whole part as a decimal number. Returns false, and leaves *ret_value unchanged, when
 * the part is no number or its value is not in `lowest` to `highest`.
 */
static inline bool text_part_number(
	const struct text_part *part, uint32_t lowest, uint32_t highest, uint32_t *ret_value)
{
	uint64_t value = 0;

	for (size_t i = 0; i < part->bytes; i++) {
		if (part->text[i] < '0' || part->text[i] > '9')
			return false;
		value = value * 10 + (uint64_t)(part->text[i] - '0');
		if (value > highest)
			return false;
	}
	if (part->bytes == 0 || value < lowest)
		return false;
	*ret_value = (uint32_t)value;
	return true;
}

static inline bool text_number(
	const char *text, uint32_t lowest, uint32_t highest, uint32_t *ret_value)
{
	const struct text_part whole = {text, strlen(text)};

	return text_part_number(&whole, lowest, highest, ret_value);
}

/* text_number() that also accepts a hexadecimal number with the prefix 0x. */
static inline bool text_number_or_hex(
	const char *text, uint32_t lowest, uint32_t highest, uint32_t *ret_value)
{
	uint64_t value = 0;

	if (text[0] != '0' || (text[1] | 0x20) != 'x' || text[2] == '\0')
		return text_number(text, lowest, highest, ret_value);
	for (text += 2; *text; text++) {
		char letter = (char)(*text | 0x20);

		if (*text >= '0' && *text <= '9')
			value = value * 16 + (uint64_t)(*text - '0');
		else if (letter >= 'a' && letter <= 'f')
			value = value * 16 + (uint64_t)(letter - 'a') + 10;
		else
			return false;
		if (value > highest)
			return false;
	}
	if (value < lowest)
		return false;
	*ret_value = (uint32_t)value;
	return true;
}

#endif
