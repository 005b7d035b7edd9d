/* SPDX-License-Identifier: BSD-2-Clause */
#include "queue/sq.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/arith.h"
#include "queue/completion.h"
#include "queue/qp_type.h"

static_assert(sizeof(struct send_queue) == 64, "a cache line, apart from the slots");
static_assert(sizeof(struct datagram_target) <= 2 * sizeof(uint64_t), "shares room with atomics");
static_assert(sizeof(struct wr_bind) <= 2 * sizeof(uint64_t), "shares room with atomics");

enum {
	RC = 1 << QP_TYPE_RC,
	UC = 1 << QP_TYPE_UC,
	UD = 1 << QP_TYPE_UD,
	RAW = 1 << QP_TYPE_RAW_PACKET,
	IWARP = 1 << QP_TYPE_IWARP,
	XRC = 1 << QP_TYPE_XRC_SEND,
	IMM = 1 << 0,
	RQ = 1 << 1,
	INV = 1 << 2,
	ANSWER = 1 << 3,
	FILLS = 1 << 4,
	NO_LIST = 1 << 5,
	LOCAL = 1 << 6,
};

const struct wr_info wr_table[WR_OPCODE_COUNT] = {
#define WORK_REQUEST(name_, number, completion, operation_, types, flags) \
	[WR_##name_] = {                                                  \
		.name = #name_,                                           \
		.wc_opcode = WC_##completion,                             \
		.operation = OPERATION_##operation_,                      \
		.type_mask = (types),                                     \
		.has_imm = ((flags)&IMM) != 0,                            \
		.has_invalidate = ((flags)&INV) != 0,                     \
		.takes_receive = ((flags)&RQ) != 0,                       \
		.has_answer = ((flags)&ANSWER) != 0,                      \
		.fills_list = ((flags)&FILLS) != 0,                       \
		.has_list = !((flags)&NO_LIST),                           \
		.is_local = ((flags)&LOCAL) != 0,                         \
	},
#include "queue/work_request.def"
#undef WORK_REQUEST
};

static uint32_t slot_bytes(uint32_t sge_count_max, uint32_t inline_bytes_max)
{
	uint64_t tail_bytes = max_u64(sge_count_max * sizeof(struct sge), inline_bytes_max);

	return (uint32_t)align_up_u64(offsetof(struct send_wqe, sge) + tail_bytes, 64);
}

uint64_t sq_create(
	struct arena *arena, uint32_t depth, uint32_t sge_count_max, uint32_t inline_bytes_max)
{
	uint32_t capacity = pow2_ceil_u32(max_u32(depth, 1));
	uint32_t stride_bytes = slot_bytes(sge_count_max, inline_bytes_max);
	uint64_t offset = arena_alloc(arena, sizeof(struct send_queue));
	uint64_t slots = arena_alloc(arena, (uint64_t)capacity * stride_bytes);

	if (!offset || !slots) {
		arena_free(arena, offset);
		arena_free(arena, slots);
		return 0;
	}
	struct send_queue *sq = arena_at(arena, offset);

	sq->capacity = capacity;
	sq->depth = depth;
	sq->stride_bytes = stride_bytes;
	sq->sge_count_max = sge_count_max;
	sq->inline_bytes_max = inline_bytes_max;
	sq->slots_distance = slots - offset;
	return offset;
}

void sq_destroy(struct arena *arena, uint64_t offset)
{
	if (offset) {
		const struct send_queue *sq = arena_at(arena, offset);

		arena_free(arena, offset + sq->slots_distance);
		arena_free(arena, offset);
	}
}

static void copy_inline(struct send_wqe *wqe, const struct send_wr *wr)
{
	uint8_t *to = wqe->inline_bytes;

	for (uint32_t i = 0; i < wr->sge_count; i++) {
		memcpy(to, (const void *)(uintptr_t)wr->sge[i].address, wr->sge[i].bytes);
		to += wr->sge[i].bytes;
	}
}

int sq_post(struct send_queue *sq, const struct send_wr *wr, uint32_t total_bytes)
{
	struct send_wqe *wqe = sq_slot(sq, sq->posted);

	if (!wqe)
		return -ENOMEM;
	wqe->wr_id = wr->wr_id;
	wqe->opcode = wr->opcode;
	wqe->flags = wr->flags;
	wqe->imm = wr->imm;
	wqe->rkey = wr->rkey;
	wqe->srqn = wr->srqn;
	wqe->remote_address = wr->remote_address;
	/* These two fields cover the whole union, so their copies include its other members. */
	wqe->compare_add = wr->compare_add;
	wqe->swap = wr->swap;
	wqe->total_bytes = total_bytes;
	wqe->sge_count = wr->sge_count;
	wqe->is_started = 0;
	wqe->goes_by_packets = 0;
	if (wr->flags & SEND_INLINE)
		copy_inline(wqe, wr);
	else if (wr->sge_count)
		memcpy(wqe->sge, wr->sge, wr->sge_count * sizeof(struct sge));
	sq->posted++;
	return 0;
}
