/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_WIRE_ICRC_H
#define URNIC_WIRE_ICRC_H

/*
 * The invariant CRC at the end of every RoCEv2 packet (IBTA 7.8.1 and annex A17).
 *
 * The ICRC is a CRC-32 over eight bytes of ones, the IP and UDP headers, and the packet from BTH to
 * pad. Bits that routers may change count as ones: ToS, TTL and checksum (IPv6: traffic class, flow
 * label and hop limit), the UDP checksum, the BTH's FECN, BECN and reserved byte. So a sender must
 * know the headers that the kernel will write, and a receiver must reconstruct them.
 *
 * `struct icrc_flow` holds those headers except for the lengths. A caller makes one for each pair
 * of addresses and ports. A flow is a value without references, and computing an ICRC does not
 * change it, so threads may share it.
 *
 * CRCs are linear. So the flow has the CRC of its headers with lengths of zero, and the real
 * lengths and the masked byte of the BTH add a change. That change depends only on the packet's
 * length, so `struct icrc_lengths` caches it for each length. Then each packet needs a single pass
 * over its own bytes.
 *
 * A receiver on an ordinary socket cannot reconstruct the IPv4 identification. The receiver
 * computes an ICRC with a guessed identification (the hint). The computed and the received ICRC
 * differ by the difference of the two identifications, shifted by the bytes behind them. One
 * multiplication undoes the shift (base/crc.h), and gives four bytes. The first two are the
 * difference of the identifications, which may have any value. The other two are flags and fragment
 * offset, which must be those of a whole datagram, with or without DF. So 2^17 of the 2^32 possible
 * differences pass, not only the difference 0. A few of these differences are the effect of a
 * single wrong bit. A sender increments its identifications. So a receiver that caches the last one
 * of a flow has a good hint, and can distrust a packet whose identification is far from the last
 * one.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/ip.h"
#include "wire/roce.h"

/*
 * The longest packet, from BTH to pad, that fits together with its ICRC into a UDP datagram over
 * IPv4.
 */
#define ICRC_PACKET_BYTES_MAX (0xffff - IPV4_BYTES - ROCE_UDP_BYTES - ROCE_ICRC_BYTES)

/* The bits of flags and fragment offset that a whole IPv4 datagram may have set. */
#define ICRC_IPV4_DF 0x4000

struct icrc_flow {
	/*
	 * The IP and UDP headers. Bits of masked fields are ones. The lengths and the IPv4
	 * identification are zero, and DF is set.
	 */
	uint8_t header[IPV6_BYTES + ROCE_UDP_BYTES];
	uint8_t header_bytes; /* 28: IPv4, 48: IPv6 */
	uint32_t crc; /* CRC of the eight bytes of ones and of `header` */
};

/*
 * A cache of values that depend only on the packet's length. Every multiple of 4 up to twice the
 * largest path MTU has an entry of its own. Only one thread at a time may use a cache; all zeros
 * are a valid, empty cache.
 */
#define ICRC_LENGTHS_COUNT 2048
struct icrc_lengths {
	struct icrc_length {
		uint32_t length; /* length of the packet, BTH to pad; 0: the entry is empty */
		uint32_t change_ipv4; /* change of the ICRC by the lengths and the masked byte */
		uint32_t change_ipv6;
		/* Moves the error in a CRC back to the IPv4 identification; 0: not computed yet. */
		uint32_t factor;
	} met[ICRC_LENGTHS_COUNT];
};

/*
 * Prepare the headers of a flow.
 *
 * `source`, `dest`  IPv6 addresses, or IPv4 addresses mapped into ::ffff:0:0/96; both of one kind.
 * `source_port`, `dest_port`  In host order.
 */
void icrc_flow_init(struct icrc_flow *flow, const uint8_t source[16], const uint8_t dest[16],
	uint16_t source_port, uint16_t dest_port);

bool icrc_flow_is_ipv4(const struct icrc_flow *flow);

/*
 * The ICRC of a packet.
 *
 * `ipv4_id`     The IPv4 identification; ignored for IPv6.
 * `ipv4_flags`  ICRC_IPV4_DF or 0; ignored for IPv6.
 * `packet`      From the first BTH byte to the end of the pad.
 * `length`      BTH_BYTES .. ICRC_PACKET_BYTES_MAX.
 */
uint32_t icrc_compute(const struct icrc_flow *flow, uint16_t ipv4_id, uint16_t ipv4_flags,
	const uint8_t *packet, size_t length);

/*
 * The CRC of the headers and of the first `prefix_bytes` bytes of a packet, which are at most
 * BTH_BYTES. A sender of packets that differ only in later bytes continues this CRC with
 * crc32_update().
 */
uint32_t icrc_prefix(const struct icrc_flow *flow, uint16_t ipv4_id, uint16_t ipv4_flags,
	const uint8_t *packet, size_t length, size_t prefix_bytes);

/* Write the ICRC to packet[length .. length + 3]. The packet is sent with DF. */
void icrc_seal(const struct icrc_flow *flow, uint16_t ipv4_id, uint8_t *packet, size_t length);

/*
 * icrc_seal() for a packet that ends with `borrowed_bytes` bytes at `borrowed`; NULL: none. All
 * bytes behind the BTH may be borrowed. The ICRC is written behind the bytes in `packet`.
 *
 * `lengths`  The sender's own cache.
 */
void icrc_seal_borrowed(const struct icrc_flow *flow, struct icrc_lengths *lengths,
	uint16_t ipv4_id, uint8_t *packet, size_t length, const uint8_t *borrowed,
	size_t borrowed_bytes);

/*
 * Check the ICRC at packet[length .. length + 3] when all headers are known, as in captures and
 * over IPv6. Any `length` is legal; a packet with an invalid length fails.
 */
bool icrc_verify(const struct icrc_flow *flow, uint16_t ipv4_id, uint16_t ipv4_flags,
	const uint8_t *packet, size_t length);

/*
 * Check the ICRC at packet[length .. length + 3] when the IPv4 identification is unknown. Over IPv6
 * this is icrc_verify().
 *
 * `lengths` The receiver's own cache.
 * `hint`    The likely identification: 0, or the previous packet's plus one. A right hint saves the
 *           multiplication, a wrong hint costs nothing.
 * `length`  Any value; a packet with an invalid length fails.
 * `ret_id`  Set on success to the identification of the packet; 0 over IPv6.
 */
bool icrc_verify_any_id(const struct icrc_flow *flow, struct icrc_lengths *lengths, uint16_t hint,
	const uint8_t *packet, size_t length, uint16_t *ret_id);

#endif
