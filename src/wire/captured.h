/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_WIRE_CAPTURED_H
#define URNIC_WIRE_CAPTURED_H

/*
 * A captured packet: the packet that would have carried a request or its response, if the request
 * had not been executed within the host.
 *
 * The lane that executes the request writes the addresses, the source port, and the packet from the
 * BTH on, or the beginning of that packet. The reader of the capture adds the rest with
 * captured_frame_make(): IP and UDP headers, and the ICRC.
 *
 * The structs are plain data and the function is pure, so any thread may call it.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/gid.h"
#include "wire/bth.h"
#include "wire/headers.h"
#include "wire/icrc.h"

enum {
	/* The longest packet of any queue pair. */
	CAPTURED_BYTES_MAX = 4160,
	CAPTURED_FRAME_BYTES_MAX =
		IPV6_BYTES + ROCE_UDP_BYTES + CAPTURED_BYTES_MAX + ROCE_ICRC_BYTES,
};

/* The packet's bytes follow this struct in memory. */
struct captured {
	uint64_t time_ns; /* monotonic */
	struct gid source; /* `source` and `destination` are of one family */
	struct gid destination;
	/* Index of the network device; 0: the device that has the local address. */
	uint32_t ifindex;
	uint32_t qpn; /* number of the queue pair of the capturing process */
	uint32_t flow_label; /* 20 bits; 0 when unknown */
	uint32_t packet_bytes; /* number of bytes from BTH to pad */
	/* Bytes that follow this struct: the whole packet, or its beginning. */
	uint32_t captured_bytes;
	uint16_t source_port;
	uint8_t traffic_class;
	uint8_t hop_limit; /* 0: unknown */
	uint32_t is_sent; /* 1: the capturing process sent the packet; 0: it received the packet */
	/*
	 * The packet is the last of a request whose responder has acknowledged it: CAPTURED_ACKED
	 * and the MSN of the acknowledgement, whose packet captured_answer_make() makes. 0: it is
	 * not.
	 */
	uint32_t answer;
};

#define CAPTURED_ACKED 0x80000000u

/* A source port in the range of RoCEv2, for packets that have no path. */
static inline uint16_t captured_port(uint32_t qpn)
{
	return (uint16_t)(ROCE_SOURCE_PORT_MIN | (qpn & (0xffff - ROCE_SOURCE_PORT_MIN)));
}

/* What a queue pair did without a packet. */
enum captured_event_kind {
	CAPTURED_POST, /* send requests were posted */
	CAPTURED_COMPLETION,
	CAPTURED_STATE, /* the queue pair changed its state */
	CAPTURED_EVENT_KINDS
};

/* An event follows a struct captured whose packet_bytes is 0, as no packet's is. */
struct captured_event {
	uint64_t wr_id; /* of the last of `count` requests that were posted at once */
	uint32_t kind; /* enum captured_event_kind */
	uint32_t number; /* the opcode, the completion's status, or the new state */
	uint32_t bytes;
	uint32_t count; /* requests, the completion's opcode, or the old state */
};

/* A packet as it would be on the network, from the IP header to the ICRC. */
struct captured_frame {
	uint32_t count; /* bytes in `bytes` */
	uint32_t whole; /* bytes of the whole IP packet */
	uint8_t bytes[CAPTURED_FRAME_BYTES_MAX];
};

/*
 * Make the IP packet of a captured packet.
 *
 * `captured`  Another process may have written it, so it may have any values.
 * `bytes`     The packet: captured->captured_bytes bytes. The caller has checked that they exist.
 *
 * Returns false if *captured has a value that no packet can have.
 */
bool captured_frame_make(
	const struct captured *captured, const uint8_t *bytes, struct captured_frame *ret_frame);

enum { CAPTURED_ANSWER_BYTES = BTH_BYTES + AETH_BYTES };

/*
 * Make the acknowledgement of a captured packet.
 *
 * `captured`, `bytes`  As above.
 *
 * Returns false when the packet has none.
 */
bool captured_answer_make(const struct captured *captured, const uint8_t *bytes,
	struct captured *ret_captured, uint8_t ret_bytes[CAPTURED_ANSWER_BYTES]);

#endif
