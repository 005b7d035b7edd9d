/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_WIRE_CAPTURED_H
#define URNIC_WIRE_CAPTURED_H

/*
 * A captured packet: the packet that a request executed within a host would have been.
 *
 * A lane writes what it knows at that moment: addresses, ports and the packet from the BTH on, or
 * its beginning. The reader has time, and adds the rest: IP and UDP headers, and the ICRC.
 *
 * Plain data; pure functions; any thread.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/gid.h"
#include "wire/icrc.h"

enum {
	/* The longest packet of any queue pair. */
	CAPTURED_BYTES_MAX = 4160,
	CAPTURED_FRAME_BYTES_MAX =
		IPV6_BYTES + ROCE_UDP_BYTES + CAPTURED_BYTES_MAX + ROCE_ICRC_BYTES,
};

/* The packet's bytes follow. */
struct captured {
	uint64_t time_ns; /* monotonic */
	struct gid source; /* both of one family */
	struct gid destination;
	uint32_t ifindex; /* of the device; 0: that of the local address */
	uint32_t qpn; /* of the queue pair in this process */
	uint32_t flow_label; /* 20 bits; 0 when unknown */
	uint32_t packet_bytes; /* BTH to pad */
	uint32_t captured_bytes; /* that follow: all of them, or the first */
	uint16_t source_port;
	uint8_t traffic_class;
	uint8_t hop_limit; /* 0: unknown */
	uint32_t is_sent; /* by this process; 0: received */
	uint32_t reserved;
};

/* A packet as on the network, from the IP header to the ICRC. */
struct captured_frame {
	uint32_t count; /* bytes that were captured */
	uint32_t whole; /* bytes that the packet had */
	uint8_t bytes[CAPTURED_FRAME_BYTES_MAX];
};

/*
 * Make the IP packet of a captured packet.
 *
 * `captured`  From another process: any values.
 * `bytes`     captured->captured_bytes of them; the caller has checked that they exist.
 *
 * Returns false for impossible values.
 */
bool captured_frame_make(
	const struct captured *captured, const uint8_t *bytes, struct captured_frame *ret_frame);

#endif
