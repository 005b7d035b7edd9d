/* SPDX-License-Identifier: BSD-2-Clause */
/* The adapter and its ports: umad_get_cas_names(3), umad_get_ca(3), umad_get_port(3). */
#include "front/umad/device.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "base/version.h"
#include "fabricd/fabric_rate.h"
#include "front/umad/abi.h"
#include "os/log.h"
#include "os/setting.h"

#define LINK_LAYER "InfiniBand"

enum { NODE_TYPE_CA = 1, PORT_STATE_ACTIVE = 4 };

static void failure_log(const char *why)
{
	static atomic_bool is_logged;

	if (!atomic_exchange(&is_logged, true))
		log_write(LOG_ERROR, "no InfiniBand adapter: %s", why);
}

int device_connect(struct fabric_client **ret_client)
{
	const char *place = setting_text("URNIC_FABRIC");
	char why[ATTACH_TEXT_BYTES];

	if (!place)
		return -ENODEV;
	if (fabric_client_open_node(place, ret_client, why) == 0)
		return 0;
	failure_log(why);
	return -ENODEV;
}

static int port_resolve(
	struct fabric_client *client, const char *ca_name, int portnum, uint32_t *ret_port)
{
	uint32_t count = fabric_client_node(client)->port_count;
	struct attach_port info;

	if (ca_name && strcmp(ca_name, DEVICE_NAME) != 0)
		return -ENODEV;
	if (portnum < 0 || (uint32_t)portnum > count || count == 0)
		return -ENODEV;
	*ret_port = portnum == UMAD_ANY_PORT ? 1 : (uint32_t)portnum;
	for (uint32_t port = 1; portnum == UMAD_ANY_PORT && port <= count; port++)
		if (fabric_client_port(client, port, &info) == 0 &&
			info.state == PORT_STATE_ACTIVE) {
			*ret_port = port;
			break;
		}
	return 0;
}

int device_open(const char *ca_name, int portnum, struct fabric_client **ret_client,
	uint32_t *ret_port)
{
	int rc = device_connect(ret_client);

	if (rc)
		return rc;
	rc = port_resolve(*ret_client, ca_name, portnum, ret_port);
	if (rc)
		fabric_client_close(*ret_client);
	return rc;
}

int umad_init(void)
{
	return 0;
}

int umad_done(void)
{
	return 0;
}

int umad_get_cas_names(char cas[][UMAD_CA_NAME_LEN], int max)
{
	struct fabric_client *client;

	if (max < 1 || device_connect(&client) < 0)
		return 0;
	snprintf(cas[0], UMAD_CA_NAME_LEN, "%s", DEVICE_NAME);
	fabric_client_close(client);
	return 1;
}

/* --- ports --- */

static int port_fill(uint32_t number, const struct attach_port *info, umad_port_t *port)
{
	uint16_t *pkeys = calloc(info->pkey_count ? info->pkey_count : 1, sizeof(*pkeys));

	if (!pkeys)
		return -ENOMEM;
	memcpy(pkeys, info->pkeys, info->pkey_count * sizeof(*pkeys));
	*port = (umad_port_t){.portnum = (int)number,
		.base_lid = info->lid,
		.lmc = info->lmc,
		.sm_lid = info->sm_lid,
		.sm_sl = info->sm_sl,
		.state = info->state,
		.phys_state = info->phys_state,
		.rate = fabric_rate_of(info).tenths / 10,
		.capmask = htobe32(info->capability_mask),
		.gid_prefix = htobe64(info->gid_prefix),
		.port_guid = htobe64(info->guid),
		.pkeys_size = info->pkey_count,
		.pkeys = pkeys,
		.link_layer = LINK_LAYER};
	snprintf(port->ca_name, sizeof(port->ca_name), "%s", DEVICE_NAME);
	return 0;
}

static int port_get(struct fabric_client *client, uint32_t number, umad_port_t *port)
{
	struct attach_port info;
	int rc = fabric_client_port(client, number, &info);

	return rc ? rc : port_fill(number, &info, port);
}

int umad_get_port(const char *ca_name, int portnum, umad_port_t *port)
{
	struct fabric_client *client;
	uint32_t number;
	int rc = device_open(ca_name, portnum, &client, &number);

	if (rc)
		return rc;
	rc = port_get(client, number, port);
	fabric_client_close(client);
	return rc;
}

int umad_release_port(umad_port_t *port)
{
	free(port->pkeys);
	port->pkeys = NULL;
	port->pkeys_size = 0;
	return 0;
}

/* --- the adapter --- */

static int ports_get(struct fabric_client *client, umad_ca_t *ca)
{
	for (int number = 1; number <= ca->numports; number++) {
		umad_port_t *port = calloc(1, sizeof(*port));
		int rc = port ? port_get(client, (uint32_t)number, port) : -ENOMEM;

		if (rc) {
			free(port);
			return rc;
		}
		ca->ports[number] = port;
	}
	return 0;
}

static int ca_get(struct fabric_client *client, umad_ca_t *ca)
{
	const struct attach_node *node = fabric_client_node(client);
	int rc;

	*ca = (umad_ca_t){.node_type = NODE_TYPE_CA,
		.numports = (int)min_u32(node->port_count, UMAD_CA_MAX_PORTS - 1),
		.ca_type = "urnic",
		.hw_ver = "0",
		.node_guid = htobe64(node->node_guid),
		.system_guid = htobe64(node->system_image_guid)};
	snprintf(ca->ca_name, sizeof(ca->ca_name), "%s", DEVICE_NAME);
	snprintf(ca->fw_ver, sizeof(ca->fw_ver), "%s", urnic_version());
	rc = ports_get(client, ca);
	if (rc)
		umad_release_ca(ca);
	return rc;
}

int umad_get_ca(const char *ca_name, umad_ca_t *ca)
{
	struct fabric_client *client;
	uint32_t port;
	int rc = device_open(ca_name, UMAD_ANY_PORT, &client, &port);

	if (rc)
		return rc;
	rc = ca_get(client, ca);
	fabric_client_close(client);
	return rc;
}

int umad_release_ca(umad_ca_t *ca)
{
	for (int i = 0; i < UMAD_CA_MAX_PORTS; i++) {
		if (!ca->ports[i])
			continue;
		umad_release_port(ca->ports[i]);
		free(ca->ports[i]);
		ca->ports[i] = NULL;
	}
	return 0;
}

int umad_get_ca_portguids(const char *ca_name, __be64 *portguids, int max)
{
	umad_ca_t ca;
	int rc = umad_get_ca(ca_name, &ca);
	int count;

	if (rc)
		return rc;
	count = ca.numports + 1;
	if (portguids && count > max)
		count = -ENOMEM;
	/* Index 0 is a switch's management port, which an adapter lacks. */
	for (int i = 0; portguids && i < count; i++)
		portguids[i] = ca.ports[i] ? ca.ports[i]->port_guid : 0;
	umad_release_ca(&ca);
	return count;
}

int umad_get_issm_path(const char *ca_name, int portnum, char path[], int max)
{
	char issm[ATTACH_TEXT_BYTES];
	struct fabric_client *client;
	uint32_t number;
	int rc = device_open(ca_name, portnum, &client, &number);

	if (rc)
		return rc;
	rc = fabric_client_issm_path(client, number, issm);
	if (rc == 0 && snprintf(path, (size_t)max, "%s", issm) >= max)
		rc = -EIO;
	fabric_client_close(client);
	return rc;
}
