/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Multicast packets in a switch. Each copy is a packet of its own, in the queue of its output port.
 * All copies share the buffer of the input port, so each has the number of a hold in place of that
 * port. The hold counts the copies that are left.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "fabric/infiniband/internal.h"
#include "fabric/route.h"

enum { HOLDS_MIN = 64 };

/* --- holds --- */

static bool holds_extend(struct infiniband *infiniband)
{
	uint32_t count = max_u32(HOLDS_MIN, 2 * infiniband->hold_count);
	struct infiniband_hold *holds = (struct infiniband_hold *)realloc(
		infiniband->holds, count * sizeof(struct infiniband_hold));

	if (!holds)
		return false;
	infiniband->holds = holds;
	for (uint32_t i = infiniband->hold_count; i < count; i++)
		holds[i] = (struct infiniband_hold){.next = i + 1};
	infiniband->hold_count = count;
	return true;
}

/* Returns false without memory. */
static bool hold_take(
	struct infiniband *infiniband, uint32_t port, uint32_t copies, uint32_t *ret_number)
{
	if (infiniband->hold_free == infiniband->hold_count && !holds_extend(infiniband))
		return false;
	*ret_number = infiniband->hold_free;
	infiniband->hold_free = infiniband->holds[*ret_number].next;
	infiniband->holds[*ret_number] = (struct infiniband_hold){.port = port, .copies = copies};
	return true;
}

bool infiniband_hold_release(struct fabric *fabric, uint32_t number)
{
	struct infiniband *infiniband = fabric->infiniband;
	struct infiniband_hold *hold = &infiniband->holds[number];

	if (--hold->copies)
		return false;
	hold->next = infiniband->hold_free;
	infiniband->hold_free = number;
	return true;
}

/* --- replication --- */

/* Has the switch an entry for the group? */
static bool has_row(const struct fabric *fabric, uint32_t node, uint32_t group)
{
	static const struct multicast_row unset;
	const struct infiniband *infiniband = fabric->infiniband;
	const struct multicast_row *row = multicast_row_find(
		infiniband->multicast[node], infiniband->group_count, infiniband_group_lid(group));

	return row && memcmp(row, &unset, sizeof(unset));
}

struct multicast_row infiniband_copies_of(
	const struct fabric *fabric, uint32_t input, uint32_t group)
{
	const struct infiniband *infiniband = fabric->infiniband;

	return multicast_copies(infiniband->multicast[fabric->ports[input].node],
		infiniband->group_count, infiniband_group_lid(group),
		infiniband_port_number(fabric, input));
}

/*
 * Take the ports out of `copies` that the packet may not leave through, and count that. Returns how
 * many are left.
 */
static uint32_t copies_judge(struct fabric *fabric, uint32_t input, struct fabric_packet *packet,
	struct multicast_row *copies)
{
	uint32_t passing = 0;
	uint32_t count;
	const uint32_t *ports = route_ports_of(fabric, fabric->ports[input].node, &count);

	for (uint32_t i = 0; i < min_u32(count, MULTICAST_PORTS_MAX - 1); i++) {
		enum infiniband_verdict verdict;

		if (!multicast_row_has(copies, i + 1))
			continue;
		verdict = infiniband_judge(fabric, input, ports[i], packet);
		if (verdict == VERDICT_PASSES) {
			passing++;
			continue;
		}
		multicast_row_set(copies, i + 1, false);
		infiniband_count_discard(fabric, ports[i], verdict, packet);
	}
	return passing;
}

static struct fabric_packet *packet_copy(struct fabric *fabric, const struct fabric_packet *packet)
{
	struct fabric_packet *copy = fabric_packet_take(fabric);

	if (!copy)
		return NULL;
	*copy = *packet;
	memcpy(copy->data, packet->data, packet->data_bytes);
	return copy;
}

/* Append a copy to the queue of each port, `passing` in all. */
static void copies_push(struct fabric *fabric, uint32_t input, const struct fabric_packet *packet,
	const struct multicast_row *copies, uint32_t passing)
{
	const uint32_t *ports;
	uint32_t count;
	uint32_t hold;

	if (!hold_take(fabric->infiniband, input, passing, &hold)) {
		fabric->error = -ENOMEM;
		return;
	}
	ports = route_ports_of(fabric, fabric->ports[input].node, &count);
	for (uint32_t i = 0; passing && i < min_u32(count, MULTICAST_PORTS_MAX - 1); i++) {
		struct fabric_packet *copy;

		if (!multicast_row_has(copies, i + 1))
			continue;
		passing--;
		copy = packet_copy(fabric, packet);
		if (!copy)
			return;
		copy->is_copy = true;
		copy->ingress = hold;
		infiniband_judge(fabric, input, ports[i], copy);
		infiniband_push(fabric, ports[i], copy);
		port_kick(fabric, ports[i]);
	}
}

void infiniband_replicate(struct fabric *fabric, uint32_t number, struct fabric_packet *packet)
{
	struct multicast_row copies = infiniband_copies_of(fabric, number, packet->destination);
	uint32_t node = fabric->ports[number].node;
	uint32_t passing;

	if (!has_row(fabric, node, packet->destination)) {
		fabric->switches[node].unroutable_frames++;
		fabric_note(fabric, FABRIC_FRAME_UNROUTABLE, number, packet->priority, packet);
	}
	passing = copies_judge(fabric, number, packet, &copies);
	if (passing)
		copies_push(fabric, number, packet, &copies, passing);
	else
		infiniband_buffer_release(fabric, packet);
	packet_pool_return(&fabric->pool, packet);
}
