/* SPDX-License-Identifier: BSD-2-Clause */
#include "impair/value.h"

#include <string.h>

#include "base/arith.h"

#define TIME_NS_MAX    10000000000u
#define RATE_MIN       1000000u
#define RATE_MAX       400000000000u
#define SIZE_BYTES_MAX (1ull << 50)

enum { WHOLE_DIGITS_MAX = 15, FRACTION_DIGITS_MAX = 9 };

struct unit {
	const char *name;
	uint64_t factor;
};

/* The unit that `name` names, or NULL. */
static const struct unit *unit_find(
	const struct unit *units, size_t count, const struct text_part *name)
{
	for (size_t i = 0; i < count; i++)
		if (text_part_is(name, units[i].name))
			return &units[i];
	return NULL;
}

/*
 * Parse a decimal number with at most nine digits behind its point, followed by a unit. The result
 * is rounded down to a whole number.
 */
static bool decimal_parse(
	const struct text_part *text, const struct unit *units, size_t count, uint64_t *ret_value)
{
	uint64_t whole = 0, fraction = 0, scale = 1;
	const struct unit *unit;
	struct text_part rest;
	size_t i = 0, digits;

	for (; i < text->bytes && text->text[i] >= '0' && text->text[i] <= '9'; i++)
		whole = whole * 10 + (uint64_t)(text->text[i] - '0');
	if (i == 0 || i > WHOLE_DIGITS_MAX)
		return false;
	if (i < text->bytes && text->text[i] == '.') {
		digits = 0;
		for (i++; i < text->bytes && text->text[i] >= '0' && text->text[i] <= '9'; i++) {
			if (++digits > FRACTION_DIGITS_MAX)
				return false;
			fraction = fraction * 10 + (uint64_t)(text->text[i] - '0');
			scale *= 10;
		}
		if (!digits)
			return false;
	}
	rest = (struct text_part){text->text + i, text->bytes - i};
	unit = unit_find(units, count, &rest);
	if (!unit)
		return false;
	if (__builtin_mul_overflow(whole, unit->factor, &whole) ||
		__builtin_mul_overflow(fraction, unit->factor, &fraction))
		return false;
	return !__builtin_add_overflow(whole, fraction / scale, ret_value);
}

bool impair_share_parse(const struct text_part *text, uint32_t *ret_share)
{
	static const struct unit units[] = {{"%", IMPAIR_SHARE_ALL / 100}};
	uint64_t value;

	if (!decimal_parse(text, units, ARRAY_COUNT(units), &value) || value > IMPAIR_SHARE_ALL)
		return false;
	*ret_share = (uint32_t)value;
	return true;
}

bool impair_time_parse(const struct text_part *text, uint64_t *ret_ns)
{
	static const struct unit units[] = {
		{"ns", 1}, {"us", 1000}, {"ms", 1000000}, {"s", 1000000000}};
	uint64_t value;

	if (!decimal_parse(text, units, ARRAY_COUNT(units), &value) || value > TIME_NS_MAX)
		return false;
	*ret_ns = value;
	return true;
}

bool impair_rate_parse(const struct text_part *text, uint64_t *ret_bits_per_second)
{
	static const struct unit units[] = {{"K", 1000}, {"M", 1000000}, {"G", 1000000000}};
	uint64_t value;

	if (!decimal_parse(text, units, ARRAY_COUNT(units), &value) || value < RATE_MIN ||
		value > RATE_MAX)
		return false;
	*ret_bits_per_second = value;
	return true;
}

bool impair_size_parse(const struct text_part *text, uint64_t *ret_bytes)
{
	static const struct unit units[] = {
		{"", 1}, {"B", 1}, {"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}};
	uint64_t value;

	if (!decimal_parse(text, units, ARRAY_COUNT(units), &value) || value > SIZE_BYTES_MAX)
		return false;
	*ret_bytes = value;
	return true;
}

bool impair_number_parse(const struct text_part *text, uint32_t *ret_number)
{
	return text_part_number(text, 0, UINT32_MAX, ret_number);
}

bool impair_side_parse(const struct text_part *text, enum impair_side *ret_side)
{
	if (text_part_is(text, "server"))
		*ret_side = IMPAIR_SIDE_SERVER;
	else if (text_part_is(text, "client"))
		*ret_side = IMPAIR_SIDE_CLIENT;
	else
		return false;
	return true;
}
