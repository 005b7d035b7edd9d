/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_PORT_UDP_UDP_CHANNEL_H
#define URNIC_PORT_UDP_UDP_CHANNEL_H

/*
 * The messages of a channel, by which urnicd passes received datagrams to a port.
 *
 * `urnicd --system` does not give the sockets of port 4791 to ordinary users. It reads them, and
 * passes each datagram on (urnicd/lease/relay.h). A channel is a pair of connected unix datagram
 * sockets; the port reads its end instead of a UDP socket (port_udp_add_address() accepts either).
 * A message is a struct udp_channel_head, in host order, and then the datagram: RoCEv2 packets as
 * UDP_GRO has merged them.
 */

#include <netinet/ip.h>
#include <netinet/udp.h>
#include <stdint.h>
#include <string.h>

#include "port/address.h"

/* What the kernel told urnicd about the datagram. */
struct udp_channel_head {
	struct gid sgid; /* the sender's address */
	/* Length of each packet except the last, with ICRC; UINT32_MAX: there is one packet. */
	uint32_t segment_bytes;
	uint32_t overflows; /* packets that the receive socket dropped since the last datagram */
	uint16_t source_port;
	uint8_t tos;
	uint8_t hop_limit; /* as it arrived */
};

/* An integer that the kernel passes as one byte (IP_TOS) or as an int (all others). */
static inline uint32_t udp_control_value(const struct cmsghdr *cmsg)
{
	uint32_t value;

	if (cmsg->cmsg_len < CMSG_LEN(sizeof(value)))
		return *CMSG_DATA(cmsg);
	memcpy(&value, CMSG_DATA(cmsg), sizeof(value));
	return value;
}

/*
 * Read what recvmmsg() has reported of a datagram.
 *
 * `header`          From recvmmsg(), with the sender's address in msg_name.
 * `overflows_seen`  The receive socket's count of dropped packets, modulo 2^32. Updated.
 */
static inline void udp_channel_head_read(
	struct udp_channel_head *head, struct msghdr *header, uint32_t *overflows_seen)
{
	const union socket_address *from = header->msg_name;

	*head = (struct udp_channel_head){
		.sgid = socket_address_gid(from),
		.source_port = socket_address_port(from),
		.segment_bytes = UINT32_MAX,
	};
	for (struct cmsghdr *cmsg = CMSG_FIRSTHDR(header); cmsg; cmsg = CMSG_NXTHDR(header, cmsg)) {
		uint32_t value = udp_control_value(cmsg);
		int level = cmsg->cmsg_level, type = cmsg->cmsg_type;

		if ((level == IPPROTO_IP && type == IP_TOS) ||
			(level == IPPROTO_IPV6 && type == IPV6_TCLASS)) {
			head->tos = (uint8_t)value;
		} else if ((level == IPPROTO_IP && type == IP_TTL) ||
			(level == IPPROTO_IPV6 && type == IPV6_HOPLIMIT)) {
			head->hop_limit = (uint8_t)value;
		} else if (level == SOL_UDP && type == UDP_GRO) {
			head->segment_bytes = value;
		} else if (level == SOL_SOCKET && type == SO_RXQ_OVFL) {
			head->overflows = value - *overflows_seen;
			*overflows_seen = value;
		}
	}
}

#endif
