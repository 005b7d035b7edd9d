/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_PORT_UDP_CHANNEL_H
#define URNIC_PORT_UDP_CHANNEL_H

/*
 * The messages of a channel: datagrams of a receive socket that the port itself does not have.
 *
 * The system's urnicd keeps the sockets of port 4791 from ordinary users, reads them and passes
 * each datagram on (urnicd/lease/relay.h). A channel is a pair of connected unix datagram sockets;
 * the port reads its end in place of the UDP socket (port_udp_add_address() takes either). A
 * message is a struct udp_channel_head, in host order, and the datagram: RoCEv2 packets as UDP_GRO
 * merged them.
 */

#include <stdint.h>

#include "base/gid.h"

/* The kernel's information about the datagram. */
struct udp_channel_head {
	struct gid sgid; /* the sender */
	/* Of each packet except the last, ICRC included; UINT32_MAX: there is one packet. */
	uint32_t segment_bytes;
	uint32_t overflows; /* packets that the receive socket dropped since the last datagram */
	uint16_t source_port;
	uint8_t tos;
	uint8_t hop_limit; /* as it arrived */
};

#endif
