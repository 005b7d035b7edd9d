/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_WIRE_ROCE_H
#define URNIC_WIRE_ROCE_H

/* The numbers of RoCEv2 below the BTH (IBTA annex A17): UDP datagrams that end in the ICRC. */
#include <stdint.h>

/* The destination port of every RoCEv2 packet. */
#define ROCE_UDP_PORT 4791

/* Source ports may be any. This range is reserved for RoCEv2, to give routers entropy. */
#define ROCE_SOURCE_PORT_MIN 0xc000

#define ROCE_UDP_BYTES  8
#define ROCE_ICRC_BYTES 4

/*
 * The traffic class of an IP header: the DSCP of a queue pair's or address handle's traffic class,
 * and ECT(0) (RFC 3168).
 */
static inline uint8_t roce_traffic_class(uint8_t traffic_class)
{
	return (traffic_class & 0xfc) | 2;
}

#endif
