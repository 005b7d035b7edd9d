/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_WIRE_GSI_PACKET_H
#define URNIC_WIRE_GSI_PACKET_H

/* The packet in which a MAD travels between two general services interfaces (IBTA 13.5). */

#include <stddef.h>
#include <stdint.h>

#include "wire/infiniband/mad.h"

/* A packet with a MAD: BTH, DETH, 256 bytes of MAD, no pad. */
#define GSI_PACKET_BYTES 276

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
 * gsi_packet_mad() for the partition of `pkey`. On InfiniBand, QP1 is in all partitions of its
 * port.
 */
const uint8_t *gsi_partition_mad(const uint8_t *packet, size_t length, uint16_t pkey);

/*
 * Write BTH and DETH of a packet from QP1 to QP1. The caller writes the MAD, at to +
 * GSI_PACKET_BYTES - MAD_BYTES.
 *
 * `psn`  The packet's PSN, which the caller counts; only the low 24 bits are used.
 */
void gsi_packet_encode(uint32_t psn, uint8_t to[GSI_PACKET_BYTES]);

#endif
