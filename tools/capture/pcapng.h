/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TOOLS_PCAPNG_H
#define TOOLS_PCAPNG_H

/*
 * Writing captures: pcapng (draft-ietf-opsawg-pcapng), one section, in this machine's byte order.
 *
 * Packets are IP packets without a link layer (LINKTYPE_RAW). Interfaces are numbered in the order
 * in which they are written, before their first packet. Errors are those of the stream (ferror()).
 */

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct pcapng_packet {
	uint32_t interface;
	uint64_t time_ns; /* since 1970 */
	const uint8_t *bytes;
	uint32_t count; /* captured bytes */
	uint32_t whole; /* bytes of the whole packet */
	bool is_outbound;
	uint64_t dropped; /* packets lost before this one; 0: not written */
	const char *comment;
};

/* Begin the section. `application` is the writing program. */
void pcapng_begin(FILE *file, const char *application);

/* `snap_bytes`  Of each packet; 0: all. */
void pcapng_interface(FILE *file, const char *name, const char *description, uint32_t snap_bytes);

void pcapng_packet(FILE *file, const struct pcapng_packet *packet);

/* How many packets an interface had, and how many were lost. */
void pcapng_statistics(
	FILE *file, uint32_t interface, uint64_t time_ns, uint64_t received, uint64_t dropped);

#endif
