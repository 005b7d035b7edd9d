/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Hosts that are urnic's engine: each flow is a reliable connection between two hosts, and the
 * frames are RoCEv2 packets that end in their ICRC. The sender posts WRITEs, one behind the other.
 * On InfiniBand links (infiniband/infiniband.h) the packets have an LRH instead of Ethernet, IP and
 * UDP (engine_frame.h).
 *
 * A host has a lane for each priority that its flows have. So a pause of one priority does not stop
 * the packets of another one. Acknowledgements have the priority of their flow. Congestion
 * notifications have one of their own, but wait with their flow's lane when that is paused.
 *
 * All hosts share the caller's arena, a table of regions, and two buffers, one that they read and
 * one that they write. So memory does not grow with the messages.
 */
#ifndef URNIC_FABRIC_TRAFFIC_ENGINE_HOST_H
#define URNIC_FABRIC_TRAFFIC_ENGINE_HOST_H

#include "base/arena.h"
#include "congestion/cc_params.h"
#include "fabric/fabric.h"
#include "fabric/traffic/flow.h"
#include "qp/qp.h"

struct engine_hosts_init {
	struct arena *arena; /* the caller keeps it longer than the hosts */
	uint32_t mtu_bytes; /* path MTU: 256, 512, 1024, 2048 or 4096 */
	uint32_t message_bytes; /* of a WRITE at most, 1 and up; a longer flow is several WRITEs */
	uint32_t depth; /* how many WRITEs of a flow are outstanding at once; 1 and up */
	uint32_t timeout; /* local ACK timeout, as a code */
	uint32_t retry_count; /* 0 to 7 */
	const struct cc_params *cc; /* the caller keeps it longer than the hosts; NULL: none */
	uint8_t cnp_priority;
};

/* What a frame of a RoCEv2 packet has besides the packet and its ICRC: Ethernet, IPv4, UDP, FCS. */
#define ENGINE_HOST_FRAME_BYTES (14 + 20 + 8 + 4)

/* The longest Ethernet frame at an MTU, and the longest data of a packet (fabric_config). */
uint32_t engine_host_frame_bytes(uint32_t mtu_bytes);
uint32_t engine_host_data_bytes(uint32_t mtu_bytes);

/* A host's IPv4 address: 10.0.0.1 and up. */
struct gid engine_host_address(uint32_t host);

struct engine_hosts;

/*
 * Give all hosts of a network the flows `flows`, which the caller keeps as long as the hosts.
 * payload_bytes and header_bytes of the flows are not used. The network's data_capacity is at least
 * engine_host_data_bytes(). Returns NULL without memory, or when the arena is full.
 */
struct engine_hosts *engine_hosts_create(struct fabric *fabric,
	const struct engine_hosts_init *init, struct fabric_flow *flows, uint32_t count);
void engine_hosts_destroy(struct engine_hosts *hosts);

/* The queue pairs of a flow, for their counters. */
const struct qp *engine_hosts_sender(const struct engine_hosts *hosts, uint32_t flow);
const struct qp *engine_hosts_receiver(const struct engine_hosts *hosts, uint32_t flow);

/* The buffers that all hosts read and write, of message_bytes. */
uint8_t *engine_hosts_source_buffer(struct engine_hosts *hosts);
const uint8_t *engine_hosts_target_buffer(const struct engine_hosts *hosts);

#endif
