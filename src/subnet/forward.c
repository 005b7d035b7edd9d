/* SPDX-License-Identifier: BSD-2-Clause */
#include <assert.h>
#include <string.h>

#include "subnet/subnet_internal.h"
#include "wire/infiniband/pkey.h"

/* A frame on its way through the subnet, with all copies of it. */
struct flight {
	uint8_t *bytes;
	uint32_t count;
	uint32_t crossings_left;
	struct ib_frame headers;
};

static void frame_arrive(struct subnet *subnet, uint32_t node, uint32_t in_port,
	struct flight *flight, uint32_t hops);

/* --- end ports --- */

/* Send the response `mad`, to the sender of `request`. */
static void response_send(struct subnet *subnet, uint32_t node, uint32_t port,
	const struct mad_frame *request, const uint8_t mad[MAD_BYTES])
{
	struct mad_frame answer = *request;
	uint8_t bytes[MAD_FRAME_BYTES_MAX];

	answer.dlid = request->slid;
	answer.slid = request->dlid;
	answer.dest_qpn = request->source_qpn;
	answer.source_qpn = GSI_QPN;
	answer.qkey = GSI_QKEY;
	answer.vl = 0;
	answer.grh.sgid = request->grh.dgid;
	answer.grh.dgid = request->grh.sgid;
	frame_send(subnet, node, port, bytes, mad_frame_encode(&answer, mad, bytes));
}

/* Does the node itself handle this MAD at QP1? Then do so, and return true. */
static bool gmp_is_own(struct subnet *subnet, uint32_t node, uint32_t port,
	const struct flight *flight, const struct mad_frame *from, const uint8_t *mad)
{
	uint8_t response[MAD_BYTES];

	if (!ib_icrc_verify(flight->bytes, flight->count))
		return false;
	if (mad[1] == MAD_CLASS_PERF) {
		memcpy(response, mad, MAD_BYTES);
		if (!pma_answer(subnet, node, response))
			return false;
		response_send(subnet, node, port, from, response);
		return true;
	}
	if (mad[1] == MAD_CLASS_SUBN_ADM && subnet->calls->is_at(subnet, node)) {
		subnet->calls->receive_query(subnet, from, mad);
		return true;
	}
	return false;
}

/* A frame has reached an end port: a CA's port, or a switch's port 0. */
static void end_receive(
	struct subnet *subnet, uint32_t node, uint32_t port, const struct flight *flight)
{
	struct subnet_node *at = &subnet->nodes[node];
	struct ib_port_info *info = &at->ports[port].info;
	const struct bth *bth = &flight->headers.bth;
	struct mad_frame from;
	const uint8_t *mad;

	if (flight->headers.has_bth &&
		!pkey_table_matches(at->ports[port].pkeys, node_pkey_count(at), bth->pkey)) {
		port_count_violation(&info->p_key_violations);
		trap_key(subnet, node, port, TRAP_BAD_PKEY, &flight->headers, bth->pkey, 0);
		return;
	}
	if (mad_frame_decode(&from, &flight->headers, flight->bytes, flight->count, &mad) &&
		from.dest_qpn == GSI_QPN) {
		if (from.qkey != GSI_QKEY) {
			port_count_violation(&info->q_key_violations);
			trap_key(subnet, node, port, TRAP_BAD_QKEY, &flight->headers, from.qkey,
				from.source_qpn);
			return;
		}
		if (gmp_is_own(subnet, node, port, flight, &from, mad))
			return;
	}
	if (!node_is_switch(at))
		subnet->user.deliver(
			subnet->user.context, node, port, flight->bytes, flight->count);
}

/* --- switches --- */

/* Set a frame's lane for an output port. Returns false if the frame's service level has no lane. */
static bool vl_map(const struct node_port *out, uint32_t in_port, struct flight *flight)
{
	uint8_t vl;

	if (!port_vl_find(out, in_port, flight->headers.lrh.sl, &vl))
		return false;
	lrh_set_vl(flight->bytes, vl);
	return true;
}

static void switch_pass(struct subnet *subnet, uint32_t node, uint32_t in_port, uint32_t out_port,
	struct flight *flight, uint32_t hops)
{
	struct node_port *out = &subnet->nodes[node].ports[out_port];
	struct subnet_counters *in = &subnet->nodes[node].ports[in_port].counters;

	if (!vl_map(out, in_port, flight)) {
		in->port_rcv_switch_relay_errors++;
		return;
	}
	if (flight->headers.has_bth &&
		port_pkey_is_refused(out, out->info.partition_enforcement_out,
			flight->headers.bth.pkey)) {
		out->counters.port_xmit_constraint_errors++;
		trap_key(subnet, node, out_port, TRAP_BAD_PKEY_AT_SWITCH, &flight->headers,
			flight->headers.bth.pkey, 0);
		return;
	}
	if (hops == HOPS_MAX || !flight->crossings_left) {
		out->counters.port_xmit_discards++;
		return;
	}
	flight->crossings_left--;
	if (link_pass(subnet, node, out_port, flight->bytes, flight->count, NULL))
		frame_arrive(subnet, out->peer_node, out->peer_port, flight, hops + 1);
}

/* Send a copy to each port of the frame's group, except the one at which the frame arrived. */
static void switch_multicast(struct subnet *subnet, uint32_t node, uint32_t in_port,
	struct flight *flight, uint32_t hops)
{
	const struct subnet_node *at = &subnet->nodes[node];
	const struct multicast_row copies = multicast_copies(
		at->multicast, MULTICAST_FDB_CAP, flight->headers.lrh.dlid, in_port);

