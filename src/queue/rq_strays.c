/* SPDX-License-Identifier: BSD-2-Clause */
#include "queue/rq_strays.h"

#include <string.h>

static uint64_t strays_bytes(uint32_t count, uint32_t stride_bytes)
{
	return sizeof(struct recv_strays) + (uint64_t)count * sizeof(uint32_t) +
		(uint64_t)count * (sizeof(struct recv_stray) + stride_bytes) + RQ_LINE_BYTES;
}

uint64_t rq_strays_create(struct arena *arena, uint32_t capacity, uint32_t stride_bytes)
{
	uint32_t count = max_u32(capacity, RECV_STRAYS_MIN);
	uint64_t offset = arena_alloc(arena, strays_bytes(count, stride_bytes));

	if (offset)
		((struct recv_strays *)arena_at(arena, offset))->count = count;
	return offset;
}

/* The stray at `place`, counted from 1. */
static struct recv_stray *stray_at(
	const struct recv_queue *rq, struct recv_strays *strays, uint32_t place)
{
	uintptr_t start = align_up_u64((uintptr_t)&strays->first[strays->count], RQ_LINE_BYTES);

	return (struct recv_stray *)(start +
		(uint64_t)(place - 1) * (sizeof(struct recv_stray) + rq->stride_bytes));
}

/* Take the stray of request number `taken` out of its chain. Returns NULL when there is none. */
static struct recv_stray *stray_take(
	const struct recv_queue *rq, struct recv_strays *strays, uint32_t taken)
{
	uint32_t *at = &strays->first[taken & (strays->count - 1)];

	while (*at) {
		struct recv_stray *stray = stray_at(rq, strays, *at);

		if (stray->taken == taken) {
			*at = stray->next;
			stray->is_out = 0;
			return stray;
		}
		at = &stray->next;
	}
	return NULL;
}

void rq_stray_put(const struct recv_queue *rq, struct recv_strays *strays,
	const struct recv_slot *slot, uint32_t taken)
{
	uint32_t *first = &strays->first[taken & (strays->count - 1)];
	uint32_t place = strays->turn++ % strays->count + 1;
	struct recv_stray *stray = stray_at(rq, strays, place);

	if (stray->is_out)
		stray_take(rq, strays, stray->taken);
	memcpy(&stray->slot, slot, rq->stride_bytes);
	stray->taken = taken;
	stray->is_out = 1;
	stray->next = *first;
	*first = place;
}

bool rq_stray_redeem(struct recv_queue *rq, uint32_t taken, struct recv_wqe *ret_wqe)
{
	struct recv_strays *strays = rq_strays(rq);
	const struct recv_stray *stray = strays ? stray_take(rq, strays, taken) : NULL;

	if (!stray)
		return false;
	rq_slot_copy(ret_wqe, &stray->slot, stray->slot.sge_count);
	return true;
}

void rq_strays_move(struct recv_queue *rq, struct recv_strays *to)
{
	struct recv_strays *from = rq_strays(rq);

	for (uint32_t place = 1; place <= from->count; place++) {
		const struct recv_stray *stray = stray_at(rq, from, place);

		if (stray->is_out)
			rq_stray_put(rq, to, &stray->slot, stray->taken);
	}
	rq->strays_distance = (uintptr_t)to - (uintptr_t)rq;
}
