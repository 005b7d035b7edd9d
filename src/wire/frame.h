/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_WIRE_FRAME_H
#define URNIC_WIRE_FRAME_H

/*
 * The key of an Ethernet frame: those fields of its Ethernet, IP, TCP and UDP headers that flow
 * rules and hashes use.
 *
 * A key is 64 bytes with a fixed place for each field. So any rule is matched by a masked
 * comparison of eight words. Fields of a missing layer are 0, and `layers` has the layers of the
 * frame. Integers are in network order, as in the flow rules.
 */

#include <stddef.h>
#include <stdint.h>

enum {
	FRAME_ETHERNET_BYTES = 14, /* two addresses and the type; the shortest frame has no more */
	FRAME_VLAN_BYTES = 4,
	FRAME_MAC_BYTES = 6,
};

enum frame_layer {
	FRAME_LAYER_VLAN = 1 << 0,
	FRAME_LAYER_IPV4 = 1 << 1,
	FRAME_LAYER_IPV6 = 1 << 2,
	FRAME_LAYER_TCP = 1 << 3,
	FRAME_LAYER_UDP = 1 << 4,
};

struct frame_key {
	uint8_t dst_mac[FRAME_MAC_BYTES];
	uint8_t src_mac[FRAME_MAC_BYTES];
	uint16_t ether_type; /* the type behind the last VLAN tag */
	uint16_t vlan_tag; /* the first VLAN tag: priority, CFI, VLAN id */
	uint8_t src_ip[16]; /* IPv4: the first four bytes */
	uint8_t dst_ip[16];
	uint32_t flow_label; /* IPv6, 20 bits */
	uint8_t ip_protocol; /* IPv6: the next-header field of the fixed header */
	uint8_t traffic_class; /* IPv4: TOS */
	uint8_t hop_limit; /* IPv4: TTL */
	uint8_t layers; /* enum frame_layer */
	uint16_t src_port;
	uint16_t dst_port;
	uint32_t reserved; /* 0 */
};

/*
 * Read the key of a frame.
 *
 * `bytes`  The frame, from the destination address on, without FCS. Anything is legal input: a
 *          truncated or malformed layer counts as missing. A fragment that is not the
 *          first has no TCP or UDP layer.
 * `count`  The frame's length.
 */
void frame_key_read(struct frame_key *key, const uint8_t *bytes, size_t count);

#endif
