/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_SUBNET_SUBNET_H
#define URNIC_SUBNET_SUBNET_H

/*
 * A subnet of InfiniBand: switches, channel adapters (CAs) and cables, without sockets, threads or
 * a clock.
 *
 * Each node has its subnet management agent and its performance management agent, so a node needs
 * no process to be managed. A switch forwards by the tables that a subnet manager gave it. The
 * embedded subnet manager is at the first switch's port 0, or at the first CA's port 1 where there
 * is no switch. It hands over to any other subnet manager that answers, and takes over again after
 * the last one has gone.
 *
 * Nodes are numbered from 0, in the order of the topology. A CA's ports are numbered from 1, a
 * switch's from 0, which is its management port.
 *
 * A frame is a packet from the first byte of its LRH to the last byte of its ICRC. A frame has no
 * VCRC inside of the subnet, because no bit can be wrong there. subnet_port_error_rate() drops
 * frames as wrong VCRCs would. A frame takes its whole route at once, within subnet_send(): links
 * have no delay and no credits.
 *
 * The caller serializes all calls. The functions of struct subnet_user are called within them, and
 * must not call back into the subnet, except for the functions that take a const struct subnet.
 */

#include <stdbool.h>
#include <stdint.h>

#include "subnet/topology/topology.h"
#include "wire/infiniband/attribute.h"
#include "wire/infiniband/multicast_row.h"

struct subnet;
struct subnet_manager_calls;

enum {
	/* LRH, GRH, BTH, the longest extended headers, 4,096 bytes of payload, ICRC, rounded up. */
	SUBNET_FRAME_BYTES_MAX = 4352,
	SUBNET_PKEYS_MAX = 128, /* of one port */
	SUBNET_GUIDS_MAX = 8, /* of one port */
	SUBNET_HOPS_MAX = 64, /* of one frame; then it is dropped, as if its lifetime had ended */
};

/* What has happened to a port of a CA. */
enum subnet_event {
	SUBNET_PORT_ACTIVE,
	SUBNET_PORT_ERROR, /* the port was active, and no longer is */
	SUBNET_LID_CHANGE,
	SUBNET_PKEY_CHANGE,
	SUBNET_GID_CHANGE,
	SUBNET_SM_CHANGE,
	SUBNET_CLIENT_REREGISTER,
};

/* The functions of the program that has the queue pairs of all CAs. */
struct subnet_user {
	/*
	 * A frame has arrived at a CA's port. The subnet itself answers requests to the SMA and the
	 * PMA. Everything else goes to the user: data, responses to management requests, and
	 * requests to a subnet manager of the CA (SMInfo, traps, class 3).
	 */
	void (*deliver)(void *context, uint32_t node, uint32_t port, const uint8_t *frame,
		uint32_t frame_bytes);
	/* May be NULL. */
	void (*event)(void *context, uint32_t node, uint32_t port, enum subnet_event event);
	/* The port sends a frame over its cable. May be NULL. */
	void (*trace)(void *context, uint32_t node, uint32_t port, const uint8_t *frame,
		uint32_t frame_bytes);
	/*
	 * A management packet is about to read or set counters. The user now calls
	 * subnet_route_count() for the frames that it has carried itself. May be NULL.
	 */
	void (*count)(void *context);
	void *context;
};

/* The counters of a port. They do not wrap; the PMA shows them as its attributes limit them. */
struct subnet_counters {
#define SUBNET_COUNTER(name, is_of_drops, sentence) uint64_t name;
#include "subnet/counter.def"
#undef SUBNET_COUNTER
};

/* A port. Until subnet_destroy() the pointers stay valid, and what they point to stays current. */
struct subnet_port_view {
	const struct ib_port_info *info;
	const uint16_t *pkeys;
	const uint64_t *guids; /* guids[0] is the port's GUID */
	const struct subnet_counters *counters;
	uint32_t pkey_count;
	uint32_t guid_count;
	uint32_t peer_node; /* TOPOLOGY_NO_NODE: no cable */
	uint8_t peer_port;
	bool is_cut; /* there is a cable, but it is cut */
	uint8_t width; /* lanes in use: 1, 2, 4, 8 or 12 */
	enum topology_speed speed; /* in use */
};

struct subnet_node_view {
	enum topology_node_kind kind;
	uint32_t port_count;
	uint32_t vendor_id;
	uint16_t device_id;
	uint64_t guid;
	uint64_t system_guid;
	const char *name; /* the name in the topology */
	const char *description; /* the NodeDescription; stays current */
};

