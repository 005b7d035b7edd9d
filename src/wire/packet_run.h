/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A run is a number of packets of equal length and path. One call makes them, and they are sent one
 * after the other. They differ only in their PSNs and payloads.
 *
 * The buffer gets the packets, each followed by room for an ICRC. The payloads may stay where they
 * are in the program's memory (zero-copy); then the buffer gets only the headers.
 */
#ifndef URNIC_WIRE_PACKET_RUN_H
#define URNIC_WIRE_PACKET_RUN_H

#include <stdint.h>

struct impair_flow;

struct packet_run {
	/* The caller sets the next two fields. */
	uint8_t *buffer; /* room for run_bytes bytes, and one more packet of the greatest length */
	/*
	 * The run ends with the packet that reaches this number of bytes; 0: the run has one
	 * packet.
	 */
	uint32_t run_bytes;
	/* The called function sets the fields from here on. */
	uint32_t packets; /* at least 1 */
	uint32_t path; /* the id of the path that the packets take */
	uint32_t borrowed_bytes; /* borrowed payload of each packet; 0: none */
	/* The payloads, one behind the other; NULL: the payloads are in the buffer. */
	const uint8_t *borrowed;
	/* The flow of the packets' queue pair (impair/impair.h); NULL: no impairments */
	struct impair_flow *flow;
};

#endif
