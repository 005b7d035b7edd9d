/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TOOLS_PAIR_SEGMENTS_H
#define TOOLS_PAIR_SEGMENTS_H

/*
 * The packets of a super-packet: a UDP datagram that a network card, or the kernel in its place,
 * cuts into segments. Each packet has the headers of the super-packet with lengths and checksums of
 * its own, and over IPv4 identifications that count up.
 */

#include <stdbool.h>
#include <stdint.h>

/* The longest packet with its Ethernet header. */
enum { PAIR_SEGMENT_BYTES_MAX = (1 << 16) + 14 };

struct pair_segments {
	const uint8_t *frame;
	uint32_t bytes; /* of the frame */
	uint32_t header_bytes; /* Ethernet, IP and UDP */
	uint32_t segment_bytes; /* of each packet but the last */
	uint32_t done; /* so many bytes behind the headers are in packets */
	uint16_t count; /* packets so far */
};

/*
 * Begin to cut a frame, which is borrowed. Returns false if it has no UDP datagram in an IP packet
 * without options.
 */
bool pair_segments_begin(struct pair_segments *segments, const uint8_t *frame, uint32_t bytes,
	uint32_t segment_bytes);

/* Write the next packet to `to`. Returns its length; 0: there is none left. */
uint32_t pair_segments_next(struct pair_segments *segments, uint8_t to[PAIR_SEGMENT_BYTES_MAX]);

#endif
