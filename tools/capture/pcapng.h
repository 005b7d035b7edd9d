/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TOOLS_PCAPNG_H
#define TOOLS_PCAPNG_H

/*
 * Writing captures: pcapng (draft-ietf-opsawg-pcapng), one section, in this machine's byte order.
 *
 * Packets are IP packets without a link layer (LINKTYPE_RAW). Interfaces are numbered in the order
 * in which they are written, at any time before their first packet. Errors are the stream's:
 * ferror() tells.
 */

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct pcapng_packet {
	uint32_t interface;
	uint64_t time_ns; /* since 1970 */
	const uint8_t *bytes;
	uint32_t count; /* of bytes that are here */
	uint32_t whole; /* that it had */
	bool is_outbound;
	uint64_t dropped; /* packets that were lost before this one; 0: not written */
	const char *comment;
};

/* Begin the section. `application` is who writes it. */
void pcapng_begin(FILE *file, const char *application);

/* `snap_bytes`  Of each packet; 0: all. */
void pcapng_interface(FILE *file, const char *name, const char *description, uint32_t snap_bytes);

void pcapng_packet(FILE *file, const struct pcapng_packet *packet);

/* How many packets of an interface there were, and how many were lost. */
void pcapng_statistics(
	FILE *file, uint32_t interface, uint64_t time_ns, uint64_t received, uint64_t dropped);

#endif
