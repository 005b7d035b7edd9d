/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_WIRE_ROCE_H
#define URNIC_WIRE_ROCE_H

/*
 * The constants of RoCEv2 (IBTA annex A17), whose packets are UDP datagrams that end with the ICRC.
 */
#include <stdbool.h>
#include <stdint.h>

/* The destination port of every RoCEv2 packet. */
#define ROCE_UDP_PORT 4791

/*
 * A source port may have any value. Ports from this one on are meant for RoCEv2. Connections use
 * different ports, so that routers can spread them over several links.
 */
#define ROCE_SOURCE_PORT_MIN 0xc000

#define ROCE_UDP_BYTES  8
#define ROCE_ICRC_BYTES 4

/*
 * The traffic class that the IP header gets: the DSCP of `traffic_class`, which the program has set
 * in a queue pair or address handle, and ECT(0) (RFC 3168).
 */
static inline uint8_t roce_traffic_class(uint8_t traffic_class)
{
	return (traffic_class & 0xfc) | 2;
}

/* Did a switch mark the packet Congestion Experienced (RFC 3168)? */
static inline bool roce_is_marked(uint8_t traffic_class)
{
	return (traffic_class & 3) == 3;
}

#endif
