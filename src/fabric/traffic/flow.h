/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A flow: what one host sends to another, and what has become of it. A multicast flow of InfiniBand
 * goes to all members of a group but its source.
 *
 * The caller sets the first part and keeps the flow as long as the hosts that send it. The hosts
 * (source.h, engine_host.h) keep the second part up to date.
 */
#ifndef URNIC_FABRIC_TRAFFIC_FLOW_H
#define URNIC_FABRIC_TRAFFIC_FLOW_H

#include <stdbool.h>
#include <stdint.h>

struct fabric_flow {
	uint32_t source; /* host */
	uint32_t destination; /* another host; of a multicast flow: a group */
	bool is_multicast; /* InfiniBand, plain sources without recovery */
	uint16_t pkey; /* InfiniBand; 0: 0xffff, the default partition */
	uint16_t source_port; /* UDP; chooses among equal paths */
	uint8_t priority; /* 0 to 7, at its source */
	uint8_t dscp; /* 0 to 63; switches may have priorities of their own for it */
	bool is_ecn_capable;
	uint32_t payload_bytes; /* of each frame but the last, 1 and up */
	uint32_t header_bytes; /* what a frame of a plain source has besides its payload */
	uint32_t rate_mbps; /* the most that it sends; 0: the line's rate */
	uint64_t bytes; /* payload to send; 0: without end */
	uint64_t start_ps; /* FABRIC_NEVER: when the flow that it follows has arrived */
	uint32_t follower; /* the flow that begins when this one has arrived; 0: none */

	uint64_t sent_bytes; /* payload, retransmissions included */
	/* Payload, each byte once; go-back-0: of whole messages; multicast: of all receivers */
	uint64_t received_bytes;
	uint32_t receivers; /* plain source: 1; multicast: the members but its source */
	uint64_t received_frames; /* retransmissions included */
	uint64_t marked_frames; /* received with a congestion mark */
	uint64_t cnp_count; /* congestion notifications that its receiver has sent */
	uint64_t finish_ps; /* plain source: its last byte arrived; engine: it is acknowledged */
	uint64_t next_ps; /* plain source: when it may send again */
	bool has_failed; /* engine: a request has failed, so the queue pair sends nothing more */
};

#endif
