/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a switch does with a packet: forwarding tables, lanes, P_Keys, and packets that become too
 * old.
 */
#include <assert.h>
#include <string.h>

#include "base/arith.h"
#include "fabric/infiniband/internal.h"
#include "wire/infiniband/pkey.h"

/* --- forwarding --- */

uint8_t infiniband_vl_of(const struct fabric *fabric, uint32_t input, uint32_t output, uint32_t sl)
{
	uint32_t place = infiniband_port_of(fabric, input)->place;

	return infiniband_port_of(fabric, output)->sl2vl[place * IB_SL_COUNT + sl];
}

void infiniband_set_sl2vl(
	struct fabric *fabric, uint32_t input, uint32_t output, uint32_t sl, uint8_t vl)
{
	uint32_t place = infiniband_port_of(fabric, input)->place;

	infiniband_port_of(fabric, output)->sl2vl[place * IB_SL_COUNT + sl] = vl;
}

void infiniband_set_forwarding(
	struct fabric *fabric, uint32_t switch_number, uint32_t lid, uint32_t port)
{
	struct infiniband *infiniband = fabric->infiniband;

	infiniband->forwarding[(uint64_t)switch_number * infiniband->lid_count + lid] = port;
}

/* Discard a packet that is in no queue. */
static void packet_discard(struct fabric *fabric, enum fabric_event event, uint32_t number,
	struct fabric_packet *packet)
{
	fabric_note(fabric, event, number, packet->priority, packet);
	packet_pool_return(&fabric->pool, packet);
}

static void lane_discard(
	struct fabric *fabric, uint32_t number, uint32_t vl, struct fabric_packet *packet)
{
	infiniband_port_of(fabric, number)->vls[vl].discards++;
	packet_discard(fabric, FABRIC_FRAME_EXPIRED, number, packet);
}

enum infiniband_verdict infiniband_judge(
	const struct fabric *fabric, uint32_t input, uint32_t output, struct fabric_packet *packet)
{
	const struct infiniband_port *port = infiniband_port_of(fabric, output);
	uint32_t vl = IB_VL_MANAGEMENT;

	if (!packet->is_management) {
		vl = infiniband_vl_of(fabric, input, output, packet->priority);
		if (port->is_outbound_enforced &&
			!pkey_table_matches(port->pkeys, port->pkey_count, packet->pkey))
			return VERDICT_IS_CONSTRAINED;
	}
	packet->vl = (uint8_t)vl;
	/* A data packet whose service level is mapped to VL15 is discarded (IBTA 7.6.6). */
	if ((vl == IB_VL_MANAGEMENT && !packet->is_management) ||
		port->vls[vl].stalled_until_ps > fabric->now_ps)
		return VERDICT_HAS_NO_LANE;
	return VERDICT_PASSES;
}

void infiniband_count_discard(struct fabric *fabric, uint32_t output,
	enum infiniband_verdict verdict, const struct fabric_packet *packet)
{
	struct infiniband_port *port = infiniband_port_of(fabric, output);

	assert(verdict != VERDICT_PASSES);
	if (verdict == VERDICT_IS_CONSTRAINED) {
		port->xmit_constraint_errors++;
		fabric_note(fabric, FABRIC_FRAME_CONSTRAINED, output, packet->priority, packet);
		return;
	}
	port->vls[packet->vl].discards++;
	fabric_note(fabric, FABRIC_FRAME_EXPIRED, output, packet->priority, packet);
}

static void unicast_forward(struct fabric *fabric, uint32_t number, struct fabric_packet *packet)
{
	struct infiniband *infiniband = fabric->infiniband;
	uint32_t node = fabric->ports[number].node;
	uint32_t lid = infiniband_lid(packet->destination);
	uint32_t egress = infiniband->forwarding[(uint64_t)node * infiniband->lid_count + lid];
	enum infiniband_verdict verdict;

	if (egress == FABRIC_NO_PORT) {
		fabric->switches[node].unroutable_frames++;
		infiniband_buffer_release(fabric, packet);
		packet_discard(fabric, FABRIC_FRAME_UNROUTABLE, number, packet);
		return;
	}
	verdict = infiniband_judge(fabric, number, egress, packet);
	if (verdict != VERDICT_PASSES) {
		infiniband_buffer_release(fabric, packet);
		infiniband_count_discard(fabric, egress, verdict, packet);
		packet_pool_return(&fabric->pool, packet);
		return;
	}
	infiniband_push(fabric, egress, packet);
	port_kick(fabric, egress);
}

