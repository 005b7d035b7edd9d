/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdlib.h>
#include <string.h>

#include "nvmf/target/config/config.h"
#include "nvmf/target/config/config_objects.h"

static const char discovery_nqn[] = "nqn.2014-08.org.nvmexpress.discovery";

/* clang-format off */
static const struct config_field host_fields[] = {
	{.key = "nqn", .read = config_read_nqn, .is_required = true},
	/* If these keys were ignored, the host could connect without authentication. */
	{.key = "dhchap", .read = config_read_unsupported},
	{.key = "dhchap_key", .read = config_read_unsupported},
	{.key = "dhchap_ctrl_key", .read = config_read_unsupported},
};
/* clang-format on */

static bool read_host(struct config_reader *reader, const cJSON *node, void *object, size_t index)
{
	struct config_host *hosts = ((struct target_config *)object)->hosts;

	if (!config_read_object(reader, node, "a host", host_fields,
		    sizeof(host_fields) / sizeof(host_fields[0]), &hosts[index]))
		return false;
	for (size_t i = 0; i < index; i++) {
		if (strcmp(hosts[i].nqn, hosts[index].nqn) == 0)
			return config_refuse(reader, node,
				"the host \"%s\" is there twice; remove one", hosts[i].nqn);
	}
	return true;
}

bool config_read_hosts(struct config_reader *reader, const cJSON *node,
	const struct config_field *field, void *place)
{
	struct target_config *config = place;

	(void)field;
	return config_read_array(reader, node, sizeof(*config->hosts), (void **)&config->hosts,
		&config->host_count, read_host, config);
}

/* nvmetcli writes null, "" or zeroes if there is no ID. */
static bool read_id(struct config_reader *reader, const cJSON *node,
	const struct config_field *field, void *place)
{
	if (cJSON_IsNull(node) || (cJSON_IsString(node) && node->valuestring[0] == '\0'))
		return true;
	if (!cJSON_IsString(node) || !config_id_parse(node->valuestring, place))
		return config_refuse(reader, node,
			"\"%s\" is 32 hex digits with dashes; write one as uuidgen prints it",
			field->key);
	return true;
}

static bool read_size(struct config_reader *reader, const cJSON *node,
	const struct config_field *field, void *place)
{
	uint64_t *size_bytes = place;
	double value = cJSON_IsNumber(node) ? node->valuedouble : 0;

	if (cJSON_IsString(node) && config_size_parse(node->valuestring, size_bytes))
		return true;
	if (value < 1 || value > 9007199254740992.0 || value != (double)(uint64_t)value)
		return config_refuse(reader, node,
			"\"%s\" is a size such as \"64M\" or a number of bytes", field->key);
	*size_bytes = (uint64_t)value;
	return true;
}

static bool read_block_bytes(struct config_reader *reader, const cJSON *node,
	const struct config_field *field, void *place)
{
	uint32_t bytes;

	if (!config_read_number(reader, node, field, &bytes))
		return false;
	if (bytes & (bytes - 1))
		return config_refuse(reader, node, "\"%s\" is a power of two", field->key);
	*(uint32_t *)place = bytes;
	return true;
}

/* The values of "device". Exactly one of path, memory_bytes and null_bytes must be set. */
struct device {
	struct config_namespace *ns;
	char path[CONFIG_PATH_BYTES];
	uint64_t memory_bytes;
	uint64_t null_bytes;
	uint8_t nguid[16];
	uint8_t uuid[16];
	uint32_t block_bytes;
	bool is_read_only;
};

/* clang-format off */
static const struct config_field device_fields[] = {
	{.key = "path", .read = config_read_text, .offset = offsetof(struct device, path),
		.min = 1, .max = CONFIG_PATH_BYTES - 1},
	{.key = "memory", .read = read_size, .offset = offsetof(struct device, memory_bytes)},
	{.key = "null", .read = read_size, .offset = offsetof(struct device, null_bytes)},
	{.key = "block_size", .read = read_block_bytes,
		.offset = offsetof(struct device, block_bytes), .min = 512, .max = 65536},
	{.key = "read_only", .read = config_read_flag,
		.offset = offsetof(struct device, is_read_only)},
	{.key = "nguid", .read = read_id, .offset = offsetof(struct device, nguid)},
	{.key = "uuid", .read = read_id, .offset = offsetof(struct device, uuid)},
};
/* clang-format on */

