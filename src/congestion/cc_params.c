/* SPDX-License-Identifier: BSD-2-Clause */
#include "congestion/cc_params.h"

#include <string.h>

#include "base/text.h"
#include "base/why.h"

static const char *const algorithm_names[CC_ALGORITHM_COUNT] = {
	[CC_OFF] = "off",
	[CC_DCQCN] = "dcqcn",
	[CC_SWIFT] = "swift",
};

static const char *const preset_names[CC_PRESET_COUNT] = {
	[CC_PRESET_SIGCOMM15] = "sigcomm15",
	[CC_PRESET_MS_NS3] = "ms-ns3",
	[CC_PRESET_CX4] = "cx4+",
};

const char *cc_algorithm_name(enum cc_algorithm algorithm)
{
	return algorithm_names[algorithm];
}

const char *cc_preset_name(enum cc_preset preset)
{
	return preset_names[preset];
}

/* --- sentences --- */

static void why_name(char why[CC_WHY_BYTES], const struct text_part *name)
{
	why[0] = '\0';
	why_add(why, CC_WHY_BYTES, "there is no ");
	why_add_word(why, CC_WHY_BYTES, name);
	why_add(why, CC_WHY_BYTES,
		"; write off, dcqcn or swift, preset=NAME or PARAMETER=NUMBER; ");
	why_add(why, CC_WHY_BYTES, "`urnic explain rp_ np_ swift_` lists the parameters");
}

static void why_value(
	char why[CC_WHY_BYTES], const char *name, const struct text_part *value, const char *values)
{
	why[0] = '\0';
	why_add(why, CC_WHY_BYTES, name);
	why_add(why, CC_WHY_BYTES, " is ");
	why_add_word(why, CC_WHY_BYTES, value);
	why_add(why, CC_WHY_BYTES, "; it may be ");
	why_add(why, CC_WHY_BYTES, values);
}

/* --- values --- */

void cc_params_init(struct cc_params *params, enum cc_algorithm algorithm, enum cc_preset preset)
{
	*params = (struct cc_params){.algorithm = algorithm, .preset = preset};
#define PARAMETER(name, lowest, highest, sigcomm15, ms_ns3, cx4, unit, sentence) \
	params->name = preset == CC_PRESET_CX4 ? cx4                             \
		: preset == CC_PRESET_MS_NS3   ? ms_ns3                          \
					       : sigcomm15;
#include "congestion/parameter.def"
#undef PARAMETER
}

static bool word_find(const struct text_part *word, const char *const names[], uint32_t count,
	uint32_t *ret_index)
{
	for (uint32_t i = 0; i < count; i++) {
		if (text_part_is(word, names[i])) {
			*ret_index = i;
			return true;
		}
	}
	return false;
}

static bool parameter_set(struct cc_params *params, const struct text_part *name,
	const struct text_part *value, char why[CC_WHY_BYTES])
{
#define PARAMETER(parameter, lowest, highest, sigcomm15, ms_ns3, cx4, unit, sentence)        \
	if (text_part_is(name, #parameter)) {                                                \
		if (text_part_number(value, lowest, highest, &params->parameter))            \
			return true;                                                         \
		why_value(why, #parameter, value, "a number from " #lowest " to " #highest); \
		return false;                                                                \
	}
#include "congestion/parameter.def"
#undef PARAMETER
	why_name(why, name);
	return false;
}

/* Split NAME=VALUE. Returns false, with the whole item as name, if there is no '='. */
static bool item_split(
	const struct text_part *item, struct text_part *ret_name, struct text_part *ret_value)
{
	const char *sign = memchr(item->text, '=', item->bytes);

	*ret_name = *item;
	*ret_value = (struct text_part){item->text + item->bytes, 0};
	if (!sign)
		return false;
	ret_name->bytes = (size_t)(sign - item->text);
	*ret_value = (struct text_part){sign + 1, item->bytes - ret_name->bytes - 1};
	return true;
}

/*
 * Find the algorithm and the preset among the items. The caller then sets the preset's values, and
 * after that the parameters of the other items.
 */
static bool words_parse(
	const char *text, uint32_t *ret_algorithm, uint32_t *ret_preset, char why[CC_WHY_BYTES])
{
	struct text_part item, name, value;

	while (text_item_next(&text, &item)) {
		bool has_value = item_split(&item, &name, &value);

		if (!has_value &&
			!word_find(&name, algorithm_names, CC_ALGORITHM_COUNT, ret_algorithm)) {
			why_name(why, &name);
			return false;
		}
		if (has_value && text_part_is(&name, "preset") &&
			!word_find(&value, preset_names, CC_PRESET_COUNT, ret_preset)) {
			why_value(why, "preset", &value, "sigcomm15, ms-ns3 or cx4+");
			return false;
		}
	}
	return true;
}

bool cc_params_parse(struct cc_params *params, const char *text, char ret_why[CC_WHY_BYTES])
{
	uint32_t algorithm = CC_DCQCN, preset = CC_PRESET_SIGCOMM15;
	struct text_part item, name, value;
	struct cc_params parsed;

	if (!words_parse(text, &algorithm, &preset, ret_why))
		return false;
	cc_params_init(&parsed, (enum cc_algorithm)algorithm, (enum cc_preset)preset);
	while (text_item_next(&text, &item)) {
		if (item_split(&item, &name, &value) && !text_part_is(&name, "preset") &&
			!parameter_set(&parsed, &name, &value, ret_why))
			return false;
	}
	*params = parsed;
	return true;
}
