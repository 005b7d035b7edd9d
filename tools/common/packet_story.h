/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TOOLS_PACKET_STORY_H
#define TOOLS_PACKET_STORY_H

/*
 * What the packets of a capture mean together: which packet is sent again and why, what an
 * acknowledgement or a refusal answers, and which checks may have refused a request.
 *
 * The caller passes the frames in their order. The story knows RoCEv2 (also the messages of the
 * connection manager), and of iWARP the opening of a connection, the first segment of each TCP
 * packet, and Terminate messages. Frames are hostile input: the story keeps a few bytes for each of
 * the last 2^16 PSNs of a flow.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/gid.h"
#include "common/capture_file.h"

enum story_kind {
	STORY_REQUEST,
	STORY_RESPONSE,
	STORY_DATAGRAM, /* UD, and messages of the connection manager */
	STORY_AGAIN, /* a packet that was sent before */
	STORY_NAK, /* refused: NAK, REJ, Terminate */
	STORY_RNR,
	STORY_MARK, /* CNP, or a packet with a congestion mark */
	STORY_DAMAGED, /* the receiver drops it: ICRC, malformed */
	STORY_MISSING, /* UC and UD: packets before it are missing, or it comes late */
	STORY_UNANSWERED, /* at the end: requests without an answer */
};

enum { STORY_REASONS_MAX = 8, STORY_TEXT_BYTES = 320, STORY_NAME_BYTES = 40 };

struct story_entry {
	enum story_kind kind;
	uint32_t number; /* of the frame */
	uint64_t time_ns;
	struct gid source;
	struct gid destination;
	uint32_t qpn; /* of the receiver; 0: unknown */
	uint32_t from_qpn; /* of the sender; 0: unknown */
	uint32_t psn;
	uint32_t bytes; /* of payload */
	bool is_response; /* from a responder to a requester */
	uint32_t about; /* the frame that this one answers or repeats; 0: none is known */
	char name[STORY_NAME_BYTES]; /* "RC_WRITE_ONLY", "REJ" */
	char text[STORY_TEXT_BYTES]; /* what was seen; "": nothing of note */
	/*
	 * Rows of queue/reason.def: first the reason that the sender of the request reports, then
	 * the possible causes at the receiver.
	 */
	uint32_t reason_count;
	uint16_t reasons[STORY_REASONS_MAX];
};

struct story;

/* Returns NULL when out of memory. */
struct story *story_create(void);
void story_destroy(struct story *story);

/* Take the next frame. Returns false for a frame that is not RDMA's. */
bool story_take(
	struct story *story, const struct capture_file_frame *frame, struct story_entry *ret_entry);

/*
 * After the last frame: the next flow whose last requests have no answer. Returns false when there
 * is none.
 */
bool story_next_unanswered(struct story *story, struct story_entry *ret_entry);

/* Is the entry one that says what went wrong? */
static inline bool story_is_trouble(const struct story_entry *entry)
{
	return entry->kind >= STORY_AGAIN && entry->kind != STORY_MARK;
}

#endif
