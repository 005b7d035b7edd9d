/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_QP_PACKET_ORIGIN_H
#define URNIC_QP_PACKET_ORIGIN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/gid.h"

enum { LINK_PKEYS_MAX = 128 }; /* of a port's table */

/* What the headers of an InfiniBand packet say besides struct packet_origin. */
struct link_origin {
	uint16_t slid;
	uint8_t service_level;
	uint8_t path_bits; /* of the destination LID */
	uint8_t port; /* which received the packet, from 1 */
	bool has_grh;
	uint32_t flow_label;
	/* Of a packet to a group: bit N is set if entry N of the port's table has its P_Key. */
	uint64_t pkey_entries[LINK_PKEYS_MAX / 64];
};

/*
 * The origin of a received packet. A connection compares it with its peer, and a datagram queue
 * pair reports it to the program. The struct and its GIDs are borrowed for the call.
 */
struct packet_origin {
	const struct gid *source;
	const struct gid *destination;
	uint8_t traffic_class;
	uint8_t hop_limit; /* in the received IP header; 0 when unknown */
	uint32_t ifindex; /* the interface that received the packet, if it is multicast */
	uint16_t source_port; /* the UDP source port; 0 when unknown */
	const struct link_origin *link; /* NULL: the packet came over Ethernet */
};

#endif