static bool read_device(struct config_reader *reader, const cJSON *node,
	const struct config_field *field, void *place)
{
	struct config_namespace *ns = place;
	struct device *device = calloc(1, sizeof(*device));
	bool is_read;

	(void)field;
	if (!device)
		return config_refuse_memory(reader);
	is_read = config_read_object(reader, node, "a device", device_fields,
		sizeof(device_fields) / sizeof(device_fields[0]), device);
	if (is_read && !!device->path[0] + !!device->memory_bytes + !!device->null_bytes != 1)
		is_read = config_refuse(reader, node,
			"a device has \"path\", \"memory\" or \"null\"; give it one of them");
	if (is_read) {
		ns->backend = device->path[0] ? CONFIG_PATH
			: device->null_bytes  ? CONFIG_NULL
					      : CONFIG_MEMORY;
		memcpy(ns->path, device->path, sizeof(ns->path));
		ns->size_bytes = device->memory_bytes + device->null_bytes;
		ns->block_bytes = device->block_bytes;
		ns->is_read_only = device->is_read_only;
		memcpy(ns->nguid, device->nguid, sizeof(ns->nguid));
		memcpy(ns->uuid, device->uuid, sizeof(ns->uuid));
	}
	free(device);
	return is_read;
}

/* clang-format off */
static const struct config_field namespace_fields[] = {
	{.key = "nsid", .read = config_read_number, .is_required = true,
		.offset = offsetof(struct config_namespace, nsid),
		.min = 1, .max = CONFIG_NSID_MAX},
	{.key = "enable", .read = config_read_flag,
		.offset = offsetof(struct config_namespace, is_enabled)},
	{.key = "device", .read = read_device, .is_required = true},
	{.key = "ana_grpid", .read = config_read_number,
		.offset = offsetof(struct config_namespace, ana_group), .min = 1, .max = 128},
	{.key = "ana", .read = config_read_ignored},
	{.key = "buffered_io", .read = config_read_ignored},
	{.key = "p2pmem", .read = config_read_ignored},
	{.key = "resv", .read = config_read_unsupported},
};
/* clang-format on */

static bool is_same_id(const uint8_t *id, const uint8_t *other)
{
	static const uint8_t none[16];

	return memcmp(id, none, sizeof(none)) != 0 && memcmp(id, other, sizeof(none)) == 0;
}

static bool read_namespace(
	struct config_reader *reader, const cJSON *node, void *object, size_t index)
{
	struct config_namespace *all = ((struct config_subsystem *)object)->namespaces;
	struct config_namespace *ns = &all[index];

	ns->is_enabled = true;
	ns->ana_group = 1;
	if (!config_read_object(reader, node, "a namespace", namespace_fields,
		    sizeof(namespace_fields) / sizeof(namespace_fields[0]), ns))
		return false;
	for (size_t i = 0; i < index; i++) {
		if (all[i].nsid == ns->nsid)
			return config_refuse(reader, node,
				"the namespace %u is there twice; give each its own \"nsid\"",
				ns->nsid);
		if (is_same_id(ns->nguid, all[i].nguid) || is_same_id(ns->uuid, all[i].uuid))
			return config_refuse(reader, node,
				"the namespaces %u and %u have the same ID; give each its own",
				all[i].nsid, ns->nsid);
	}
	return true;
}

bool config_read_namespaces(struct config_reader *reader, const cJSON *node,
	const struct config_field *field, void *place)
{
	struct config_subsystem *subsystem = place;

	(void)field;
	return config_read_array(reader, node, sizeof(*subsystem->namespaces),
		(void **)&subsystem->namespaces, &subsystem->namespace_count, read_namespace,
		subsystem);
}

