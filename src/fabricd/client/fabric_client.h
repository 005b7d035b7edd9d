/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_FABRICD_CLIENT_FABRIC_CLIENT_H
#define URNIC_FABRICD_CLIENT_FABRIC_CLIENT_H

/*
 * The client of a fabric's process: a process as the user of one node of an InfiniBand subnet.
 *
 * A connection (struct fabric_client) belongs to one node. It opens channels: frames for the queue
 * pairs of a verbs process, MADs for a program of libibumad, events of the node's ports. Closing
 * the connection ends the channels, and the fabric forgets what they had: leases, agents, claims,
 * joins.
 *
 * Threads: a call on a connection waits for the fabric's answer, with the connection's lock held.
 * A channel of frames has one sender and one receiver at a time, which need no lock. Any number of
 * threads may send MADs; one at a time may receive from a socket.
 *
 * In the child of a fork a connection is the parent's. fabric_client_forget() frees the child's
 * copy without a message to the fabric.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/export.h"
#include "base/record_ring.h"
#include "fabricd/attach_protocol.h"

struct fabric_client;
struct fabric_flow;
struct fabric_frames;

/*
 * Connect as a user of a node.
 *
 * `place`  [FABRIC:]NODE: the name of a fabric ("default" if missing), and the NodeDescription or
 *          the node GUID (0x...) of one of its CAs. [FABRIC:] alone: a console, without a node.
 * `why`    ATTACH_TEXT_BYTES bytes, for a sentence after a failure.
 *
 * Returns 0; -ECONNREFUSED when no such fabric runs; -ENODEV when it has no such node; or another
 * -errno.
 */
int fabric_client_open(const char *place, struct fabric_client **ret_client,
	char why[ATTACH_TEXT_BYTES]) URNIC_EXPORT_AS(fabric_client_open);
/* The same, but a place without a node is refused: -EINVAL. */
int fabric_client_open_node(const char *place, struct fabric_client **ret_client,
	char why[ATTACH_TEXT_BYTES]) URNIC_EXPORT_AS(fabric_client_open_node);
void fabric_client_close(struct fabric_client *client) URNIC_EXPORT_AS(fabric_client_close);
void fabric_client_forget(struct fabric_client *client) URNIC_EXPORT_AS(fabric_client_forget);

/* The node, as it was when the connection was made. A console's has the index UINT32_MAX. */
const struct attach_node *fabric_client_node(const struct fabric_client *client)
	URNIC_EXPORT_AS(fabric_client_node);

/* A port as it is now; `port` from 1. Returns 0, -ENODEV, or another -errno. */
int fabric_client_port(struct fabric_client *client, uint32_t port, struct attach_port *ret_port)
	URNIC_EXPORT_AS(fabric_client_port);

/* The counters of a port as they are now. Returns 0, -ENODEV, or another -errno. */
int fabric_client_counters(struct fabric_client *client, uint32_t port,
	struct attach_counters *ret_counters) URNIC_EXPORT_AS(fabric_client_counters);

/*
 * Open a socket of events, for fabric_client_event(). The socket is nonblocking and readable when
 * an event waits; the caller closes it. Returns the socket or -errno.
 */
int fabric_client_events(struct fabric_client *client) URNIC_EXPORT_AS(fabric_client_events);

/*
 * Receive the oldest event, without waiting.
 *
 * `ret_flow`  With ATTACH_EVENT_FLOW_*: the flow, which the caller adds to its channel
 *             (fabric_frames_add()) or closes. NULL: none, or it could not be mapped.
 *
 * Returns 0; -EAGAIN: there is none; -ECONNRESET: the fabric's process has ended; or another
 * -errno.
 */
int fabric_client_event(int socket, struct attach_event *ret_event, struct fabric_flow **ret_flow)
	URNIC_EXPORT_AS(fabric_client_event);
uint32_t fabric_flow_lease(const struct fabric_flow *flow) URNIC_EXPORT_AS(fabric_flow_lease);
void fabric_flow_close(struct fabric_flow *flow) URNIC_EXPORT_AS(fabric_flow_close);
/* The channel reads an incoming flow from now on: its sender may use it. Returns 0 or -errno. */
int fabric_flow_ready(struct fabric_client *client, const struct attach_flow *flow)
	URNIC_EXPORT_AS(fabric_flow_ready);

/*
 * hold(): this process needs the port's membership of a multicast group. The caller then joins the
 * group itself. release(): this process does not need the membership any more; two holds need two
 * releases, and the end of a process releases all. When no process of the node needs the
 * membership, the fabric's process leaves the group for the port. Return 0 or -errno.
 */
int fabric_client_group_hold(struct fabric_client *client, uint32_t port, const struct gid *mgid,
	uint8_t join_state) URNIC_EXPORT_AS(fabric_client_group_hold);
