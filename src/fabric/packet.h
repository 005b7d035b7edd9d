/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A frame in the simulated network, and the pool that frames come from.
 *
 * The sending host fills in a frame. The network passes it from port to port by pointer, and gives
 * it back to the pool when a host has received it or a switch has dropped it. `data` is the host's:
 * the network never looks at it. InfiniBand's ports write their virtual lane into its LRH.
 */
#ifndef URNIC_FABRIC_PACKET_H
#define URNIC_FABRIC_PACKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The ECN bits of the IP header (RFC 3168). */
enum fabric_ecn {
	FABRIC_ECN_NONE = 0,
	FABRIC_ECN_CAPABLE = 2,
	FABRIC_ECN_MARKED = 3,
};

struct fabric_packet {
	struct fabric_packet *next; /* in a queue, on a link or in the pool */
	union {
		uint64_t at_ps; /* on a link: when its last bit arrives */
		uint64_t queued_ps; /* in an egress queue: since when */
	};
	uint64_t paused_before_ps; /* how long the peer had paused the queue until queued_ps */
	uint64_t number; /* within its flow, as the sending host counts */
	uint32_t flow; /* as the hosts count flows */
	uint32_t source; /* host */
	uint32_t destination; /* host; of a multicast packet: the group */
	uint32_t bytes; /* of the Ethernet frame, FCS included; InfiniBand: from LRH to VCRC */
	/* The port through which it entered the switch that it is in; of a copy: a hold's number */
	uint32_t ingress;
	uint16_t data_bytes;
	union {
		uint16_t source_port; /* UDP; chooses among equal paths */
		uint16_t pkey; /* InfiniBand */
	};
	uint8_t priority; /* 0 to 7: given by its host, then anew by each switch */
	uint8_t dscp; /* 0 to 63 */
	uint8_t ecn; /* enum fabric_ecn */
	bool is_cnp : 1; /* a congestion notification of a plain source */
	bool is_nak : 1; /* a plain source asks for `number` and what is behind it */
	bool is_management : 1; /* InfiniBand: it has lane 15 */
	/* InfiniBand: a flow control packet of lane `vl`; `number` is FCTBS << 16 | FCCL */
	bool is_link : 1;
	bool is_multicast : 1; /* InfiniBand */
	bool is_copy : 1; /* InfiniBand: one of several in a switch (infiniband/copies.c) */
	uint8_t pause_vector; /* the priorities that a PFC frame names; 0: no PFC frame */
	uint8_t pause_on; /* those of them that stop */
	/* InfiniBand */
	uint8_t vl; /* of the queue or the link that it is in */
	uint8_t ingress_vl; /* with which it entered the switch that it is in */
	uint8_t data[];
};

/* Between two hops the packet leaves the caches. Its struct is one cache line: one miss per hop. */
_Static_assert(sizeof(struct fabric_packet) == 64, "a packet without its data is a cache line");

/* Is the packet one of the link, and not of a host: a PFC frame or a flow control packet? */
static inline bool packet_is_of_link(const struct fabric_packet *packet)
{
	return packet->pause_vector || packet->is_link;
}

struct packet_pool {
	struct fabric_packet *free;
	struct packet_chunk *chunks;
	uint32_t data_capacity; /* of each packet, in bytes; set before the first use */
	uint64_t used; /* packets that are not in the pool */
};

/* Take a packet. All fields are zero but `data`, which is not cleared. NULL: no memory. */
struct fabric_packet *packet_pool_take(struct packet_pool *pool);
void packet_pool_return(struct packet_pool *pool, struct fabric_packet *packet);
void packet_pool_done(struct packet_pool *pool);

/* A queue of packets, first in first out. */
struct packet_queue {
	struct fabric_packet *first;
	struct fabric_packet *last;
};

static inline void packet_queue_push(struct packet_queue *queue, struct fabric_packet *packet)
{
	packet->next = NULL;
	if (queue->first)
		queue->last->next = packet;
	else
		queue->first = packet;
	queue->last = packet;
}

/* Take the first packet of a queue, which is not empty. */
static inline struct fabric_packet *packet_queue_pop(struct packet_queue *queue)
{
	struct fabric_packet *packet = queue->first;

	queue->first = packet->next;
	return packet;
}

#endif
