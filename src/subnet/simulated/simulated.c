/* SPDX-License-Identifier: BSD-2-Clause */
#include "subnet/simulated/simulated.h"

#include <errno.h>
#include <stdlib.h>

#include "base/arith.h"
#include "fabric/route.h"
#include "subnet/manager/manager.h"
#include "wire/infiniband/mad_frame.h"
#include "wire/infiniband/rmpp.h"
#include "wire/infiniband/sa_record.h"

enum {
	NO_ROUTE = 255,
	CABLE_WIDTH = 4,
	HOST_PORT = 1,
	GUID_SHIFT = 8, /* the lower bits are the port's number */
	ADVANCES_MAX = 16,
};

/* The switches of the network are the first nodes of the subnet, hosts follow. */
struct simulation {
	struct fabric *fabric;
	struct subnet_topology topology;
	struct subnet *subnet;
};

/* --- nodes and cables --- */

static uint32_t node_of_host(const struct simulation *simulation, uint32_t host)
{
	return simulation->fabric->switch_count + host;
}

static uint32_t node_of_port(const struct simulation *simulation, uint32_t number)
{
	const struct fabric_port *port = &simulation->fabric->ports[number];

	return port->is_host ? node_of_host(simulation, port->node) : port->node;
}

/* A port's number in its node, from 1. */
static uint8_t number_of_port(const struct simulation *simulation, uint32_t number)
{
	return (uint8_t)(simulation->fabric->infiniband->ports[number].place + 1);
}

static int node_fill(struct simulation *simulation, uint32_t number, uint32_t *first_port)
{
	const struct fabric *fabric = simulation->fabric;
	struct topology_node *node = &simulation->topology.nodes[number];
	uint32_t count = 1;

	*node = (struct topology_node){
		.kind = TOPOLOGY_CA,
		.first_port = *first_port,
		.guid = (number + 1ull) << GUID_SHIFT,
		.system_guid = (number + 1ull) << GUID_SHIFT,
	};
	if (number < fabric->switch_count) {
		node->kind = TOPOLOGY_SWITCH;
		route_ports_of(fabric, number, &count);
	}
	if (count >= MULTICAST_PORTS_MAX)
		return -E2BIG;
	node->port_count = (uint8_t)count;
	*first_port += count;
	return 0;
}

static void cable_fill(struct simulation *simulation, uint32_t number)
{
	const uint32_t peer = simulation->fabric->ports[number].peer;
	const struct topology_node *node =
		&simulation->topology.nodes[node_of_port(simulation, number)];
	const uint8_t port = number_of_port(simulation, number);

	simulation->topology.ports[node->first_port + port - 1] = (struct topology_port){
		.guid = node->guid + port,
		.peer_node = node_of_port(simulation, peer),
		.peer_port = number_of_port(simulation, peer),
		.width = CABLE_WIDTH,
		.speed = TOPOLOGY_EDR,
	};
}

static int topology_make(struct simulation *simulation)
{
	const struct fabric *fabric = simulation->fabric;
	struct subnet_topology *topology = &simulation->topology;
	uint32_t first_port = 0;
	int error = 0;

	topology->node_count = fabric->switch_count + fabric->host_count;
	topology->port_count = fabric->port_count;
	topology->nodes = calloc(topology->node_count, sizeof(*topology->nodes));
	topology->ports = calloc(topology->port_count, sizeof(*topology->ports));
	if (!topology->nodes || !topology->ports)
		return -ENOMEM;
	for (uint32_t i = 0; !error && i < topology->node_count; i++)
		error = node_fill(simulation, i, &first_port);
	for (uint32_t i = 0; !error && i < fabric->port_count; i++)
		cable_fill(simulation, i);
	return error;
}

/* --- the subnet --- */

/* No host runs a program, so drop the answers that the subnet administrator sends to hosts. */
static void answer_ignore(
	void *context, uint32_t node, uint32_t port, const uint8_t *frame, uint32_t frame_bytes)
{
	(void)context;
	(void)node;
	(void)port;
	(void)frame;
	(void)frame_bytes;
}

/* A call may cause more work at once; what is due later changes no tables. */
static void subnet_set_up(struct simulation *simulation)
{
	for (uint32_t i = 0; i < ADVANCES_MAX && !subnet_deadline_ns(simulation->subnet); i++)
		subnet_advance(simulation->subnet, 0);
}

static struct subnet_port_view host_view(const struct simulation *simulation, uint32_t host)
{
	struct subnet_port_view view;

	subnet_port(simulation->subnet, node_of_host(simulation, host), HOST_PORT, &view);
	return view;
}

/* --- groups --- */

