/* SPDX-License-Identifier: BSD-2-Clause */
#include "port/infiniband/ib.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/crc.h"
#include "port/infiniband/ib_internal.h"
#include "wire/bth.h"
#include "wire/infiniband/crc.h"
#include "wire/ip.h"

enum {
	BTH_PKEY = 2,
	/*
	 * Room for the frames of a full buffer. The headers of a frame add less than three times
	 * the bytes of even the shortest packet.
	 */
	WIRE_BYTES_MIN = 4 * PORT_IB_BUFFER_BYTES,
};

/* Ask the wire whether it has room for all that the buffer can hold. */
static void room_look(struct port_ib *port)
{
	const struct port_ib_wire *wire = port->wire;

	port->is_blocked = !wire->has_room(wire->context, WIRE_BYTES_MIN);
}

uint8_t *port_ib_buffer(struct port_ib *port, uint32_t *ret_capacity_bytes)
{
	room_look(port);
	port->counters.tx_blocked += port->is_blocked;
	*ret_capacity_bytes = PORT_IB_BUFFER_BYTES;
	return port->buffer;
}

bool port_ib_is_blocked(const struct port_ib *port)
{
	return port->is_blocked;
}

/* The open path with this number; NULL if it was closed, or never opened. */
static const struct ib_path *path_find(const struct port_ib *port, uint32_t id)
{
	uint32_t index = id % PORT_IB_PATHS_MAX;
	const struct ib_path *path = index < port->path_limit ? port->paths[index] : NULL;

	return path && path->id == id ? path : NULL;
}

bool port_ib_path_has_room(
	const struct port_ib *port, uint32_t id, uint32_t pkey_index, uint32_t dest_qpn)
{
	const struct ib_path *path = path_find(port, id);
	struct port_ib_route route;
	struct lrh lrh;

	if (!path)
		return true;
	if (path->pkey_index != PORT_IB_PKEY_OF_PACKET)
		pkey_index = path->pkey_index;
	lrh_decode(&lrh, path->headers);
	route = (struct port_ib_route){
		.port = path->port,
		.dlid = lrh.dlid,
		.pkey = port_ib_pkey(port, path->port, pkey_index),
		.sl = lrh.sl,
		.slot = (uint8_t)(dest_qpn >> 16),
	};
	return port->wire->route_has_room(port->wire->context, &route, WIRE_BYTES_MIN);
}

/* The P_Key of a packet on the path; 0: there is none. */
static uint16_t pkey_of(
	const struct port_ib *port, const struct ib_path *path, const uint8_t *packet)
{
	uint32_t index = path->pkey_index == PORT_IB_PKEY_OF_PACKET ? get_be16(packet + BTH_PKEY)
								   : path->pkey_index;

	return port_ib_pkey(port, path->port, index);
}

/*
 * Write LRH and GRH for packets of `bytes` bytes, BTH to pad. Returns false if the port has no LID.
 */
static bool headers_write(const struct port_ib *port, const struct ib_path *path, uint32_t bytes,
	uint8_t headers[IB_HEADERS_BYTES_MAX])
{
	const struct port_ib_state *state = &port->state[path->port];
	uint16_t bits = path->path_bits & (uint16_t)((1u << state->lmc) - 1);
	uint32_t words = (path->header_bytes + bytes + IB_ICRC_BYTES) / 4;

	if (!state->lid)
		return false;
	memcpy(headers, path->headers, path->header_bytes);
	put_be16(headers + 4, (uint16_t)words);
	put_be16(headers + 6, (uint16_t)(state->lid | bits));
	if (path->header_bytes == IB_HEADERS_BYTES_MAX)
		put_be16(headers + LRH_BYTES + IPV6_PAYLOAD_LENGTH,
			(uint16_t)(bytes + IB_ICRC_BYTES));
	return true;
}

/*
 * Send one packet. `headers` has room for a BTH behind LRH and GRH. The packet's own bytes are
 * `own_bytes` at `packet`, with room for the ICRC behind them if nothing is borrowed.
 */
static void packet_send(struct port_ib *port, const struct ib_path *path, uint8_t *headers,
	uint8_t *packet, uint32_t own_bytes, const uint8_t *borrowed, uint32_t borrowed_bytes)
{
	const uint32_t header_bytes = path->header_bytes;
	uint8_t icrc_bytes[IB_ICRC_BYTES];
	uint32_t icrc;

	memcpy(headers + header_bytes, packet, BTH_BYTES);
	icrc = ib_icrc(headers, header_bytes + BTH_BYTES);
	icrc = crc32_update(icrc, packet + BTH_BYTES, own_bytes - BTH_BYTES);
	if (borrowed_bytes)
		icrc = crc32_update(icrc, borrowed, borrowed_bytes);
	put_le32(icrc_bytes, icrc);
	const struct record_piece pieces[] = {
		{headers, header_bytes},
		{packet, own_bytes},
		{borrowed_bytes ? borrowed : icrc_bytes, borrowed_bytes},
		{icrc_bytes, IB_ICRC_BYTES},
	};
	if (!port->wire->send(port->wire->context, path->port, pieces, 4)) {
		port->counters.tx_full++;
		return;
	}
	port->has_sent = true;
	port->counters.tx_packets++;
	port->counters.tx_bytes += own_bytes + borrowed_bytes;
}

void port_ib_send_run(struct port_ib *port, uint32_t bytes, const struct packet_run *run)
{
	const struct ib_path *path = path_find(port, run->path);
	uint32_t own_bytes = bytes - (run->borrowed ? run->borrowed_bytes : 0);
	uint32_t borrowed_bytes = bytes - own_bytes;
	uint8_t headers[IB_HEADERS_BYTES_MAX + BTH_BYTES];
	uint8_t *packet = run->buffer;
	const uint8_t *borrowed = run->borrowed;

	assert(bytes >= BTH_BYTES && bytes <= PORT_IB_PACKET_BYTES_MAX && bytes % 4 == 0);
	if (!path) {
		port->counters.tx_path_closed += run->packets;
		return;
	}
	if (!headers_write(port, path, bytes, headers)) {
		port->counters.tx_no_lid += run->packets;
		return;
	}
	for (uint32_t i = 0; i < run->packets; i++) {
		uint16_t pkey = pkey_of(port, path, packet);

		if (pkey) {
			put_be16(packet + BTH_PKEY, pkey);
			packet_send(port, path, headers, packet, own_bytes, borrowed,
				borrowed_bytes);
		} else {
			port->counters.tx_no_lid++;
		}
		packet += own_bytes + IB_ICRC_BYTES;
		borrowed = borrowed ? borrowed + borrowed_bytes : NULL;
	}
}

int port_ib_flush(struct port_ib *port)
{
	if (port->has_sent) {
		port->has_sent = false;
		port->wire->flush(port->wire->context);
	}
	if (port->is_blocked)
		room_look(port);
	return port->is_blocked ? -EAGAIN : 0;
}
