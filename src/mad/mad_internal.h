/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_MAD_MAD_INTERNAL_H
#define URNIC_MAD_MAD_INTERNAL_H

/* What the files of the MAD layer share. */

#include "base/deadline.h"
#include "base/list.h"
#include "mad/mad_layer.h"
#include "wire/infiniband/rmpp.h"

#define MAD_MS_NS UINT64_C(1000000)

enum {
	/* How many segments beyond those that the receiver has a sender may send. */
	RMPP_WINDOW = 64,
	/* How many segments a sender sends in a row, and how long it pauses then. */
	RMPP_BURST = 256,
	RMPP_PAUSE_MS = 1,
	/* How long a sender of segments waits for an acknowledgement. */
	RMPP_ACK_TIMEOUT_MS = 2000,
	/* How long a receiver waits for the next segment. */
	RMPP_SEGMENT_TIMEOUT_MS = 40000,
	/* How long a receiver acknowledges late segments of a message that it has delivered. */
	RMPP_LINGER_MS = 10000,
	/* How many delivered messages a port keeps for that. It forgets the oldest first. */
	RMPP_LINGERING_MAX = 256,
	MAD_SEND_BUCKETS = 512, /* of an agent, a power of two */
};

enum mad_timer_kind { MAD_TIMER_SEND, MAD_TIMER_RECEIVE };

/* A place in the layer's heap of deadlines. */
struct mad_timer {
	struct deadline deadline;
	enum mad_timer_kind kind;
};

struct mad_layer {
	const struct mad_calls *calls;
	struct deadline_heap timers;
	uint32_t timer_count; /* reserved in the heap */
};

struct mad_port {
	struct mad_layer *layer;
	void *context;
	struct list agents;
	uint32_t agent_count;
	uint32_t agent_number; /* of the last agent that was added */
	uint32_t send_count;
	uint32_t send_bytes; /* the room of all sends */
	uint32_t receive_count; /* in reassembly */
	uint32_t receive_bytes; /* the room of all messages in reassembly */
	struct list lingering; /* received messages that are delivered, oldest first */
	uint32_t lingering_count;
	struct mad_counters counters;
};

struct mad_agent {
	struct list link; /* in the port's agents */
	struct mad_port *port;
	void *context;
	uint32_t number;
	struct mad_agent_spec spec;
	struct list sends[MAD_SEND_BUCKETS]; /* by transaction ID */
	struct list receives;
};

enum mad_send_state {
	MAD_SEND_AWAITS_RESPONSE,
	MAD_SEND_AWAITS_ACK, /* waits for an ACK of segments, and may wait for a response then */
};

/* A request that has no response yet, or a message of which segments are unacknowledged. */
struct mad_send {
	struct list link; /* in one of the agent's sends */
	struct mad_timer timer;
	struct mad_agent *agent;
	enum mad_send_state state;
	struct mad_address to;
	struct mad_header header;
	uint32_t timeout_ms; /* for the response; 0: no response is expected */
	uint32_t retries; /* the first value of retries_left, also after an ACK with progress */
	uint32_t retries_left;
	/* Segments, from 1; the count is 0 unless the message is sent by RMPP. */
	uint32_t segment_count;
	uint32_t segment_sent; /* the last segment that was sent */
	uint32_t segment_acked; /* this segment and all before it are acknowledged */
	uint32_t window_last; /* the receiver takes segments up to this one */
	uint32_t count; /* the length of the message in bytes */
	uint32_t room; /* of `bytes` */
	uint8_t bytes[]; /* the message, zero up to MAD_BYTES */
};

enum mad_receive_state {
	MAD_RECEIVE_ACTIVE,
	MAD_RECEIVE_COMPLETE, /* delivered; late copies of segments are acknowledged */
};

