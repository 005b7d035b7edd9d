/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_WIRE_IP_H
#define URNIC_WIRE_IP_H

/*
 * IP headers without options or extension headers: IPv4 (RFC 791) and IPv6 (RFC 8200), and the
 * checksum that both families share (RFC 1071).
 *
 * Addresses are GIDs: an IPv4 address is an IPv4-mapped GID. The family of a header is that of its
 * source address. The functions are pure, so any thread may call them.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/gid.h"

enum {
	IPV4_BYTES = 20,
	IPV6_BYTES = 40,

	/* Offsets of fields. */
	IPV4_TOTAL_LENGTH = 2,
	IPV4_ID = 4,
	IPV4_FLAGS = 6,
	IPV4_TTL = 8,
	IPV4_PROTOCOL = 9,
	IPV4_CHECKSUM = 10,
	IPV4_ADDRESSES = 12, /* the source address, then the destination address */
	IPV6_PAYLOAD_LENGTH = 4,
	IPV6_NEXT_HEADER = 6,
	IPV6_HOP_LIMIT = 7,
	IPV6_ADDRESSES = 8, /* the source address, then the destination address */

	IPV4_VERSION_AND_WORDS = 0x45, /* the first byte of a header without options */
	IPV4_DF = 0x4000,
	IPV4_FRAGMENT = 0x3fff, /* bits of IPV4_FLAGS: more fragments, and the fragment offset */
	IPV6_VERSION = 6,
	IPV6_FLOW_LABEL_MASK = 0xfffff,

	IP_PROTOCOL_TCP = 6,
	IP_PROTOCOL_UDP = 17,

	ETHER_TYPE_IPV4 = 0x0800,
	ETHER_TYPE_IPV6 = 0x86dd,
};

struct ip_header {
	uint8_t traffic_class; /* IPv4: ToS */
	uint32_t flow_label; /* < 2^20; 0 for IPv4 */
	uint16_t payload_bytes; /* bytes behind the header */
	uint8_t next_header; /* IPv4: protocol */
	uint8_t hop_limit; /* IPv4: TTL */
	struct gid sgid;
	struct gid dgid; /* IPv4-mapped exactly when sgid is */
};

/* The length of a header of `sgid`'s family: IPV4_BYTES or IPV6_BYTES. */
static inline size_t ip_header_bytes(const struct gid *sgid)
{
	return gid_is_ipv4(sgid) ? IPV4_BYTES : IPV6_BYTES;
}

/*
 * Write a header of ip_header_bytes(&header->sgid) bytes to `to`. An IPv4 header gets DF,
 * identification 0 and its checksum.
 */
void ip_header_encode(const struct ip_header *header, uint8_t *to);

/*
 * Read a header.
 *
 * `from`  A header of the function's family, IPV4_BYTES or IPV6_BYTES. Anything is legal input.
 *
 * ipv4_header_decode() returns false if the version is not 4, if there are options, or if the total
 * length is below IPV4_BYTES. ipv6_header_decode() returns false if the version is not 6. Both set
 * *header on success only. Neither function checks the checksum, fragments, or whether the payload
 * is complete.
 */
bool ipv4_header_decode(struct ip_header *header, const uint8_t from[IPV4_BYTES]);
bool ipv6_header_decode(struct ip_header *header, const uint8_t from[IPV6_BYTES]);

/*
 * Add `count` bytes to `sum`, as 16-bit words in network order; an odd last byte is padded with
 * zero.
 */
uint32_t ip_sum_add(uint32_t sum, const uint8_t *bytes, size_t count);

/* The one's complement sum of the added words; a checksum is the complement of that sum. */
uint16_t ip_sum_fold(uint32_t sum);

#endif
