/* SPDX-License-Identifier: BSD-2-Clause */
#include "fabric/infiniband/infiniband.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "fabric/infiniband/internal.h"
#include "fabric/route.h"
#include "wire/bth.h"

static void groups_done(struct fabric *fabric)
{
	struct infiniband *infiniband = fabric->infiniband;

	for (uint32_t i = 0; i < infiniband->group_count; i++)
		free(infiniband->groups[i].roles);
	for (uint32_t i = 0; infiniband->multicast && i < fabric->switch_count; i++)
		free(infiniband->multicast[i]);
	free(infiniband->groups);
	free(infiniband->multicast);
	free(infiniband->holds);
	free(infiniband->rank);
}

static void infiniband_done(struct fabric *fabric)
{
	if (!fabric->infiniband)
		return;
	free(fabric->infiniband->ports);
	free(fabric->infiniband->forwarding);
	free(fabric->infiniband->mapping);
	free(fabric->infiniband->service_levels);
	groups_done(fabric);
	free(fabric->infiniband);
	fabric->infiniband = NULL;
	fabric->link = NULL;
}

/* --- set-up --- */

static void lanes_init(const struct infiniband_config *config, struct infiniband_port *port)
{
	for (uint32_t vl = 0; vl < IB_VL_COUNT; vl++) {
		struct infiniband_vl *of = &port->vls[vl];

		of->wait_since_ps = FABRIC_NEVER;
		if (vl >= config->data_vls)
			continue;
		of->receiver.free_blocks = config->buffer_blocks;
		of->sender.fccl = credit_limit(&of->receiver);
	}
}

static void ports_init(struct fabric *fabric)
{
	struct infiniband *infiniband = fabric->infiniband;

	for (uint32_t i = 0; i < fabric->port_count; i++) {
		struct infiniband_port *port = &infiniband->ports[i];

		port->arbiter.config = &infiniband->config.arbitration;
		port->pkeys[0] = BTH_PKEY_DEFAULT;
		port->pkey_count = 1;
		port->flow_control = port->lifetime =
			(struct fabric_timer){FABRIC_NEVER, FABRIC_NEVER};
		lanes_init(&infiniband->config, port);
		infiniband_flow_control_set(fabric, i);
	}
}

/*
 * Number the ports of each switch: their places. A host's only port has place 0. Returns how many
 * rows the mapping of all ports has.
 */
static uint64_t places_find(struct fabric *fabric)
{
	uint64_t rows = fabric->host_count;

	for (uint32_t i = 0; i < fabric->switch_count; i++) {
		uint32_t count;
		const uint32_t *ports = route_ports_of(fabric, i, &count);

		for (uint32_t j = 0; j < count; j++)
			fabric->infiniband->ports[ports[j]].place = j;
		rows += (uint64_t)count * count;
	}
	return rows;
}

/* Each port maps SLs to VLs by a row for each input port: the ports of its node. */
static int mapping_init(struct fabric *fabric)
{
	struct infiniband *infiniband = fabric->infiniband;
	uint64_t rows = places_find(fabric);
	uint8_t *at = (uint8_t *)malloc((rows + 1) * IB_SL_COUNT);

	infiniband->mapping = at;
	if (!at)
		return -ENOMEM;
	for (uint64_t i = 0; i < rows; i++)
		memcpy(at + i * IB_SL_COUNT, infiniband->config.sl2vl, IB_SL_COUNT);
	for (uint32_t i = 0; i < fabric->port_count; i++) {
		uint32_t count = 1;

		infiniband->ports[i].sl2vl = at;
		if (!fabric->ports[i].is_host)
			route_ports_of(fabric, fabric->ports[i].node, &count);
		at += (uint64_t)count * IB_SL_COUNT;
	}
	return 0;
}

static int tables_init(struct fabric *fabric)
{
	struct infiniband *infiniband = fabric->infiniband;
	uint64_t entries;

	infiniband->lid_count = infiniband_lid(fabric->host_count);
	entries = (uint64_t)infiniband->lid_count * fabric->switch_count;
	infiniband->ports = (struct infiniband_port *)calloc(
		fabric->port_count + 1ull, sizeof(struct infiniband_port));
	infiniband->forwarding = (uint32_t *)calloc(entries + 1, sizeof(uint32_t));
	infiniband->rank = (uint32_t *)calloc(fabric->switch_count + 1ull, sizeof(uint32_t));
	infiniband->multicast = (struct multicast_row **)calloc(
		fabric->switch_count + 1ull, sizeof(struct multicast_row *));
	if (!infiniband->ports || !infiniband->forwarding || !infiniband->rank ||
		!infiniband->multicast)
		return -ENOMEM;
	for (uint64_t i = 0; i < entries; i++)
		infiniband->forwarding[i] = FABRIC_NO_PORT;
	return mapping_init(fabric);
}

