/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TOOLS_CAPTURE_LANE_H
#define TOOLS_CAPTURE_LANE_H

/*
 * The ring of a lane, as urnic capture reads it.
 *
 * A record is a packet, an event, or the repetition of an earlier packet (wire/captured.h), which
 * is kept as a model. The ring is another process's, which may write anything, so the lane moves
 * records to its own memory before it looks at them. There they also wait while the output is
 * slower than the process.
 */

#include <stdalign.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/record_ring.h"
#include "capture/capture_block.h"
#include "wire/captured.h"

struct capture_process;

/* A model of the lane, and the blocks that the output keeps of its packets. */
struct capture_lane_model {
	struct captured_model model;
	struct capture_blocks blocks;
};

/* Records that were moved out of the ring at once. */
struct capture_chunk {
	struct capture_chunk *next;
	uint64_t dropped; /* value of ring->dropped before these records */
	uint64_t bytes;
	alignas(8) uint8_t records[];
};

struct capture_lane {
	struct capture_process *process;
	struct record_ring *ring; /* NULL: the lane has none yet */
	uint64_t dropped_before; /* value of ring->dropped that was reported */
	uint64_t dropped_there; /* value of ring->dropped when records were moved last */
	struct capture_chunk *first, *last; /* the records that were moved */
	uint64_t at; /* so many bytes of the first chunk were taken */
	uint64_t held_bytes; /* of all chunks */
	bool is_broken; /* behind these records the ring was unreadable */
	bool has_record;
	uint32_t record_bytes;
	uint64_t dropped; /* packets lost before the record, and not reported yet */
	/* The record: a packet, or a repetition, which capture_lane_expand() turns into a packet */
	bool is_repetition;
	uint64_t time_ns;
	struct capture_repetition repetition;
	const struct captured *head;
	const uint8_t *bytes;
	struct capture_blocks *blocks; /* of the record's model; NULL: it has no model */
	struct capture_lane_model *models; /* CAPTURED_MODELS of them; NULL: none yet */
	struct captured made; /* of a record that is a repetition */
	uint8_t made_bytes[CAPTURED_BYTES_MAX];
};

/*
 * Move the records that are in the ring to the lane's memory. `room_bytes` is how many the lanes
 * may hold in addition, negative if they hold too many already. A lane without records may exceed
 * this by CAPTURE_HELD_BYTES_MAX, because its first record is needed to write those of all lanes by
 * their times. What has no room, or no memory, stays in the ring. Returns whether the lane has any
 * records.
 */
enum { CAPTURE_HELD_BYTES_MAX = 1 << 28 };
bool capture_lane_move(struct capture_lane *lane, int64_t room_bytes);

/*
 * Take the next of the lane's records, if none is taken. Returns whether one is. If the ring has
 * been unreadable, *ret_is_broken is set: the lane does not know any model then.
 */
bool capture_lane_fill(struct capture_lane *lane, bool *ret_is_broken);

/*
 * If the record is a repetition, make `head` and `bytes` of it. Returns false, and counts the
 * record as dropped, if there is no such packet.
 */
bool capture_lane_expand(struct capture_lane *lane);

/* Forget the records that are in the ring, and those that were dropped. No others were moved. */
void capture_lane_skip(struct capture_lane *lane);

/* How many packets were dropped and not reported. */
uint64_t capture_lane_dropped(const struct capture_lane *lane);

void capture_lane_done(struct capture_lane *lane);

#endif
