/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_WIRE_HEADERS_H
#define URNIC_WIRE_HEADERS_H

/*
 * The extended transport headers (IBTA 9.3), one struct and one decode/encode pair each.
 *
 * Decoding cannot fail: each function reads exactly <HEADER>_BYTES bytes, and every bit pattern is
 * a value. The caller checks that the bytes exist. Reserved bits are sent as zero and ignored when
 * received. Integers are in host order, immediate data too.
 */

#include <stdint.h>

#include "wire/bytes.h"
#include "wire/psn.h"

#define XRCETH_BYTES       4
#define DETH_BYTES         8
#define FETH_BYTES         4
#define RETH_BYTES         16
#define ATOMICETH_BYTES    28
#define AETH_BYTES         4
#define ATOMICACKETH_BYTES 8
#define IMMDT_BYTES        4
#define IETH_BYTES         4

/* XRC: the shared receive queue of a request. */
struct xrceth {
	uint32_t srqn; /* < 2^24 */
};

static inline void xrceth_decode(struct xrceth *xrceth, const uint8_t from[XRCETH_BYTES])
{
	xrceth->srqn = get_be24(from + 1);
}

static inline void xrceth_encode(const struct xrceth *xrceth, uint8_t to[XRCETH_BYTES])
{
	put_be32(to, xrceth->srqn & U24_MASK);
}

/* Datagrams: the sender, and the Q_Key that must match the receiver's. */
struct deth {
	uint32_t qkey;
	struct qpn source_qpn;
};

static inline void deth_decode(struct deth *deth, const uint8_t from[DETH_BYTES])
{
	deth->qkey = get_be32(from);
	deth->source_qpn = (struct qpn){get_be24(from + 5)};
}

static inline void deth_encode(const struct deth *deth, uint8_t to[DETH_BYTES])
{
	put_be32(to, deth->qkey);
	put_be32(to + 4, deth->source_qpn.value & U24_MASK);
}

/* FLUSH: the kind of placement, and which bytes are to be placed (IBTA annex A19). */
#define FETH_PLACEMENT_GLOBAL     0x1u /* visible to every observer of the memory */
#define FETH_PLACEMENT_PERSISTENT 0x2u /* survives a power cut */

enum feth_selectivity {
	FETH_SELECT_RANGE = 0, /* the RETH's range */
	FETH_SELECT_REGION = 1, /* the whole region of the RETH's rkey */
};

struct feth {
	uint8_t placement; /* FETH_PLACEMENT_ bits, 4 bits on the wire */
	/* enum feth_selectivity; received values may also be 2 and 3, which are reserved */
	uint8_t selectivity;
};

static inline void feth_decode(struct feth *feth, const uint8_t from[FETH_BYTES])
{
	feth->placement = from[3] & 0xf;
	feth->selectivity = from[3] >> 4 & 0x3;
}

static inline void feth_encode(const struct feth *feth, uint8_t to[FETH_BYTES])
{
	put_be32(to, (uint32_t)(feth->selectivity & 0x3) << 4 | (feth->placement & 0xf));
}

/* The remote range of a WRITE, READ, ATOMIC WRITE or FLUSH. */
struct reth {
	uint64_t va;
	uint32_t rkey;
	/* Length of the whole message; a received value may be above 2^31, which is illegal */
	uint32_t dma_bytes;
};

#define RETH_FIELDS(FIELD) \
	FIELD(64, 0, va)   \
	FIELD(32, 8, rkey) \
	FIELD(32, 12, dma_bytes)
HEADER_CODEC(reth, RETH)

/* The remote word and the operands of COMPARE_SWAP and FETCH_ADD. */
struct atomiceth {
	uint64_t va; /* must be a multiple of 8; a received value may be anything */
	uint32_t rkey;
	uint64_t swap_add; /* the new value, or the addend */
	uint64_t compare; /* COMPARE_SWAP only; FETCH_ADD ignores it */
};

#define ATOMICETH_FIELDS(FIELD) \
	FIELD(64, 0, va)        \
	FIELD(32, 8, rkey)      \
	FIELD(64, 12, swap_add) \
	FIELD(64, 20, compare)
HEADER_CODEC(atomiceth, ATOMICETH)

/* The kind of a response: bits 7..5 of the syndrome (IBTA 9.3.5). */
enum aeth_kind {
	AETH_ACK = 0, /* `value` is the end-to-end credit code (wire/credit.h) */
	AETH_RNR_NAK = 1, /* `value` is the RNR timer code (wire/timer.h) */
	AETH_RESERVED = 2, /* any of the five reserved patterns; to be ignored */
	AETH_NAK = 3, /* `value` is of enum aeth_nak, or a reserved code */
};

enum aeth_nak {
#define AETH_NAK_CODE(NAME, code, counter, FAULT) AETH_NAK_##NAME = (code),
#include "wire/aeth_nak.def"
#undef AETH_NAK_CODE
};

#define AETH_VALUE_MASK 0x1f

struct aeth {
	enum aeth_kind kind;
	uint8_t value; /* 0 .. 31; `kind` says what it means */
	struct msn msn; /* number of messages that the responder has completed */
};

static inline void aeth_decode(struct aeth *aeth, const uint8_t from[AETH_BYTES])
{
	uint8_t kind = from[0] >> 5;

	aeth->kind = kind <= AETH_NAK ? (enum aeth_kind)kind : AETH_RESERVED;
	aeth->value = from[0] & AETH_VALUE_MASK;
	aeth->msn = (struct msn){get_be24(from + 1)};
}

static inline void aeth_encode(const struct aeth *aeth, uint8_t to[AETH_BYTES])
{
	put_be32(to,
		(uint32_t)aeth->kind << 29 | (uint32_t)(aeth->value & AETH_VALUE_MASK) << U24_BITS |
			(aeth->msn.value & U24_MASK));
}

/* The response to an atomic: the value that the word had before the operation. */
struct atomicacketh {
	uint64_t original;
};

#define ATOMICACKETH_FIELDS(FIELD) FIELD(64, 0, original)
HEADER_CODEC(atomicacketh, ATOMICACKETH)

/* Immediate data: four bytes for the receiver's completion. */
struct immdt {
	uint32_t data;
};

#define IMMDT_FIELDS(FIELD) FIELD(32, 0, data)
HEADER_CODEC(immdt, IMMDT)

/* SEND with invalidate: the key to invalidate at the receiver. */
struct ieth {
	uint32_t rkey;
};

#define IETH_FIELDS(FIELD) FIELD(32, 0, rkey)
HEADER_CODEC(ieth, IETH)

#endif
