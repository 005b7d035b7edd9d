/* SPDX-License-Identifier: BSD-2-Clause */
#include <string.h>

#include "port/infiniband/ib_internal.h"
#include "wire/infiniband/crc.h"
#include "wire/infiniband/lid_address.h"
#include "wire/infiniband/mad_frame.h"
#include "wire/infiniband/pkey.h"

enum {
	RECEIVE_BATCH = 64, /* frames of one call */
	/*
	 * The port may have taken a frame before that frame's wake-up comes. The descriptor is then
	 * readable without a frame. After this many calls that find no frame, the port makes the
	 * descriptor unreadable.
	 */
	EMPTY_LOOKS_MAX = 64,
};

/*
 * Read the headers of a frame. Returns false if a length or a field is not that of a packet with a
 * BTH.
 */
static bool frame_decode(struct ib_frame *frame, const uint8_t *bytes, uint32_t count)
{
	return ib_frame_decode(frame, bytes, count) && frame->has_bth &&
		frame->lrh.vl != LRH_VL_MANAGEMENT &&
		(!frame->has_grh ||
			(frame->grh.next_header == GRH_NEXT_HEADER_IB &&
				frame->grh.payload_bytes == count - frame->bth_offset));
}

static bool has_gid(const struct port_ib_state *state, const struct gid *gid)
{
	static const uint8_t link_local[8] = {0xfe, 0x80};

	for (uint32_t i = 0; i < state->gid_count; i++)
		if (gid_is_equal(&state->gids[i], gid) ||
			(memcmp(state->gids[i].raw + 8, gid->raw + 8, 8) == 0 &&
				memcmp(gid->raw, link_local, 8) == 0))
			return true;
	return false;
}

/*
 * Is the frame for this port? A packet to a multicast LID has a multicast GID (IBTA 10.5.2). A
 * unicast LID is one of the port's.
 */
static bool is_for_port(const struct port_ib_state *state, const struct ib_frame *frame)
{
	const struct lrh *lrh = &frame->lrh;

	if (lrh->slid == 0 || lrh->slid > LID_UNICAST_MAX || !state->lid)
		return false;
	if (lid_is_multicast(lrh->dlid))
		return frame->has_grh && gid_is_multicast(&frame->grh.dgid);
	if (lrh->dlid >> state->lmc != state->lid >> state->lmc)
		return false;
	return !frame->has_grh || has_gid(state, &frame->grh.dgid);
}

/* A group's queue pairs may use different P_Keys. */
static void pkey_entries_find(
	const struct port_ib_state *state, uint16_t pkey, uint64_t ret_entries[2])
{
	for (uint32_t i = 0; i < state->pkey_count; i++)
		if (pkey_matches(state->pkeys[i], pkey))
			ret_entries[i / 64] |= 1ull << i % 64;
}

/* The counter of a frame that is refused; NULL: the frame is good. */
static uint64_t *frame_refusal(struct port_ib *port, uint32_t number, const uint8_t *bytes,
	uint32_t count, struct ib_frame *frame)
{
	const struct port_ib_state *state = &port->state[number];

	if (!frame_decode(frame, bytes, count))
		return &port->counters.rx_malformed;
	if (!ib_icrc_verify(bytes, count))
		return &port->counters.rx_bad_icrc;
	if (!is_for_port(state, frame))
		return &port->counters.rx_misrouted;
	if (!pkey_table_matches(state->pkeys, state->pkey_count, frame->bth.pkey))
		return &port->counters.rx_pkey;
	return NULL;
}

