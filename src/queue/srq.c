/* SPDX-License-Identifier: BSD-2-Clause */
#include "queue/srq.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/tracepoint.h"
#include "queue/tags.h"

uint32_t srq_table_number(const struct srq_table *table, uint8_t slot, uint64_t random)
{
	uint32_t index = (uint32_t)random % SRQ_TABLE_SIZE;

	assert(table->count < SRQ_TABLE_SIZE);
	while (table->by_number[index])
		index = (index + 1) % SRQ_TABLE_SIZE;
	return (uint32_t)slot << 16 | index;
}

void srq_table_add(struct srq_table *table, struct srq *srq)
{
	table->count++;
	atomic_store_explicit(
		&table->by_number[srq->number % SRQ_TABLE_SIZE], srq, memory_order_release);
	if (table->directory && srq->xrcd)
		atomic_store(&table->directory->offset[srq->number % SRQ_TABLE_SIZE],
			srq->public_offset);
}

void srq_table_remove(struct srq_table *table, const struct srq *srq)
{
	assert(srq_table_find(table, srq->number) == srq);
	table->count--;
	table->by_number[srq->number % SRQ_TABLE_SIZE] = NULL;
}

struct srq *srq_table_find(const struct srq_table *table, uint32_t number)
{
	struct srq *srq = atomic_load_explicit(
		&table->by_number[number % SRQ_TABLE_SIZE], memory_order_acquire);

	return srq && srq->number == number ? srq : NULL;
}

struct srq *srq_table_find_borrowed(const struct srq_table *table, uint32_t number, uint32_t xrcd)
{
	struct srq *srq = atomic_load_explicit(&table->first_borrowed, memory_order_acquire);

	while (srq && !(srq->number == number && srq->xrcd == xrcd && srq->borrowed->is_there(srq)))
		srq = atomic_load_explicit(&srq->next_borrowed, memory_order_acquire);
	return srq;
}

int srq_init(struct srq *srq, struct arena *arena, const struct srq_init *init)
{
	memset(srq, 0, sizeof(*srq));
	srq->public_offset = arena_alloc(arena, sizeof(struct srq_public));
	if (!srq->public_offset)
		return -ENOMEM;
	srq->rq_offset = rq_create_shared(arena, init->depth, init->sge_count_max);
	if (!srq->rq_offset) {
		arena_free(arena, srq->public_offset);
		return -ENOMEM;
	}
	if (init->tag_count) {
		srq->tags = tags_create(init->tag_count);
		if (!srq->tags) {
			srq_done(srq, arena);
			return -ENOMEM;
		}
	}
	srq->number = init->number;
	srq->pd = init->pd;
	srq->xrcd = init->xrcd;
	srq->cq = init->cq;
	srq->rq = arena_at(arena, srq->rq_offset);
	srq->signal.kind = SIGNAL_KIND_SRQ;
	srq->public = arena_at(arena, srq->public_offset);
	srq->public->rq_offset = srq->rq_offset;
	srq->public->owner = init->owner;
	srq->public->pd = init->pd;
	srq->public->xrcd = init->xrcd;
	if (init->xrcd) {
		srq->public->cq_offset = arena_offset(arena, init->cq->ring);
		atomic_store(&srq->public->serial, init->serial);
	}
	if (init->file.inode) {
		srq->is_shared = true;
		srq->public->file = init->file;
		srq->public->lane = init->lane;
	}
	atomic_store(&srq->public->number, init->number);
	return 0;
}

void srq_withdraw(const struct srq_table *table, struct srq *srq)
{
	if (table->directory && srq->xrcd)
		atomic_store(&table->directory->offset[srq->number % SRQ_TABLE_SIZE], 0);
	atomic_store(&srq->public->number, 0);
	atomic_store(&srq->public->serial, 0);
}

void srq_done(struct srq *srq, struct arena *arena)
{
	tags_destroy(srq->tags);
	rq_destroy(arena, srq->rq_offset);
	arena_free(arena, srq->public_offset);
}

int srq_post(struct srq *srq, const struct recv_wr *wr)
{
	if (wr->sge_count > srq->rq->sge_count_max)
		return -EINVAL;
	trace_post_recv(0, wr->wr_id, wr->sge_count);
	return rq_post(srq->rq, wr);
}

bool srq_take(struct srq *srq, struct recv_wqe *wqe, struct signal_queue *signals)
{
	bool is_below;
	bool has_one = rq_take_limited(srq->rq, wqe, &is_below);

	if (is_below)
		signal_raise(signals, &srq->signal, SIGNAL_SRQ_LIMIT);
	return has_one;
}

void srq_note_taken(struct srq *srq, struct signal_queue *signals)
{
	if (rq_is_below_limit(srq->rq))
		signal_raise(signals, &srq->signal, SIGNAL_SRQ_LIMIT);
}
