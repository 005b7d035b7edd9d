/* SPDX-License-Identifier: BSD-2-Clause */
#include "fabric/traffic/engine_frame.h"

#include "base/arith.h"
#include "fabric/infiniband/infiniband.h"
#include "fabric/traffic/engine_host.h"
#include "wire/bth.h"
#include "wire/infiniband/crc.h"
#include "wire/infiniband/lrh.h"
#include "wire/infiniband/pkey.h"

enum {
	FRAME_BYTES_MIN = 64,
	BTH_PKEY_OFFSET = 2,
};

static const uint16_t ipv4_id = 0;

uint16_t engine_frame_pkey(
	const struct fabric *fabric, const struct fabric_flow *flow, uint32_t host)
{
	const struct infiniband_port *port;

	if (!fabric->infiniband || !flow->pkey)
		return BTH_PKEY_DEFAULT;
	port = &fabric->infiniband->ports[fabric->hosts[host].port];
	for (uint32_t i = 0; host != flow->source && i < port->pkey_count; i++)
		if (pkey_is_of_partition(port->pkeys[i], flow->pkey))
			return port->pkeys[i];
	return flow->pkey;
}

uint32_t engine_frame_offset(const struct fabric *fabric)
{
	return fabric->infiniband ? LRH_BYTES : 0;
}

/* The lane is that of each link (infiniband/link.c). The P_Key is the port's, not the engine's. */
static void local_seal(struct fabric_packet *packet, uint32_t source, uint32_t bytes)
{
	struct lrh lrh = {
		.sl = packet->priority,
		.next = LRH_BTH,
		.dlid = (uint16_t)infiniband_lid(packet->destination),
		.words = (uint16_t)((LRH_BYTES + bytes + IB_ICRC_BYTES) / 4),
		.slid = (uint16_t)infiniband_lid(source),
	};

	lrh_encode(&lrh, packet->data);
	put_be16(packet->data + LRH_BYTES + BTH_PKEY_OFFSET, packet->pkey);
	ib_icrc_seal(packet->data, LRH_BYTES + bytes);
	packet->data_bytes = (uint16_t)(LRH_BYTES + bytes + IB_ICRC_BYTES);
	packet->bytes = packet->data_bytes + IB_VCRC_BYTES;
}

void engine_frame_seal(const struct fabric *fabric, struct fabric_packet *packet, uint32_t source,
	const struct icrc_flow *headers, uint32_t bytes)
{
	if (fabric->infiniband) {
		local_seal(packet, source, bytes);
		return;
	}
	icrc_seal(headers, ipv4_id, packet->data, bytes);
	packet->data_bytes = (uint16_t)(bytes + ROCE_ICRC_BYTES);
	packet->bytes = max_u32(FRAME_BYTES_MIN, ENGINE_HOST_FRAME_BYTES + packet->data_bytes);
}

static bool local_verify(const struct fabric_packet *packet)
{
	struct lrh lrh;

	lrh_decode(&lrh, packet->data);
	return lrh.dlid == infiniband_lid(packet->destination) && lrh.vl == packet->vl &&
		ib_icrc_verify(packet->data, packet->data_bytes);
}

bool engine_frame_verify(const struct fabric *fabric, const struct fabric_packet *packet,
	const struct icrc_flow *headers, uint32_t *ret_bytes)
{
	*ret_bytes = packet->data_bytes - engine_frame_offset(fabric) - ROCE_ICRC_BYTES;
	if (fabric->infiniband)
		return local_verify(packet);
	return icrc_verify(headers, ipv4_id, ICRC_IPV4_DF, packet->data, *ret_bytes);
}
