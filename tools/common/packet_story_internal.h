/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TOOLS_PACKET_STORY_INTERNAL_H
#define TOOLS_PACKET_STORY_INTERNAL_H

/* What the files of the story share. */

#include "common/packet_story.h"
#include "qp/reason.h"
#include "wire/ip.h"
#include "wire/packet.h"

enum {
	STORY_FLOWS_MAX = 4096,
	STORY_REQUESTS = 64,
	STORY_STREAMS_MAX = 1024,
	STORY_AGAIN_BYTES = 96,
	STORY_FRAMES_MAX = 1 << 16, /* the PSNs of a flow of which the story knows the frames */
};

/* A request that names memory. */
struct story_request {
	uint32_t psn;
	uint32_t packets;
	uint32_t rkey;
	uint64_t address;
	uint32_t bytes;
	const char *name;
};

/*
 * The packets to the queue pair `qpn` of `destination`. Or, if `destination` is zero, all datagrams
 * that the queue pair `qpn` of `source` sends.
 */
struct story_flow {
	struct gid source;
	struct gid destination;
	uint32_t qpn;
	uint32_t back; /* 1 + the QPN that gets the packets of the other direction; 0: unknown */
	/* Of a flow of responses: the frame of the request that the last response answers. */
	uint32_t answered_frame;
	/* --- as the direction of requests --- */
	bool has_requests;
	uint32_t base; /* the first PSN of `frames` */
	uint32_t next; /* the PSN behind the newest request */
	uint32_t una; /* the oldest PSN without an answer */
	uint32_t frame_room; /* a power of two */
	uint32_t *frames; /* the frame in which each PSN was sent first, by PSN - base */
	uint32_t last_frame; /* of the newest request */
	uint64_t last_ns;
	bool is_after_read; /* the newest request is a READ, whose number of PSNs is unknown */
	uint32_t again_count; /* packets sent again since the last answer */
	enum story_kind answer; /* the last answer: STORY_NAK, STORY_RNR or STORY_RESPONSE */
	/* The NAK or RNR NAK for which the requester has yet to send again; STORY_REQUEST: none. */
	enum story_kind demand;
	uint32_t demand_psn;
	uint32_t demand_frame;
	/* The requester sends a series of packets again: its next PSN, and the first one's text. */
	uint32_t again_next;
	char again_text[STORY_AGAIN_BYTES];
	uint32_t request_count; /* of `requests`, modulo STORY_REQUESTS */
	struct story_request requests[STORY_REQUESTS];
	/* --- unreliable connections, and the datagrams of a sender --- */
	bool is_numbered; /* `expected` is known */
	uint32_t expected; /* the PSN behind the newest packet */
	uint32_t in_order_count; /* of datagrams since the last gap */
};

/* One direction of a TCP connection that began with MPA. */
struct story_stream {
	struct gid source;
	struct gid destination;
	uint16_t source_port;
	uint16_t destination_port;
	uint32_t next; /* TCP sequence number */
	uint32_t frame;
};

struct story {
	uint32_t flow_count;
	struct story_flow *flows[STORY_FLOWS_MAX];
	uint32_t stream_count;
	struct story_stream streams[STORY_STREAMS_MAX];
	uint32_t unanswered; /* the next flow for story_next_unanswered() */
};

/* An IP packet. */
struct story_ip {
	struct ip_header header;
	const uint8_t *bytes; /* the header */
	const uint8_t *data; /* behind the header */
	uint32_t count; /* captured bytes of `data` */
	uint32_t whole; /* bytes that `data` had */
};

/* Take a TCP packet. Returns false if it is not of a connection that began with MPA. */
bool story_tcp_take(struct story *story, const struct story_ip *ip, struct story_entry *entry);

/* Take a packet of an unreliable connection. */
void story_unreliable_take(struct story_flow *flow, struct story_entry *entry);

/* Take a datagram. `flow` is that of its sender. */
void story_datagram_take(struct story_flow *flow, struct story_entry *entry);

/* Take a datagram to QP1. */
void story_mad_take(const struct packet *packet, struct story_entry *entry);

/* Set the text of an entry. */
void story_say(struct story_entry *entry, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static inline void story_reason(struct story_entry *entry, enum reason reason)
{
	if (entry->reason_count < STORY_REASONS_MAX)
		entry->reasons[entry->reason_count++] = (uint16_t)reason;
}

#endif
