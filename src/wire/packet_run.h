/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A run: packets of equal length and path that are made in one call and sent one behind the other.
 * They differ in their PSNs, and in their payloads if they have any.
 *
 * The buffer gets the packets, each followed by room for an ICRC. The payloads may stay where they
 * are in the program's memory (zero-copy); then the buffer gets what comes before them.
 */
#ifndef URNIC_WIRE_PACKET_RUN_H
#define URNIC_WIRE_PACKET_RUN_H

#include <stdint.h>

struct packet_run {
	/* What the caller offers: */
	uint8_t *buffer; /* room for run_bytes and the longest packet */
	uint32_t run_bytes; /* the run ends with the packet that reaches these; 0: with its first */
	/* What was made: */
	uint32_t packets; /* at least 1 */
	uint32_t path; /* the id of the path that they take */
	uint32_t borrowed_bytes; /* of each packet; 0: none */
	const uint8_t *borrowed; /* their payloads, one behind the other; NULL: in the buffer */
};

#endif
