/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/frame.h"

#include <assert.h>
#include <string.h>

#include "wire/bytes.h"
#include "wire/ip.h"

static_assert(sizeof(struct frame_key) == 64, "a key is compared as eight words");

enum {
	ETHER_TYPE_VLAN = 0x8100, /* IEEE 802.1Q */
	ETHER_TYPE_SERVICE_VLAN = 0x88a8, /* IEEE 802.1ad */
	VLAN_TAGS_MAX = 2,
	IPV4_FRAGMENT_OFFSET = 0x1fff,
	TCP_BYTES = 20,
	UDP_BYTES = 8,
};

/* The part of the frame that is not read yet. */
struct cursor {
	const uint8_t *at;
	size_t left;
};

static void cursor_skip(struct cursor *cursor, size_t bytes)
{
	cursor->at += bytes;
	cursor->left -= bytes;
}

static void read_ports(struct frame_key *key, const struct cursor *cursor)
{
	size_t needed = key->ip_protocol == IP_PROTOCOL_TCP ? TCP_BYTES : UDP_BYTES;

	if (key->ip_protocol != IP_PROTOCOL_TCP && key->ip_protocol != IP_PROTOCOL_UDP)
		return;
	if (cursor->left < needed)
		return;
	key->layers |= key->ip_protocol == IP_PROTOCOL_TCP ? FRAME_LAYER_TCP : FRAME_LAYER_UDP;
	memcpy(&key->src_port, cursor->at, 2);
	memcpy(&key->dst_port, cursor->at + 2, 2);
}

static void read_ipv4(struct frame_key *key, struct cursor *cursor)
{
	const uint8_t *ip = cursor->at;
	size_t header_bytes;

	if (cursor->left < IPV4_BYTES || ip[0] >> 4 != 4)
		return;
	header_bytes = (size_t)(ip[0] & 0xf) * 4;
	if (header_bytes < IPV4_BYTES || header_bytes > cursor->left)
		return;
	key->layers |= FRAME_LAYER_IPV4;
	key->traffic_class = ip[1];
	key->hop_limit = ip[IPV4_TTL];
	key->ip_protocol = ip[IPV4_PROTOCOL];
	memcpy(key->src_ip, ip + IPV4_ADDRESSES, 4);
	memcpy(key->dst_ip, ip + IPV4_ADDRESSES + 4, 4);
	cursor_skip(cursor, header_bytes);
	if (!(get_be16(ip + IPV4_FLAGS) & IPV4_FRAGMENT_OFFSET))
		read_ports(key, cursor);
}

static void read_ipv6(struct frame_key *key, struct cursor *cursor)
{
	const uint8_t *ip = cursor->at;
	struct ip_header header;

	if (cursor->left < IPV6_BYTES || !ipv6_header_decode(&header, ip))
		return;
	key->layers |= FRAME_LAYER_IPV6;
	key->traffic_class = header.traffic_class;
	key->flow_label = htobe32(header.flow_label);
	key->ip_protocol = header.next_header;
	key->hop_limit = header.hop_limit;
	memcpy(key->src_ip, header.sgid.raw, 16);
	memcpy(key->dst_ip, header.dgid.raw, 16);
	cursor_skip(cursor, IPV6_BYTES);
	read_ports(key, cursor);
}

/* Read addresses, VLAN tags and type; leave the cursor behind the type. */
static void read_ethernet(struct frame_key *key, struct cursor *cursor)
{
	memcpy(key->dst_mac, cursor->at, FRAME_MAC_BYTES);
	memcpy(key->src_mac, cursor->at + FRAME_MAC_BYTES, FRAME_MAC_BYTES);
	memcpy(&key->ether_type, cursor->at + 2 * FRAME_MAC_BYTES, 2);
	cursor_skip(cursor, FRAME_ETHERNET_BYTES);
	for (int tags = 0; tags < VLAN_TAGS_MAX; tags++) {
		uint16_t type = be16toh(key->ether_type);

		if ((type != ETHER_TYPE_VLAN && type != ETHER_TYPE_SERVICE_VLAN) ||
			cursor->left < FRAME_VLAN_BYTES)
			return;
		if (!tags)
			memcpy(&key->vlan_tag, cursor->at, 2);
		key->layers |= FRAME_LAYER_VLAN;
		memcpy(&key->ether_type, cursor->at + 2, 2);
		cursor_skip(cursor, FRAME_VLAN_BYTES);
	}
}

void frame_key_read(struct frame_key *key, const uint8_t *bytes, size_t count)
{
	struct cursor cursor = {bytes, count};

	memset(key, 0, sizeof(*key));
	if (count < FRAME_ETHERNET_BYTES)
		return;
	read_ethernet(key, &cursor);
	if (be16toh(key->ether_type) == ETHER_TYPE_IPV4)
		read_ipv4(key, &cursor);
	else if (be16toh(key->ether_type) == ETHER_TYPE_IPV6)
		read_ipv6(key, &cursor);
}
