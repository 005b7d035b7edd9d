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
	lane->dropped_there = lane->dropped_due = lane->dropped_before;
}

void capture_lane_done(struct capture_lane *lane)
{
	free(lane->models);
}

/*
 * Each read of `written` and `dropped` takes a cache line from the lane, so the reader reads both
 * once for many records. What was dropped when the ring was full is missing behind the records that
 * were in it.
 */
bool capture_lane_begin(struct capture_lane *lane)
{
	lane->dropped_due = lane->dropped_there;
	lane->dropped_there = atomic_load(&lane->ring->dropped);
	lane->end = record_ring_written(lane->ring);
	return lane->has_record || lane->end != atomic_load(&lane->ring->read);
}

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
static bool packet_read(struct capture_lane *lane, uint32_t count)
{
	const struct captured *head = (const void *)lane->record;

	if (count < sizeof(*head) || head->captured_bytes > count - sizeof(*head))
		return false;
	lane->is_repetition = false;
	lane->time_ns = head->time_ns;
	lane->head = head;
	lane->bytes = lane->record + sizeof(*head);
	lane->blocks = head->model & CAPTURED_MODEL ? model_keep(lane, head, lane->bytes) : NULL;
	return true;
}

static bool repetition_read(struct capture_lane *lane, uint32_t count)
{
	const struct captured_repeat *repeat = (const void *)lane->record;
	struct capture_lane_model *model;

	if (count < sizeof(*repeat) || !lane->models)
		return false;
	model = &lane->models[repeat->msn >> U24_BITS];
	lane->is_repetition = true;
	lane->time_ns = repeat->time_ns;
	lane->blocks = &model->blocks;
	lane->repetition = (struct capture_repetition){&model->model, repeat,
		lane->record + sizeof(*repeat), count - (uint32_t)sizeof(*repeat)};
	return model->model.head.model != 0;
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

static bool record_read(struct capture_lane *lane, uint32_t count)
{
	uint32_t word = 0;

	if (count >= sizeof(word))
		memcpy(&word, lane->record, sizeof(word));
	return word & CAPTURED_REPEAT ? repetition_read(lane, count) : packet_read(lane, count);
}

bool capture_lane_fill(struct capture_lane *lane, bool *ret_is_broken)
{
	int count;

	while (!lane->has_record &&
		(count = record_ring_take_before(lane->ring, lane->end, lane->record)) > 0) {
		lane->dropped += lane->dropped_due - lane->dropped_before;
		lane->dropped_before = lane->dropped_due;
		lane->has_record = record_read(lane, (uint32_t)count);
		lane->dropped += !lane->has_record;
	}
	if (!lane->has_record && count < 0) {
		lane->end = atomic_load(&lane->ring->read);
		free(lane->models);
		lane->models = NULL;
		*ret_is_broken = true;
	}
	return lane->has_record;
}
