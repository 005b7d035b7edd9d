/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "nvmf/target/config/config.h"
#include "nvmf/target/config/config_objects.h"

/* RDMA's default is smaller, because an RDMA queue has such a receive buffer for each entry. */
enum {
	INLINE_BYTES_TCP = 16 << 10,
	INLINE_BYTES_RDMA = 4 << 10,
	QUEUE_SIZE = 128,
	INLINE_BYTES_UNSET = 1
};

static bool read_transport(struct config_reader *reader, const cJSON *node,
	const struct config_field *field, void *place)
{
	const char *text = cJSON_IsString(node) ? node->valuestring : "";

	if (strcmp(text, "rdma") != 0 && strcmp(text, "tcp") != 0)
		return config_refuse(reader, node, "\"%s\" is \"rdma\" or \"tcp\"", field->key);
	*(enum config_transport *)place = text[0] == 'r' ? CONFIG_RDMA : CONFIG_TCP;
	return true;
}

static bool read_family(struct config_reader *reader, const cJSON *node,
	const struct config_field *field, void *place)
{
	const char *text = cJSON_IsString(node) ? node->valuestring : "";

	if (strcmp(text, "ipv4") != 0 && strcmp(text, "ipv6") != 0)
		return config_refuse(reader, node, "\"%s\" is \"ipv4\" or \"ipv6\"", field->key);
	*(enum config_family *)place = text[3] == '4' ? CONFIG_IPV4 : CONFIG_IPV6;
	return true;
}

/* Read "traddr", after "adrfam". `place` is the whole config_address. */
static bool read_traddr(struct config_reader *reader, const cJSON *node,
	const struct config_field *field, void *place)
{
	struct config_address *address = place;
	bool is_ipv6 = address->family == CONFIG_IPV6;
	char numeric[CONFIG_TRADDR_BYTES];
	struct in6_addr binary;

	if (!config_read_text(reader, node, field, address->traddr))
		return false;
	memcpy(numeric, address->traddr, sizeof(numeric));
	if (is_ipv6)
		numeric[strcspn(numeric, "%")] = '\0';
	if (inet_pton(is_ipv6 ? AF_INET6 : AF_INET, numeric, &binary) != 1)
		return config_refuse(reader, node, "\"%.64s\" is not an IPv%c address",
			address->traddr, is_ipv6 ? '6' : '4');
	return true;
}

static bool read_service(struct config_reader *reader, const cJSON *node,
	const struct config_field *field, void *place)
{
	struct config_address *address = place;
	uint32_t port;

	if (cJSON_IsString(node) && node->valuestring[0] == '\0')
		return true;
	if (!config_read_number(reader, node, field, &port))
		return false;
	snprintf(address->trsvcid, sizeof(address->trsvcid), "%u", port);
	return true;
}

/* Refuse a required secure channel, because urnic has no TLS. */
static bool read_treq(struct config_reader *reader, const cJSON *node,
	const struct config_field *field, void *place)
{
	(void)place;
	if (cJSON_IsString(node) && strcmp(node->valuestring, "required") == 0)
		return config_refuse(reader, node,
			"urnic has no secure channels; set \"%s\" to \"not required\"", field->key);
	return true;
}

/* clang-format off */
static const struct config_field address_fields[] = {
	{.key = "trtype", .read = read_transport, .is_required = true,
		.offset = offsetof(struct config_address, transport)},
	{.key = "adrfam", .read = read_family, .offset = offsetof(struct config_address, family)},
	{.key = "traddr", .read = read_traddr, .is_required = true,
		.min = 1, .max = CONFIG_TRADDR_BYTES - 1},
	{.key = "trsvcid", .read = read_service, .min = 1, .max = 65535},
	{.key = "portid", .read = config_read_number,
		.offset = offsetof(struct config_address, portid), .max = 65535},
	{.key = "treq", .read = read_treq},
	{.key = "tsas", .read = config_read_ignored},
};
/* clang-format on */

static bool read_address(struct config_reader *reader, const cJSON *node,
	const struct config_field *field, void *place)
{
	struct config_address *address = place;

	(void)field;
	address->family = CONFIG_IPV4;
	return config_read_object(reader, node, "an address", address_fields,
		sizeof(address_fields) / sizeof(address_fields[0]), place);
}

/* clang-format off */
static const struct config_field referral_fields[] = {
	{.key = "name", .read = config_read_text,
		.offset = offsetof(struct config_referral, name), .max = CONFIG_NQN_BYTES - 1},
	{.key = "addr", .read = read_address, .is_required = true,
		.offset = offsetof(struct config_referral, address)},
	{.key = "enable", .read = config_read_flag,
		.offset = offsetof(struct config_referral, is_enabled)},
};
/* clang-format on */

static bool read_referral(
	struct config_reader *reader, const cJSON *node, void *object, size_t index)
{
	struct config_referral *referral = &((struct config_port *)object)->referrals[index];

	referral->is_enabled = true;
	if (!config_read_object(reader, node, "a referral", referral_fields,
		    sizeof(referral_fields) / sizeof(referral_fields[0]), referral))
		return false;
	if (!referral->address.trsvcid[0])
		strcpy(referral->address.trsvcid, "8009");
	return true;
}

