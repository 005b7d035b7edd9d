/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TOOLS_CAPTURE_LANE_H
#define TOOLS_CAPTURE_LANE_H

/*
 * The ring of a lane, as urnic capture reads it.
 *
 * A record is a packet, an event, or the repetition of an earlier packet, which the reader keeps as
 * a model (wire/captured.h). The ring belongs to another process, which may write anything. So the
 * reader copies a record before it looks at the record.
 */

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

struct capture_lane {
	struct capture_process *process;
	struct record_ring *ring; /* NULL: the lane has none yet */
	uint64_t end; /* take the records before it */
	uint64_t dropped_before; /* value of ring->dropped that was reported */
	uint64_t dropped_there; /* value of ring->dropped at the last capture_lane_begin() */
	uint64_t dropped_due; /* value of ring->dropped before the records that are taken next */
	bool has_record;
	uint64_t dropped; /* packets lost before the record, and not reported yet */
	/* The record: a packet, or a repetition, which capture_lane_expand() turns into a packet */
	bool is_repetition;
	uint64_t time_ns;
	struct capture_repetition repetition;
	const struct captured *head;
	const uint8_t *bytes;
	struct capture_blocks *blocks; /* of the record's model; NULL: it has no model */
	struct capture_lane_model *models; /* CAPTURED_MODELS of them; NULL: none yet */
	uint8_t record[RECORD_BYTES_MAX];
	struct captured made; /* the packet of a record that is a repetition */
	uint8_t made_bytes[CAPTURED_BYTES_MAX];
};

/* Take the records that are in the ring. Returns false if there are none. */
bool capture_lane_begin(struct capture_lane *lane);

/*
 * Take the next record, if the lane has none. Returns whether it has one now. If the ring has
 * become unreadable, empty it, forget all models, and set *ret_is_broken.
 */
bool capture_lane_fill(struct capture_lane *lane, bool *ret_is_broken);

/*
 * If the record is a repetition, make `head` and `bytes` of it. Returns false, and counts the
 * record as dropped, if there is no such packet.
 */
bool capture_lane_expand(struct capture_lane *lane);

/* Forget the records that are in the ring, and those that were dropped. */
void capture_lane_skip(struct capture_lane *lane);

/* How many packets were dropped and not reported. */
uint64_t capture_lane_dropped(const struct capture_lane *lane);

void capture_lane_done(struct capture_lane *lane);

#endif
