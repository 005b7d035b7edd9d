/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where frames go: from the subnet to channels and to the MAD layer, and from the MAD layer to the
 * owners of agents and to the subnet.
 */
#include <string.h>

#include "cm/cm.h"
#include "fabricd/server/server_internal.h"
#include "wire/bytes.h"
#include "wire/infiniband/mad_frame.h"
#include "wire/infiniband/pkey.h"

enum {
	MULTICAST_QPN = 0xffffff,
};

/* --- from the subnet --- */

static void deliver_multicast(struct fabric_server *server, uint32_t node, uint32_t port,
	uint16_t mlid, const uint8_t *frame, uint32_t bytes)
{
	struct channel **leases = server->nodes[node].leases;

	for (uint32_t lease = 1; leases && lease < ATTACH_LEASES; lease++)
		if (leases[lease] && channel_has_joined(leases[lease], port, mlid))
			channel_put(leases[lease], port, frame, bytes);
}

static uint16_t pkey_index_of(
	struct fabric_server *server, uint32_t node, uint32_t port, uint16_t pkey)
{
	struct subnet_port_view view;

	return subnet_port(server->subnet, node, port, &view)
		? pkey_index_find(view.pkeys, view.pkey_count, pkey)
		: 0;
}

static void arrival_fill(
	struct fabric_server *server, struct arrival *arrival, const struct mad_frame *frame)
{
	struct subnet_port_view view;
	uint8_t path_mask = 0;

	if (subnet_port(server->subnet, arrival->node, arrival->port, &view))
		path_mask = (uint8_t)((1u << view.info->lmc) - 1);
	arrival->own_qpn = frame->dest_qpn;
	arrival->from = (struct mad_address){.qpn = frame->source_qpn,
		.qkey = frame->qkey,
		.lid = frame->slid,
		.sl = frame->sl,
		.path_bits = (uint8_t)(frame->dlid & path_mask),
		.pkey_index = pkey_index_of(server, arrival->node, arrival->port, frame->pkey),
		.has_grh = frame->has_grh};
	if (frame->has_grh) {
		arrival->from.hop_limit = frame->grh.hop_limit;
		arrival->from.traffic_class = frame->grh.traffic_class;
		arrival->from.flow_label = frame->grh.flow_label;
		arrival->from.gid = frame->grh.sgid;
	}
}

static void deliver_mad(struct fabric_server *server, uint32_t node, uint32_t port,
	const struct ib_frame *decoded, const uint8_t *bytes, uint32_t count)
{
	struct arrival arrival = {.node = node, .port = port};
	struct mad_frame frame;
	const uint8_t *mad;

	/* IBTA 10.2.5: QP1 has a well-known Q_Key. QP0 needs none: it has VL 15 to itself. */
	if (!ib_icrc_verify(bytes, count) ||
		!mad_frame_decode(&frame, decoded, bytes, count, &mad) ||
		(frame.dest_qpn == GSI_QPN && frame.qkey != GSI_QKEY)) {
		server->counters.frames_malformed++;
		return;
	}
	if (frame.dest_qpn == GSI_QPN && mad[1] == MAD_CLASS_CM &&
		channels_put_cm(&server->nodes[node], port, mad, bytes, count))
		return;
	if (frame.dest_qpn == GSI_QPN && server_port_find(server, node, port))
		membership_answer(server_port_find(server, node, port), frame.slid, mad);
	arrival_fill(server, &arrival, &frame);
	memcpy(arrival.mad, mad, MAD_BYTES);
	if (!server_arrival_add(server, &arrival))
		server->counters.mads_dropped++;
}

static void deliver_data(struct fabric_server *server, struct channel *to, uint32_t port,
	const struct ib_frame *decoded, const uint8_t *frame, uint32_t frame_bytes)
{
	channel_put_data(to, port, frame, frame_bytes);
	if (server->sender && !lid_is_multicast(decoded->lrh.dlid))
		flow_consider(server->sender, server->sender_port, to, decoded);
}

