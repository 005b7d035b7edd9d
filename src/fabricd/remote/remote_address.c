/* SPDX-License-Identifier: BSD-2-Clause */
#include "fabricd/remote/remote_address.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

enum { NAME_BYTES = 128, PORT_BYTES = 8 };

/* Cut the text into the address and the port. Without a port, `port` keeps its default. */
static int text_split(const char *text, char name[NAME_BYTES], char port[PORT_BYTES])
{
	const char *end = text + strlen(text), *colon = strrchr(text, ':');
	const bool has_bracket = *text == '[';

	if (has_bracket) {
		end = strchr(++text, ']');
		if (!end || (end[1] && end[1] != ':'))
			return -EINVAL;
		colon = end[1] ? end + 1 : NULL;
	} else if (colon && strchr(text, ':') == colon) {
		end = colon;
	} else {
		colon = NULL; /* no port, or an IPv6 address without brackets */
	}
	if (end == text || end - text >= NAME_BYTES ||
		(colon && (strlen(colon + 1) >= PORT_BYTES || !colon[1])))
		return -EINVAL;
	memcpy(name, text, (size_t)(end - text));
	name[end - text] = '\0';
	if (colon)
		memcpy(port, colon + 1, strlen(colon + 1) + 1);
	return 0;
}

int remote_address_find(
	const char *text, struct remote_address *ret_address, char why[ATTACH_TEXT_BYTES])
{
	const struct addrinfo wanted = {
		.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
	char name[NAME_BYTES], port[PORT_BYTES];
	struct addrinfo *found;
	uint32_t number;
	int error;

	snprintf(port, sizeof(port), "%d", REMOTE_PORT_DEFAULT);
	if (text_split(text, name, port) || !text_number(port, 1, UINT16_MAX, &number)) {
		snprintf(why, ATTACH_TEXT_BYTES, "\"%.100s\" is no ADDR[:PORT]", text);
		return -EINVAL;
	}
	error = getaddrinfo(name, port, &wanted, &found);
	if (error) {
		snprintf(why, ATTACH_TEXT_BYTES, "%.100s: %s", name, gai_strerror(error));
		return -EINVAL;
	}
	memcpy(&ret_address->socket, found->ai_addr, found->ai_addrlen);
	ret_address->bytes = found->ai_addrlen;
	freeaddrinfo(found);
	return 0;
}

void remote_address_print(
	const struct remote_address *address, char ret_text[REMOTE_ADDRESS_TEXT_BYTES])
{
	if (getnameinfo((const struct sockaddr *)&address->socket, address->bytes, ret_text,
		    REMOTE_ADDRESS_TEXT_BYTES, NULL, 0, NI_NUMERICHOST))
		snprintf(ret_text, REMOTE_ADDRESS_TEXT_BYTES, "?");
}
