/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_ETHER_RSS_H
#define URNIC_ETHER_RSS_H

/*
 * Receive-side scaling: the choice of a work queue in an indirection table.
 *
 * The low bits of a Toeplitz hash select the entry. The hash covers the chosen fields, in the order
 * source address, destination address, source port, destination port. If a frame lacks the layer of
 * a chosen field, its hash omits that field. A frame with none of the fields goes to the first
 * entry.
 */

#include <stdint.h>

#include "wire/frame.h"

enum {
	RSS_KEY_BYTES = 40,
	/* Two IPv6 addresses and two ports. A key has 4 bytes more than the longest input. */
	RSS_INPUT_BYTES_MAX = 36,
};

/* The values of enum ibv_rx_hash_fields. */
enum rss_field {
	RSS_SRC_IPV4 = 1 << 0,
	RSS_DST_IPV4 = 1 << 1,
	RSS_SRC_IPV6 = 1 << 2,
	RSS_DST_IPV6 = 1 << 3,
	RSS_SRC_PORT_TCP = 1 << 4,
	RSS_DST_PORT_TCP = 1 << 5,
	RSS_SRC_PORT_UDP = 1 << 6,
	RSS_DST_PORT_UDP = 1 << 7,
	RSS_FIELDS_ALL = 0xff,
};

/* The Toeplitz hash of `count` bytes, at most RSS_INPUT_BYTES_MAX. */
uint32_t rss_toeplitz(const uint8_t key[RSS_KEY_BYTES], const uint8_t *input, uint32_t count);

/* The hash of a frame over `fields`, bits of enum rss_field. */
uint32_t rss_hash(const uint8_t key[RSS_KEY_BYTES], uint32_t fields, const struct frame_key *frame);

#endif
