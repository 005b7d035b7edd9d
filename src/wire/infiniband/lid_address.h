/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_WIRE_INFINIBAND_LID_ADDRESS_H
#define URNIC_WIRE_INFINIBAND_LID_ADDRESS_H

/*
 * GIDs that stand for the ends of InfiniBand paths without a GRH.
 *
 * Queue pairs compare the source and the destination of each packet with those of their path
 * (struct packet_origin, struct qp_path). Without a GRH a packet has only LIDs. So each end becomes
 * a GID that no port has, and that is neither an IPv4 address nor a multicast address: its first
 * byte is zero, and its next three are "LID".
 *
 * The GID of the local end has the port and the path bits, but not the LID, because a subnet
 * manager may change the LIDs of a port while queue pairs use the port.
 */

#include "base/gid.h"

enum {
	LID_ADDRESS_PORT = 13,
	LID_ADDRESS_LID = 14,
};

static inline struct gid lid_address_of(uint8_t port, uint16_t lid)
{
	return (struct gid){{0, 'L', 'I',
		'D', [LID_ADDRESS_PORT] = port, [LID_ADDRESS_LID] = (uint8_t)(lid >> 8),
		[LID_ADDRESS_LID + 1] = (uint8_t)lid}};
}

/* The remote end: the port that has this LID. */
static inline struct gid lid_address_remote(uint16_t lid)
{
	return lid_address_of(0, lid);
}

/* The local end: port `port`, which counts from 1, with these path bits of its LID. */
static inline struct gid lid_address_local(uint8_t port, uint8_t path_bits)
{
	return lid_address_of(port, path_bits);
}

#endif
