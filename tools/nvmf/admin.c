/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Commands that print what a controller reports: id-ctrl, id-ns, list-ns, get-log, get-feature.
 */
#include <cjson/cJSON.h>
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nvmf.h"
#include "nvmf/host/controller/sqe.h"

enum notation { NOTATION_TEXT, NOTATION_HEX, NOTATION_DEC, NOTATION_BYTES };
enum structure { STRUCTURE_CTRL, STRUCTURE_NS };

static const struct field {
	enum structure structure;
	const char *name;
	unsigned offset;
	unsigned bytes;
	enum notation notation;
} fields[] = {
#define FIELD(structure, name, offset, bytes, notation) \
	{STRUCTURE_##structure, name, offset, bytes, NOTATION_##notation},
#include "fields.def"
#undef FIELD
};

static uint64_t number_get(const uint8_t *bytes, unsigned length)
{
	uint64_t number = 0;

	while (length--)
		number = number << 8 | bytes[length];
	return number;
}

/* Write a field as text. Characters that are not printable become question marks. */
static void field_text(const struct field *field, const uint8_t *data, char *text, size_t bytes)
{
	const uint8_t *at = data + field->offset;
	size_t length = 0;

	switch (field->notation) {
	case NOTATION_HEX:
		snprintf(text, bytes, "%#" PRIx64, number_get(at, field->bytes));
		return;
	case NOTATION_DEC:
		snprintf(text, bytes, "%" PRIu64, number_get(at, field->bytes));
		return;
	case NOTATION_BYTES:
		for (unsigned i = 0; i < field->bytes; i++)
			snprintf(text + 2 * i, bytes - 2 * i, "%02x", at[i]);
		return;
	case NOTATION_TEXT:
		while (length < field->bytes && length < bytes - 1 && at[length]) {
			text[length] = isprint(at[length]) ? (char)at[length] : '?';
			length++;
		}
		while (length > 0 && text[length - 1] == ' ')
			length--;
		text[length] = '\0';
		return;
	}
}

static int print_json(cJSON *root)
{
	char *text = cJSON_Print(root);

	cJSON_Delete(root);
	if (!text)
		return complain("no memory");
	puts(text);
	free(text);
	return 0;
}

static int print_structure(
	const struct nvmf_options *options, enum structure structure, const uint8_t *data)
{
	cJSON *root = options->wants_json ? cJSON_CreateObject() : NULL;

	for (size_t i = 0; i < sizeof(fields) / sizeof(*fields); i++) {
		const struct field *field = &fields[i];
		char text[512];

		if (field->structure != structure)
			continue;
		field_text(field, data, text, sizeof(text));
		if (!root)
			printf("%-9s : %s\n", field->name, text);
		else if (field->notation == NOTATION_TEXT || field->notation == NOTATION_BYTES)
			cJSON_AddStringToObject(root, field->name, text);
		else
			cJSON_AddNumberToObject(root, field->name,
				(double)number_get(data + field->offset, field->bytes));
	}
	return root ? print_json(root) : 0;
}

int command_id_ctrl(const struct nvmf_options *options)
{
	struct session session;
	int status;

	if (session_open(&session, NULL, options, options->nqn, false))
		return 1;
	if (!options->wants_json)
		printf("NVME Identify Controller:\n");
	status = print_structure(
		options, STRUCTURE_CTRL, host_controller_identity(session.controller));
	session_close(&session);
	return status;
}

static void print_formats(const uint8_t *id)
{
	for (unsigned i = 0; i <= id[25] && i < 16; i++) {
		const uint8_t *format = id + 128 + 4 * i;

		printf("lbaf %2u : ms:%-3u lbads:%-2u rp:%#x%s\n", i, le16_get(format), format[2],
			format[3] & 3, i == (id[26] & 0xf) ? " (in use)" : "");
	}
}

static int identify_send(struct session *session, uint32_t cns, uint32_t nsid, uint8_t *data)
{
	struct host_request request = {0};

	host_sqe_init(&request.command, NVME_ADMIN_IDENTIFY, nsid);
	host_sqe_dword(&request.command, 10, cns);
	host_sqe_data(&request.command, HOST_FROM_CONTROLLER, data, HOST_IDENTIFY_BYTES);
	return session_admin(session, &request, "Identify");
}

int command_id_ns(const struct nvmf_options *options)
{
	static uint8_t data[HOST_IDENTIFY_BYTES];
	uint32_t nsid = options->nsid ? options->nsid : 1;
	struct session session;
	int status;

	if (session_open(&session, NULL, options, options->nqn, false))
		return 1;
	status = identify_send(&session, 0, nsid, data);
	session_close(&session);
	if (status)
		return status;
	if (le64_get(data) == 0)
		return complain("there is no namespace %u; see: urnic-nvmf list-ns", nsid);
	if (!options->wants_json)
		printf("NVME Identify Namespace %u:\n", nsid);
	status = print_structure(options, STRUCTURE_NS, data);
	if (!options->wants_json)
		print_formats(data);
	return status;
}

int command_list_ns(const struct nvmf_options *options)
{
	static uint8_t data[HOST_IDENTIFY_BYTES];
	cJSON *root = NULL;
	cJSON *list = NULL;
	struct session session;
	int status;

	if (session_open(&session, NULL, options, options->nqn, false))
		return 1;
	status = identify_send(&session, 2, 0, data);
	session_close(&session);
	if (status)
		return status;
	if (options->wants_json) {
		root = cJSON_CreateObject();
		list = cJSON_AddArrayToObject(root, "nsid_list");
	}
	for (unsigned i = 0; i < HOST_IDENTIFY_BYTES / 4 && le32_get(data + 4 * i); i++) {
		uint32_t nsid = le32_get(data + 4 * i);

		if (root)
			cJSON_AddItemToArray(list, cJSON_CreateNumber(nsid));
		else
			printf("[%4u]:%#x\n", i, nsid);
	}
	return root ? print_json(root) : 0;
}

static void print_bytes(const uint8_t *data, uint32_t bytes)
{
	for (uint32_t i = 0; i < bytes; i += 16) {
		printf("%04x:", i);
		for (uint32_t j = i; j < i + 16 && j < bytes; j++)
			printf(" %02x", data[j]);
		printf("  ");
		for (uint32_t j = i; j < i + 16 && j < bytes; j++)
			putchar(isprint(data[j]) ? data[j] : '.');
		putchar('\n');
	}
}

int command_get_log(const struct nvmf_options *options)
{
	uint32_t bytes = options->log_bytes ? (options->log_bytes + 3) & ~3u : 512;
	struct host_request request = {0};
	struct session session;
	uint8_t *data;
	int status;

	if (!options->log_id)
		return complain(
			"which log page? give its number with --log-id, such as 2 for SMART");
	if (session_open(&session, NULL, options, options->nqn, false))
		return 1;
	data = calloc(1, bytes);
	if (!data) {
		session_close(&session);
		return complain("no memory");
	}
	host_sqe_init(&request.command, NVME_ADMIN_GET_LOG_PAGE,
		options->nsid ? options->nsid : UINT32_MAX);
	host_sqe_dword(&request.command, 10, options->log_id | (bytes / 4 - 1) << 16);
	host_sqe_dword(&request.command, 11, (bytes / 4 - 1) >> 16);
	host_sqe_data(&request.command, HOST_FROM_CONTROLLER, data, bytes);
	status = session_admin(&session, &request, "Get Log Page");
	session_close(&session);
	if (status == 0)
		print_bytes(data, bytes);
	free(data);
	return status;
}

int command_get_feature(const struct nvmf_options *options)
{
	struct host_request request = {0};
	struct session session;
	int status;

	if (!options->feature_id)
		return complain("which feature? give its number with --feature-id, such as 7");
	if (session_open(&session, NULL, options, options->nqn, false))
		return 1;
	host_sqe_init(&request.command, NVME_ADMIN_GET_FEATURES, options->nsid);
	host_sqe_dword(&request.command, 10, options->feature_id);
	status = session_admin(&session, &request, "Get Features");
	session_close(&session);
	if (status == 0)
		printf("get-feature:%#04x, Current value:%#010x\n", options->feature_id,
			(uint32_t)request.result);
	return status;
}