/*
 * Make a subnet. All cables are connected, and no port is active until a subnet manager has set it
 * up. The embedded one does so in the first subnet_advance().
 *
 * `topology`  Copied; the caller may destroy it.
 * `user`      Copied.
 * `manager`   &subnet_embedded_manager (subnet/manager/manager.h).
 *
 * Returns 0 or -ENOMEM.
 */
int subnet_create(const struct subnet_topology *topology, const struct subnet_user *user,
	const struct subnet_manager_calls *manager, struct subnet **ret_subnet);
void subnet_destroy(struct subnet *subnet);

/*
 * A frame leaves a CA's port.
 *
 * `frame`   LRH to ICRC. The subnet changes the VL in its LRH. Hostile input is legal: a frame
 *           that is malformed, or may not be sent in the port's state, is dropped and counted.
 * `now_ns`  Monotonic time; not before the time of any earlier call.
 */
void subnet_send(struct subnet *subnet, uint32_t node, uint32_t port, uint8_t *frame,
	uint32_t frame_bytes, uint64_t now_ns);

/*
 * Do what is due: send traps, run the embedded subnet manager. Returns when to call this again;
 * UINT64_MAX: not by time. The caller also calls it after each other call that changes the subnet.
 */
uint64_t subnet_advance(struct subnet *subnet, uint64_t now_ns);

/*
 * Returns when to call subnet_advance(), and changes nothing. The time is in the past after a call
 * that has changed the subnet, such as a subnet_send() that has caused a trap.
 */
uint64_t subnet_deadline_ns(const struct subnet *subnet);

/* --- to look at it --- */

uint32_t subnet_node_count(const struct subnet *subnet);

/*
 * Find a node by its name in the topology, else by its NodeDescription, else by its GUID (0x...).
 * Returns its number or -ENOENT.
 */
int subnet_find_node(const struct subnet *subnet, const char *name_or_guid);

/* Describe a node, or a port of it. The node exists. */
void subnet_node(const struct subnet *subnet, uint32_t node, struct subnet_node_view *ret_view);
/* Returns false unless the node has this port. */
bool subnet_port(const struct subnet *subnet, uint32_t node, uint32_t port,
	struct subnet_port_view *ret_view);

/* The output port of a LID at a switch; 255: none. */
uint8_t subnet_switch_route(const struct subnet *subnet, uint32_t node, uint16_t lid);
/* The output ports of a multicast LID at a switch. */
void subnet_switch_group(
	const struct subnet *subnet, uint32_t node, uint16_t mlid, struct multicast_row *ret_row);

/* --- routes --- */

/* Where a frame to a unicast LID ends. */
enum subnet_route_end {
#define SUBNET_ROUTE_END(name, sentence) SUBNET_ROUTE_##name,
#include "subnet/route_end.def"
#undef SUBNET_ROUTE_END
};

/* A sentence without a full stop. */
const char *subnet_route_end_text(enum subnet_route_end end);

struct subnet_route {
	enum subnet_route_end end;
	uint32_t node; /* the node where the frame ends */
	/* The port by which it arrived there. If it ends where it began: the port that sent it. */
	uint32_t port;
	uint32_t hop_count;
	struct subnet_hop {
		uint32_t node;
		uint8_t port; /* the port that sends */
		uint8_t vl;
	} hops[SUBNET_HOPS_MAX];
	uint32_t frame_bytes_max; /* the longest frame that all hops pass on */
	/* How long a frame may be at the head of the last port's queue; UINT64_MAX: for ever */
	uint64_t lifetime_ns;
};

/*
 * Look up the route that a frame from a CA's port would take now. Returns whether each such frame
 * arrives at a CA's port (SUBNET_ROUTE_ARRIVES). False if a cable of the route has errors.
 */
bool subnet_route_find(const struct subnet *subnet, uint32_t node, uint32_t port, uint16_t dlid,
	uint8_t sl, uint16_t pkey, struct subnet_route *ret_route);

/*
 * Find the lane of packets that come in by one port of a switch and leave by another one. At a CA
 * `in_port` is 0. Returns false if the service level has no lane.
 */
bool subnet_vl_find(const struct subnet *subnet, uint32_t node, uint32_t in_port, uint32_t out_port,
	uint8_t sl, uint8_t *ret_vl);

/* Changes when subnet_route_find() might have another result. */
uint64_t subnet_route_changes(const struct subnet *subnet);

enum { SUBNET_LOOP_MAX = 64 };

/* Queues that may come to wait for each other in a circle, each for the next one. */
struct subnet_loop {
	uint16_t levels; /* a bit for each service level of the packets that wait */
	uint32_t length;
	struct subnet_hop hops[SUBNET_LOOP_MAX]; /* of a longer loop, the first ones */
};

/*
 * The service levels of packets from a CA's port to a LID: a bit for each; 0: no packets take this
 * path.
 */