	if (multicast_row_has(&copies, 0))
		end_receive(subnet, node, 0, flight);
	for (uint32_t port = 1; port <= at->port_count; port++)
		if (multicast_row_has(&copies, port))
			switch_pass(subnet, node, in_port, port, flight, hops);
}

static void switch_forward(struct subnet *subnet, uint32_t node, uint32_t in_port,
	struct flight *flight, uint32_t hops)
{
	struct subnet_node *at = &subnet->nodes[node];
	struct node_port *in = &at->ports[in_port];
	const uint16_t dlid = flight->headers.lrh.dlid;
	uint8_t out;

	if (in_port && flight->headers.has_bth &&
		port_pkey_is_refused(
			in, in->info.partition_enforcement_in, flight->headers.bth.pkey)) {
		in->counters.port_rcv_constraint_errors++;
		trap_key(subnet, node, in_port, TRAP_BAD_PKEY_AT_SWITCH, &flight->headers,
			flight->headers.bth.pkey, 0);
		return;
	}
	if (lid_is_multicast(dlid)) {
		switch_multicast(subnet, node, in_port, flight, hops);
		return;
	}
	if (port_has_lid(&at->ports[0], dlid)) {
		end_receive(subnet, node, 0, flight);
		return;
	}
	out = subnet_switch_route(subnet, node, dlid);
	if (out == 0 || out > at->port_count || out == in_port) {
		in->counters.port_rcv_switch_relay_errors++;
		return;
	}
	switch_pass(subnet, node, in_port, out, flight, hops);
}

static void frame_arrive(struct subnet *subnet, uint32_t node, uint32_t in_port,
	struct flight *flight, uint32_t hops)
{
	struct subnet_node *at = &subnet->nodes[node];
	const uint16_t dlid = flight->headers.lrh.dlid;

	if (node_is_switch(at))
		switch_forward(subnet, node, in_port, flight, hops);
	else if (lid_is_multicast(dlid) || port_has_lid(&at->ports[in_port], dlid))
		end_receive(subnet, node, in_port, flight);
	else
		at->ports[in_port].counters.port_rcv_errors++;
}

/* --- from an end port --- */

static void ca_transmit(struct subnet *subnet, uint32_t node, uint32_t port, struct flight *flight)
{
	struct node_port *out = &subnet->nodes[node].ports[port];

	if (!vl_map(out, 0, flight)) {
		out->counters.port_xmit_discards++;
		return;
	}
	if (link_pass(subnet, node, port, flight->bytes, flight->count, NULL))
		frame_arrive(subnet, out->peer_node, out->peer_port, flight, 1);
	/* The adapter's own queue pairs may have joined the group, too. */
	if (lid_is_multicast(flight->headers.lrh.dlid))
		end_receive(subnet, node, port, flight);
}

void frame_send(struct subnet *subnet, uint32_t node, uint32_t port, uint8_t *bytes, uint32_t count)
{
	struct subnet_node *at = &subnet->nodes[node];
	struct node_port *out = &at->ports[port];
	struct flight flight = {
		.bytes = bytes,
		.count = count,
		.crossings_left = LINK_CROSSINGS_MAX,
	};

	if (!ib_frame_decode(&flight.headers, bytes, count) ||
		out->info.port_state != IB_PORT_ACTIVE)
		out->counters.port_xmit_discards++;
	else if (port_has_lid(out, flight.headers.lrh.dlid))
		end_receive(subnet, node, port, &flight);
	else if (node_is_switch(at))
		switch_forward(subnet, node, 0, &flight, 0);
	else
		ca_transmit(subnet, node, port, &flight);
}

/* An SMP from a user. */
static void user_smp_send(struct subnet *subnet, uint32_t node, uint32_t port,
	const struct mad_frame *from, const uint8_t *mad)
{
	struct smp_flight flight = {.dlid = from->dlid, .slid = from->slid, .sl = from->sl};

	memcpy(flight.mad, mad, MAD_BYTES);
	smp_send(subnet, node, port, &flight);
}

void subnet_send(struct subnet *subnet, uint32_t node, uint32_t port, uint8_t *frame,
	uint32_t frame_bytes, uint64_t now_ns)
{
	struct subnet_node *at = &subnet->nodes[node];
	struct ib_frame headers;
	struct mad_frame from;
	const uint8_t *mad;

	assert(node < subnet->node_count && !node_is_switch(at));
	assert(port && port <= at->port_count && frame_bytes <= SUBNET_FRAME_BYTES_MAX);
	subnet->now_ns = now_ns;
	if (!ib_frame_decode(&headers, frame, frame_bytes)) {
		at->ports[port].counters.port_xmit_discards++;
		return;
	}
	if (!headers.has_bth || headers.bth.dest_qpn.value != SMI_QPN) {
		frame_send(subnet, node, port, frame, frame_bytes);
		return;
	}
	if (mad_frame_decode(&from, &headers, frame, frame_bytes, &mad) &&
		from.vl == LRH_VL_MANAGEMENT && mad_class_is_subnet(mad[1]) &&
		ib_icrc_verify(frame, frame_bytes))
		user_smp_send(subnet, node, port, &from, mad);
	else
		at->ports[port].counters.vl15_dropped++;
}
