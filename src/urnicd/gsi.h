/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_URNICD_GSI_H
#define URNIC_URNICD_GSI_H

/*
 * QP1 of one local address: the general services interface.
 *
 * Packets for QP1 come to slot 0, which is urnicd's. It reads as much of them as is needed to know
 * whose they are (by service ID, or by the slot in the communication ID) and passes them on. What
 * is nobody's it answers itself: there is no listener, or no such connection. Processes send their
 * own messages; nothing of theirs comes through here.
 */

#include "agent/agent_protocol.h"
#include "port/udp.h"

struct group;
struct server;

struct gsi_port {
	struct server *server;
	struct port_udp *port; /* NULL: not open */
	struct port_udp_counters counters;
	const struct group *group;
	uint32_t psn;
	bool has_told_refusal; /* what the port was refused is in the log */
};

/* Begin to listen at a group that has its slot 0. Returns 0 or -errno. */
int gsi_port_open(struct gsi_port *gsi, struct server *server, const struct group *group);
void gsi_port_close(struct gsi_port *gsi);

/*
 * A process has ended: say to the peers of its connections what it left to be said, as a kernel
 * would (IBTA 12.9.7.1: destroying ends a connection).
 *
 * `memory`  Its NIC memory; any bytes.
 * `slots`   That it had, and that its communication IDs begin with.
 */
void gsi_send_last_messages(struct server *server, int memory, const struct agent_slots *slots);

/* Take in what has come. */
void gsi_port_receive(struct gsi_port *gsi);

#endif
