/* SPDX-License-Identifier: BSD-2-Clause */
#include "fabric/egress.h"

#include "base/arith.h"
#include "fabric/fabric.h"

/* What a class of weight 1 may send in each round. */
enum { QUANTUM_BYTES = SCHEDULER_QUANTUM_BYTES };

/* The priorities of all classes but this one, as bits. */
static uint8_t others_of(const struct egress *egress, uint32_t class)
{
	uint8_t others = 0;

	for (uint32_t i = 0; i < FABRIC_PRIORITY_COUNT; i++)
		if (egress->class_of[i] != class)
			others |= (uint8_t)(1u << i);
	return others;
}

/* The frame is about to leave: its class pays for it. */
static void frame_charge(struct egress *egress, const struct fabric_packet *packet, uint64_t now_ps)
{
	uint32_t class = egress->class_of[packet->priority];
	uint32_t rate_mbps = egress->rate_mbps[class];

	egress->credit_bytes[class] -= packet->bytes;
	if (rate_mbps) /* a class that had to wait for the port catches up by one frame */
		egress->next_ps[class] = max_u64(
			egress->next_ps[class] + fabric_wire_ps(packet->bytes, rate_mbps), now_ps);
}

static bool class_send(struct fabric_host *host, uint32_t class, struct fabric_packet *packet,
	uint8_t paused, uint64_t now_ps)
{
	struct egress *egress = &host->egress;
	uint8_t held = egress->next_ps[class] > now_ps ? UINT8_MAX : others_of(egress, class);

	if (!host->ops->next_packet(host->context, packet, paused, held, now_ps))
		return false;
	frame_charge(egress, packet, now_ps);
	return true;
}

static bool strict_send(
	struct fabric_host *host, struct fabric_packet *packet, uint8_t paused, uint64_t now_ps)
{
	for (uint32_t class = EGRESS_CLASS_COUNT; class -- > 0;)
		if (host->egress.strict >> class & 1 &&
			class_send(host, class, packet, paused, now_ps))
			return true;
	return false;
}

static void turn_begin(struct egress *egress)
{
	uint32_t weight = max_u32(egress->weight[egress->turn], 1);

	if (!egress->has_begun)
		egress->credit_bytes[egress->turn] += weight * QUANTUM_BYTES;
	egress->has_begun = true;
}

static void turn_end(struct egress *egress)
{
	egress->turn = (uint8_t)((egress->turn + 1) % EGRESS_CLASS_COUNT);
	egress->has_begun = false;
}

static bool weighted_send(
	struct fabric_host *host, struct fabric_packet *packet, uint8_t paused, uint64_t now_ps)
{
	struct egress *egress = &host->egress;
	uint8_t left = (uint8_t)~egress->strict; /* the classes that may have a frame */

	for (; left; turn_end(egress)) {
		uint8_t mine = (uint8_t)(1u << egress->turn);

		if (egress->strict & mine)
			continue;
		turn_begin(egress);
		if (egress->credit_bytes[egress->turn] <= 0)
			continue;
		if (left & mine && class_send(host, egress->turn, packet, paused, now_ps))
			return true;
		left &= (uint8_t)~mine;
		egress->credit_bytes[egress->turn] = 0;
	}
	return false;
}

bool egress_next(
	struct fabric_host *host, struct fabric_packet *packet, uint8_t paused, uint64_t now_ps)
{
	return strict_send(host, packet, paused, now_ps) ||
		weighted_send(host, packet, paused, now_ps);
}

uint64_t egress_next_time(const struct egress *egress, uint64_t now_ps)
{
	uint64_t next_ps = FABRIC_NEVER;

	for (uint32_t i = 0; i < EGRESS_CLASS_COUNT; i++)
		if (egress->next_ps[i] > now_ps)
			next_ps = min_u64(next_ps, egress->next_ps[i]);
	return next_ps;
}
