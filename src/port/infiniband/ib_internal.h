/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_PORT_INFINIBAND_IB_INTERNAL_H
#define URNIC_PORT_INFINIBAND_IB_INTERNAL_H

#include "port/infiniband/ib.h"
#include "wire/grh.h"
#include "wire/infiniband/lrh.h"

enum { IB_HEADERS_BYTES_MAX = LRH_BYTES + GRH_BYTES };

struct ib_path {
	uint32_t id; /* the path's number: its index, and a generation in the upper bits */
	uint8_t port;
	uint8_t path_bits;
	uint32_t pkey_index;
	uint8_t header_bytes; /* LRH_BYTES, or with a GRH IB_HEADERS_BYTES_MAX */
	uint8_t headers[IB_HEADERS_BYTES_MAX]; /* without the lengths and the source LID */
};

struct port_ib {
	const struct port_ib_wire *wire;
	struct port_ib_counters counters;
	struct port_ib_state state[PORT_IB_PORTS_MAX + 1]; /* by the port's number */
	bool is_watched; /* a thread may sleep on the descriptor */
	bool is_armed; /* the descriptor becomes readable with the next frame, or is readable */
	uint32_t empty_looks; /* consecutive calls that found no frame while is_armed was set */
	bool has_sent; /* packets were sent since the last flush */
	bool is_blocked; /* the wire had no room for a full buffer when it was last asked */
	/*
	 * Paths by index. Freed indexes are in a ring, the oldest first, so a freed index is reused
	 * as late as possible.
	 */
	uint32_t path_limit;
	uint32_t path_room; /* entries of `paths` and of `path_free` */
	uint32_t path_free_head;
	uint32_t path_free_count;
	uint32_t path_generation;
	struct ib_path **paths;
	uint32_t *path_free;
	uint32_t frame_port; /* of the frame in `frame` */
	uint32_t frame_bytes;
	uint8_t buffer[PORT_IB_BUFFER_BYTES];
	uint8_t frame[RECORD_BYTES_MAX];
};

#endif
