/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_URNICD_GSI_H
#define URNIC_URNICD_GSI_H

/*
 * QP1 of one local address: the general services interface.
 *
 * Packets for QP1 arrive at slot 0, which is urnicd's. urnicd finds the process of a packet by the
 * service ID, or by the slot in the communication ID, and passes the packet on. If there is no
 * listener or no such connection, urnicd answers by itself. Processes send their own messages
 * directly.
 */

#include "agent/agent_protocol.h"
#include "port/udp/udp.h"

struct group;
struct server;

struct gsi_port {
	struct server *server;
	struct port_udp *port; /* NULL: not open */
	struct port_udp_counters counters;
	const struct group *group;
	uint32_t psn;
	bool has_logged_refusal; /* the log has the port's first refused system call */
};

/* Open QP1 of a group that has a member for slot 0. Returns 0 or -errno. */
int gsi_port_open(struct gsi_port *gsi, struct server *server, const struct group *group);
void gsi_port_close(struct gsi_port *gsi);

/*
 * Send the last messages of a process that has ended, so that its peers learn that its connections
 * have ended (IBTA 12.9.7.1: destroying ends a connection).
 *
 * `memory`  NIC memory of that process; any bytes.
 * `slots`   Slots of that process; its communication IDs begin with one of them.
 */
void gsi_send_last_messages(struct server *server, int memory, const struct agent_slots *slots);

/* Receive what waits at QP1. */
void gsi_port_receive(struct gsi_port *gsi);

#endif
