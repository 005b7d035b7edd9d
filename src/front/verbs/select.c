/* SPDX-License-Identifier: BSD-2-Clause */
#include "front/verbs/select.h"

#include <fnmatch.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

/*
 * The room for a pattern and its terminator. Names of interfaces have at most 15 bytes, but
 * patterns may be longer.
 */
#define PATTERN_BYTES_MAX 64

static bool item_matches(const struct text_part *item, const char *ifname)
{
	char pattern[PATTERN_BYTES_MAX];

	if (item->bytes >= sizeof(pattern))
		return false;
	memcpy(pattern, item->text, item->bytes);
	pattern[item->bytes] = '\0';
	return fnmatch(pattern, ifname, 0) == 0;
}

int select_place(const char *patterns, const char *ifname)
{
	struct text_part item;
	int place = 0;

	if (!patterns || *patterns == '\0')
		return 0;
	for (; text_item_next(&patterns, &item); place++)
		if (item_matches(&item, ifname))
			return place;
	return -1;
}

static bool is_named_by_pattern(const char *patterns, const char *ifname)
{
	struct text_part item;

	while (text_item_next(&patterns, &item))
		if (strspn(item.text, "*") < item.bytes && item_matches(&item, ifname))
			return true;
	return false;
}

/*
 * If the item is the name of this interface, "=" and a text, set *ret_name to that text. Returns
 * whether it is.
 */
static bool item_names(const struct text_part *item, const char *ifname, struct text_part *ret_name)
{
	size_t bytes = strlen(ifname);

	if (item->bytes <= bytes + 1 || memcmp(item->text, ifname, bytes) != 0 ||
		item->text[bytes] != '=')
		return false;
	*ret_name = (struct text_part){item->text + bytes + 1, item->bytes - bytes - 1};
	return true;
}

static bool name_of_interface(const char *names, const char *ifname, struct text_part *ret_name)
{
	struct text_part item;

	while (text_item_next(&names, &item))
		if (item_names(&item, ifname, ret_name))
			return true;
	return false;
}

static bool name_by_position(const char *names, unsigned int position, struct text_part *ret_name)
{
	struct text_part item;

	while (text_item_next(&names, &item))
		if (!memchr(item.text, '=', item.bytes) && position-- == 0) {
			*ret_name = item;
			return true;
		}
	return false;
}

static bool is_name(const struct text_part *item, size_t size)
{
	static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
				      "0123456789_-.:";

	return item->bytes < size && item->text[0] != '.' &&
		strspn(item->text, letters) >= item->bytes;
}

bool select_is_named(const char *patterns, const char *names, const char *ifname)
{
	struct text_part name;

	return (patterns && is_named_by_pattern(patterns, ifname)) ||
		(names && name_of_interface(names, ifname, &name));
}

bool select_name(const char *names, const char *prefix, const char *ifname, unsigned int *unnamed,
	char *name, size_t size)
{
	struct text_part item;
	bool is_given;

	if (!names)
		names = "";
	is_given = name_of_interface(names, ifname, &item) ||
		name_by_position(names, (*unnamed)++, &item);
	if (is_given && is_name(&item, size)) {
		snprintf(name, size, "%.*s", (int)item.bytes, item.text);
		return true;
	}
	snprintf(name, size, "%s_%s", prefix, ifname);
	return !is_given;
}

int select_transport_place(const char *list, const char *transport)
{
	struct text_part item;
	int place = 0;

	if (!list || *list == '\0')
		list = "roce";
	for (; text_item_next(&list, &item); place++)
		if (item.bytes == strlen(transport) &&
			memcmp(item.text, transport, item.bytes) == 0)
			return place;
	return -1;
}

int select_count(const char *list)
{
	struct text_part item;
	int count = 0;

	while (text_item_next(&list, &item))
		count++;
	return count;
}