int fabric_client_group_release(struct fabric_client *client, uint32_t port,
	const struct gid *mgid, uint8_t join_state) URNIC_EXPORT_AS(fabric_client_group_release);

/* --- frames --- */

/*
 * Open a channel of frames with a lease of QPNs: those whose top byte is fabric_frames_lease(). The
 * fabric delivers a frame to the channel if
 *
 *	- its destination QPN is one of the lease's;
 *	- it goes to a multicast LID that the channel has joined (fabric_frames_join());
 *	- it goes to QP1, is a MAD of the connection manager, and its service ID is claimed by the
 *	  channel (REQ, SIDR_REQ), or the receiver's communication ID has the lease as its top byte.
 *
 * The fabric delivers all other MADs to the node's agents. Returns 0; -ENOSPC when the node has no
 * lease left; or another -errno.
 */
int fabric_frames_open(struct fabric_client *client, struct fabric_frames **ret_frames)
	URNIC_EXPORT_AS(fabric_frames_open);
/*
 * Take the host of the client for another machine (ATTACH_HOST_TAKE). Returns 0; -EBUSY when other
 * processes use the host; or another -errno; `why` gets a sentence.
 */
int fabric_frames_take_host(struct fabric_client *client, struct fabric_frames **ret_frames,
	char why[ATTACH_TEXT_BYTES]) URNIC_EXPORT_AS(fabric_frames_take_host);
void fabric_frames_close(struct fabric_frames *frames) URNIC_EXPORT_AS(fabric_frames_close);
void fabric_frames_forget(struct fabric_frames *frames) URNIC_EXPORT_AS(fabric_frames_forget);

/* The channel's lease: 1 to ATTACH_LEASES - 1. */
uint32_t fabric_frames_lease(const struct fabric_frames *frames)
	URNIC_EXPORT_AS(fabric_frames_lease);

/*
 * Send a frame from a port: LRH to ICRC, in pieces. Returns false, and counts the frame, when the
 * ring is full: the frame is dropped as on a wire.
 */
bool fabric_frames_send(struct fabric_frames *frames, uint32_t port,
	const struct record_piece *pieces, uint32_t count) URNIC_EXPORT_AS(fabric_frames_send);

/*
 * Report a received frame that a queue pair refuses. `violation` is one of ATTACH_RECORD_*. Returns
 * false when the ring is full.
 */
bool fabric_frames_report(struct fabric_frames *frames, uint32_t port, uint32_t violation,
	const uint8_t *frame, uint32_t bytes) URNIC_EXPORT_AS(fabric_frames_report);

/*
 * fabric_frames_has_room(): may the channel send frames of `bytes` bytes in all, headers of records
 * included, on every route? Not while the fabric or a receiver is behind.
 * fabric_frames_route_has_room(): may the channel do so on one route? `flow` has the route's port,
 * peer_lease, dlid, pkey and sl. Call it after fabric_frames_has_room().
 */
bool fabric_frames_route_has_room(struct fabric_frames *frames, const struct attach_flow *flow,
	uint32_t bytes) URNIC_EXPORT_AS(fabric_frames_route_has_room);
bool fabric_frames_has_room(struct fabric_frames *frames, uint32_t bytes)
	URNIC_EXPORT_AS(fabric_frames_has_room);

/* Wake the fabric and receivers that sleep. Call once after one or more fabric_frames_send(). */
void fabric_frames_flush(struct fabric_frames *frames) URNIC_EXPORT_AS(fabric_frames_flush);

/*
 * Take out the oldest received frame, LRH to ICRC.
 *
 * `to`  Room for RECORD_BYTES_MAX bytes.
 *
 * Returns its length; 0 when there is none; -EPROTO when the fabric left an impossible index or
 * header in the ring, which is empty now.
 */
int fabric_frames_receive(struct fabric_frames *frames, uint8_t *to, uint32_t *ret_port)
	URNIC_EXPORT_AS(fabric_frames_receive);

/*
 * Before a poll(2) for fabric_frames_fd(): ask for a wake-up. Returns false when a frame waits
 * already. After the poll, fabric_frames_wait_end() clears the descriptor.
 */
bool fabric_frames_wait_begin(struct fabric_frames *frames)
	URNIC_EXPORT_AS(fabric_frames_wait_begin);
void fabric_frames_wait_end(struct fabric_frames *frames) URNIC_EXPORT_AS(fabric_frames_wait_end);

/* A descriptor that becomes readable after fabric_frames_wait_begin(). The channel owns it. */
int fabric_frames_fd(const struct fabric_frames *frames) URNIC_EXPORT_AS(fabric_frames_fd);

/* Make the descriptor fabric_frames_fd() readable. */
void fabric_frames_kick(struct fabric_frames *frames) URNIC_EXPORT_AS(fabric_frames_kick);

