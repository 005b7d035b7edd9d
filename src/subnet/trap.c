/* SPDX-License-Identifier: BSD-2-Clause */
#include <string.h>

#include "base/arith.h"
#include "subnet/subnet_internal.h"

enum {
	TYPE_URGENT = 1,
	TYPE_SECURITY = 2,
	TYPE_INFORMATIONAL = 4,
	CHANGED_DESCRIPTION = 1, /* bit of the ChangeFlags of trap 144 */
	DR_NOTICE = 0x80, /* trap 256: the packet was one with a directed route */
	DR_TRUNCATED = 0x40,
	RETURN_PATH_BYTES = 30,
	INTERVAL_UNIT_NS = 4096,
};

/* Can the port send a trap? Not without a LID, or the LID of a manager (IBTA 14.3.3). */
static bool port_can_send(const struct node_port *port)
{
	return port->info.port_state == IB_PORT_ACTIVE && port->info.lid && port->info.sm_lid;
}

static uint64_t interval_ns(const struct node_port *port)
{
	return (uint64_t)INTERVAL_UNIT_NS << port->info.subnet_timeout;
}

/* Send a notice from an end port, and repeat it until a TrapRepress comes. */
static void trap_add(
	struct subnet *subnet, uint32_t node, uint32_t port, uint8_t type, struct ib_notice *notice)
{
	struct subnet_node *at = &subnet->nodes[node];
	struct pending_trap *place = NULL;
	uint8_t bytes[IB_NOTICE_BYTES];

	if (node_is_switch(at))
		port = 0;
	if (!port_can_send(&at->ports[port]))
		return;
	notice->is_generic = 1;
	notice->type = type;
	notice->producer_type = node_is_switch(at) ? IB_NODE_SWITCH : IB_NODE_CA;
	notice->issuer_lid = at->ports[port].info.lid;
	ib_notice_encode(notice, bytes);
	for (uint32_t i = 0; i < TRAPS_MAX; i++) {
		struct pending_trap *trap = &at->traps[i];

		if (!trap->sends_left)
			place = trap;
		else if (memcmp(trap->notice, bytes, sizeof(bytes)) == 0)
			return;
	}
	if (!place)
		return;
	*place = (struct pending_trap){
		.transaction_id = (uint64_t)(node + 1) << 16 | ++at->trap_count,
		.next_ns = subnet->now_ns,
		.sends_left = TRAP_SENDS_MAX,
		.port = (uint8_t)port,
	};
	memcpy(place->notice, bytes, sizeof(bytes));
	subnet->traps_at_ns = min_u64(subnet->traps_at_ns, subnet->now_ns);
}

void trap_link_state(struct subnet *subnet, uint32_t node)
{
	struct ib_notice notice = {.trap_number = TRAP_LINK_STATE};

	put_be16(notice.details, subnet->nodes[node].ports[0].info.lid);
	trap_add(subnet, node, 0, TYPE_URGENT, &notice);
}

static void local_change(struct subnet *subnet, uint32_t node, uint32_t port, uint16_t flags)
{
	const struct ib_port_info *info = &subnet->nodes[node].ports[port].info;
	struct ib_notice notice = {.trap_number = TRAP_LOCAL_CHANGES};

	put_be16(notice.details + 2, info->lid);
	notice.details[5] = flags != 0;
	put_be32(notice.details + 6, info->capability_mask);
	put_be16(notice.details + 10, flags);
	trap_add(subnet, node, port, TYPE_INFORMATIONAL, &notice);
}

void trap_capability(struct subnet *subnet, uint32_t node, uint32_t port)
{
	local_change(subnet, node, port, 0);
}

void trap_description(struct subnet *subnet, uint32_t node, uint32_t port)
{
	local_change(subnet, node, port, CHANGED_DESCRIPTION);
}

