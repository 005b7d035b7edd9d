/* SPDX-License-Identifier: BSD-2-Clause */
#include "capture/capture_lane.h"

#include <stdlib.h>
#include <string.h>

uint64_t capture_lane_dropped(const struct capture_lane *lane)
{
	return lane->ring ? atomic_load(&lane->ring->dropped) - lane->dropped_before : 0;
}

void capture_lane_skip(struct capture_lane *lane)
{
	record_ring_skip(lane->ring);
	lane->dropped_before = atomic_load(&lane->ring->dropped);
	lane->dropped_there = lane->dropped_before;
}

/* --- the records that were moved --- */

static void chunk_done(struct capture_lane *lane)
{
	struct capture_chunk *chunk = lane->first;

	lane->held_bytes -= chunk->bytes;
	lane->first = chunk->next;
	lane->at = 0;
	free(chunk);
}

void capture_lane_done(struct capture_lane *lane)
{
	while (lane->first)
		chunk_done(lane);
	free(lane->models);
}

static void chunk_append(struct capture_lane *lane, struct capture_chunk *chunk)
{
	if (lane->first)
		lane->last->next = chunk;
	else
		lane->first = chunk;
	lane->last = chunk;
	lane->held_bytes += chunk->bytes;
}

/* Move `bytes` out of the ring. Returns false when out of memory. */
static bool records_move(struct capture_lane *lane, uint64_t bytes)
{
	struct capture_chunk *chunk =
		malloc(sizeof(*chunk) + (bytes > RECORD_RING_BYTES ? 0 : bytes));

	if (!chunk)
		return false;
	*chunk = (struct capture_chunk){.dropped = lane->dropped_there, .bytes = bytes};
	if (record_ring_move(lane->ring, bytes, chunk->records)) {
		chunk_append(lane, chunk);
	} else {
		lane->is_broken = true;
		free(chunk);
	}
	return true;
}

/*
 * What was dropped when the ring was full is missing behind the records that were in it. So the
 * records that are moved now follow what was dropped before the last move.
 */
bool capture_lane_move(struct capture_lane *lane, int64_t room_bytes)
{
	uint64_t dropped = atomic_load(&lane->ring->dropped);
	uint64_t bytes = record_ring_written(lane->ring) - atomic_load(&lane->ring->read);
	/* An impossible number of bytes needs no room. */
	int64_t needed = bytes > RECORD_RING_BYTES ? 0 : (int64_t)bytes;

	if (!lane->first)
		room_bytes += CAPTURE_HELD_BYTES_MAX;
	if (!lane->is_broken && needed <= room_bytes && (!bytes || records_move(lane, bytes)))
		lane->dropped_there = dropped;
	return lane->has_record || lane->first || lane->is_broken;
}

/* --- one record --- */

/* Keep a packet as a model of the lane. Returns the model's blocks; NULL: out of memory. */
static struct capture_blocks *model_keep(
	struct capture_lane *lane, const struct captured *head, const uint8_t *bytes)
{
	struct capture_lane_model *model;

	if (!lane->models)
		lane->models = calloc(CAPTURED_MODELS, sizeof(*lane->models));
	if (!lane->models)
		return NULL;
	model = &lane->models[head->model % CAPTURED_MODELS];
	captured_model_keep(&model->model, head, bytes);
	model->blocks.packet.count = 0;
	model->blocks.answer.count = 0;
	return &model->blocks;
}

/* Read the record as a packet or an event. */
static bool packet_read(struct capture_lane *lane, const uint8_t *record, uint32_t count)
{
	const struct captured *head = (const void *)record;

	if (count < sizeof(*head) || head->captured_bytes > count - sizeof(*head))
		return false;
	lane->is_repetition = false;
	lane->time_ns = head->time_ns;
	lane->head = head;
	lane->bytes = record + sizeof(*head);
	lane->blocks = head->model & CAPTURED_MODEL ? model_keep(lane, head, lane->bytes) : NULL;
	return true;
}

/* Take a repetition of the model with this number, whose fields and payload are given. */
static bool repetition_take(struct capture_lane *lane, struct capture_lane_model *model,
	const uint8_t *payload, uint32_t count)
{
	lane->is_repetition = true;
	lane->time_ns = model->model.last.time_ns;
	lane->blocks = &model->blocks;
	lane->repetition =
		(struct capture_repetition){&model->model, &model->model.last, payload, count};
	return model->model.head.model != 0;
}

static bool repetition_read(struct capture_lane *lane, const uint8_t *record, uint32_t count)
{
	const struct captured_repeat *repeat = (const void *)record;
	struct capture_lane_model *model;

	if (count < sizeof(*repeat) || !lane->models)
		return false;
	model = &lane->models[repeat->msn >> U24_BITS];
	model->model.last = *repeat;
	return repetition_take(
		lane, model, record + sizeof(*repeat), count - (uint32_t)sizeof(*repeat));
}

static bool step_read(struct capture_lane *lane, const uint8_t *record, uint32_t count)
{
	const struct captured_step *step = (const void *)record;
	struct capture_lane_model *model;

	if (count < sizeof(*step) || !lane->models)
		return false;
	model = &lane->models[captured_step_model(step)];
	return captured_step_take(&model->model, step) &&
		repetition_take(
			lane, model, record + sizeof(*step), count - (uint32_t)sizeof(*step));
}

bool capture_lane_expand(struct capture_lane *lane)
{
	const struct capture_repetition *repetition = &lane->repetition;

	if (!lane->is_repetition)
		return true;
	lane->head = &lane->made;
	lane->bytes = lane->made_bytes;
	if (captured_repeat_make(repetition->model, repetition->repeat, repetition->payload,
		    repetition->count, &lane->made, lane->made_bytes))
		return true;
	lane->dropped++;
	return false;
}

static bool record_read(struct capture_lane *lane, const uint8_t *record, uint32_t count)
{
	uint32_t word = 0;

	lane->record_bytes = count;
	if (count >= sizeof(word))
		memcpy(&word, record, sizeof(word));
	if (!(word & CAPTURED_REPEAT))
		return packet_read(lane, record, count);
	return word & CAPTURED_STEP ? step_read(lane, record, count)
				    : repetition_read(lane, record, count);
}

/* Take the next record of the first chunk. */
static void record_take(struct capture_lane *lane)
{
	struct capture_chunk *chunk = lane->first;
	uint32_t count = 0;
	const uint8_t *record =
		record_first(chunk->records + lane->at, chunk->bytes - lane->at, &count);

	if (!record) {
		lane->is_broken |= lane->at < chunk->bytes;
		chunk_done(lane);
		return;
	}
	lane->at += record_room(count);
	lane->dropped += chunk->dropped - lane->dropped_before;
	lane->dropped_before = chunk->dropped;
	lane->has_record = record_read(lane, record, count);
	lane->dropped += !lane->has_record;
}

bool capture_lane_fill(struct capture_lane *lane, bool *ret_is_broken)
{
	while (!lane->has_record && lane->first)
		record_take(lane);
	if (!lane->has_record && lane->is_broken) {
		lane->is_broken = false;
		free(lane->models);
		lane->models = NULL;
		*ret_is_broken = true;
	}
	return lane->has_record;
}
