/* SPDX-License-Identifier: BSD-2-Clause */
#include "fabricd/remote/fabric_join.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fabricd/remote/fabric_join_internal.h"
#include "os/clock.h"

enum {
	PATIENCE_MS = 10000, /* of the first join */
	POLL_MS = 20,
};

/* --- the first join --- */

/* Wait until the listener has answered. Returns 0 or -errno. */
static int welcome_await(struct fabric_join *join)
{
	const uint64_t until_ns = clock_now_ns() + PATIENCE_MS * 1000000ull;
	struct pollfd polled = {.fd = join->epoll, .events = POLLIN};

	while (join->state != JOIN_MEMBER && !join->is_refused) {
		const int rc = uplink_run(join);

		if (rc < 0)
			return rc;
		if (clock_now_ns() > until_ns)
			return -ETIMEDOUT;
		poll(&polled, 1, POLL_MS);
	}
	return join->state == JOIN_MEMBER ? 0 : -ECONNREFUSED;
}

/* Make a topology of the hosts alone: their cables are in the listener's fabric. */
static struct subnet_topology *topology_make(const struct fabric_join *join)
{
	struct subnet_topology *topology = calloc(1, sizeof(*topology));
	uint32_t ports = 0;

	for (uint32_t i = 0; i < join->host_count; i++)
		ports += join->hosts[i].node.port_count;
	if (!topology)
		return NULL;
	topology->nodes = calloc(join->host_count, sizeof(*topology->nodes));
	topology->ports = calloc(ports, sizeof(*topology->ports));
	if (!topology->nodes || !topology->ports) {
		subnet_topology_destroy(topology);
		return NULL;
	}
	for (uint32_t i = 0; i < join->host_count; i++) {
		const struct attach_node *from = &join->hosts[i].node;
		struct topology_node *node = &topology->nodes[topology->node_count++];

		*node = (struct topology_node){.kind = TOPOLOGY_CA,
			.port_count = (uint8_t)from->port_count,
			.first_port = topology->port_count,
			.vendor_id = from->vendor_id,
			.device_id = (uint16_t)from->device_id,
			.guid = from->node_guid,
			.system_guid = from->system_image_guid};
		snprintf(node->name, sizeof(node->name), "%s", join->settings->hosts[i]);
		snprintf(node->description, sizeof(node->description), "%s", from->name);
		for (uint32_t j = 0; j < from->port_count; j++)
			topology->ports[topology->port_count++] =
				(struct topology_port){.guid = join->hosts[i].ports[j].info.guid,
					.peer_node = TOPOLOGY_NO_NODE,
					.width = 4};
	}
	return topology;
}

static int console_refuse(struct fabric_server *server, char *text, char why[ATTACH_TEXT_BYTES])
{
	(void)server;
	(void)text;
	snprintf(why, ATTACH_TEXT_BYTES,
		"the console of this fabric is on the machine of `urnic fabric up`");
	return -EOPNOTSUPP;
}

static int server_begin(struct fabric_join *join, char why[ATTACH_TEXT_BYTES])
{
	const struct fabric_server_settings settings = {.name = join->settings->name,
		.console = console_refuse,
		.is_unmanaged = true,
		.uplink = &join->uplink};
	struct subnet_topology *topology = topology_make(join);
	int rc;

	if (!topology) {
		snprintf(why, ATTACH_TEXT_BYTES, "no memory");
		return -ENOMEM;
	}
	rc = fabric_server_create(&settings, topology, &join->server, why);
	subnet_topology_destroy(topology);
	if (rc == 0)
		uplink_show_ports(join);
	return rc;
}

/* --- its life --- */

static void why_print(const struct fabric_join *join, int rc, char why[ATTACH_TEXT_BYTES])
{
	if (*join->why)
		snprintf(why, ATTACH_TEXT_BYTES, "%s", join->why);
	else
		snprintf(why, ATTACH_TEXT_BYTES, "the listener does not answer: %s", strerror(-rc));
}

int fabric_join_create(const struct fabric_join_settings *settings, struct fabric_join **ret_join,
	char why[ATTACH_TEXT_BYTES])
{
	struct fabric_join *join = calloc(1, sizeof(*join));
	int rc = join ? uplink_open(join, settings) : -ENOMEM;

	if (rc) {
		snprintf(why, ATTACH_TEXT_BYTES, "%s", strerror(-rc));
		fabric_join_destroy(join);
		return rc;
	}
	rc = welcome_await(join);
	if (rc)
		why_print(join, rc, why);
	else
		rc = server_begin(join, why);
	if (rc) {
		fabric_join_destroy(join);
		return rc;
	}
	*ret_join = join;
	return 0;
}

int fabric_join_run(struct fabric_join *join, char why[ATTACH_TEXT_BYTES])
{
	int rc = fabric_server_run(join->server);

	if (rc)
		snprintf(why, ATTACH_TEXT_BYTES, "%s", rc == -ESTALE ? join->why : strerror(-rc));
	return rc;
}

int fabric_join_turn(struct fabric_join *join)
{
	return fabric_server_turn(join->server);
}

void fabric_join_destroy(struct fabric_join *join)
{
	if (!join)
		return;
	fabric_server_destroy(join->server);
	uplink_close(join);
	free(join);
}