void trap_m_key(struct subnet *subnet, uint32_t node, uint32_t port, uint16_t slid,
	const uint8_t mad[MAD_BYTES])
{
	struct ib_notice notice = {.trap_number = TRAP_BAD_M_KEY};
	uint8_t *details = notice.details;
	struct mad_header header;

	mad_header_decode(&header, mad);
	put_be16(details + 2, slid);
	details[6] = header.method;
	put_be16(details + 8, header.attribute_id);
	put_be32(details + 10, header.attribute_modifier);
	memcpy(details + 14, mad + SMP_M_KEY, 8);
	if (header.management_class == MAD_CLASS_SUBN_DIRECTED) {
		const uint8_t hops = (uint8_t)header.class_specific;

		memcpy(details + 4, mad + SMP_DR_SLID, 2);
		details[23] = (uint8_t)(DR_NOTICE | (hops & 0x3f));
		if (hops >= RETURN_PATH_BYTES)
			details[23] = DR_NOTICE | DR_TRUNCATED | RETURN_PATH_BYTES;
		memcpy(details + 24, mad + SMP_RETURN_PATH, RETURN_PATH_BYTES);
	}
	trap_add(subnet, node, port, TYPE_SECURITY, &notice);
}

/* The GIDs of a frame's two ends, as far as the frame has them. */
static void gids_put(const struct ib_frame *frame, uint8_t *to)
{
	if (!frame->has_grh)
		return;
	memcpy(to, frame->grh.sgid.raw, 16);
	memcpy(to + 16, frame->grh.dgid.raw, 16);
}

void trap_key(struct subnet *subnet, uint32_t node, uint32_t port, uint16_t number,
	const struct ib_frame *frame, uint32_t key, uint32_t source_qpn)
{
	struct ib_notice notice = {.trap_number = number};
	uint8_t *details = notice.details;
	const uint32_t sl_and_qpn = (uint32_t)frame->lrh.sl << 28 | source_qpn;

	put_be16(details + 2, frame->lrh.slid);
	put_be16(details + 4, frame->lrh.dlid);
	if (number == TRAP_BAD_PKEY_AT_SWITCH) {
		put_be16(details, 0xf000); /* LIDs, P_Key, QPs are valid */
		put_be16(details + 6, (uint16_t)key);
		put_be32(details + 8, sl_and_qpn);
		put_be32(details + 12, frame->bth.dest_qpn.value);
		gids_put(frame, details + 16);
		put_be16(details + 48, subnet->nodes[node].ports[0].info.lid);
		details[50] = (uint8_t)port;
	} else {
		put_be32(details + 6, key);
		put_be32(details + 10, sl_and_qpn);
		put_be32(details + 14, frame->bth.dest_qpn.value);
		gids_put(frame, details + 18);
	}
	trap_add(subnet, node, port, TYPE_SECURITY, &notice);
}

bool trap_repress(struct subnet_node *node, uint64_t transaction_id)
{
	for (uint32_t i = 0; i < TRAPS_MAX; i++) {
		if (node->traps[i].transaction_id != transaction_id)
			continue;
		node->traps[i].sends_left = 0;
		return true;
	}
	return false;
}

static void trap_send(struct subnet *subnet, uint32_t node, struct pending_trap *trap)
{
	const struct ib_port_info *info = &subnet->nodes[node].ports[trap->port].info;
	struct smp_flight flight = {.dlid = info->sm_lid, .slid = info->lid, .sl = info->sm_sl};
	const struct mad_header header = {
		.base_version = MAD_BASE_VERSION,
		.management_class = MAD_CLASS_SUBN_LID_ROUTED,
		.class_version = 1,
		.method = MAD_METHOD_TRAP,
		.attribute_id = SM_ATTRIBUTE_NOTICE,
		.transaction_id = trap->transaction_id,
	};

	mad_header_encode(&header, flight.mad);
	memcpy(flight.mad + SMP_DATA, trap->notice, IB_NOTICE_BYTES);
	trap->sends_left--;
	trap->next_ns = subnet->now_ns + interval_ns(&subnet->nodes[node].ports[trap->port]);
	if (port_can_send(&subnet->nodes[node].ports[trap->port]))
		smp_send(subnet, node, trap->port, &flight);
}

void traps_advance(struct subnet *subnet)
{
	uint64_t first_ns = UINT64_MAX;

	/* Reset the time first: sending a trap may cause other traps, which set it. */
	subnet->traps_at_ns = UINT64_MAX;
	for (uint32_t node = 0; node < subnet->node_count; node++) {
		for (uint32_t i = 0; i < TRAPS_MAX; i++) {
			struct pending_trap *trap = &subnet->nodes[node].traps[i];

			if (trap->sends_left && trap->next_ns <= subnet->now_ns)
				trap_send(subnet, node, trap);
			if (trap->sends_left)
				first_ns = min_u64(first_ns, trap->next_ns);
		}
	}
	subnet->traps_at_ns = min_u64(subnet->traps_at_ns, first_ns);
}
