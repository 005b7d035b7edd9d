/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_SUBNET_SUBNET_INTERNAL_H
#define URNIC_SUBNET_SUBNET_INTERNAL_H

/*
 * The parts of a subnet:
 *
 *	subnet.c	making it, and looking at it
 *	link.c		cables, the states of ports, what a port sends and receives
 *	forward.c	frames between nodes, other than SMPs; route.c: looks up their routes
 *	loop.c		credit loops of the routes
 *	smi.c		SMPs between nodes
 *	sma.c		the agent of subnet management: Get; sma_set.c: Set
 *	pma.c		the agent of performance management
 *	trap.c		traps
 *
 * The subnet calls the embedded subnet manager (subnet/manager) by struct subnet_manager_calls.
 */

#include "subnet/subnet.h"
#include "wire/infiniband/mad_frame.h"
#include "wire/infiniband/multicast_row.h"
#include "wire/infiniband/smp.h"

enum {
	LINEAR_FDB_CAP = LID_UNICAST_MAX + 1,
	MULTICAST_FDB_CAP = 1024,
	CA_PKEYS = SUBNET_PKEYS_MAX,
	SWITCH_PKEYS = 32,
	PKEYS_OF_BLOCK = 32,
	GUIDS_OF_BLOCK = 8,
	LIDS_OF_BLOCK = 64,
	SMA_MLIDS_OF_BLOCK = 32,
	SL_COUNT = 16,
	VL_CAP = 4, /* VL0 to VL7 */
	VL_DATA_COUNT = 8,
	VL_ARBITRATION_BLOCKS = 4,
	VL_ARBITRATION_CAP = 64, /* entries of each table */
	NO_PORT = 255, /* in a forwarding table */
	LINK_CROSSINGS_MAX = 4096, /* of all copies of one frame */
	HOPS_MAX = SUBNET_HOPS_MAX, /* of one copy */
	TRAPS_MAX = 16, /* of a node, that wait for TrapRepress */
	TRAP_SENDS_MAX = 8,
};

/* The port in the modifier of PortInfo (IBTA 14.2.5.6); the upper bits are hints of the manager. */
#define PORT_NUMBER_MASK 0xff

/* Traps (IBTA 14.2.5.1, table 131). */
enum trap_number {
	TRAP_LINK_STATE = 128, /* of a switch */
	TRAP_LOCAL_CHANGES = 144, /* the CapabilityMask, or the NodeDescription */
	TRAP_BAD_M_KEY = 256,
	TRAP_BAD_PKEY = 257,
	TRAP_BAD_QKEY = 258,
	TRAP_BAD_PKEY_AT_SWITCH = 259,
};

struct node_port {
	struct ib_port_info info;
	uint16_t pkeys[SUBNET_PKEYS_MAX];
	uint64_t guids[SUBNET_GUIDS_MAX];
	uint8_t *sl_to_vl; /* by input port, SL_COUNT entries each; a CA has one row */
	uint8_t vl_arbitration[VL_ARBITRATION_BLOCKS][SMP_DATA_BYTES];
	struct subnet_counters counters;
	uint32_t user_capabilities; /* the bits of the CapabilityMask that the user has set */
	uint64_t m_key_lease_end_ns; /* UINT64_MAX: the lease does not run */
	uint32_t peer_node;
	uint8_t peer_port;
	bool is_cut;
	uint8_t cable_width;
	enum topology_speed cable_speed;
	uint32_t error_per_million;
	uint16_t error_attribute;
};

/* A trap that the node repeats until its TrapRepress comes. */
struct pending_trap {
	uint64_t transaction_id;
	uint64_t next_ns;
	uint8_t sends_left; /* 0: the place is empty */
	uint8_t port; /* the port of a CA that sends the trap; 0 at a switch */
	uint8_t notice[IB_NOTICE_BYTES];
};

struct subnet_node {
	enum topology_node_kind kind;
	uint32_t port_count; /* without a switch's port 0 */
	uint32_t vendor_id;
	uint16_t device_id;
	uint64_t guid;
	uint64_t system_guid;
	char name[TOPOLOGY_NAME_BYTES];
	char description[SMP_DATA_BYTES + 1];
	struct node_port *ports; /* port_count + 1; a CA does not use ports[0] */
	struct ib_switch_info switch_info;
	uint8_t *linear; /* LINEAR_FDB_CAP output ports */
	struct multicast_row *multicast; /* MULTICAST_FDB_CAP */
	uint16_t trap_count; /* traps that were made, for their transaction IDs */
	struct pending_trap traps[TRAPS_MAX];
};

