/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_AGENT_GSI_SOCKET_H
#define URNIC_AGENT_GSI_SOCKET_H

/*
 * A socket that sends packets from QP1 of one local address and reports those that did not arrive.
 *
 * These packets do not use a lane's port, because they are few, and their sender needs the ICMP
 * errors of hosts without a listener. No function blocks. The caller serializes the calls on one
 * socket.
 */

#include <stdint.h>

#include "agent/agent_protocol.h"
#include "wire/cm/gsi_packet.h"

struct gsi_socket {
	int fd; /* the caller polls this for POLLERR */
	uint16_t source_port;
	struct agent_address address;
};

/* Open a socket that sends from a local address. Returns 0 or -errno. */
int gsi_socket_open(struct gsi_socket *gsi, const struct agent_address *address);
void gsi_socket_close(struct gsi_socket *gsi);

/* Send one packet, BTH to pad. Returns 0 or -errno: the packet is dropped, as on a network. */
int gsi_socket_send(struct gsi_socket *gsi, const struct gid *to, uint8_t traffic_class,
	const uint8_t packet[GSI_PACKET_BYTES]);

/*
 * Read one report of a packet that did not arrive.
 *
 * `ret_packet`  The packet.
 * `ret_to`      Its destination.
 *
 * Returns the positive errno: ECONNREFUSED when no program there has UDP port 4791, EHOSTUNREACH
 * and the like; 0 for a report about another kind of packet; -EAGAIN when there is none.
 */
int gsi_socket_report(
	struct gsi_socket *gsi, struct gid *ret_to, uint8_t ret_packet[GSI_PACKET_BYTES]);

#endif
