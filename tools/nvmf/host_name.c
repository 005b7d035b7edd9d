/* SPDX-License-Identifier: BSD-2-Clause */
#include "host_name.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static const char uuid_prefix[] = "nqn.2014-08.org.nvmexpress:uuid:";

bool host_id_parse(const char *text, uint8_t ret_id[16])
{
	unsigned digits = 0;
	uint8_t id[16] = {0};

	for (; *text && !isspace((unsigned char)*text); text++) {
		const char *found;

		if (*text == '-')
			continue;
		found = strchr("0123456789abcdef", tolower((unsigned char)*text));
		if (!found || digits == 32)
			return false;
		id[digits / 2] = (uint8_t)(id[digits / 2] << 4 | (found - "0123456789abcdef"));
		digits++;
	}
	if (digits != 32)
		return false;
	memcpy(ret_id, id, sizeof(id));
	return true;
}

/* Read the first line of a file. Returns false if there is no such line, or it is empty. */
static bool read_line(const char *path, char *line, int bytes)
{
	FILE *file = fopen(path, "re");
	bool has_line = file && fgets(line, bytes, file);

	if (file)
		fclose(file);
	if (has_line)
		line[strcspn(line, "\r\n")] = '\0';
	return has_line && line[0];
}

bool host_name_complete(struct nvmf_options *options)
{
	static const uint8_t nothing[16];
	char line[HOST_NQN_BYTES];
	uint8_t machine[16];
	const uint8_t *id;
	bool has_machine =
		read_line("/etc/machine-id", line, sizeof(line)) && host_id_parse(line, machine);

	if (!options->hostnqn[0])
		read_line("/etc/nvme/hostnqn", options->hostnqn, sizeof(options->hostnqn));
	if (!memcmp(options->hostid, nothing, sizeof(nothing)) &&
		(!read_line("/etc/nvme/hostid", line, sizeof(line)) ||
			!host_id_parse(line, options->hostid))) {
		bool has_uuid = !strncmp(options->hostnqn, uuid_prefix, sizeof(uuid_prefix) - 1) &&
			host_id_parse(options->hostnqn + sizeof(uuid_prefix) - 1, options->hostid);

		if (!has_uuid && !has_machine) {
			complain("this machine has no name: write a UUID into /etc/machine-id, or "
				 "give --hostid");
			return false;
		}
		if (!has_uuid)
			memcpy(options->hostid, machine, sizeof(machine));
	}
	if (options->hostnqn[0])
		return true;
	id = options->hostid;
	snprintf(options->hostnqn, sizeof(options->hostnqn),
		"%s%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
		uuid_prefix, id[0], id[1], id[2], id[3], id[4], id[5], id[6], id[7], id[8], id[9],
		id[10], id[11], id[12], id[13], id[14], id[15]);
	return true;
}
