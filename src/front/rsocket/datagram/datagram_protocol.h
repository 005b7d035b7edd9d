/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Datagram rsockets on the wire, compatible with rdma-core's librdmacm.
 *
 * A datagram socket has a UDP socket, and a UD queue pair per local address. The address of the UDP
 * socket is the name of the datagram socket. A datagram is a SEND that begins with the sender's
 * name. To learn a peer's queue pair number, a socket sends a datagram over UDP, with the number of
 * its own queue pair. The peer delivers that datagram like any other, and answers with a message
 * without data (op CTRL). The answer has the number of the peer's queue pair. Either side may use
 * UDP at any time. The Q_Key of all queue pairs is RDMA_UDP_QKEY.
 *
 *     UD    version, length, port, address [IPv6: flow information, address]    8 or 24 bytes
 *     UDP   tag, version, op, length, 0, queue pair number, address             16 or 28 bytes
 *
 * The data follow the header. Fields are big-endian. `version` is 4 or 6; `length` is the length of
 * the header in bytes. Receivers have room for 2048 bytes, the header included.
 */
#ifndef URNIC_FRONT_RSOCKET_DATAGRAM_DATAGRAM_PROTOCOL_H
#define URNIC_FRONT_RSOCKET_DATAGRAM_DATAGRAM_PROTOCOL_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define DATAGRAM_UDP_TAG 0x55555555u

enum {
	DATAGRAM_SLOT_BYTES = 2048, /* the room for a datagram, the header included */
	DATAGRAM_HEADER_BYTES_MAX = 24,
	DATAGRAM_UDP_HEADER_BYTES_MAX = 28,
};

enum datagram_op {
	DATAGRAM_OP_DATA = 0, /* a datagram; the receiver answers with CTRL */
	DATAGRAM_OP_CTRL = 7, /* a message without data, only with the sender's queue pair number */
};

/* The name of a socket. Unused bytes are zero, so that memcmp() can compare names. */
union datagram_name {
	struct sockaddr base;
	struct sockaddr_in ipv4;
	struct sockaddr_in6 ipv6;
	uint8_t bytes[sizeof(struct sockaddr_in6)]; /* the whole name, to be compared and hashed */
};

static inline socklen_t datagram_name_bytes(const union datagram_name *name)
{
	return name->base.sa_family == AF_INET ? sizeof(name->ipv4) : sizeof(name->ipv6);
}

/* Returns false for a family or a length that is not supported. */
static inline bool datagram_name_from(
	union datagram_name *name, const struct sockaddr *from, socklen_t bytes)
{
	memset(name, 0, sizeof(*name));
	if (bytes >= sizeof(name->ipv4) && from->sa_family == AF_INET) {
		memcpy(&name->ipv4, from, sizeof(name->ipv4));
		memset(name->ipv4.sin_zero, 0, sizeof(name->ipv4.sin_zero));
	} else if (bytes >= sizeof(name->ipv6) && from->sa_family == AF_INET6) {
		memcpy(&name->ipv6, from, sizeof(name->ipv6));
		name->ipv6.sin6_flowinfo = 0;
	} else {
		return false;
	}
	return true;
}

/*
 * Returns the IPv4 name for an IPv4-mapped IPv6 name, and any other name unchanged. A socket of
 * both families has mapped names for peers without IPv6.
 */
static inline union datagram_name datagram_name_unmapped(const union datagram_name *name)
{
	union datagram_name ipv4;

	if (name->base.sa_family == AF_INET || !IN6_IS_ADDR_V4MAPPED(&name->ipv6.sin6_addr))
		return *name;
	memset(&ipv4, 0, sizeof(ipv4));
	ipv4.ipv4.sin_family = AF_INET;
	ipv4.ipv4.sin_port = name->ipv6.sin6_port;
	memcpy(&ipv4.ipv4.sin_addr, name->ipv6.sin6_addr.s6_addr + 12, 4);
	return ipv4;
}

/* Returns the IPv4-mapped name for an IPv4 name if `family` is AF_INET6; else `name` unchanged. */
static inline union datagram_name datagram_name_mapped(const union datagram_name *name, int family)
{
	union datagram_name ipv6;

	if (name->base.sa_family == family || family == AF_INET)
		return *name;
	memset(&ipv6, 0, sizeof(ipv6));
	ipv6.ipv6.sin6_family = AF_INET6;
	ipv6.ipv6.sin6_port = name->ipv4.sin_port;
	ipv6.ipv6.sin6_addr.s6_addr[10] = 0xff;
	ipv6.ipv6.sin6_addr.s6_addr[11] = 0xff;
	memcpy(ipv6.ipv6.sin6_addr.s6_addr + 12, &name->ipv4.sin_addr, 4);
	return ipv6;
}