/* --- invariants --- */

/* The blocks of a lane that are under way from the port to its peer. */
static uint32_t blocks_on_cable(const struct fabric_port *port, uint32_t vl)
{
	uint32_t blocks = 0;

	for (const struct fabric_packet *packet = port->cable.first; packet; packet = packet->next)
		if (packet->vl == vl && !packet->is_link)
			blocks += credit_blocks(packet->bytes);
	return blocks;
}

/*
 * Each block of a lane is free, or a packet of some queue of the switch holds it; the copies of a
 * packet hold its blocks together.
 */
static void blocks_count(
	const struct fabric *fabric, uint32_t number, uint32_t *held, uint32_t *copies)
{
	const struct infiniband_port *port = infiniband_port_of(fabric, number);

	for (uint32_t vl = 0; vl < IB_VL_COUNT; vl++) {
		const struct fabric_packet *packet = port->vls[vl].queue.first;

		assert(!!packet == (port->waiting >> vl & 1));
		for (; packet && !fabric->ports[number].is_host; packet = packet->next)
			if (!packet->is_copy || !copies[packet->ingress]++)
				held[infiniband_ingress_of(fabric, packet) * IB_VL_COUNT +
					packet->ingress_vl] += credit_blocks(packet->bytes);
	}
}

static void lane_check(
	const struct fabric *fabric, uint32_t number, uint32_t vl, uint32_t held_blocks)
{
	const struct fabric_port *port = &fabric->ports[number];
	const struct infiniband_vl *of = &infiniband_port_of(fabric, number)->vls[vl];
	const struct infiniband_vl *peer = &infiniband_port_of(fabric, port->peer)->vls[vl];

	assert(held_blocks + of->receiver.free_blocks == fabric->infiniband->config.buffer_blocks);
	/* A sender's limit is never ahead of what its receiver has room for. */
	assert(credit_ahead(credit_limit(&of->receiver), peer->sender.fccl) <= CREDIT_BLOCKS_MAX);
	if (!fabric->ports[port->peer].lost_frames && !fabric->ports[port->peer].corrupted_frames)
		assert(peer->sender.fctbs ==
			credit_add(
				of->receiver.abr, blocks_on_cable(&fabric->ports[port->peer], vl)));
}

static void infiniband_check(const struct fabric *fabric)
{
	const uint64_t lanes = (fabric->port_count + 1ull) * IB_VL_COUNT;
	const struct infiniband *infiniband = fabric->infiniband;
	uint32_t *held = (uint32_t *)calloc(lanes + infiniband->hold_count, sizeof(uint32_t));

	if (!held)
		return;
	for (uint32_t i = 0; i < fabric->port_count; i++)
		blocks_count(fabric, i, held, held + lanes);
	for (uint32_t i = 0; i < infiniband->hold_count; i++)
		assert(held[lanes + i] == infiniband->holds[i].copies);
	for (uint32_t i = 0; i < fabric->port_count; i++)
		for (uint32_t vl = 0; vl < fabric->infiniband->config.data_vls; vl++)
			lane_check(fabric, i, vl, held[i * IB_VL_COUNT + vl]);
	free(held);
}

/* --- made --- */

static const struct fabric_link_calls link_calls = {
	.done = infiniband_done,
	.next_packet = infiniband_next_packet,
	.receive = infiniband_receive,
	.link_receive = infiniband_link_receive,
	.flow_control = infiniband_flow_control,
	.expire = infiniband_expire,
	.check = infiniband_check,
};

int infiniband_init(struct fabric *fabric, const struct infiniband_config *config)
{
	int error;

	assert(config->data_vls && config->data_vls <= IB_DATA_VL_COUNT);
	fabric->infiniband = (struct infiniband *)calloc(1, sizeof(struct infiniband));
	if (!fabric->infiniband)
		return -ENOMEM;
	fabric->link = &link_calls;
	fabric->infiniband->config = *config;
	for (uint32_t i = 0; config->routing == INFINIBAND_LASH && i < IB_SL_COUNT; i++)
		fabric->infiniband->config.sl2vl[i] = (uint8_t)i;
	error = tables_init(fabric);
	if (!error)
		error = infiniband_route(fabric);
	if (!error && config->routing == INFINIBAND_LASH)
		error = infiniband_layers_assign(fabric);
	if (error) {
		infiniband_done(fabric);
		return error;
	}
	ports_init(fabric);
	return fabric->error;
}
