/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TOOLS_PCAPNG_H
#define TOOLS_PCAPNG_H

/*
 * A writer of captures: pcapng (draft-ietf-opsawg-pcapng), one section, in this machine's byte
 * order.
 *
 * The packets of an interface are IP packets without a link layer, Ethernet frames without FCS, ERF
 * records (the form in which Wireshark reads InfiniBand packets), or lines of text (USER0).
 * The caller describes each interface before its first packet. Interfaces are numbered from 0 in
 * the order of pcapng_interface(). Errors are those of the stream (ferror()).
 */

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* LINKTYPE_ values */
enum pcapng_link {
	PCAPNG_ETHERNET = 1,
	PCAPNG_IP = 101,
	PCAPNG_USER0 = 147,
	PCAPNG_ERF = 197,
};

struct pcapng_packet {
	uint32_t interface;
	uint64_t time_ns; /* since 1970 */
	const uint8_t *bytes;
	uint32_t count; /* length of `bytes` */
	uint32_t whole; /* length of the whole packet in bytes */
	bool is_outbound;
	uint64_t dropped; /* packets lost before this one; 0: the number is not written */
	const char *comment;
};

/* Begin the section. `application` is the name of the writing program. */
void pcapng_begin(FILE *file, const char *application);

/* Describe an interface. `snap_bytes`: how much of each packet is captured; 0: all. */
void pcapng_interface(FILE *file, enum pcapng_link link, const char *name, const char *description,
	uint32_t snap_bytes);

void pcapng_packet(FILE *file, const struct pcapng_packet *packet);

/*
 * Write to `to` what pcapng_packet() would write to a file. Returns the number of bytes; 0 if there
 * are more than `room`. The time and packet->bytes are at the offsets PCAPNG_PACKET_*_AT.
 */
uint32_t pcapng_packet_make(const struct pcapng_packet *packet, uint8_t *to, uint32_t room);

enum { PCAPNG_PACKET_TIME_AT = 12, PCAPNG_PACKET_BYTES_AT = 28 };

/* Write a time in the form that it has in the block of a packet. */
static inline void pcapng_time_put(uint8_t *to, uint64_t time_ns)
{
	const uint32_t halves[2] = {(uint32_t)(time_ns >> 32), (uint32_t)time_ns};

	memcpy(to, halves, sizeof(halves));
}

/* Write how many packets of an interface were captured, and how many were lost. */
void pcapng_statistics(
	FILE *file, uint32_t interface, uint64_t time_ns, uint64_t received, uint64_t dropped);

#endif