/* clang-format off */
static const struct config_field attr_fields[] = {
	{.key = "allow_any_host", .read = config_read_flag,
		.offset = offsetof(struct config_subsystem, allow_any_host)},
	{.key = "serial", .read = config_read_text,
		.offset = offsetof(struct config_subsystem, serial), .max = 20},
	{.key = "model", .read = config_read_text,
		.offset = offsetof(struct config_subsystem, model), .max = 40},
	{.key = "firmware", .read = config_read_text,
		.offset = offsetof(struct config_subsystem, firmware), .max = 8},
	{.key = "cntlid_min", .read = config_read_number,
		.offset = offsetof(struct config_subsystem, cntlid_min),
		.min = 1, .max = CONFIG_CNTLID_MAX},
	{.key = "cntlid_max", .read = config_read_number,
		.offset = offsetof(struct config_subsystem, cntlid_max),
		.min = 1, .max = CONFIG_CNTLID_MAX},
	{.key = "qid_max", .read = config_read_number,
		.offset = offsetof(struct config_subsystem, qid_max), .min = 1, .max = 128},
	{.key = "version", .read = config_read_ignored},
	{.key = "ieee_oui", .read = config_read_ignored},
	{.key = "pi_enable", .read = config_read_unsupported},
};
/* clang-format on */

static bool read_attr(struct config_reader *reader, const cJSON *node,
	const struct config_field *field, void *place)
{
	const struct config_subsystem *subsystem = place;

	(void)field;
	if (!config_read_object(reader, node, "\"attr\"", attr_fields,
		    sizeof(attr_fields) / sizeof(attr_fields[0]), place))
		return false;
	if (subsystem->cntlid_min > subsystem->cntlid_max)
		return config_refuse(reader, node,
			"\"cntlid_min\" is above \"cntlid_max\"; exchange the two numbers");
	return true;
}

static bool read_allowed_hosts(struct config_reader *reader, const cJSON *node,
	const struct config_field *field, void *place)
{
	struct config_subsystem *subsystem = place;
	const struct config_names names = {
		.nqns = reader->config->hosts ? reader->config->hosts[0].nqn : NULL,
		.nqn_count = reader->config->host_count,
		.stride = sizeof(struct config_host),
		.what = "host",
		.list = "hosts",
	};

	(void)field;
	if (!config_read_names(reader, node, &names, &subsystem->allowed_hosts,
		    &subsystem->allowed_host_count))
		return false;
	if (subsystem->allow_any_host && subsystem->allowed_host_count > 0)
		return config_refuse(reader, node,
			"\"allow_any_host\" is 1; set it to 0 or empty the list of allowed hosts");
	return true;
}

/* clang-format off */
static const struct config_field subsystem_fields[] = {
	{.key = "nqn", .read = config_read_nqn, .is_required = true,
		.offset = offsetof(struct config_subsystem, nqn)},
	{.key = "attr", .read = read_attr},
	{.key = "allowed_hosts", .read = read_allowed_hosts},
	{.key = "namespaces", .read = config_read_namespaces},
	{.key = "passthru", .read = config_read_ignored},
	{.key = "offload", .read = config_read_unsupported},
};
/* clang-format on */

static bool read_subsystem(
	struct config_reader *reader, const cJSON *node, void *object, size_t index)
{
	struct config_subsystem *all = ((struct target_config *)object)->subsystems;
	struct config_subsystem *subsystem = &all[index];

	subsystem->cntlid_min = 1;
	subsystem->cntlid_max = CONFIG_CNTLID_MAX;
	subsystem->qid_max = 128;
	if (!config_read_object(reader, node, "a subsystem", subsystem_fields,
		    sizeof(subsystem_fields) / sizeof(subsystem_fields[0]), subsystem))
		return false;
	if (strcmp(subsystem->nqn, discovery_nqn) == 0)
		return config_refuse(reader, node,
			"each port has the discovery subsystem by itself; remove this one");
	for (size_t i = 0; i < index; i++) {
		if (strcmp(all[i].nqn, subsystem->nqn) == 0)
			return config_refuse(reader, node,
				"the subsystem \"%s\" is there twice; rename one", subsystem->nqn);
	}
	return true;
}

bool config_read_subsystems(struct config_reader *reader, const cJSON *node,
	const struct config_field *field, void *place)
{
	struct target_config *config = place;

	(void)field;
	return config_read_array(reader, node, sizeof(*config->subsystems),
		(void **)&config->subsystems, &config->subsystem_count, read_subsystem, config);
}
