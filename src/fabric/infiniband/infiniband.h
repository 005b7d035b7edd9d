/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * InfiniBand links and switches, on the clock and the cables of the simulated network (fabric.h).
 *
 * infiniband_init() turns a network that is built into a subnet: hosts get LIDs, switches their
 * forwarding tables, ports their virtual lanes. From then on ports send by credits (credit.h) and
 * VL arbitration (arbitration.h). No port pauses another one. For lack of room a port drops only
 * management packets, which have no credits.
 *
 * A packet's priority is its service level. Each port that sends the packet maps the service level
 * to a virtual lane; the mapping depends on the port through which the packet came in. A switch
 * stores and forwards: a packet is in the buffer of its input port and lane until its output port
 * begins to send it, and waits in the queue of its output port and lane. A host takes what arrives
 * at once, and has one packet ready for each lane.
 *
 * A port sends its peer the credits of a lane in a link packet, before all other packets: when the
 * credits have changed, and otherwise once in 65,536 symbol times.
 *
 * A packet that is too long at the head of its queue, or in its switch, is discarded. A lane that
 * discards too many in a row discards all for eight times as long (IBTA 18.2.5.4).
 *
 * A switch replicates a multicast packet: the ports of its row but the one through which it came in
 * get a copy. Each copy has a queue, a lane and credits of its own, so one that waits does not stop
 * the others. The buffer of the input port is free again when the last copy has left. A switch
 * without a row for the packet discards it.
 *
 * Each port has P_Keys. A host takes packets that match one of them. A switch's port enforces them
 * on what comes in, or leaves, or both (IBTA 18.2.4.2). Management packets have no P_Key.
 */
#ifndef URNIC_FABRIC_INFINIBAND_INFINIBAND_H
#define URNIC_FABRIC_INFINIBAND_INFINIBAND_H

#include <stdbool.h>
#include <stdint.h>

#include "fabric/fabric.h"
#include "fabric/infiniband/arbitration.h"
#include "fabric/infiniband/credit.h"
#include "wire/infiniband/multicast_row.h"

enum {
	IB_SL_COUNT = 16,
	IB_DELIMITER_BYTES = 2, /* symbols around each packet: fabric_config.gap_bytes */
	IB_LINK_PACKET_BYTES = 6,
	IB_FLOW_CONTROL_SYMBOLS = 65536, /* between two flow control packets of a lane, at most */
	IB_LANES_PER_LINK = 4, /* 4X: a link sends four bytes in a symbol time */
	IB_STALL_LIVES = 8,
	IB_LIFE_CODE_MAX = 19, /* above: for ever */
	IB_PKEYS_MAX = 32, /* of a port */
	IB_GROUPS_MAX = 1024,
};

/* HOQLife and SwitchLifeTime: 4.096 us x 2^code. */
static inline uint64_t infiniband_life_ps(uint32_t code)
{
	return code > IB_LIFE_CODE_MAX ? FABRIC_NEVER : 4096000ull << code;
}

enum infiniband_routing {
	INFINIBAND_MINHOP, /* shortest paths; equal ports of a switch share the destinations */
	INFINIBAND_UPDN, /* no path goes up after it has gone down, seen from the roots */
	INFINIBAND_LASH, /* as minhop; pairs of hosts have service levels that close no loop */
};

struct infiniband_config {
	enum infiniband_routing routing;
	uint32_t data_vls; /* 1 to 15 */
	uint32_t buffer_blocks; /* of each input port and data lane */
	uint32_t management_packets; /* how many an input port holds at most */
	uint64_t hoq_life_ps; /* of the ports of switches; FABRIC_NEVER: no limit */
	uint64_t switch_life_ps; /* FABRIC_NEVER: no limit */
	uint32_t vl_stall_count; /* so many discards in a row stall a lane; 0: lanes never stall */
	uint8_t sl2vl[IB_SL_COUNT]; /* of all ports; 15: packets are discarded */
	struct arbitration arbitration;
};

/* A virtual lane of a port. */
struct infiniband_vl {
	/* Out of the port. */
	struct packet_queue queue;
	struct credit_sender sender;
	uint64_t head_since_ps; /* since when the queue's first packet is the first */
	uint64_t wait_since_ps; /* for credits; FABRIC_NEVER: it does not wait */
	uint64_t stalled_until_ps;
	uint32_t discards_in_a_row;
	/* Into the port. */
	struct credit_receiver receiver;
	uint32_t held_packets; /* how many packets the buffer holds */
	uint64_t sent_packets;
	uint64_t sent_bytes;
	uint64_t received_packets;
	uint64_t wait_ps; /* PortXmitWait, until the last change */
	uint64_t discards; /* PortXmitDiscards */
};

struct infiniband_port {
	uint32_t place; /* among the ports of its node */
	uint16_t waiting; /* a bit for each lane whose queue has packets */
	uint16_t credits_pending; /* a bit for each lane whose credits the peer has to know */
	uint32_t head_bytes[IB_VL_COUNT];
	struct arbiter arbiter;
	struct fabric_timer flow_control; /* when all credits are sent again */
	struct fabric_timer lifetime; /* when the next packet is too old */
	uint8_t *sl2vl; /* by place of the input port and by SL */
	uint64_t vl15_dropped;
	uint64_t link_packets; /* sent */
	struct infiniband_vl vls[IB_VL_COUNT];
	uint16_t pkeys[IB_PKEYS_MAX];
	uint32_t pkey_count;
	bool is_inbound_enforced; /* of a switch */
	bool is_outbound_enforced;
	uint64_t rcv_constraint_errors; /* packets that inbound enforcement has discarded */
	uint64_t xmit_constraint_errors; /* the same of outbound enforcement */
	uint64_t pkey_violations; /* of a host: packets that no P_Key matched */
};