void server_deliver(
	void *context, uint32_t node, uint32_t port, const uint8_t *frame, uint32_t frame_bytes)
{
	struct fabric_server *server = context;
	struct channel **leases = server->nodes[node].leases;
	struct ib_frame decoded;
	uint32_t qpn;

	if (server->nodes[node].taker) {
		channel_put_data(server->nodes[node].taker, port, frame, frame_bytes);
		return;
	}
	if (!ib_frame_decode(&decoded, frame, frame_bytes) || !decoded.has_bth) {
		server->counters.frames_malformed++;
		return;
	}
	qpn = decoded.bth.dest_qpn.value;
	if (qpn == MULTICAST_QPN)
		deliver_multicast(server, node, port, decoded.lrh.dlid, frame, frame_bytes);
	else if (qpn <= GSI_QPN)
		deliver_mad(server, node, port, &decoded, frame, frame_bytes);
	else if (leases && leases[qpn >> ATTACH_LEASE_QPN_SHIFT])
		deliver_data(server, leases[qpn >> ATTACH_LEASE_QPN_SHIFT], port, &decoded, frame,
			frame_bytes);
	else
		server->counters.frames_unknown++;
}

/* --- from the MAD layer --- */

void server_take(void *context, const struct mad_address *peer, int status, const uint8_t *bytes,
	uint32_t count)
{
	struct agent_owner *owner = context;

	owner->take(owner, peer, status, bytes, count);
}

/* --- to the subnet --- */

/* IBTA 14.2.2: a directed-route SMP without a LID-routed part has permissive LIDs. */
static uint16_t source_lid(const struct subnet_port_view *view, const struct mad_address *to)
{
	if (to->lid == LID_PERMISSIVE)
		return LID_PERMISSIVE;
	return (uint16_t)(view->info->lid | (to->path_bits & ((1u << view->info->lmc) - 1)));
}

static void own_gid(const struct subnet_port_view *view, uint8_t index, struct gid *ret_gid)
{
	put_be64(ret_gid->raw, view->info->gid_prefix);
	put_be64(ret_gid->raw + 8, view->guids[index < view->guid_count ? index : 0]);
}

void server_transmit(
	void *context, uint32_t own_qpn, const struct mad_address *to, const uint8_t mad[MAD_BYTES])
{
	struct server_port *port = context;
	struct fabric_server *server = port->server;
	uint8_t bytes[MAD_FRAME_BYTES_MAX];
	struct subnet_port_view view;
	struct mad_frame frame;
	uint32_t count;

	if (!subnet_port(server->subnet, port->node, port->number, &view))
		return;
	frame = (struct mad_frame){.dlid = to->lid,
		.slid = source_lid(&view, to),
		.sl = to->sl,
		.vl = own_qpn == SMI_QPN ? LRH_VL_MANAGEMENT : 0,
		.pkey = to->pkey_index < view.pkey_count ? view.pkeys[to->pkey_index] : 0,
		.source_qpn = own_qpn,
		.dest_qpn = to->qpn,
		.qkey = to->qkey,
		.psn = port->psn++ & U24_MASK,
		.has_grh = to->has_grh,
		.grh = {.traffic_class = to->traffic_class,
			.hop_limit = to->hop_limit,
			.flow_label = to->flow_label,
			.dgid = to->gid}};
	own_gid(&view, to->gid_index, &frame.grh.sgid);
	/* Subnet management has no partitions. */
	if (own_qpn == SMI_QPN)
		frame.pkey = BTH_PKEY_DEFAULT;
	count = mad_frame_encode(&frame, mad, bytes);
	server_send(server, port->node, port->number, bytes, count);
}

/* Is the message a request for a service whose program may listen to it again soon? */
static bool is_early(const struct server_port *port, const struct cm_message *message)
{
	const struct fabric_server *server = port->server;
	uint64_t service_id;
	uint32_t comm_id;

	return cm_route(message, &service_id, &comm_id) == CM_ROUTE_SERVICE &&
		ended_service_is_expected(&server->nodes[port->node], service_id, server->now_ns);
}

bool server_answer_cm(struct server_port *port, const struct arrival *arrival)
{
	struct cm_message message, answer;
	uint8_t mad[MAD_BYTES];

	if (arrival->own_qpn != GSI_QPN || arrival->mad[1] != MAD_CLASS_CM ||
		!cm_message_decode(&message, arrival->mad))
		return false;
	if (!is_early(port, &message) && cm_answer_unknown(&message, &answer)) {
		cm_message_encode(&answer, mad);
		server_transmit(port, GSI_QPN, &arrival->from, mad);
	}
	return true;
}
