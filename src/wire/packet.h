/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_WIRE_PACKET_H
#define URNIC_WIRE_PACKET_H

/*
 * A packet of the InfiniBand transport, from the BTH to the end of the pad, as a plain struct.
 *
 * packet_decode() decodes or refuses received bytes once; later code reads no wire fields. To send,
 * a caller fills in a struct that packet_init() started, and packet_encode_headers() writes the
 * headers. The ICRC (wire/icrc.h) and everything below the BTH are not part of the struct.
 *
 * A struct packet owns nothing. The payload points into the decoded bytes and is valid as long as
 * those bytes are. Only the extended headers in info->headers have values; the other headers are
 * not initialised. `map` has a value only if packet_has_map() returns true.
 */

#include <stddef.h>
#include <stdint.h>

#include "wire/bth.h"
#include "wire/headers.h"
#include "wire/opcode.h"
#include "wire/selective.h"

/*
 * The reasons why packet_decode() refuses a packet. The receiver does not answer such a packet,
 * because it cannot trust the packet's source (IBTA 9.6.1).
 */
enum packet_fault {
	PACKET_OK,
	PACKET_FAULT_TOO_SHORT, /* the packet ends before its headers do */
	PACKET_FAULT_UNALIGNED, /* the length of the packet is not a multiple of four bytes */
	PACKET_FAULT_VERSION, /* the transport header version is not 0 */
	PACKET_FAULT_OPCODE, /* the opcode is unknown */
	PACKET_FAULT_PAD, /* the pad count is larger than the number of bytes behind the headers */
	PACKET_FAULT_PAYLOAD, /* the opcode rules out a payload of this length */
};

struct packet {
	const struct opcode_info *info; /* never NULL in a decoded or initialised packet */
	const uint8_t *payload; /* not NULL when payload_bytes > 0 */
	uint32_t payload_bytes; /* without the pad */
	struct bth bth; /* bth.opcode == info->opcode */

	struct xrceth xrceth;
	struct deth deth;
	struct feth feth;
	struct reth reth;
	struct atomiceth atomiceth;
	struct aeth aeth;
	struct atomicacketh atomicacketh;
	struct immdt immdt;
	struct ieth ieth;
	/* The map of a selective NAK, whose payload has SELECTIVE_MAP_BYTES bytes */
	struct selective_map map;
};

/* Is the packet a selective NAK (wire/selective.h)? */
static inline bool packet_has_map(const struct packet *packet)
{
	return packet->payload_bytes && packet->info->payload == PAYLOAD_MAP;
}

/*
 * Decode a packet.
 *
 * `packet`  Set when the result is PACKET_OK; otherwise undefined.
 * `bytes`   From the first BTH byte to the last byte before the ICRC. Borrowed for the life of
 *           *packet.
 * `length`  Anything: hostile input is expected.
 *
 * Checks everything that does not need the queue pair (IBTA 9.6.1): length, version, opcode and
 * pad. It also refuses a response whose payload length is illegal at every path MTU. Other payload
 * lengths are checked later, with the path MTU, by opcode_payload_fits().
 */
enum packet_fault packet_decode(struct packet *packet, const uint8_t *bytes, size_t length);

/*
 * Start a packet to send. Its BTH gets `opcode`, the default partition key, and a set MigReq bit,
 * as queue pairs that never migrate have it. The other fields of the BTH are zero, and the packet
 * has no payload. The caller fills in the extended headers.
 */
void packet_init(struct packet *packet, enum opcode opcode);

/* Set payload length and pad count. `payload` may be NULL when the caller places the bytes. */
void packet_set_payload(struct packet *packet, const uint8_t *payload, uint32_t payload_bytes);

/*
 * Write the BTH and the extended headers of packet->info. The caller writes payload and pad.
 *
 * `to`  Room for packet->info->header_bytes, at most OPCODE_HEADER_BYTES_MAX.
 *
 * Returns the number of written bytes, packet->info->header_bytes.
 */
size_t packet_encode_headers(const struct packet *packet, uint8_t *to);

/* The number of bytes from the BTH to the end of the pad. */
static inline size_t packet_bytes(const struct packet *packet)
{
	return (size_t)packet->info->header_bytes + packet->payload_bytes + packet->bth.pad_bytes;
}

#endif
