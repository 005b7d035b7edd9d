/* SPDX-License-Identifier: BSD-2-Clause */
#include "fabricd/fabric_name.h"

#include <errno.h>
#include <string.h>

#include "base/arith.h"

static bool is_name_letter(char letter)
{
	return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
		(letter >= '0' && letter <= '9') || letter == '-' || letter == '_' || letter == '.';
}

static size_t name_bytes(const char *text)
{
	size_t bytes = 0;

	while (is_name_letter(text[bytes]))
		bytes++;
	return bytes;
}

bool fabric_name_is_legal(const char *name)
{
	size_t bytes = name_bytes(name);

	return bytes > 0 && bytes < ATTACH_NAME_BYTES && name[bytes] == '\0';
}

int fabric_place_parse(const char *text, struct fabric_place *ret_place)
{
	size_t bytes = name_bytes(text);
	struct fabric_place place = {.fabric = FABRIC_NAME_DEFAULT};

	if (bytes > 0 && text[bytes] == ':') {
		if (bytes >= sizeof(place.fabric))
			return -EINVAL;
		memcpy(place.fabric, text, bytes);
		place.fabric[bytes] = '\0';
		text += bytes + 1;
	} else if (!*text) {
		return -EINVAL;
	}
	if (strlen(text) >= sizeof(place.node))
		return -EINVAL;
	memcpy(place.node, text, strlen(text) + 1);
	*ret_place = place;
	return 0;
}

uint64_t fabric_name_number(const char *name)
{
	uint64_t number = 0;

	for (; *name; name++)
		number = mix_u64(number + (uint8_t)*name + 1);
	return number ? number : 1;
}