/* A message in reassembly. */
struct mad_receive {
	struct list link; /* in the agent's receives */
	struct list lingering_link; /* in the port's `lingering`, if complete */
	struct mad_timer timer;
	struct mad_agent *agent;
	enum mad_receive_state state;
	struct mad_address from;
	struct mad_header header;
	uint32_t own_qpn;
	uint32_t segment_acked; /* this segment and all before it are here */
	uint32_t window_last;
	uint64_t beyond; /* bit N: segment segment_acked + 1 + N is here */
	uint32_t segment_last; /* 0: not known yet */
	uint32_t last_length; /* payload length of the last segment */
	uint32_t room; /* of `bytes` */
	uint8_t *bytes;
};

/* Reserve a place in the heap for a new timer, or release it. Returns 0 or -ENOMEM. */
int mad_timer_init(struct mad_layer *layer, struct mad_timer *timer, enum mad_timer_kind kind);
void mad_timer_done(struct mad_layer *layer, struct mad_timer *timer);
void mad_timer_set(
	struct mad_layer *layer, struct mad_timer *timer, uint64_t now_ns, uint64_t timeout_ms);

/* Send one MAD from the port. */
void mad_port_transmit(struct mad_port *port, uint32_t own_qpn, const struct mad_address *to,
	const uint8_t mad[MAD_BYTES]);

/* The agent for a received MAD, or NULL. */
struct mad_agent *mad_agent_find(
	struct mad_port *port, const struct mad_header *header, const uint8_t *mad);

/* --- mad_send.c --- */

/* The request that a response answers, or NULL. */
struct mad_send *mad_send_find_request(struct mad_agent *agent, const struct mad_header *response);
/* The message by RMPP that an ACK, STOP or ABORT is about, or NULL. */
struct mad_send *mad_send_find_message(
	struct mad_agent *agent, const struct mad_header *header, const struct mad_address *from);
void mad_send_destroy(struct mad_send *send);
/* Return a request or message to its agent with status ETIMEDOUT, and destroy it. */
void mad_send_give_up(struct mad_send *send);
void mad_send_expire(struct mad_send *send, uint64_t now_ns);

/* --- rmpp_send.c --- */

/* Does the message have to be segmented? */
bool rmpp_send_is_needed(const struct mad_agent *agent, const struct mad_header *header,
	const uint8_t *bytes, uint32_t count);
/*
 * Prepare a message for sending in segments. Of the RMPP header that the agent has filled in, only
 * the flag `active` counts, as in Linux: OpenSM leaves the type unset.
 */
void rmpp_send_begin(struct mad_send *send);
/* Is the sender in a pause: does the window allow segments that it has yet to send? */
bool rmpp_send_is_paused(const struct mad_send *send);
/* Send the segments that the window allows, with pauses. */
void rmpp_send_more(struct mad_send *send, uint64_t now_ns);
/* Send again from the first segment that is not acknowledged. */
void rmpp_send_again(struct mad_send *send, uint64_t now_ns);
/* An ACK, STOP or ABORT has arrived. */
void rmpp_send_control(struct mad_agent *agent, const struct mad_header *header,
	const struct rmpp_header *rmpp, const struct mad_address *from, uint32_t own_qpn,
	const uint8_t mad[MAD_BYTES], uint64_t now_ns);
/* Answer a segment or an ACK by an ABORT. */
void rmpp_abort(struct mad_port *port, uint32_t own_qpn, const struct mad_address *to,
	const uint8_t mad[MAD_BYTES], enum rmpp_status status);

/* --- rmpp_receive.c --- */

/*
 * A segment has arrived. Returns the message when it is complete, else NULL. The caller delivers
 * its bytes, and calls rmpp_receive_delivered().
 */
struct mad_receive *rmpp_receive_segment(struct mad_agent *agent, uint32_t own_qpn,
	const struct mad_address *from, const struct mad_header *header,
	const struct rmpp_header *rmpp, const uint8_t mad[MAD_BYTES], uint64_t now_ns);
uint32_t rmpp_receive_bytes(const struct mad_receive *receive);
void rmpp_receive_delivered(struct mad_receive *receive);
/* The sender has aborted the message. */
void rmpp_receive_aborted(
	struct mad_agent *agent, const struct mad_header *header, const struct mad_address *from);
void rmpp_receive_destroy(struct mad_receive *receive);
void rmpp_receive_expire(struct mad_receive *receive);

#endif