struct mad_frame;
struct smp_flight;
struct subnet_manager;

/* The functions of the embedded manager, for the subnet to call. */
struct subnet_manager_calls {
	/* Set subnet->manager. Returns 0 or -ENOMEM. After an error destroy() follows, too. */
	int (*create)(struct subnet *subnet);
	void (*destroy)(struct subnet_manager *manager); /* NULL: no effect */
	/* Is the manager at this end port, and the master? */
	bool (*is_at)(const struct subnet *subnet, uint32_t node);
	/* Something has changed that a sweep would find. */
	void (*notice_change)(struct subnet *subnet);
	/* An SMInfo, a trap or a response has arrived. Returns false if it is not the manager's. */
	bool (*receive_smp)(
		struct subnet *subnet, uint32_t node, struct smp_flight *flight, uint32_t in_port);
	/* A MAD of subnet administration has arrived at the manager's node. */
	void (*receive_query)(
		struct subnet *subnet, const struct mad_frame *from, const uint8_t mad[MAD_BYTES]);
	void (*advance)(struct subnet *subnet);
	/* When to call advance(); 0: at once. */
	uint64_t (*deadline_ns)(const struct subnet *subnet);
};

struct subnet {
	struct subnet_user user;
	struct subnet_node *nodes;
	uint32_t node_count;
	uint64_t now_ns;
	uint64_t route_changes; /* counts the changes of anything on which a route depends */
	uint64_t traps_at_ns; /* when the first trap of all nodes is due */
	uint64_t random; /* the state of the random numbers that decide which frames have errors */
	const struct subnet_manager_calls *calls;
	struct subnet_manager *manager; /* the functions of `calls` use this */
};

/* An SMP on its way. */
struct smp_flight {
	uint16_t dlid;
	uint16_t slid;
	uint8_t sl;
	uint8_t mad[MAD_BYTES];
};

static inline bool node_is_switch(const struct subnet_node *node)
{
	return node->kind == TOPOLOGY_SWITCH;
}

/* The end port that takes what arrives at `port`: at a switch port 0, else `port` itself. */
static inline struct node_port *node_end_port(struct subnet_node *node, uint32_t port)
{
	return &node->ports[node_is_switch(node) ? 0 : port];
}

static inline bool port_has_lid(const struct node_port *port, uint16_t lid)
{
	return port->info.lid && lid >> port->info.lmc == port->info.lid >> port->info.lmc;
}

/* The number of virtual lanes in use. */
static inline uint8_t port_vl_count(const struct ib_port_info *info)
{
	return info->operational_vls < 5 ? (uint8_t)(1u << info->operational_vls >> 1) : 15;
}

/*
 * Find the lane of a frame that came in by `in_port` (0 at a CA) and leaves by `out`. Returns false
 * if the service level has no lane.
 */
static inline bool port_vl_find(
	const struct node_port *out, uint32_t in_port, uint8_t sl, uint8_t *ret_vl)
{
	*ret_vl = out->sl_to_vl[in_port * SL_COUNT + sl];
	return *ret_vl < port_vl_count(&out->info);
}

/* --- link.c --- */

/*
 * Send a frame over the cable of a port. If it does not arrive, return false and count the reason.
 *
 * `bytes`  LRH to ICRC.
 * `smp`    The MAD in the frame, if it is an SMP; else NULL.
 */
bool link_pass(struct subnet *subnet, uint32_t node, uint32_t port, const uint8_t *bytes,
	uint32_t count, const uint8_t *smp);

/* Bring a cable up or down, at both of its ends. */
void link_train(struct subnet *subnet, uint32_t node, uint32_t port);
void link_drop(struct subnet *subnet, uint32_t node, uint32_t port);
/* Does the port have a connected cable, and is no end of the cable disabled? */
bool link_is_possible(const struct subnet *subnet, uint32_t node, uint32_t port);

/* The only function that assigns a port's state. It informs the port's user and the manager. */
void port_set_state(struct subnet *subnet, uint32_t node, uint32_t port, enum ib_port_state state);

