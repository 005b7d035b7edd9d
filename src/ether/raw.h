/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_ETHER_RAW_H
#define URNIC_ETHER_RAW_H

/*
 * Raw packet queue pairs: whole Ethernet frames through work queues.
 *
 * A send request is one frame, gathered as it is, without FCS; a received frame that a flow rule
 * steers here takes one receive request. There is no peer, no header of ours and nothing to
 * acknowledge: a send is complete when the interface has taken it.
 *
 * Frames do not travel with the lane's packets. Queue pairs with frames to send wait in
 * lane->tx_frames; the runtime takes frames from the first one, in batches, and says how many went:
 *
 *     raw_next_frame() ... raw_next_frame(), then raw_frames_sent() and, if it was not all,
 *     raw_frames_blocked() or raw_frame_dropped()
 *
 * With an indirection table a queue pair only receives: each frame goes to the work queue that its
 * hash picks.
 *
 * A frame longer than its receive request completes that request with a length error and nothing
 * else: whoever can send us frames must not be able to stop the queue pair.
 */

#include <stdbool.h>

#include "ether/flow.h"
#include "ether/rss.h"
#include "ether/wq.h"
#include "qp/qp.h"

enum { RAW_TABLE_MAX = 128 };

/* How long to wait for an interface that takes no more. */
#define RAW_BLOCKED_NS 100000

/* An indirection table: which work queue takes which hash. */
struct raw_spread {
	uint32_t
		count; /* a power of two up to RAW_TABLE_MAX; 0: the queue pair has its own queue */
	uint32_t fields; /* enum rss_field */
	uint8_t key[RSS_KEY_BYTES];
	struct wq *table[RAW_TABLE_MAX];
};

struct raw_qp {
	struct qp qp;
	uint32_t
		taken; /* frames that raw_next_frame() has given out and nobody has accounted for */
	uint32_t ifindex;
	uint32_t frame_bytes_max; /* the longest the interface takes, without FCS */
	struct raw_spread spread;
};

extern const struct qp_transport raw_transport;

static inline struct raw_qp *raw_from_qp(struct qp *qp)
{
	return container_of(qp, struct raw_qp, qp);
}

/* A new queue pair gets to know its interface. */
void raw_attach(struct raw_qp *raw, uint32_t ifindex, uint32_t frame_bytes_max);

/*
 * Gather the next frame.
 *
 * `buffer`  Room for frame_bytes_max.
 *
 * Returns its length; 0 when there is none now, or none may go yet for the queue pair's rate. A
 * request that cannot be sent is completed with its fault, and the queue pair goes to the error
 * state.
 */
uint32_t raw_next_frame(struct raw_qp *raw, uint8_t *buffer, uint64_t now_ns);

/*
 * The interface has taken the first `count` frames given out; the others will be given out again.
 */
void raw_frames_sent(struct raw_qp *raw, uint32_t count, uint64_t now_ns);

/* The interface takes no more: leave the list, and come back in a moment. */
void raw_frames_blocked(struct raw_qp *raw, uint64_t now_ns);

/* The first frame cannot be sent, now or later: it is lost, as a wire loses frames. */
void raw_frame_dropped(struct raw_qp *raw, uint64_t now_ns);

/* The queue pair of this lane whose turn it is to send frames, or NULL. */
static inline struct raw_qp *raw_first(struct lane *lane)
{
	return list_is_empty(&lane->tx_frames)
		? NULL
		: list_first(&lane->tx_frames, struct raw_qp, qp.tx_link);
}

/*
 * A frame was seen on the interface.
 *
 * `table`         The rules; NULL for none.
 * `bytes`         From the destination address on, without FCS. Anything is legal input.
 * `count`         How many.
 * `is_departing`  This host sends it to somebody else.
 */
void raw_receive(struct raw_qp *raw, const struct flow_table *table, const uint8_t *bytes,
	uint32_t count, bool is_departing, uint64_t now_ns);

#endif
