/* SPDX-License-Identifier: BSD-2-Clause */
#include "impair/plan.h"

#include <string.h>

#include "base/arith.h"
#include "base/why.h"
#include "impair/value.h"

static bool share_set(uint32_t *share, const struct text_part *text)
{
	return impair_share_parse(text, share);
}

static bool time_set(uint64_t *ns, const struct text_part *text)
{
	return impair_time_parse(text, ns);
}

static bool rate_set(uint64_t *rate, const struct text_part *text)
{
	return impair_rate_parse(text, rate);
}

static bool number_set(uint32_t *number, const struct text_part *text)
{
	return impair_number_parse(text, number);
}

static bool side_set(enum impair_side *side, const struct text_part *text)
{
	return impair_side_parse(text, side);
}

static bool path_set(char (*path)[IMPAIR_PATH_BYTES], const struct text_part *text)
{
	if (text->bytes == 0 || text->bytes >= sizeof(*path) ||
		memchr(text->text, ',', text->bytes))
		return false;
	memcpy(*path, text->text, text->bytes);
	(*path)[text->bytes] = '\0';
	return true;
}

static void why_value(char why[IMPAIR_WHY_BYTES], const char *name, const struct text_part *value,
	const char *values)
{
	why[0] = '\0';
	why_add(why, IMPAIR_WHY_BYTES, name);
	why_add(why, IMPAIR_WHY_BYTES, " is ");
	why_add_word(why, IMPAIR_WHY_BYTES, value);
	why_add(why, IMPAIR_WHY_BYTES, "; it may be ");
	why_add(why, IMPAIR_WHY_BYTES, values);
}

static void why_name(char why[IMPAIR_WHY_BYTES], const struct text_part *name)
{
	why[0] = '\0';
	why_add(why, IMPAIR_WHY_BYTES, "there is no impairment ");
	why_add_word(why, IMPAIR_WHY_BYTES, name);
	why_add(why, IMPAIR_WHY_BYTES, "; write NAME=VALUE with one of:");
#define SETTING(setting, kind, values) why_add(why, IMPAIR_WHY_BYTES, " " #setting);
#include "impair/setting.def"
#undef SETTING
}

static bool item_set(struct impair_plan *plan, const struct text_part *name,
	const struct text_part *value, char why[IMPAIR_WHY_BYTES])
{
#define SETTING(setting, kind, values)                   \
	if (text_part_is(name, #setting)) {              \
		if (kind##_set(&plan->setting, value))   \
			return true;                     \
		why_value(why, #setting, value, values); \
		return false;                            \
	}
#include "impair/setting.def"
#undef SETTING
	why_name(why, name);
	return false;
}

bool impair_plan_set(struct impair_plan *plan, const char *name, const char *value,
	char ret_why[IMPAIR_WHY_BYTES])
{
	const struct text_part name_part = {name, strlen(name)},
			       value_part = {value, strlen(value)};

	return item_set(plan, &name_part, &value_part, ret_why);
}

bool impair_plan_parse(struct impair_plan *plan, const char *text, char ret_why[IMPAIR_WHY_BYTES])
{
	struct text_part item;

	while (text_item_next(&text, &item)) {
		const char *sign = memchr(item.text, '=', item.bytes);
		struct text_part name = item, value = {item.text + item.bytes, 0};

		if (sign) {
			name.bytes = (size_t)(sign - item.text);
			value.text = sign + 1;
			value.bytes = item.bytes - name.bytes - 1;
		}
		if (!item_set(plan, &name, &value, ret_why))
			return false;
	}
	return true;
}
