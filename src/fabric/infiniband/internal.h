/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_FABRIC_INFINIBAND_INTERNAL_H
#define URNIC_FABRIC_INFINIBAND_INTERNAL_H

/* What the files of this room share. */

#include "fabric/infiniband/infiniband.h"

static inline struct infiniband_port *infiniband_port_of(
	const struct fabric *fabric, uint32_t number)
{
	return &fabric->infiniband->ports[number];
}

/* Set the timer after which the port sends the credits of all lanes again. */
static inline void infiniband_flow_control_set(struct fabric *fabric, uint32_t number)
{
	uint64_t bytes = (uint64_t)IB_FLOW_CONTROL_SYMBOLS * IB_LANES_PER_LINK;

	fabric_timer_set(fabric, &infiniband_port_of(fabric, number)->flow_control,
		fabric->now_ps + fabric_wire_ps(bytes, fabric->ports[number].rate_mbps),
		EVENT_FLOW_CONTROL, number);
}

/* The lane of a packet that came in through `input` and leaves through `output`. */
uint8_t infiniband_vl_of(const struct fabric *fabric, uint32_t input, uint32_t output, uint32_t sl);

/* Append a packet to the queue of packet->vl of a port, and take the first one of a queue. */
void infiniband_push(struct fabric *fabric, uint32_t number, struct fabric_packet *packet);
struct fabric_packet *infiniband_pop(struct fabric *fabric, uint32_t number, uint32_t vl);

/* Count a packet into the buffer of the port and lane through which it came in, and out of it. */
void infiniband_buffer_take(
	struct fabric *fabric, uint32_t number, const struct fabric_packet *packet);
void infiniband_buffer_release(struct fabric *fabric, const struct fabric_packet *packet);

/* The port through which a packet entered the switch that it is in. */
static inline uint32_t infiniband_ingress_of(
	const struct fabric *fabric, const struct fabric_packet *packet)
{
	return packet->is_copy ? fabric->infiniband->holds[packet->ingress].port : packet->ingress;
}

/* The switch's ports are numbered from 1, as in its tables. */
static inline uint32_t infiniband_port_number(const struct fabric *fabric, uint32_t number)
{
	return infiniband_port_of(fabric, number)->place + 1;
}

/* A packet has arrived at a port of a switch, and is in its buffer. */
void infiniband_forward(struct fabric *fabric, uint32_t number, struct fabric_packet *packet);

/* May a packet leave its switch through a port? */
enum infiniband_verdict {
	VERDICT_PASSES,
	VERDICT_HAS_NO_LANE, /* now, or at all */
	VERDICT_IS_CONSTRAINED, /* its P_Key */
};

/* Decide that for a packet that came in through `input`, and set the lane that it leaves on. */
enum infiniband_verdict infiniband_judge(
	const struct fabric *fabric, uint32_t input, uint32_t output, struct fabric_packet *packet);
/* Count that a packet has not passed. */
void infiniband_count_discard(struct fabric *fabric, uint32_t output,
	enum infiniband_verdict verdict, const struct fabric_packet *packet);

/* --- copies.c --- */

/* A multicast packet has arrived at a port of a switch, and is in its buffer. */
void infiniband_replicate(struct fabric *fabric, uint32_t number, struct fabric_packet *packet);
/* One of the copies of a hold has left. Returns whether it was the last one. */
bool infiniband_hold_release(struct fabric *fabric, uint32_t number);
/* The ports of a switch that get a copy of a packet to a group that came in through `input`. */
struct multicast_row infiniband_copies_of(
	const struct fabric *fabric, uint32_t input, uint32_t group);

/* Is the switch `a` above the switch `b`? Of one rank, the lower number is above. */
static inline bool infiniband_is_above(const uint32_t *rank, uint32_t a, uint32_t b)
{
	return rank[a] != rank[b] ? rank[a] < rank[b] : a < b;
}

/* Set the timer for the packets of the port that become too old. */
void infiniband_lifetime_set(struct fabric *fabric, uint32_t number);

/* The functions of struct fabric_link_calls. */
struct fabric_packet *infiniband_next_packet(struct fabric *fabric, uint32_t number);
void infiniband_receive(struct fabric *fabric, uint32_t number, struct fabric_packet *packet);
void infiniband_link_receive(struct fabric *fabric, uint32_t number, struct fabric_packet *packet);
void infiniband_flow_control(struct fabric *fabric, uint32_t number);
void infiniband_expire(struct fabric *fabric, uint32_t number);

/* Choose the service levels of LASH (layers.c). Returns as infiniband_init(). */
int infiniband_layers_assign(struct fabric *fabric);
/* Choose that of the last group, whose tree is found. Returns as infiniband_add_group(). */
int infiniband_layers_add_group(struct fabric *fabric);

/* Fill the forwarding tables (routing.c). Returns as infiniband_init(). */
int infiniband_route(struct fabric *fabric);

#endif
