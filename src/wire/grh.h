/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_WIRE_GRH_H
#define URNIC_WIRE_GRH_H

/*
 * The Global Route Header: the 40 bytes that precede a datagram in its receive buffer (IBTA 8.3).
 *
 * InfiniBand sends the GRH. RoCEv2 does not; the receiving NIC writes the datagram's IP header in
 * its place. An IPv6 header has the layout of a GRH; an IPv4 header goes into the last 20 bytes.
 * Programs distinguish the two by the version fields and the IPv4 checksum (annex A17). So the
 * version and the checksum must be right, and the 20 bytes before an IPv4 header must be zero.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/export.h"
#include "wire/ip.h"

#define GRH_BYTES 40

/* The next-header field of a GRH before InfiniBand's BTH. RoCEv2 has IP_PROTOCOL_UDP there. */
#define GRH_NEXT_HEADER_IB 0x1b

/* Write the 40 bytes. If the GIDs are IPv4 addresses, the last 20 bytes are an IPv4 header. */
void grh_encode(const struct ip_header *header, uint8_t to[GRH_BYTES]);

/*
 * Read the 40 bytes in either form. Returns false, and does not change *header, if the bytes have
 * neither version 6 nor an IPv4 header with the right checksum.
 */
bool grh_decode(struct ip_header *header, const uint8_t from[GRH_BYTES])
	URNIC_EXPORT_AS(grh_decode);

#endif
