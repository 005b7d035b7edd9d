/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_WIRE_ROCE_FRAME_H
#define URNIC_WIRE_ROCE_FRAME_H

/*
 * RoCEv2 as Ethernet frames: the Ethernet, IP and UDP headers before the BTH. A port needs these
 * headers if it exchanges frames with an interface, not datagrams with a socket.
 *
 * A frame may be a super-packet: an IP packet of any legal length, which the interface cuts into
 * packets. The headers of a super-packet are those of an ordinary packet. The functions are pure,
 * so any thread may call them.
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

/* The headers of a frame. */
struct roce_frame {
	struct gid sgid;
	struct gid dgid;
	uint16_t source_port; /* host order */
	uint8_t tos; /* the ToS byte; IPv6: the traffic class */
	uint8_t hop_limit;
	const uint8_t *data; /* the UDP datagram's payload, in the decoded bytes */
	uint32_t data_bytes;
};

/*
 * Read the headers of a frame.
 *
 * `bytes`  From the destination address on, without a VLAN tag. Anything is legal input. Borrowed.
 * `count`  The frame's length, which may exceed the IP packet's, because Ethernet pads short
 *          packets.
 *
 * Returns false unless the frame has a whole UDP datagram to port 4791 in an IP packet without
 * options, extension headers or fragments. The function checks no checksums, because the ICRC
 * covers the packet.
 */
bool roce_frame_decode(struct roce_frame *ret_frame, const uint8_t *bytes, size_t count);

/* The headers of all frames between two ports, without lengths and Ethernet addresses. */
struct roce_frame_headers {
	uint8_t bytes[ROCE_FRAME_HEADER_BYTES_MAX];
	uint8_t count; /* 42: IPv4, 62: IPv6 */
	uint32_t ip_sum; /* sum of the IPv4 header with its length set to 0; for IPv6 always 0 */
	uint32_t udp_sum; /* sum of the pseudo-header with its length set to 0 */
};

/*
 * Prepare the headers. DF is set and the IPv4 identification is 0, as the sender's ICRC assumes.
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
 * `macs`        The destination's and the source's Ethernet address.
 * `data_bytes`  Length of the UDP datagram's payload, at most what fits in an IP packet.
 *
 * The written UDP checksum covers only the pseudo-header. The interface, or the kernel in its
 * place, completes it (checksum offload).
 */
void roce_frame_headers_write(const struct roce_frame_headers *headers,
	const uint8_t macs[ROCE_MACS_BYTES], uint32_t data_bytes, uint8_t *to);

/*
 * Complete a frame that leaves without checksum offload.
 *
 * `ipv4_id`     The identification that the packet's ICRC assumes; ignored for IPv6.
 * `data_bytes`  As in roce_frame_headers_write(), which has written the frame's headers.
 * `frame`       The headers, and the UDP datagram's payload behind them.
 */
void roce_frame_complete(const struct roce_frame_headers *headers, uint16_t ipv4_id,
	uint32_t data_bytes, uint8_t *frame);

#endif
