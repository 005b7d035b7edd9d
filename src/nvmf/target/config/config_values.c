/* SPDX-License-Identifier: BSD-2-Clause */
#include <string.h>

#include "nvmf/common/codec/fabrics.h"
#include "nvmf/target/config/config.h"
#include "nvmf/target/config/config_objects.h"

bool config_size_parse(const char *text, uint64_t *ret_bytes)
{
	static const char units[] = "KMGTP";
	const char *unit;
	uint64_t value = 0;

	if (*text < '0' || *text > '9')
		return false;
	for (; *text >= '0' && *text <= '9'; text++) {
		uint64_t digit = (uint64_t)(*text - '0');

		if (value > (INT64_MAX - digit) / 10)
			return false;
		value = value * 10 + digit;
	}
	if (*text && (unit = strchr(units, *text))) {
		unsigned shift = 10 * (unsigned)(unit - units + 1);

		if (value > (uint64_t)INT64_MAX >> shift)
			return false;
		value <<= shift;
		text++;
	}
	*ret_bytes = value;
	return *text == '\0' && value > 0;
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

bool config_id_parse(const char *text, uint8_t ret_id[16])
{
	uint8_t id[16] = {0};
	unsigned digits = 0;

	for (; *text; text++) {
		int digit = hex_digit(*text);

		if (*text == '-' && digits > 0 && digits < 32)
			continue;
		if (digit < 0 || digits == 32)
			return false;
		id[digits / 2] = (uint8_t)(id[digits / 2] << 4 | digit);
		digits++;
	}
	if (digits != 32)
		return false;
	memcpy(ret_id, id, sizeof(id));
	return true;
}

bool config_read_nqn(struct config_reader *reader, const cJSON *node,
	const struct config_field *field, void *place)
{
	(void)field;
	if (!cJSON_IsString(node) || !nvme_nqn_is_valid(node->valuestring, CONFIG_NQN_BYTES))
		return config_refuse(reader, node,
			"an NQN is a text of 1 to 223 bytes without control characters");
	memcpy(place, node->valuestring, strlen(node->valuestring) + 1);
	return true;
}

/* The context of read_name(). */
struct names_place {
	const struct config_names *names;
	uint32_t *indices;
};

static bool read_name(struct config_reader *reader, const cJSON *node, void *object, size_t index)
{
	const struct names_place *place = object;
	const struct config_names *names = place->names;
	char nqn[CONFIG_NQN_BYTES];
	size_t found = 0;

	if (!config_read_nqn(reader, node, NULL, nqn))
		return false;
	while (found < names->nqn_count && strcmp(names->nqns + found * names->stride, nqn) != 0)
		found++;
	if (found == names->nqn_count)
		return config_refuse(reader, node, "there is no %s \"%s\"; add it to \"%s\"",
			names->what, nqn, names->list);
	for (size_t i = 0; i < index; i++) {
		if (place->indices[i] == found)
			return config_refuse(reader, node,
				"the %s \"%s\" is there twice; remove one", names->what, nqn);
	}
	place->indices[index] = (uint32_t)found;
	return true;
}

bool config_read_names(struct config_reader *reader, const cJSON *node,
	const struct config_names *names, uint32_t **ret_indices, size_t *ret_count)
{
	struct names_place place = {.names = names};
	bool is_read = config_read_array(reader, node, sizeof(*place.indices),
		(void **)&place.indices, ret_count, read_name, &place);

	*ret_indices = place.indices;
	return is_read;
}

bool config_read_unsupported(struct config_reader *reader, const cJSON *node,
	const struct config_field *field, void *place)
{
	const char *text = cJSON_IsString(node) ? node->valuestring : NULL;

	(void)place;
	if (cJSON_IsNull(node) || cJSON_IsFalse(node) ||
		(cJSON_IsNumber(node) && node->valuedouble == 0) ||
		(text && (*text == '\0' || strcmp(text, "0") == 0)))
		return true;
	return config_refuse(reader, node,
		"urnic does not support \"%s\"; remove it or set it to 0", field->key);
}