typedef uint16_t subnet_levels_fn(const void *context, uint32_t node, uint32_t port, uint16_t dlid);

/*
 * Find a credit loop of the paths between all CAs: queues that each wait for the next one, and the
 * last for the first. A queue is a port with a virtual lane. SL2VL tables map a path's service
 * level to the lane. A subnet with credits may deadlock if it has a loop, and never does otherwise.
 *
 * `levels`  Gets `context`, and is called twice for each path at most.
 *
 * Returns 1 and a loop; 0: there is none; or -ENOMEM.
 */
int subnet_loop_find(const struct subnet *subnet, subnet_levels_fn *levels, const void *context,
	struct subnet_loop *ret_loop);

/*
 * Frames that the caller itself has carried from end to end: count them at each port of the route.
 *
 * `words`       All frames together, in units of four bytes.
 * `discards`    More frames, which the last port dropped because their lifetime had ended.
 * `wait_ticks`  How long frames waited for credits at the last port (port_xmit_wait).
 */
void subnet_route_count(struct subnet *subnet, const struct subnet_route *route, uint64_t packets,
	uint64_t words, uint64_t discards, uint64_t wait_ticks);

/*
 * subnet_port_behind(): a CA's port was slow to take frames. Count the drops and the waiting time
 * at the port that sends to it. subnet_port_lifetime_ns(): how long a frame waits there before it
 * is dropped (HOQLife); UINT64_MAX: for ever.
 */
void subnet_port_behind(struct subnet *subnet, uint32_t node, uint32_t port, uint64_t discards,
	uint64_t wait_ticks);
uint64_t subnet_port_lifetime_ns(const struct subnet *subnet, uint32_t node, uint32_t port);

/* --- to change it --- */

/* All: return 0, or -ENOENT when there is no such port, or it has no cable. */

/* Cut the cable of a port, so that both ends go down; connect the same ends again. */
int subnet_cable_cut(struct subnet *subnet, uint32_t node, uint32_t port, uint64_t now_ns);
int subnet_cable_join(struct subnet *subnet, uint32_t node, uint32_t port, uint64_t now_ns);

/* Cut, or join, all cables of a node. */
int subnet_node_cut(struct subnet *subnet, uint32_t node, uint64_t now_ns);
int subnet_node_join(struct subnet *subnet, uint32_t node, uint64_t now_ns);

/* Connect a port to another port. Neither has a cable that is connected (-EBUSY). */
int subnet_cable_move(struct subnet *subnet, uint32_t node, uint32_t port, uint32_t peer_node,
	uint32_t peer_port, uint64_t now_ns);

/*
 * Set the probability with which a port receives a frame with a bit error, and drops it.
 *
 * `per_million`   0 to 1,000,000.
 * `attribute_id`  Only SMPs with this attribute; 0: all frames.
 */
int subnet_port_error_rate(struct subnet *subnet, uint32_t node, uint32_t port,
	uint32_t per_million, uint16_t attribute_id);

/* --- what a CA's user reports --- */

/* Set or clear bits of a CA port's CapabilityMask, such as IB_CAPABILITY_IS_SM. */
int subnet_port_capability(struct subnet *subnet, uint32_t node, uint32_t port, uint32_t set,
	uint32_t clear, uint64_t now_ns);

enum subnet_violation {
	SUBNET_BAD_PKEY,
	SUBNET_BAD_QKEY,
};

/* A queue pair has refused a frame that the port delivered. The port counts it and sends a trap. */
int subnet_port_violation(struct subnet *subnet, uint32_t node, uint32_t port,
	enum subnet_violation violation, const uint8_t *frame, uint32_t frame_bytes,
	uint64_t now_ns);

/*
 * Set the attributes or the counters of a CA's port, in a subnet that only mirrors the ports of
 * another one. No event follows.
 *
 * `info`    info->guid_cap is the number of GUIDs, at most SUBNET_GUIDS_MAX.
 * `pkeys`   SUBNET_PKEYS_MAX P_Keys.
 * `guids`   SUBNET_GUIDS_MAX GUIDs.
 *
 * Both return 0 or -ENOENT.
 */
int subnet_mirror_port(struct subnet *subnet, uint32_t node, uint32_t port,
	const struct ib_port_info *info, const uint16_t *pkeys, const uint64_t *guids);
int subnet_mirror_counters(struct subnet *subnet, uint32_t node, uint32_t port,
	const struct subnet_counters *counters);

/* Replace a node's NodeDescription. It is cut to 64 bytes. */
int subnet_node_describe(
	struct subnet *subnet, uint32_t node, const char *description, uint64_t now_ns);

#endif
