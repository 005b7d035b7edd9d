/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_WIRE_BTH_H
#define URNIC_WIRE_BTH_H

/*
 * The Base Transport Header, 12 bytes at the start of every packet (IBTA 9.2):
 *
 *       0        opcode
 *       1        solicited event 1 bit, migration state 1, pad count 2, header version 4
 *       2 ..  3  partition key
 *       4        FECN 1 bit, BECN 1, reserved 6
 *       5 ..  7  destination QPN
 *       8        acknowledge request 1 bit, selective repeat 1, reserved 6
 *       9 .. 11  PSN
 *
 * The specification reserves the bit of selective repeat. urnic sets it to say that the sender
 * knows selective NAKs (wire/selective.h); other peers ignore it. Reserved bits are sent as zero
 * and ignored when received. Decoding cannot fail; packet_decode() checks opcode and version.
 */

#include <stdbool.h>
#include <stdint.h>

#include "wire/bytes.h"
#include "wire/psn.h"

#define BTH_BYTES 12

/* The only header version. */
#define BTH_TVER 0

/* The P_Key of the default partition with full membership. The NIC has no other P_Key. */
#define BTH_PKEY_DEFAULT 0xffff

struct bth {
	uint8_t opcode; /* a value of enum opcode if opcode_info() knows it */
	uint8_t pad_bytes; /* 0 .. 3, after the payload */
	uint8_t tver; /* 0 .. 15 */
	/* The sender requests a solicited event at the receiver */
	bool is_solicited;
	bool is_migrated; /* MigReq; always set by queue pairs that do not migrate */
	bool ack_requested;
	bool is_selective; /* the sender knows selective NAKs */
	bool fecn;
	bool becn;
	uint16_t pkey;
	struct qpn dest_qpn;
	struct psn psn;
};

static inline void bth_decode(struct bth *bth, const uint8_t from[BTH_BYTES])
{
	bth->opcode = from[0];
	bth->is_solicited = from[1] & 0x80;
	bth->is_migrated = from[1] & 0x40;
	bth->pad_bytes = from[1] >> 4 & 0x3;
	bth->tver = from[1] & 0xf;
	bth->pkey = get_be16(from + 2);
	bth->fecn = from[4] & 0x80;
	bth->becn = from[4] & 0x40;
	bth->dest_qpn = (struct qpn){get_be24(from + 5)};
	bth->ack_requested = from[8] & 0x80;
	bth->is_selective = from[8] & 0x40;
	bth->psn = (struct psn){get_be24(from + 9)};
}

static inline void bth_encode(const struct bth *bth, uint8_t to[BTH_BYTES])
{
	to[0] = bth->opcode;
	to[1] = (uint8_t)(bth->is_solicited << 7 | bth->is_migrated << 6 |
		(bth->pad_bytes & 0x3) << 4 | (bth->tver & 0xf));
	put_be16(to + 2, bth->pkey);
	put_be32(to + 4,
		(uint32_t)bth->fecn << 31 | (uint32_t)bth->becn << 30 |
			(bth->dest_qpn.value & U24_MASK));
	put_be32(to + 8,
		(uint32_t)bth->ack_requested << 31 | (uint32_t)bth->is_selective << 30 |
			(bth->psn.value & U24_MASK));
}

/* Replace the PSN in the BTH of an encoded packet, and clear its acknowledge request. */
static inline void bth_renumber(uint8_t bth[BTH_BYTES], struct psn psn)
{
	put_be32(bth + 8, (uint32_t)(bth[8] & 0x7f) << U24_BITS | psn.value);
}

#endif