void subnet_event_send(
	struct subnet *subnet, uint32_t node, uint32_t port, enum subnet_event event);

uint32_t node_pkey_count(const struct subnet_node *node);
/* Count a violation of a key; the counter sticks at its maximum. */
void port_count_violation(uint16_t *counter);
/* Set the widths and speeds that the port supports: those up to its cable's. */
void link_support_rate(struct node_port *port);
/* Count a frame, or many, as sent by a port and as received by its peer. */
void link_count(struct node_port *at, struct node_port *peer, uint64_t packets, uint64_t words,
	bool is_multicast);
/* Does a switch's port refuse the P_Key (IBTA 18.2.4.2)? */
bool port_pkey_is_refused(const struct node_port *port, bool is_enforced, uint16_t pkey);
/* The longest frame, LRH to ICRC, that a port sends. */
uint32_t port_frame_bytes_max(const struct node_port *port);

/* --- forward.c --- */

/*
 * Send a frame that is no SMP from an end port: a CA's port, or a switch's port 0.
 */
void frame_send(
	struct subnet *subnet, uint32_t node, uint32_t port, uint8_t *bytes, uint32_t count);

/* --- smi.c --- */

/* Send an SMP from a node. `port`: a CA's port; 0 at a switch. */
void smp_send(struct subnet *subnet, uint32_t node, uint32_t port, struct smp_flight *flight);

/* --- sma.c, sma_set.c --- */

/*
 * Answer a Get or a Set.
 *
 * `in_port`  The port at which the SMP arrived. For the node's own SMP: a CA's port that sent it,
 *            or 0 of a switch.
 * `mad`      The request; becomes the response.
 *
 * Returns false if there is no response, because the M_Key is wrong.
 */
bool sma_answer(struct subnet *subnet, uint32_t node, uint32_t in_port, uint16_t slid,
	uint8_t mad[MAD_BYTES]);
/* Set an attribute; returns the status. `data` has SMP_DATA_BYTES. */
uint16_t sma_set(struct subnet *subnet, uint32_t node, uint32_t in_port,
	const struct mad_header *header, const uint8_t *data);
/* The port that an attribute modifier names; NULL: there is none. */
struct node_port *sma_port(struct subnet_node *node, uint32_t in_port, uint32_t number);

/* The part of an attribute that the attribute modifier names; NULL: there is none. */
uint8_t *sma_sl_to_vl(struct subnet_node *node, uint32_t in_port, uint32_t modifier);
uint8_t *sma_vl_arbitration(struct subnet_node *node, uint32_t in_port, uint32_t modifier);

/* A block of the MulticastForwardingTable: 16 ports of 32 LIDs. */
struct sma_multicast_block {
	uint32_t first; /* LID, from LID_MULTICAST_FIRST */
	uint32_t word; /* of the masks */
	uint32_t shift;
};
bool sma_multicast_block(struct sma_multicast_block *ret_at, uint32_t modifier);

/* Set LID, LMC, the manager's LID and SL, and the prefix of GIDs, and tell the port's user. */
void port_set_lids(
	struct subnet *subnet, uint32_t node, uint32_t port, const struct ib_port_info *set);

/* --- pma.c --- */

/* Answer a request; returns false unless `mad` is a Get or a Set. */
bool pma_answer(struct subnet *subnet, uint32_t node, uint8_t mad[MAD_BYTES]);

/* --- trap.c --- */

void trap_link_state(struct subnet *subnet, uint32_t node);
void trap_capability(struct subnet *subnet, uint32_t node, uint32_t port);
void trap_description(struct subnet *subnet, uint32_t node, uint32_t port);
void trap_m_key(struct subnet *subnet, uint32_t node, uint32_t port, uint16_t slid,
	const uint8_t mad[MAD_BYTES]);
/* `number` 257, 258, or 259; `key` the P_Key or Q_Key. */
void trap_key(struct subnet *subnet, uint32_t node, uint32_t port, uint16_t number,
	const struct ib_frame *frame, uint32_t key, uint32_t source_qpn);
/* End a trap. Returns false if the node has not sent it. */
bool trap_repress(struct subnet_node *node, uint64_t transaction_id);
void traps_advance(struct subnet *subnet);

#endif
