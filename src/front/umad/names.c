/* SPDX-License-Identifier: BSD-2-Clause */
/* Names of the numbers in MADs: umad_class_str(3) and similar calls. */
#include "base/arith.h"
#include "front/umad/abi.h"
#include "wire/infiniband/mad.h"

#define UNKNOWN "<unknown>"

enum name_kind { ANY, SUBN, SA, CM };

static bool class_is(uint8_t management_class, enum name_kind kind)
{
	switch (kind) {
	case ANY:
		return true;
	case SUBN:
		return mad_class_is_subnet(management_class);
	case SA:
		return management_class == MAD_CLASS_SUBN_ADM;
	case CM:
		return management_class == MAD_CLASS_CM;
	}
	return false;
}

const char *umad_class_str(uint8_t mgmt_class)
{
	static const struct {
		uint8_t first, last;
		const char *name;
	} classes[] = {
#define CLASSES(first, last, name) {first, last, name},
#include "front/umad/names.def"
#undef CLASSES
	};

	for (size_t i = 0; i < ARRAY_COUNT(classes); i++)
		if (mgmt_class >= classes[i].first && mgmt_class <= classes[i].last)
			return classes[i].name;
	return UNKNOWN;
}

const char *umad_method_str(uint8_t mgmt_class, uint8_t method)
{
	static const struct {
		enum name_kind kind;
		uint8_t number;
		const char *name;
	} methods[] = {
#define METHOD(kind, number, name) {kind, number, name},
#include "front/umad/names.def"
#undef METHOD
	};

	for (size_t i = 0; i < ARRAY_COUNT(methods); i++)
		if (method == methods[i].number && class_is(mgmt_class, methods[i].kind))
			return methods[i].name;
	/* Debian's library prints no closing bracket here. */
	return "<unknown";
}

const char *umad_common_mad_status_str(__be16 status)
{
	static const struct {
		uint16_t mask, value;
		const char *name;
	} states[] = {
#define STATUS(mask, value, name) {mask, value, name},
#include "front/umad/names.def"
#undef STATUS
	};
	size_t i = 0;

	while ((be16toh(status) & states[i].mask) != states[i].value)
		i++;
	return states[i].name;
}

const char *umad_sa_mad_status_str(__be16 status)
{
	static const char *const names[] = {
#define SA_STATUS(value, name) [value] = name,
#include "front/umad/names.def"
#undef SA_STATUS
	};
	uint8_t code = (uint8_t)(be16toh(status) >> 8);

	return code < ARRAY_COUNT(names) ? names[code] : "Undefined Error";
}

const char *umad_attribute_str(uint8_t mgmt_class, __be16 attr_id)
{
	static const struct {
		enum name_kind kind;
		uint16_t number;
		const char *name;
	} attributes[] = {
#define ATTRIBUTE(kind, number, name) {kind, number, name},
#include "front/umad/names.def"
#undef ATTRIBUTE
	};

	for (size_t i = 0; i < ARRAY_COUNT(attributes); i++)
		if (be16toh(attr_id) == attributes[i].number &&
			class_is(mgmt_class, attributes[i].kind))
			return attributes[i].name;
	return UNKNOWN;
}