/*
 * Add a flow of fabric_client_event() to its channel, which owns it from now on. No other thread
 * sends or receives meanwhile.
 */
void fabric_frames_add(struct fabric_frames *frames, struct fabric_flow *flow)
	URNIC_EXPORT_AS(fabric_frames_add);

/*
 * Receive the frames to a multicast LID that arrive at a port, or stop. The caller joins the group
 * at the subnet administrator itself. A join counts: two joins need two leaves. Return 0 or -errno.
 */
int fabric_frames_join(struct fabric_frames *frames, uint32_t port, uint16_t mlid,
	const struct gid *mgid) URNIC_EXPORT_AS(fabric_frames_join);
int fabric_frames_leave(struct fabric_frames *frames, uint32_t port, uint16_t mlid,
	const struct gid *mgid) URNIC_EXPORT_AS(fabric_frames_leave);

/*
 * Claim the service IDs that equal `service_id` in the bits of `mask`, or release them. Return 0;
 * -EADDRINUSE when another channel of the node has claimed one of them; or another -errno.
 */
int fabric_frames_claim(struct fabric_frames *frames, uint64_t service_id, uint64_t mask)
	URNIC_EXPORT_AS(fabric_frames_claim);
int fabric_frames_release(struct fabric_frames *frames, uint64_t service_id, uint64_t mask)
	URNIC_EXPORT_AS(fabric_frames_release);

/*
 * Have the fabric send the last messages of connections when this process has ended (cm/cm.h).
 *
 * `memory`  A memfd that cannot shrink, with CM_LAST_MESSAGES_MAX messages at `offset`. The caller
 *           may close it.
 *
 * Only messages of connections whose communication ID has the lease as its top byte count. Returns
 * 0 or -errno.
 */
int fabric_frames_keep_last_messages(struct fabric_frames *frames, int memory, uint64_t offset)
	URNIC_EXPORT_AS(fabric_frames_keep_last_messages);

/* --- MADs --- */

/*
 * Open a socket for the MADs of a port, for fabric_mads_send() and fabric_mads_receive(). It is
 * readable when a MAD waits. The caller closes it.
 *
 * `ret_opening`  Names the opening in fabric_mads_agent_add().
 *
 * Returns the socket or -errno.
 */
int fabric_mads_open(struct fabric_client *client, uint32_t port, uint32_t *ret_opening)
	URNIC_EXPORT_AS(fabric_mads_open);

/*
 * Add an agent, which sends requests and gets their answers, and gets the requests of
 * agent->method_mask. Sets agent->id. Returns 0; -EADDRINUSE when another agent of the port gets
 * one of these requests; -EINVAL; -ENOMEM; or another -errno.
 */
int fabric_mads_agent_add(struct fabric_client *client, uint32_t opening,
	struct attach_agent *agent) URNIC_EXPORT_AS(fabric_mads_agent_add);
int fabric_mads_agent_remove(struct fabric_client *client, uint32_t opening, uint32_t id)
	URNIC_EXPORT_AS(fabric_mads_agent_remove);

/*
 * Send a MAD of mad->mad_bytes bytes. With a timeout, the fabric resends it until the answer comes,
 * or gives it back with status ETIMEDOUT. Returns 0 or -errno.
 */
int fabric_mads_send(int socket, struct attach_mad *mad, const uint8_t *bytes)
	URNIC_EXPORT_AS(fabric_mads_send);

/*
 * Receive the oldest MAD, without waiting.
 *
 * `bytes`  Room for `room` bytes.
 *
 * Returns 0; -EAGAIN: there is none; -ENOSPC: the MAD is longer than `room`, and stays in the
 * socket, with its length in ret_mad->mad_bytes, at most ATTACH_MAD_BYTES_MAX; -EPROTO: the message
 * was no MAD, and is gone; -EIO: the fabric's process has ended; or another -errno. Only one thread
 * at a time may receive from a socket.
 */
int fabric_mads_receive(int socket, struct attach_mad *ret_mad, uint8_t *bytes, uint32_t room)
	URNIC_EXPORT_AS(fabric_mads_receive);

/*
 * The file of a port whose opening sets IsSM in the port's capability mask, and whose closing
 * clears it. Returns 0 or -errno.
 */
int fabric_client_issm_path(struct fabric_client *client, uint32_t port,
	char ret_path[ATTACH_TEXT_BYTES]) URNIC_EXPORT_AS(fabric_client_issm_path);

/* --- console --- */

/*
 * Run a command of the console. `ret_text` gets its output, which the caller frees. Returns 0, or
 * -errno with a sentence in `why`.
 */
int fabric_client_console(struct fabric_client *client, const char *command, char **ret_text,
	char why[ATTACH_TEXT_BYTES]) URNIC_EXPORT_AS(fabric_client_console);

#endif
