/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_FABRICD_CLIENT_FABRIC_FLOWS_H
#define URNIC_FABRICD_CLIENT_FABRIC_FLOWS_H

/*
 * The flows of one channel of frames (attach_protocol.h). The caller serializes all calls on a
 * list: those of the channel's sender, of its receiver and of the thread that adds flows.
 *
 * The sender uses a flow once the fabric's process has passed on all earlier frames of the channel.
 * The receiver takes the frames that came through the process before those of the flow. So the
 * frames of a queue pair stay in order.
 */

#include <stdbool.h>
#include <stdint.h>

#include "fabricd/attach_protocol.h"

struct fabric_flow {
	struct attach_flow about;
	bool is_outgoing;
	bool is_active; /* outgoing: all earlier frames have been passed on */
	bool has_sent; /* frames were sent since the last flush */
	/* Outgoing: the ring has frames that the receiver does not see, which end at `staged`. */
	bool has_staged;
	uint64_t staged;
	int wake; /* outgoing: the socket that wakes the receiver; incoming: -1 */
	bool has_room; /* outgoing: what the last flow_list_has_room() found */
	uint64_t blocked_at_ns; /* since when the ring has no room; 0: it has room */
	bool is_ending; /* incoming: the receiver takes `left` bytes more */
	uint32_t left;
	struct attach_flow_ring *shared;
};

/* Either the incoming or the outgoing flows of a channel. */
struct flow_list {
	uint32_t count;
	uint32_t next; /* index of the flow from which the receiver takes the next frame */
	uint32_t taken; /* frames that the receiver has taken from flow `next` in this turn */
	struct fabric_flow *flows[ATTACH_FLOWS_MAX];
};

enum flow_result {
	FLOW_NONE, /* the frame has no flow: it goes through the fabric */
	FLOW_SENT,
	FLOW_DISCARDED, /* its lifetime has ended before the ring had room */
};

/* Add a flow, which replaces one with the same slot. */
void flow_list_add(struct flow_list *list, struct fabric_flow *flow);
void flow_list_clear(struct flow_list *list);

/*
 * Send a frame. Its receiver sees it after the next flow_list_publish() at the latest. So an
 * acknowledgement and the program's answer behind it become visible together: the peer's program
 * finds its completion and the answer in one poll.
 */
enum flow_result flow_list_send(struct flow_list *list, struct attach_frames *shared, uint32_t port,
	const struct record_piece *pieces, uint32_t count);
/*
 * May the sender go on, on every route? It may if each flow has room for `bytes` bytes, or has been
 * full for the lifetime of a frame. Frames of such a full flow are dropped.
 */
bool flow_list_has_room(struct flow_list *list, struct attach_frames *shared, uint32_t bytes);
/*
 * The outgoing flow of a route, by its port, peer_lease, dlid, pkey and sl; NULL: its frames go
 * through the fabric.
 */
const struct fabric_flow *flow_list_find(
	const struct flow_list *list, const struct attach_flow *route);
/* Show the receivers all frames that were sent. */
void flow_list_publish(struct flow_list *list);
/*
 * Wake receivers that sleep. The caller has put a full fence between flow_list_publish() and this
 * call.
 */
void flow_list_flush(struct flow_list *list);

/* Does a frame wait? The next flow_list_receive() takes it. */
bool flow_list_has_frame(struct flow_list *list, const struct attach_frames *shared);
/* Take the frame. Returns its length; -EPROTO: the flow may not carry such a frame. */
int flow_list_receive(struct flow_list *list, uint8_t *to, uint32_t *ret_port);
/* Tell the senders whether the receiver is about to sleep. */
void flow_list_wait(struct flow_list *list, bool is_waiting);

#endif