/* Ask the subnet administrator to let the host join the group. */
static void group_join(
	struct simulation *simulation, uint32_t group, uint32_t host, enum infiniband_role role)
{
	const struct subnet_port_view view = host_view(simulation, host);
	const struct mad_frame frame = {
		.dlid = view.info->sm_lid,
		.slid = view.info->lid,
		.pkey = BTH_PKEY_DEFAULT,
		.dest_qpn = GSI_QPN,
		.source_qpn = GSI_QPN,
		.qkey = GSI_QKEY,
	};
	const struct mad_header header = {
		.base_version = MAD_BASE_VERSION,
		.management_class = MAD_CLASS_SUBN_ADM,
		.class_version = SA_CLASS_VERSION,
		.method = MAD_METHOD_SET,
		.attribute_id = SA_ATTRIBUTE_MC_MEMBER,
		.transaction_id = 1,
	};
	const struct sa_header sa = {
		.component_mask = sa_mask_mc_member_mgid | sa_mask_mc_member_port_gid |
			sa_mask_mc_member_qkey | sa_mask_mc_member_mlid |
			sa_mask_mc_member_traffic_class | sa_mask_mc_member_pkey |
			sa_mask_mc_member_sl | sa_mask_mc_member_flow_label |
			sa_mask_mc_member_join_state,
	};
	struct sa_mc_member member = {
		.mgid = {0xff, 0x12},
		.mlid = infiniband_group_lid(group),
		.pkey = BTH_PKEY_DEFAULT,
		.join_state = role == INFINIBAND_MEMBER ? SA_JOIN_FULL : SA_JOIN_SEND_ONLY,
	};
	uint8_t bytes[MAD_FRAME_BYTES_MAX];
	uint8_t mad[MAD_BYTES] = {0};

	put_be32(member.mgid + 12, group);
	put_be64(member.port_gid, view.info->gid_prefix);
	put_be64(member.port_gid + 8, view.guids[0]);
	mad_header_encode(&header, mad);
	sa_header_encode(&sa, mad);
	sa_mc_member_encode(&member, mad + SA_DATA_OFFSET);
	subnet_send(simulation->subnet, node_of_host(simulation, host), HOST_PORT, bytes,
		mad_frame_encode(&frame, mad, bytes), 0);
	subnet_set_up(simulation);
}

/* The first member makes the group; those that only send join behind. */
static void group_make(struct simulation *simulation, uint32_t group)
{
	static const enum infiniband_role order[] = {INFINIBAND_MEMBER, INFINIBAND_SENDER};
	const struct fabric *fabric = simulation->fabric;

	for (uint32_t i = 0; i < 2; i++)
		for (uint32_t host = 0; host < fabric->host_count; host++)
			if (fabric->infiniband->groups[group].roles[host] == order[i])
				group_join(simulation, group, host, order[i]);
}

/* Returns -ENOMEM unless each member has its place in the row of its switch. */
static int group_copy(const struct simulation *simulation, uint32_t group)
{
	struct fabric *fabric = simulation->fabric;

	for (uint32_t i = 0; i < fabric->switch_count; i++) {
		struct multicast_row row;

		subnet_switch_group(simulation->subnet, i, infiniband_group_lid(group), &row);
		infiniband_set_multicast(fabric, i, group, &row);
	}
	for (uint32_t host = 0; host < fabric->host_count; host++) {
		const uint32_t at = fabric->ports[fabric->hosts[host].port].peer;
		struct multicast_row row;

		if (fabric->infiniband->groups[group].roles[host] != INFINIBAND_MEMBER)
			continue;
		subnet_switch_group(simulation->subnet, fabric->ports[at].node,
			infiniband_group_lid(group), &row);
		if (!multicast_row_has(&row, number_of_port(simulation, at)))
			return -ENOMEM;
	}
	return 0;
}

/* --- routes --- */

static int routes_copy(const struct simulation *simulation, uint32_t host)
{
	struct fabric *fabric = simulation->fabric;
	const uint16_t lid = host_view(simulation, host).info->lid;

	for (uint32_t i = 0; i < fabric->switch_count; i++) {
		const uint8_t number = subnet_switch_route(simulation->subnet, i, lid);
		uint32_t count;
		const uint32_t *ports = route_ports_of(fabric, i, &count);

		if (number == NO_ROUTE || !number || number > count)
			return -ENETUNREACH;
		infiniband_set_forwarding(fabric, i, infiniband_lid(host), ports[number - 1]);
	}
	return 0;
}

static int tables_copy(struct simulation *simulation)
{
	const struct fabric *fabric = simulation->fabric;
	int error = 0;

	for (uint32_t i = 0; !error && i < fabric->host_count; i++)
		error = routes_copy(simulation, i);
	for (uint32_t i = 0; !error && i < fabric->infiniband->group_count; i++) {
		group_make(simulation, i);
		error = group_copy(simulation, i);
	}
	return error;
}

int simulated_tables_set(struct fabric *fabric)
{
	const struct subnet_user user = {.deliver = answer_ignore};
	struct simulation simulation = {.fabric = fabric};
	int error = topology_make(&simulation);

	if (!error)
		error = subnet_create(
			&simulation.topology, &user, &subnet_embedded_manager, &simulation.subnet);
	if (!error) {
		subnet_set_up(&simulation);
		error = tables_copy(&simulation);
		subnet_destroy(simulation.subnet);
	}
	free(simulation.topology.nodes);
	free(simulation.topology.ports);
	return error;
}
