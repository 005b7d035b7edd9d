/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_WIRE_ROCE_FRAME_H
#define URNIC_WIRE_ROCE_FRAME_H

/*
 * RoCEv2 as Ethernet frames: the Ethernet, IP and UDP headers in front of the BTH, for a port that
 * exchanges frames with an interface and not datagrams with a socket.
 *
 * Frames may be those of a super-packet, which is as long as an IP packet can be: who cuts it, and
 * where, is not in its headers. Pure functions over plain values; any thread.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/ip.h"
#include "wire/roce.h"

enum {
	ROCE_ETHERNET_BYTES = 14,
	ROCE_MACS_BYTES = 12, /* destination address, source address */
	ROCE_FRAME_HEADER_BYTES_MAX = ROCE_ETHERNET_BYTES + IPV6_BYTES + ROCE_UDP_BYTES,
	ROCE_FRAME_UDP_CHECKSUM = 6, /* offset in the UDP header */
};

/* What the headers of a frame say. */
struct roce_frame {
	struct gid sgid;
	struct gid dgid;
	uint16_t source_port; /* host order */
	uint8_t tos; /* IPv6: traffic class */
	uint8_t hop_limit;
	const uint8_t *data; /* the UDP datagram's content, in the bytes that were decoded */
	uint32_t data_bytes;
};

/*
 * Read the headers of a frame.
 *
 * `bytes`  From the destination address on, without a VLAN tag. Anything is legal input. Borrowed.
 * `count`  How many. There may be more than the IP packet has (Ethernet pads short ones).
 *
 * Returns false for what is not a whole UDP datagram to port 4791 in an IP packet without options,
 * extension headers or fragments. No checksum is looked at: the ICRC covers all that matters.
 */
bool roce_frame_decode(struct roce_frame *ret_frame, const uint8_t *bytes, size_t count);

/* The headers of all frames between two ports, but for lengths and Ethernet addresses. */
struct roce_frame_headers {
	uint8_t bytes[ROCE_FRAME_HEADER_BYTES_MAX];
	uint8_t count; /* 42: IPv4, 62: IPv6 */
	uint32_t ip_sum; /* of the IPv4 header, without its length; 0: IPv6 */
	uint32_t udp_sum; /* of the pseudo-header, without its length */
};

/*
 * Prepare the headers. DF is set and the identification 0, as the ICRC assumes of what we send.
 *
 * `source`, `dest`  Both IPv4 or both IPv6.
 * `flow_label`      20 bits; ignored for IPv4.
 */
void roce_frame_headers_init(struct roce_frame_headers *headers, const struct gid *source,
	const struct gid *dest, uint16_t source_port, uint8_t tos, uint8_t hop_limit,
	uint32_t flow_label);

/*
 * Write headers->count bytes of headers.
 *
 * `macs`        ROCE_MACS_BYTES.
 * `data_bytes`  Of the UDP datagram's content, at most what fits an IP packet.
 *
 * The UDP checksum is that of the pseudo-header only: an interface, or the kernel for it, adds the
 * rest (checksum offload).
 */
void roce_frame_headers_write(const struct roce_frame_headers *headers,
	const uint8_t macs[ROCE_MACS_BYTES], uint32_t data_bytes, uint8_t *to);

#endif
