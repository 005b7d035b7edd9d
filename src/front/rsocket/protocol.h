/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rsockets on the wire: the messages of a stream, compatible with rdma-core's librdmacm (its
 * docs/rsocket), version 1.
 *
 * Every message is an RDMA WRITE with immediate data. Bytes of the stream go into the peer's
 * receive buffer. The peer grants free halves of that buffer by writing entries into this side's
 * `target` table. Messages without bytes are WRITEs of length 0. An iWARP device need not support
 * immediate data. So over iWARP a SEND carries the four bytes of immediate data, in the sender's
 * byte order. If there are bytes to write, the SEND follows a WRITE. The immediate data is:
 *
 *     31..29  operation    28..0  its operand
 *     DATA    the number of bytes that were written
 *     SGL     the sequence number (16 bits) of the first numbered message that may not be sent
 *             yet; the target table may have a new entry
 *     IOMAP   the index of a new entry of the iomap table
 *     CTRL    enum rs_ctrl
 *
 * DATA and IOMAP messages are numbered. Each needs a receive request at the peer, so the peer
 * limits their sequence numbers by SGL. SGL and CTRL messages are not numbered, because few of them
 * are under way at a time. If the peer lacks a receive request for one, the queue pair repeats it
 * after an RNR NAK.
 */
#ifndef URNIC_FRONT_RSOCKET_PROTOCOL_H
#define URNIC_FRONT_RSOCKET_PROTOCOL_H

#include <stdint.h>

#define RS_PROTOCOL_VERSION 1

enum rs_op {
	RS_OP_DATA = 0,
	RS_OP_SGL = 4,
	RS_OP_IOMAP = 6,
	RS_OP_CTRL = 7,
};

enum rs_ctrl {
	RS_CTRL_DISCONNECT, /* the sender neither sends nor receives any more */
	RS_CTRL_KEEPALIVE,
	RS_CTRL_SHUTDOWN, /* the sender sends no more */
};

#define RS_OPERAND_BITS 29
#define RS_OPERAND_MASK ((1u << RS_OPERAND_BITS) - 1)

static inline uint32_t rs_message(enum rs_op op, uint32_t operand)
{
	return (uint32_t)op << RS_OPERAND_BITS | (operand & RS_OPERAND_MASK);
}

static inline enum rs_op rs_message_op(uint32_t message)
{
	return (enum rs_op)(message >> RS_OPERAND_BITS);
}

static inline uint32_t rs_message_operand(uint32_t message)
{
	return message & RS_OPERAND_MASK;
}

/* A piece of memory that the peer may write: an entry of the target table. */
struct rs_sge {
	uint64_t address;
	uint32_t key;
	uint32_t bytes;
};

/* An entry of the iomap table: the memory that the application mapped at `offset`. */
struct rs_iomap {
	uint64_t offset;
	struct rs_sge sge;
};

/* Flags of the private data. */
enum {
	RS_CONN_BIG_ENDIAN = 1 << 0, /* this end writes its table entries in big-endian order */
	RS_CONN_IOMAP = 1 << 1, /* iomap_size is valid */
};

/* Private data of REQ and REP. The fields are big-endian. */
struct rs_conn_data {
	uint8_t version;
	uint8_t flags;
	/*
	 * How many numbered messages the receiver of the private data may send before the first SGL
	 */
	uint16_t credits;
	uint8_t reserved[3];
	/* rs_scale() of the number of entries of the iomap table, which follows the target table */
	uint8_t iomap_size;
	struct rs_sge target_sgl; /* the sender's target table; `bytes` counts its entries */
	struct rs_sge data_buffer; /* the first free piece of the sender's receive buffer */
};

_Static_assert(sizeof(struct rs_conn_data) == 40, "the wire's layout");

/*
 * Encode a number in 8 bits. A number up to 128 is encoded as it is. A larger number is encoded in
 * units of 256, with bit 7 set.
 */
static inline uint8_t rs_scale(uint32_t value)
{
	return (uint8_t)(value <= 128 ? value : 128 | value >> 8);
}

static inline uint32_t rs_unscale(uint8_t scaled)
{
	return scaled <= 128 ? scaled : (uint32_t)(scaled & 127) << 8;
}

#endif
