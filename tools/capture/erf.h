/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TOOLS_ERF_H
#define TOOLS_ERF_H

/*
 * InfiniBand packets as records of the Extensible Record Format, for interfaces of PCAPNG_ERF
 * (pcapng.h). Wireshark dissects these from the LRH on.
 */

#include <stdint.h>

enum { ERF_MORE_BYTES = 18 }; /* a record's header, and the VCRC behind its packet */

/*
 * Write a packet with its VCRC.
 *
 * `time_ns`  Since 1970.
 * `packet`   LRH to ICRC.
 * `to`       ERF_MORE_BYTES more than `bytes`.
 *
 * Returns the length of the record.
 */
uint32_t erf_packet_write(uint64_t time_ns, const uint8_t *packet, uint32_t bytes, uint8_t *to);

/*
 * Write a flow control packet of a lane (IBTA 7.9.4): FCTBS and FCCL in blocks. `to` has
 * ERF_LINK_BYTES. Returns the length of the record.
 */
enum { ERF_LINK_BYTES = 24 };
uint32_t erf_link_packet_write(
	uint64_t time_ns, uint8_t vl, uint16_t fctbs, uint16_t fccl, uint8_t *to);

#endif
