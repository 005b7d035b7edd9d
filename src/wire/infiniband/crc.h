/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_WIRE_INFINIBAND_CRC_H
#define URNIC_WIRE_INFINIBAND_CRC_H

/*
 * The two CRCs of an InfiniBand packet (IBTA 7.8). The invariant CRC covers all bytes that switches
 * and routers do not change. The bits that they may change count as ones: LRH.VL; the GRH's traffic
 * class, flow label and hop limit; the BTH's FECN, BECN and reserved byte. The variant CRC covers
 * all bytes from the LRH to the ICRC, and each link computes it anew.
 */

#include <stdbool.h>
#include <stdint.h>

#define IB_ICRC_BYTES 4
#define IB_VCRC_BYTES 2

/*
 * The ICRC of a packet.
 *
 * `packet`  From the first LRH byte to the last byte before the ICRC: an LRH, perhaps a GRH, and a
 *           BTH at least. Raw packets have no ICRC.
 */
uint32_t ib_icrc(const uint8_t *packet, uint32_t bytes);

/* Write the ICRC to packet[bytes .. bytes + 3]. */
void ib_icrc_seal(uint8_t *packet, uint32_t bytes);

/*
 * Check the ICRC in the last four bytes of a packet. Any input is legal; a packet that is too short
 * fails.
 */
bool ib_icrc_verify(const uint8_t *packet, uint32_t bytes);

/* The VCRC of the bytes from LRH to ICRC. On the wire its low byte comes first. */
uint16_t ib_vcrc(const uint8_t *packet, uint32_t bytes);

#endif
