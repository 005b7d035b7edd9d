/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_WIRE_PACKET_H
#define URNIC_WIRE_PACKET_H

/*
 * One packet of the InfiniBand transport, from the BTH to the end of the pad, as a plain struct.
 *
 * Received bytes are decoded once, here, or refused; nobody later reads wire fields. A packet to
 * send is a struct that packet_init() started and its maker filled in; packet_encode_headers()
 * writes what comes before the payload. Neither the ICRC nor anything below the BTH is part of it
 * (wire/icrc.h knows those).
 *
 * A struct packet owns nothing. The payload points into the bytes it was decoded from and lives as
 * long as they do. Only the extended headers named in info->headers hold values; the others are not
 * even initialised.
 */

#include <stddef.h>
#include <stdint.h>

#include "wire/bth.h"
#include "wire/headers.h"
#include "wire/opcode.h"

enum packet_fault {
	PACKET_OK,
#define PACKET_FAULT(name, counter, sentence) PACKET_FAULT_##name,
#include "wire/packet_fault.def"
	PACKET_FAULT_COUNT
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
};

/*
 * Decode one packet.
 *
 * `packet`  Filled when PACKET_OK comes back; otherwise its content is undefined.
 * `bytes`   From the first BTH byte to the last byte before the ICRC. Borrowed for the life of
 *           *packet.
 * `length`  Anything: hostile input is expected.
 *
 * Checks what can be checked without knowing the queue pair (IBTA 9.6.1): lengths, version,
 * opcode, pad, and payload lengths of responses that do not depend on the path MTU. The others,
 * which need an answer or the MTU, opcode_payload_fits() checks later.
 */
enum packet_fault packet_decode(struct packet *packet, const uint8_t *bytes, size_t length);

/*
 * Start a packet to send: BTH of `opcode` with the default partition key and the migrated bit set,
 * as queue pairs that never migrate send it, everything else zero; no payload. The extended headers
 * are the caller's to fill.
 */
void packet_init(struct packet *packet, enum opcode opcode);

/*
 * Set the payload length and the pad count that follows from it. `payload` may be NULL when the
 * caller places the bytes itself.
 */
void packet_set_payload(struct packet *packet, const uint8_t *payload, uint32_t payload_bytes);

/*
 * Write the BTH and the extended headers of packet->info. Payload and pad follow by the caller.
 *
 * `to`  Room for packet->info->header_bytes, at most OPCODE_HEADER_BYTES_MAX.
 *
 * Returns the bytes written: packet->info->header_bytes.
 */
size_t packet_encode_headers(const struct packet *packet, uint8_t *to);

/* Bytes from the BTH to the end of the pad. */
static inline size_t packet_bytes(const struct packet *packet)
{
	return (size_t)packet->info->header_bytes + packet->payload_bytes + packet->bth.pad_bytes;
}

/* The name of the counter of a fault, and a sentence for people. PACKET_OK has "" for both. */
const char *packet_fault_counter(enum packet_fault fault);
const char *packet_fault_sentence(enum packet_fault fault);

#endif
