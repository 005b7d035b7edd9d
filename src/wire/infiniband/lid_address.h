/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_WIRE_INFINIBAND_LID_ADDRESS_H
#define URNIC_WIRE_INFINIBAND_LID_ADDRESS_H

/*
 * Ends of InfiniBand paths without a GRH, as GIDs.
 *
 * Queue pairs compare the source and the destination of each packet with those of their path
 * (struct packet_origin, struct qp_path). Without a GRH the ends are LIDs. Such an end is a GID
 * that is neither an IPv4 address nor a multicast address, and that no port has: its first byte is
 * zero, and its next three are "LID".
 *
 * The local end is a port and the path bits of the LID, not the LID, because a subnet manager may
 * change the LIDs of a port while queue pairs use it.
 */

#include "base/gid.h"

enum {
	LID_ADDRESS_PORT = 13,
	LID_ADDRESS_LID = 14,
};

static inline struct gid lid_address_of(uint8_t port, uint16_t lid)
{
	return (struct gid){{0, 'L', 'I', 'D', [LID_ADDRESS_PORT] = port,
		[LID_ADDRESS_LID] = (uint8_t)(lid >> 8), [LID_ADDRESS_LID + 1] = (uint8_t)lid}};
}

/* The remote end: the port with this LID. */
static inline struct gid lid_address_remote(uint16_t lid)
{
	return lid_address_of(0, lid);
}

/* The local end: the LID of the port `port`, from 1, with these path bits. */
static inline struct gid lid_address_local(uint8_t port, uint8_t path_bits)
{
	return lid_address_of(port, path_bits);
}

#endif
