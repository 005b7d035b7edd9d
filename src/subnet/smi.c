/* SPDX-License-Identifier: BSD-2-Clause */
#include <string.h>

#include "subnet/subnet_internal.h"

static void route_by_lid(struct subnet *subnet, uint32_t node, uint32_t in_port, uint32_t own_port,
	struct smp_flight *flight);
static void route_directed(struct subnet *subnet, uint32_t node, uint32_t in_port,
	uint32_t own_port, struct smp_flight *flight);

static bool flight_is_directed(const struct smp_flight *flight)
{
	return flight->mad[1] == MAD_CLASS_SUBN_DIRECTED;
}

static uint32_t flight_encode(const struct smp_flight *flight, uint8_t to[MAD_FRAME_BYTES_MAX])
{
	const struct mad_frame frame = {
		.dlid = flight->dlid,
		.slid = flight->slid,
		.sl = flight->sl,
		.vl = LRH_VL_MANAGEMENT,
		.pkey = 0xffff,
		.dest_qpn = SMI_QPN,
		.source_qpn = SMI_QPN,
	};

	return mad_frame_encode(&frame, flight->mad, to);
}

static void smp_drop(struct subnet *subnet, uint32_t node, uint32_t port)
{
	subnet->nodes[node].ports[port].counters.vl15_dropped++;
}

/* Send the SMP over the cable at `port`. If there is no such port, count a drop at `in_port`. */
static bool port_pass(struct subnet *subnet, uint32_t node, uint32_t in_port, uint32_t port,
	const struct smp_flight *flight)
{
	uint8_t bytes[MAD_FRAME_BYTES_MAX];
	uint32_t count;

	if (port == 0 || port > subnet->nodes[node].port_count) {
		smp_drop(subnet, node, in_port);
		return false;
	}
	count = flight_encode(flight, bytes);
	return link_pass(subnet, node, port, bytes, count, flight->mad);
}

/* --- at the end of the way --- */

static void smp_deliver(
	struct subnet *subnet, uint32_t node, uint32_t port, const struct smp_flight *flight)
{
	uint8_t bytes[MAD_FRAME_BYTES_MAX];
	const uint32_t count = flight_encode(flight, bytes);

	subnet->user.deliver(subnet->user.context, node, port, bytes, count);
}

/* Send the response that the flight's MAD has become. */
static void response_send(
	struct subnet *subnet, uint32_t node, uint32_t port, struct smp_flight *flight)
{
	const uint16_t dlid = flight->slid;

	flight->slid = flight->dlid;
	flight->dlid = dlid;
	smp_send(subnet, node, port, flight);
}

static bool is_for_user_manager(const struct subnet_node *at, uint32_t port)
{
	return !node_is_switch(at) && at->ports[port].info.capability_mask & IB_CAPABILITY_IS_SM;
}

/* The SMP is for this node. `port`: where it arrived, or from where the node itself sent it. */
static void smp_consume(
	struct subnet *subnet, uint32_t node, uint32_t port, struct smp_flight *flight)
{
	struct subnet_node *at = &subnet->nodes[node];
	struct mad_header header;
	bool is_request;

	mad_header_decode(&header, flight->mad);
	is_request = header.method == MAD_METHOD_GET || header.method == MAD_METHOD_SET;
	/*
	 * TrapRepress may also answer a trap of a subnet manager of the CA's user: OpenSM sends one
	 * when its priority changes. So go on unless the node itself sent the trap.
	 */
	if (header.method == MAD_METHOD_TRAP_REPRESS && trap_repress(at, header.transaction_id))
		return;
	if (!is_request || header.attribute_id == SM_ATTRIBUTE_SM_INFO) {
		if (subnet->calls->receive_smp(subnet, node, flight, port))
			return;
		if (!is_request || is_for_user_manager(at, port)) {
			if (!node_is_switch(at))
				smp_deliver(subnet, node, port, flight);
			return;
		}
	}
	if (sma_answer(subnet, node, port, flight->slid, flight->mad))
		response_send(subnet, node, node_is_switch(at) ? 0 : port, flight);
}

/* --- on the way --- */

static void route_directed(struct subnet *subnet, uint32_t node, uint32_t in_port,
	uint32_t own_port, struct smp_flight *flight)
{
	while (true) {
		const struct subnet_node *at = &subnet->nodes[node];
		const struct smp_step step =
			smp_step(flight->mad, node_is_switch(at), (uint8_t)in_port);
		const uint32_t port = in_port ? in_port : own_port;

		switch (step.way) {
		case SMP_DISCARD:
			smp_drop(subnet, node, port);
			return;
		case SMP_HERE:
			smp_consume(subnet, node, port, flight);
			return;
		case SMP_BY_LID:
			flight->dlid = step.dlid;
			flight->slid = node_end_port(&subnet->nodes[node], port)->info.lid;
			route_by_lid(subnet, node, 0, own_port, flight);
			return;
		case SMP_BY_PORT:
			flight->dlid = flight->slid = LID_PERMISSIVE;
			if (!port_pass(subnet, node, port, step.port, flight))
				return;
			node = at->ports[step.port].peer_node;
			in_port = at->ports[step.port].peer_port;
			own_port = 0;
			break;
		}
	}
}

/* The output port of an SMP with this LID; NO_PORT: none. */
static uint32_t lid_port(const struct subnet *subnet, uint32_t node, uint32_t in_port,
	uint32_t own_port, uint16_t dlid)
{
	if (node_is_switch(&subnet->nodes[node]))
		return subnet_switch_route(subnet, node, dlid);
	return in_port ? NO_PORT : own_port;
}

static void route_by_lid(struct subnet *subnet, uint32_t node, uint32_t in_port, uint32_t own_port,
	struct smp_flight *flight)
{
	for (uint32_t hops = 0; hops < HOPS_MAX; hops++) {
		const uint32_t port = in_port ? in_port : own_port;
		struct subnet_node *at = &subnet->nodes[node];
		uint32_t out;

		if (flight->dlid == LID_PERMISSIVE ||
			port_has_lid(node_end_port(at, port), flight->dlid)) {
			if (flight_is_directed(flight))
				route_directed(subnet, node, in_port, own_port, flight);
			else
				smp_consume(subnet, node, port, flight);
			return;
		}
		out = lid_port(subnet, node, in_port, own_port, flight->dlid);
		if (!port_pass(subnet, node, port, out, flight))
			return;
		node = at->ports[out].peer_node;
		in_port = at->ports[out].peer_port;
		own_port = 0;
	}
}

void smp_send(struct subnet *subnet, uint32_t node, uint32_t port, struct smp_flight *flight)
{
	/* A directed route without the permissive DLID begins with a part that is routed by LID. */
	if (flight_is_directed(flight) && flight->dlid == LID_PERMISSIVE)
		route_directed(subnet, node, 0, port, flight);
	else
		route_by_lid(subnet, node, 0, port, flight);
}