/* Encode the header of a datagram. Returns its length. */
static inline size_t datagram_header_encode(
	uint8_t to[DATAGRAM_HEADER_BYTES_MAX], const union datagram_name *from)
{
	const union datagram_name unmapped = datagram_name_unmapped(from), *name = &unmapped;
	bool is_ipv4 = name->base.sa_family == AF_INET;

	memset(to, 0, DATAGRAM_HEADER_BYTES_MAX);
	to[0] = is_ipv4 ? 4 : 6;
	to[1] = is_ipv4 ? 8 : 24;
	if (is_ipv4) {
		memcpy(to + 2, &name->ipv4.sin_port, 2);
		memcpy(to + 4, &name->ipv4.sin_addr, 4);
	} else {
		memcpy(to + 2, &name->ipv6.sin6_port, 2);
		memcpy(to + 8, &name->ipv6.sin6_addr, 16);
	}
	return to[1];
}

/*
 * Decode a header; any bytes are legal input. Returns the header's length, and sets `name` to the
 * sender that the header names. Returns 0 if the header is not valid.
 */
static inline size_t datagram_header_decode(
	union datagram_name *name, const uint8_t *from, size_t bytes)
{
	bool is_ipv4 = bytes >= 8 && from[0] == 4 && from[1] == 8;

	memset(name, 0, sizeof(*name));
	if (!is_ipv4 && (bytes < 24 || from[0] != 6 || from[1] != 24))
		return 0;
	if (is_ipv4) {
		name->ipv4.sin_family = AF_INET;
		memcpy(&name->ipv4.sin_port, from + 2, 2);
		memcpy(&name->ipv4.sin_addr, from + 4, 4);
	} else {
		name->ipv6.sin6_family = AF_INET6;
		memcpy(&name->ipv6.sin6_port, from + 2, 2);
		memcpy(&name->ipv6.sin6_addr, from + 8, 16);
	}
	return from[1];
}

struct datagram_udp_header {
	enum datagram_op op;
	uint32_t qpn;
};

/* Encode the header of a UDP message. `from` is the sender. Returns the header's length. */
static inline size_t datagram_udp_header_encode(uint8_t to[DATAGRAM_UDP_HEADER_BYTES_MAX],
	const struct datagram_udp_header *header, const union datagram_name *from)
{
	const union datagram_name unmapped = datagram_name_unmapped(from), *name = &unmapped;
	bool is_ipv4 = name->base.sa_family == AF_INET;
	uint32_t tag = htonl(DATAGRAM_UDP_TAG), qpn = htonl(header->qpn & 0xffffff);

	memset(to, 0, DATAGRAM_UDP_HEADER_BYTES_MAX);
	memcpy(to, &tag, 4);
	to[4] = is_ipv4 ? 4 : 6;
	to[5] = (uint8_t)header->op;
	to[6] = is_ipv4 ? 16 : 28;
	memcpy(to + 8, &qpn, 4);
	if (is_ipv4)
		memcpy(to + 12, &name->ipv4.sin_addr, 4);
	else
		memcpy(to + 12, &name->ipv6.sin6_addr, 16);
	return to[6];
}

/*
 * Decode the header of a UDP message; any bytes are legal input. Returns the header's length, or 0
 * if the header is not valid.
 */
static inline size_t datagram_udp_header_decode(
	struct datagram_udp_header *header, const uint8_t *from, size_t bytes)
{
	const uint32_t tag = htonl(DATAGRAM_UDP_TAG);
	uint32_t qpn;
	bool is_ipv4 = bytes >= 16 && from[4] == 4 && from[6] == 16;

	if (!is_ipv4 && (bytes < 28 || from[4] != 6 || from[6] != 28))
		return 0;
	if (memcmp(from, &tag, 4) != 0 ||
		(from[5] != DATAGRAM_OP_DATA && from[5] != DATAGRAM_OP_CTRL))
		return 0;
	memcpy(&qpn, from + 8, 4);
	header->op = (enum datagram_op)from[5];
	header->qpn = ntohl(qpn) & 0xffffff;
	return from[6];
}

#endif