/* What a host has to do with a group. */
enum infiniband_role {
	INFINIBAND_STRANGER, /* nothing */
	INFINIBAND_SENDER, /* it only sends */
	INFINIBAND_MEMBER, /* it receives, and may send */
};

struct infiniband_group {
	uint8_t *roles; /* by host: enum infiniband_role */
	uint32_t member_count;
	uint8_t service_level; /* LASH */
};

/* A multicast packet that is in the buffer of an input port as long as it has copies there. */
struct infiniband_hold {
	uint32_t port;
	uint32_t copies; /* 0: no packet has this hold */
	uint32_t next; /* of the free holds */
};

struct infiniband {
	struct infiniband_config config;
	struct infiniband_port *ports; /* by the network's port */
	uint32_t lid_count; /* all LIDs are lower */
	uint32_t *forwarding; /* by switch and LID: the port; FABRIC_NO_PORT: none */
	uint8_t *mapping; /* what sl2vl of all ports points to */
	uint8_t *service_levels; /* by two hosts; NULL: any */
	uint32_t *rank; /* by switch: its distance from the roots of updn */
	uint32_t group_count;
	struct infiniband_group *groups;
	struct multicast_row **multicast; /* by switch: a row for each group; NULL: no group */
	uint32_t hold_count;
	uint32_t hold_free; /* the first free one; hold_count: none */
	struct infiniband_hold *holds;
};

/*
 * Turn a network that topology_build() has built into a subnet, before its hosts get functions.
 * Returns 0 or -ENOMEM; or -ENETUNREACH when the routing engine leaves a host without a path, or
 * has too few lanes. LASH maps each service level to its own lane, whatever `sl2vl` is.
 */
int infiniband_init(struct fabric *fabric, const struct infiniband_config *config);

/* The LID of a host. */
static inline uint32_t infiniband_lid(uint32_t host)
{
	return host + 1;
}

/*
 * The service level of packets between two hosts, as a path record has it; `wanted` if the routing
 * engine leaves the choice.
 */
static inline uint8_t infiniband_service_level(
	const struct fabric *fabric, uint32_t a, uint32_t b, uint8_t wanted)
{
	const struct infiniband *infiniband = fabric->infiniband;

	return infiniband && infiniband->service_levels
		? infiniband->service_levels[a * fabric->host_count + b]
		: wanted;
}

/* Packets to `lid` leave the switch through `port` from now on. */
void infiniband_set_forwarding(
	struct fabric *fabric, uint32_t switch_number, uint32_t lid, uint32_t port);

/* Packets of `sl` that came in through `input` leave `output`, of the same switch, on `vl`. */
void infiniband_set_sl2vl(
	struct fabric *fabric, uint32_t input, uint32_t output, uint32_t sl, uint8_t vl);

/*
 * Set the service level of each path. `levels` is an array of host_count x host_count, indexed by
 * the two hosts, of levels below FABRIC_PRIORITY_COUNT. It is copied. Returns 0 or -ENOMEM.
 */
int infiniband_set_service_levels(struct fabric *fabric, const uint8_t *levels);

/*
 * Add a multicast group, before hosts get functions. Its packets take a tree of cables, on which no
 * packet goes up after it has gone down, seen from the roots of updn. So beside updn, and beside
 * minhop in trees, it closes no loop.
 *
 * `roles`      By host, enum infiniband_role; copied.
 * `ret_group`  Its number: the `destination` of its packets.
 *
 * Returns 0 or -ENOMEM; -ENETUNREACH when there is no such tree, or LASH has too few lanes;
 * -E2BIG when some switch has 255 ports or more.
 */
int infiniband_add_group(struct fabric *fabric, const uint8_t *roles, uint32_t *ret_group);

/* The LID of a group. */
static inline uint16_t infiniband_group_lid(uint32_t group)
{
	return (uint16_t)(LID_MULTICAST_FIRST + group);
}

/* The service level of packets to a group; `wanted` unless the routing engine is LASH. */
static inline uint8_t infiniband_group_level(
	const struct fabric *fabric, uint32_t group, uint8_t wanted)
{
	return fabric->infiniband->config.routing == INFINIBAND_LASH
		? fabric->infiniband->groups[group].service_level
		: wanted;
}

/* Replace a switch's row for a group. Its ports are those of route_ports_of(), from 1. */
void infiniband_set_multicast(struct fabric *fabric, uint32_t switch_number, uint32_t group,
	const struct multicast_row *row);

/*
 * The P_Keys of a port from now on: up to IB_PKEYS_MAX, which are copied. Before, a port has 0xffff
 * only.
 */
void infiniband_set_pkeys(
	struct fabric *fabric, uint32_t port, const uint16_t *pkeys, uint32_t count);

/* Which packets a switch's port checks from now on: those that come in, and those that leave. */
void infiniband_set_enforcement(
	struct fabric *fabric, uint32_t port, bool is_inbound, bool is_outbound);

/* How long packets of this lane have waited for credits, until now. */
uint64_t infiniband_wait_ps(const struct fabric *fabric, uint32_t port, uint32_t vl);

#endif
