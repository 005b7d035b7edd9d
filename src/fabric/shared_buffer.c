/* SPDX-License-Identifier: BSD-2-Clause */
#include "fabric/shared_buffer.h"

#include <assert.h>

#include "base/arith.h"

static void shared_take(struct shared_buffer *buffer, struct priority_group *group, uint32_t bytes)
{
	group->shared_bytes += bytes;
	buffer->used_bytes += bytes;
	buffer->used_bytes_max = max_u64(buffer->used_bytes_max, buffer->used_bytes);
}

static bool shared_has_room(const struct shared_buffer *buffer, uint32_t bytes)
{
	return buffer->used_bytes + bytes <= buffer->pool_bytes;
}

bool shared_buffer_admit(struct shared_buffer *buffer, struct priority_group *group, uint32_t bytes)
{
	if (!group->is_paused && shared_has_room(buffer, bytes)) {
		/* The pool takes the whole frame, also if the frame crosses the threshold. */
		shared_take(buffer, group, bytes);
		group->is_paused = group->shared_bytes > shared_buffer_threshold(buffer);
		return true;
	}
	group->is_paused = true;
	if (bytes > group->headroom_limit - group->headroom_bytes)
		return false;
	group->headroom_bytes += bytes;
	group->headroom_bytes_max = max_u64(group->headroom_bytes_max, group->headroom_bytes);
	return true;
}

bool shared_buffer_admit_lossy(struct shared_buffer *buffer, struct priority_group *group,
	uint64_t queued_bytes, uint32_t bytes)
{
	if (!shared_has_room(buffer, bytes) ||
		queued_bytes + bytes > shared_buffer_threshold(buffer))
		return false;
	shared_take(buffer, group, bytes);
	return true;
}

static bool group_may_resume(const struct shared_buffer *buffer, const struct priority_group *group)
{
	return !group->headroom_bytes &&
		(!group->shared_bytes ||
			group->shared_bytes + buffer->xon_offset_bytes <=
				shared_buffer_threshold(buffer));
}

void shared_buffer_release(
	struct shared_buffer *buffer, struct priority_group *group, uint32_t bytes)
{
	uint64_t from_headroom = min_u64(bytes, group->headroom_bytes);
	uint64_t from_pool = bytes - from_headroom;

	assert(from_pool <= group->shared_bytes && from_pool <= buffer->used_bytes);
	group->headroom_bytes -= from_headroom;
	group->shared_bytes -= from_pool;
	buffer->used_bytes -= from_pool;
	if (group->is_paused && group_may_resume(buffer, group))
		group->is_paused = false;
}
