/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_WIRE_MAD_H
#define URNIC_WIRE_MAD_H

/*
 * Management datagrams: 256 bytes to and from QP1, the general services interface (IBTA 13.4,
 * 13.5).
 *
 * A MAD travels as one UD SEND_ONLY packet with a well-known Q_Key. It begins with a header that
 * all classes share:
 *
 *       0        base version
 *       1        management class
 *       2        class version
 *       3        method; the top bit says that it is an answer
 *       4 ..  5  status
 *       6 ..  7  specific to the class
 *       8 .. 15  transaction ID
 *      16 .. 17  attribute ID
 *      20 .. 23  attribute modifier
 */

#include <stddef.h>
#include <stdint.h>

#define MAD_BYTES        256
#define MAD_HEADER_BYTES 24
#define MAD_DATA_BYTES   (MAD_BYTES - MAD_HEADER_BYTES)

#define MAD_BASE_VERSION 1

/*
 * The number of the queue pair of the general services interface, the same on every port, and its
 * Q_Key (IBTA 13.5.1.1, 10.2.5).
 */
#define GSI_QPN  1
#define GSI_QKEY 0x80010000u

/* A packet with a MAD: BTH, DETH, 256 bytes of MAD, no pad. */
#define GSI_PACKET_BYTES 276

/* Management classes (IBTA 13.4.4). */
enum mad_class {
	MAD_CLASS_CM = 0x07,
};

/* Methods (IBTA 13.4.5). */
enum mad_method {
	MAD_METHOD_GET = 0x01,
	MAD_METHOD_SEND = 0x03,
};

struct mad_header {
	uint8_t base_version;
	uint8_t management_class;
	uint8_t class_version;
	uint8_t method;
	uint16_t status;
	uint16_t attribute_id;
	uint32_t attribute_modifier;
	uint64_t transaction_id;
};

/*
 * Decoding cannot fail, because every bit pattern is a header. Reserved and class-specific bytes
 * are sent as zero and ignored when received.
 */
void mad_header_decode(struct mad_header *header, const uint8_t from[MAD_HEADER_BYTES]);
void mad_header_encode(const struct mad_header *header, uint8_t to[MAD_HEADER_BYTES]);

/*
 * The MAD in a packet for QP1.
 *
 * `packet`  From the first BTH byte to the last byte before the ICRC; `length` may be anything.
 *
 * Returns the MAD, MAD_BYTES bytes inside the packet. Returns NULL unless the packet is a UD
 * SEND_ONLY with a payload of that length, from QP1 to QP1 with the right Q_Key, in the default
 * partition (IBTA 9.6.1, 13.5.3).
 */
const uint8_t *gsi_packet_mad(const uint8_t *packet, size_t length);

/*
 * Write BTH and DETH of a packet from QP1 to QP1. The caller writes the MAD, at to +
 * GSI_PACKET_BYTES - MAD_BYTES.
 *
 * `psn`  The packet's PSN, which the caller counts; only the low 24 bits are used.
 */
void gsi_packet_encode(uint32_t psn, uint8_t to[GSI_PACKET_BYTES]);

#endif
