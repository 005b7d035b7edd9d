/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/json.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/command.h"

cJSON *json_append_object(cJSON *list)
{
	cJSON *object = cJSON_CreateObject();

	cJSON_AddItemToArray(list, object);
	return object;
}

void json_add_count(cJSON *object, const char *name, uint64_t value)
{
	char digits[24];

	snprintf(digits, sizeof(digits), "%" PRIu64, value);
	cJSON_AddRawToObject(object, name, digits);
}

void json_add_text(cJSON *object, const char *name, const char *text)
{
	if (text)
		cJSON_AddStringToObject(object, name, text);
	else
		cJSON_AddNullToObject(object, name);
}

void json_add_gid(cJSON *object, const char *name, const struct gid *gid)
{
	char text[INET6_ADDRSTRLEN];

	inet_ntop(AF_INET6, gid->raw, text, sizeof(text));
	cJSON_AddStringToObject(object, name, text);
}

/* Print `text`, the printed form of `root`, and free both. `text` is NULL when out of memory. */
static int text_print(cJSON *root, char *text)
{
	int result = 0;

	cJSON_Delete(root);
	if (!text)
		return -ENOMEM;
	if (puts(text) < 0)
		result = -errno;
	free(text);
	return result;
}

int json_print(cJSON *root)
{
	return text_print(root, cJSON_Print(root));
}

int json_print_line(cJSON *root)
{
	return text_print(root, cJSON_PrintUnformatted(root));
}
