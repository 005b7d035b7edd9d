/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The memory of a switch, shared by its ports, and accounted at the ingress.
 *
 * Frames of one ingress port and one priority are a priority group. A group may use the shared
 * pool up to a threshold that all groups share and that shrinks as the pool fills:
 *
 *     threshold = (pool - used) * 2^dynamic_th
 *
 * A lossless group that has passed its threshold pauses its sender, and so does one whose frame
 * finds the pool full. This frame, and what arrives after the threshold is passed, goes into the
 * group's own headroom, until the group resumes the sender. A frame that the headroom cannot hold
 * is dropped, which a large enough headroom prevents.
 *
 * A lossy frame has no headroom: a full pool drops it, and so does an egress queue that is longer
 * than the threshold.
 */
#ifndef URNIC_FABRIC_SHARED_BUFFER_H
#define URNIC_FABRIC_SHARED_BUFFER_H

#include <stdbool.h>
#include <stdint.h>

struct shared_buffer {
	uint64_t pool_bytes;
	uint64_t used_bytes;
	uint64_t used_bytes_max; /* the most so far */
	int32_t dynamic_th; /* -16 to 16 */
	uint32_t xon_offset_bytes; /* how far below its threshold a group resumes its sender */
};

struct priority_group {
	uint64_t shared_bytes;
	uint64_t headroom_bytes;
	uint64_t headroom_bytes_max; /* the most so far */
	uint64_t headroom_limit;
	bool is_paused; /* its sender is told to pause */
};

static inline uint64_t shared_buffer_threshold(const struct shared_buffer *buffer)
{
	uint64_t left = buffer->used_bytes < buffer->pool_bytes
		? buffer->pool_bytes - buffer->used_bytes
		: 0;

	return buffer->dynamic_th < 0 ? left >> -buffer->dynamic_th : left << buffer->dynamic_th;
}

/*
 * Admit a frame of a lossless group, or return false: it is dropped. group->is_paused tells
 * afterwards whether the sender has to pause.
 */
bool shared_buffer_admit(
	struct shared_buffer *buffer, struct priority_group *group, uint32_t bytes);

/* Admit a lossy frame for an egress queue that holds `queued_bytes`. */
bool shared_buffer_admit_lossy(struct shared_buffer *buffer, struct priority_group *group,
	uint64_t queued_bytes, uint32_t bytes);

/*
 * A frame of the group leaves. Headroom becomes free first. group->is_paused tells afterwards
 * whether the sender still has to pause.
 */
void shared_buffer_release(
	struct shared_buffer *buffer, struct priority_group *group, uint32_t bytes);

#endif