static bool read_referrals(struct config_reader *reader, const cJSON *node,
	const struct config_field *field, void *place)
{
	struct config_port *port = place;

	(void)field;
	return config_read_array(reader, node, sizeof(*port->referrals), (void **)&port->referrals,
		&port->referral_count, read_referral, port);
}

static bool read_port_subsystems(struct config_reader *reader, const cJSON *node,
	const struct config_field *field, void *place)
{
	const struct target_config *config = reader->config;
	const struct config_names names = {
		.nqns = config->subsystems ? config->subsystems[0].nqn : NULL,
		.nqn_count = config->subsystem_count,
		.stride = sizeof(struct config_subsystem),
		.what = "subsystem",
		.list = "subsystems",
	};
	struct config_port *port = place;

	(void)field;
	return config_read_names(reader, node, &names, &port->subsystems, &port->subsystem_count);
}

/* nvmetcli writes -1 for the default. */
static bool read_inline_bytes(struct config_reader *reader, const cJSON *node,
	const struct config_field *field, void *place)
{
	uint32_t bytes;

	if ((cJSON_IsString(node) && strcmp(node->valuestring, "-1") == 0) ||
		(cJSON_IsNumber(node) && node->valuedouble == -1))
		return true;
	if (!config_read_number(reader, node, field, &bytes))
		return false;
	if (bytes % 16)
		return config_refuse(reader, node, "\"%s\" is a multiple of 16", field->key);
	*(uint32_t *)place = bytes;
	return true;
}

/* clang-format off */
static const struct config_field param_fields[] = {
	{.key = "inline_data_size", .read = read_inline_bytes,
		.offset = offsetof(struct config_port, inline_bytes),
		.max = CONFIG_INLINE_BYTES_MAX},
	{.key = "max_queue_size", .read = config_read_number,
		.offset = offsetof(struct config_port, queue_size),
		.min = CONFIG_QUEUE_SIZE_MIN, .max = CONFIG_QUEUE_SIZE_MAX},
	{.key = "pi_enable", .read = config_read_unsupported},
};
/* clang-format on */

static bool read_param(struct config_reader *reader, const cJSON *node,
	const struct config_field *field, void *place)
{
	(void)field;
	return config_read_object(reader, node, "\"param\"", param_fields,
		sizeof(param_fields) / sizeof(param_fields[0]), place);
}

/* clang-format off */
static const struct config_field port_fields[] = {
	{.key = "portid", .read = config_read_number, .is_required = true,
		.offset = offsetof(struct config_port, portid), .max = 65535},
	{.key = "addr", .read = read_address, .is_required = true,
		.offset = offsetof(struct config_port, address)},
	{.key = "param", .read = read_param},
	{.key = "subsystems", .read = read_port_subsystems},
	{.key = "referrals", .read = read_referrals},
	{.key = "ana_groups", .read = config_read_ignored},
};
/* clang-format on */

static bool is_same_address(const struct config_address *a, const struct config_address *b)
{
	return a->transport == b->transport && strcmp(a->traddr, b->traddr) == 0 &&
		strcmp(a->trsvcid, b->trsvcid) == 0;
}

static bool read_port(struct config_reader *reader, const cJSON *node, void *object, size_t index)
{
	struct config_port *all = ((struct target_config *)object)->ports;
	struct config_port *port = &all[index];

	port->inline_bytes = INLINE_BYTES_UNSET;
	port->queue_size = QUEUE_SIZE;
	if (!config_read_object(reader, node, "a port", port_fields,
		    sizeof(port_fields) / sizeof(port_fields[0]), port))
		return false;
	if (port->inline_bytes == INLINE_BYTES_UNSET)
		port->inline_bytes = port->address.transport == CONFIG_RDMA ? INLINE_BYTES_RDMA
									    : INLINE_BYTES_TCP;
	/* A TCP port without subsystems only serves discovery, on 8009 (TCP transport 1.0, 3.1). */
	if (!port->address.trsvcid[0])
		snprintf(port->address.trsvcid, sizeof(port->address.trsvcid), "%s",
			port->address.transport == CONFIG_TCP && port->subsystem_count == 0
				? "8009"
				: "4420");
	for (size_t i = 0; i < index; i++) {
		if (all[i].portid == port->portid)
			return config_refuse(reader, node,
				"the port %u is there twice; give each its own \"portid\"",
				port->portid);
		if (is_same_address(&all[i].address, &port->address))
			return config_refuse(reader, node,
				"the ports %u and %u have the same address; change one",
				all[i].portid, port->portid);
	}
	return true;
}

bool config_read_ports(struct config_reader *reader, const cJSON *node,
	const struct config_field *field, void *place)
{
	struct target_config *config = place;

	(void)field;
	return config_read_array(reader, node, sizeof(*config->ports), (void **)&config->ports,
		&config->port_count, read_port, config);
}

/* clang-format off */
static const struct config_field target_fields[] = {
	{.key = "hosts", .read = config_read_hosts},
	{.key = "subsystems", .read = config_read_subsystems},
	{.key = "ports", .read = config_read_ports},
};
/* clang-format on */

bool config_read_target(struct config_reader *reader, const cJSON *node)
{
	return config_read_object(reader, node, "a description", target_fields,
		sizeof(target_fields) / sizeof(target_fields[0]), reader->config);
}
