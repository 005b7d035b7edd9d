/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_TESTS_SUPPORT_PCAP_H
#define URNIC_TESTS_SUPPORT_PCAP_H

/*
 * Just enough of the pcap format to walk the captures in tests/data/pcap: little-endian,
 * microseconds, Ethernet, frames that were captured whole.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/icrc.h"

struct pcap {
	uint8_t *bytes;
	size_t length;
	size_t offset; /* of the next record */
};

/* One RoCEv2 packet in a capture. The bytes belong to the struct pcap and may be written. */
struct pcap_roce {
	struct icrc_flow flow;
	bool is_ipv4;
	uint16_t ipv4_id;
	uint16_t ipv4_flags; /* with the fragment offset, as on the wire */
	uint8_t *packet; /* from the BTH; the ICRC follows packet[length - 1] */
	size_t length; /* without the ICRC */
};

/* The captures that tests walk, names in tests/data/pcap, with NULL at the end. */
extern const char *const pcap_roce_names[];

/* Read a file of tests/data/pcap; fails the running cmocka test when it cannot. */
void pcap_load(struct pcap *pcap, const char *name);
void pcap_done(struct pcap *pcap);

/* The next frame from its Ethernet header; false at the end. */
bool pcap_next(struct pcap *pcap, uint8_t **ret_frame, size_t *ret_bytes);

/* The next frame that is a RoCEv2 packet; others are passed over. */
bool pcap_next_roce(struct pcap *pcap, struct pcap_roce *roce);

#endif