void infiniband_forward(struct fabric *fabric, uint32_t number, struct fabric_packet *packet)
{
	struct infiniband_port *port = infiniband_port_of(fabric, number);

	if (port->is_inbound_enforced && !packet->is_management &&
		!pkey_table_matches(port->pkeys, port->pkey_count, packet->pkey)) {
		port->rcv_constraint_errors++;
		infiniband_buffer_release(fabric, packet);
		packet_discard(fabric, FABRIC_FRAME_REFUSED, number, packet);
	} else if (packet->is_multicast) {
		infiniband_replicate(fabric, number, packet);
	} else {
		unicast_forward(fabric, number, packet);
	}
}

/* --- partitions --- */

void infiniband_set_pkeys(
	struct fabric *fabric, uint32_t port, const uint16_t *pkeys, uint32_t count)
{
	struct infiniband_port *of = infiniband_port_of(fabric, port);

	assert(count <= IB_PKEYS_MAX);
	memcpy(of->pkeys, pkeys, count * sizeof(*pkeys));
	of->pkey_count = count;
}

void infiniband_set_enforcement(
	struct fabric *fabric, uint32_t port, bool is_inbound, bool is_outbound)
{
	struct infiniband_port *of = infiniband_port_of(fabric, port);

	assert(!fabric->ports[port].is_host);
	of->is_inbound_enforced = is_inbound;
	of->is_outbound_enforced = is_outbound;
}

/* --- lifetimes --- */

static uint64_t later_ps(uint64_t since_ps, uint64_t life_ps)
{
	return life_ps == FABRIC_NEVER ? FABRIC_NEVER : since_ps + life_ps;
}

/* When the first packet of a lane becomes too old. */
static uint64_t head_due_ps(const struct fabric *fabric, const struct infiniband_vl *of)
{
	const struct infiniband_config *config = &fabric->infiniband->config;

	return min_u64(later_ps(of->head_since_ps, config->hoq_life_ps),
		later_ps(of->queue.first->queued_ps, config->switch_life_ps));
}

void infiniband_lifetime_set(struct fabric *fabric, uint32_t number)
{
	struct infiniband_port *port = infiniband_port_of(fabric, number);
	uint64_t due_ps = FABRIC_NEVER;

	if (fabric->ports[number].is_host)
		return;
	for (uint32_t vl = 0; vl < IB_VL_COUNT; vl++)
		if (port->waiting >> vl & 1)
			due_ps = min_u64(due_ps, head_due_ps(fabric, &port->vls[vl]));
	fabric_timer_set(fabric, &port->lifetime, due_ps, EVENT_LIFETIME, number);
}

/* Count a packet that the lane has discarded. After too many in a row the lane stalls. */
static void stall_count(struct fabric *fabric, uint32_t number, uint32_t vl)
{
	const struct infiniband_config *config = &fabric->infiniband->config;
	struct infiniband_vl *of = &infiniband_port_of(fabric, number)->vls[vl];

	of->discards_in_a_row++;
	if (!config->vl_stall_count || of->discards_in_a_row < config->vl_stall_count)
		return;
	of->discards_in_a_row = 0;
	of->stalled_until_ps = fabric->now_ps + IB_STALL_LIVES * config->hoq_life_ps;
	while (of->queue.first)
		lane_discard(fabric, number, vl, infiniband_pop(fabric, number, vl));
}

static void lane_expire(struct fabric *fabric, uint32_t number, uint32_t vl)
{
	struct infiniband_vl *of = &infiniband_port_of(fabric, number)->vls[vl];

	while (of->queue.first && head_due_ps(fabric, of) <= fabric->now_ps) {
		bool is_hoq = later_ps(of->head_since_ps, fabric->infiniband->config.hoq_life_ps) <=
			fabric->now_ps;

		lane_discard(fabric, number, vl, infiniband_pop(fabric, number, vl));
		if (is_hoq)
			stall_count(fabric, number, vl);
	}
}

void infiniband_expire(struct fabric *fabric, uint32_t number)
{
	struct infiniband_port *port = infiniband_port_of(fabric, number);

	if (!fabric_timer_fires(fabric, &port->lifetime, EVENT_LIFETIME, number))
		return;
	for (uint32_t vl = 0; vl < IB_VL_COUNT; vl++)
		lane_expire(fabric, number, vl);
	infiniband_lifetime_set(fabric, number);
	port_kick(fabric, number);
}