static void frame_receive(struct port_ib *port, uint32_t number, uint32_t count,
	port_ib_packet_fn *on_packet, void *context)
{
	struct ib_frame frame;
	uint64_t *refusal = number >= 1 && number <= PORT_IB_PORTS_MAX
		? frame_refusal(port, number, port->frame, count, &frame)
		: &port->counters.rx_malformed;

	if (refusal) {
		++*refusal;
		return;
	}
	uint32_t packet_bytes = count - frame.bth_offset - IB_ICRC_BYTES;
	uint8_t path_bits = (uint8_t)(frame.lrh.dlid & ((1u << port->state[number].lmc) - 1));
	struct gid source =
		frame.has_grh ? frame.grh.sgid : lid_address_remote(frame.lrh.slid);
	struct gid destination = frame.has_grh ? frame.grh.dgid
					       : lid_address_local((uint8_t)number, path_bits);
	struct port_ib_packet packet = {
		.data = port->frame + frame.bth_offset,
		.data_bytes = packet_bytes,
		.origin =
			{
				.source = &source,
				.destination = &destination,
				.traffic_class = frame.has_grh ? frame.grh.traffic_class : 0,
				.hop_limit = frame.has_grh ? frame.grh.hop_limit : 0,
			},
		.link =
			{
				.slid = frame.lrh.slid,
				.service_level = frame.lrh.sl,
				.path_bits = path_bits,
				.port = (uint8_t)number,
				.has_grh = frame.has_grh,
				.flow_label = frame.has_grh ? frame.grh.flow_label : 0,
			},
		.pkey = frame.bth.pkey,
	};

	if (lid_is_multicast(frame.lrh.dlid))
		pkey_entries_find(
			&port->state[number], frame.bth.pkey, packet.link.pkey_entries);
	packet.origin.link = &packet.link;
	port->frame_port = number;
	port->frame_bytes = count;
	port->counters.rx_packets++;
	port->counters.rx_bytes += packet_bytes;
	on_packet(context, &packet);
}

void port_ib_violate(struct port_ib *port, enum port_ib_violation violation)
{
	const struct port_ib_wire *wire = port->wire;

	if (violation == PORT_IB_BAD_PKEY)
		port->counters.rx_qp_pkey++;
	wire->violate(
		wire->context, port->frame_port, violation, port->frame, port->frame_bytes);
	wire->flush(wire->context);
}

/*
 * No frame is left: make the descriptor unreadable, and have the next frame make it readable.
 * Returns false when a frame has come meanwhile.
 */
static bool wait_prepare(struct port_ib *port, bool has_received)
{
	const struct port_ib_wire *wire = port->wire;

	if (port->is_armed && !has_received && ++port->empty_looks < EMPTY_LOOKS_MAX)
		return true;
	port->empty_looks = 0;
	wire->wait_end(wire->context);
	port->is_armed = wire->wait_begin(wire->context);
	return port->is_armed;
}

/* No thread sleeps on the descriptor, so the next frame need not make it readable. */
static void wait_forget(struct port_ib *port, bool has_received)
{
	if (!port->is_armed || !has_received)
		return;
	port->is_armed = false;
	port->wire->wait_end(port->wire->context);
}

void port_ib_watch(struct port_ib *port, bool is_watched)
{
	const struct port_ib_wire *wire = port->wire;

	if (port->is_watched == is_watched)
		return;
	port->is_watched = is_watched;
	if (!is_watched || port->is_armed)
		return;
	port->is_armed = wire->wait_begin(wire->context);
	if (!port->is_armed)
		wire->kick(wire->context);
}

unsigned port_ib_receive(struct port_ib *port, port_ib_packet_fn *on_packet, void *context)
{
	const struct port_ib_wire *wire = port->wire;
	unsigned frames = 0;
	uint32_t number;
	int bytes;

	do {
		while (frames < RECEIVE_BATCH &&
			(bytes = wire->receive(wire->context, port->frame, &number)) != 0) {
			frames++;
			if (bytes > 0)
				frame_receive(port, number, (uint32_t)bytes, on_packet, context);
			else
				port->counters.rx_spoilt++;
		}
		if (!port->is_watched) {
			wait_forget(port, frames != 0);
			return frames;
		}
	} while (frames < RECEIVE_BATCH && !wait_prepare(port, frames != 0));
	/*
	 * Frames may be left, and the caller may sleep on the descriptor. So make the descriptor
	 * readable.
	 */
	if (frames == RECEIVE_BATCH && !port->is_armed)
		wire->kick(wire->context);
	return frames;
}
