/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_ETHER_RAW_H
#define URNIC_ETHER_RAW_H

/*
 * Raw packet queue pairs: whole Ethernet frames through work queues.
 *
 * A send request is one frame without FCS. A received frame takes a receive request of each queue
 * pair that a flow rule steers it to. There is no peer, no header of urnic and no acknowledgement:
 * a send is complete when the interface has taken the frame.
 *
 * Frames do not travel with the lane's packets. Queue pairs with frames to send wait in
 * lane->tx_frames. The worker takes frames from the first queue pair, in batches, and reports how
 * many the interface took:
 *
 *     raw_next_frame() ... raw_next_frame(), then raw_frames_sent() and, if frames are left,
 *     raw_frames_blocked() or raw_frame_dropped()
 *
 * A queue pair with an indirection table only receives: each frame goes to the work queue that the
 * frame's hash selects.
 *
 * A frame longer than its receive request completes that request with a length error. The queue
 * pair goes on, because any host on the link can send such a frame.
 */

#include <stdbool.h>

#include "ether/flow.h"
#include "ether/rss.h"
#include "ether/wq.h"
#include "qp/qp.h"

enum { RAW_TABLE_MAX = 128 };

/* The time until the next attempt to send when the interface takes no more frames. */
#define RAW_BLOCKED_NS 100000

/* An indirection table: from hashes to work queues. */
struct raw_spread {
	/* A power of two up to RAW_TABLE_MAX; 0: the queue pair has its own queue. */
	uint32_t count;
	uint32_t fields; /* enum rss_field */
	uint8_t key[RSS_KEY_BYTES];
	struct wq *table[RAW_TABLE_MAX];
};

struct raw_qp {
	struct qp qp;
	uint32_t taken; /* frames from raw_next_frame() since the last raw_frames_sent() */
	uint32_t ifindex;
	uint32_t frame_bytes_max; /* length of the longest frame that the interface takes, no FCS */
	struct raw_spread spread;
};

extern const struct qp_transport raw_transport;

static inline struct raw_qp *raw_from_qp(struct qp *qp)
{
	return container_of(qp, struct raw_qp, qp);
}

void raw_attach(struct raw_qp *raw, uint32_t ifindex, uint32_t frame_bytes_max);

/*
 * Gather the next frame.
 *
 * `buffer`  Has room for frame_bytes_max bytes.
 *
 * Returns the frame's length; 0 when there is no frame, or the queue pair's rate allows none yet. A
 * request that cannot be sent completes with its fault, and the queue pair goes to the error state.
 */
uint32_t raw_next_frame(struct raw_qp *raw, uint8_t *buffer, uint64_t now_ns);

/*
 * The interface has taken the first `count` of the frames that raw_next_frame() has returned since
 * the last call. raw_next_frame() will return the others again.
 */
void raw_frames_sent(struct raw_qp *raw, uint32_t count, uint64_t now_ns);

/*
 * The interface takes no more frames now: remove the queue pair from lane->tx_frames, and try again
 * after RAW_BLOCKED_NS.
 */
void raw_frames_blocked(struct raw_qp *raw, uint64_t now_ns);

/* The interface refuses the first frame for good. The frame counts as lost on the wire. */
void raw_frame_dropped(struct raw_qp *raw, uint64_t now_ns);

/* The next queue pair of this lane to send frames, or NULL. */
static inline struct raw_qp *raw_first(struct lane *lane)
{
	return list_is_empty(&lane->tx_frames)
		? NULL
		: list_first(&lane->tx_frames, struct raw_qp, qp.tx_link);
}

/*
 * Receive a frame of the interface.
 *
 * `table`         The rules; NULL for none.
 * `bytes`         From the destination address on, without FCS. Anything is legal input.
 * `count`         The frame's length.
 * `is_departing`  This host sends the frame to another host.
 */
void raw_receive(struct raw_qp *raw, const struct flow_table *table, const uint8_t *bytes,
	uint32_t count, bool is_departing, uint64_t now_ns);

#endif
