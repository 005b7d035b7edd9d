/* SPDX-License-Identifier: BSD-2-Clause */
#include "local/channel/owner.h"

#include <string.h>

#include "base/once.h"
#include "queue/rq_taker.h"

/* --- channels --- */

static bool is_gone(const struct owner_process *owner)
{
	return atomic_load_explicit(&owner->is_gone, memory_order_relaxed);
}

/* Take a channel from the table of the owner, which is alive. */
static struct request_channel *channel_take(struct owner_process *owner)
{
	return borrower_channel_take(owner->borrowers, owner->peer, owner->self->who);
}

struct request_channel *owner_channel(struct owner_process *owner, uint32_t own, uint32_t its)
{
	struct request_channel **channel = &owner->record[own][its];

	if (!*channel)
		*channel = channel_take(owner);
	return *channel;
}

/*
 * Reserve a struct owner_mark that no other access uses, and its channel. Returns NULL when none is
 * free.
 */
static struct owner_mark *mark_channel_take(struct owner_process *owner)
{
	for (uint32_t i = 0; i < OWNER_MARKS_MAX; i++) {
		struct owner_mark *mark = &owner->mark[i];

		if (atomic_exchange_explicit(&mark->is_busy, true, memory_order_acquire))
			continue;
		if (!mark->channel)
			mark->channel = channel_take(owner);
		if (mark->channel)
			return mark;
		atomic_store_explicit(&mark->is_busy, false, memory_order_release);
		break;
	}
	return NULL;
}

/* Set a mark for `key`. Returns NULL when no channel is free, or the owner has ended. */
static struct owner_mark *key_enter(struct owner_process *owner, uint32_t key)
{
	struct owner_mark *mark = is_gone(owner) ? NULL : mark_channel_take(owner);

	if (mark)
		borrower_channel_enter(mark->channel, CHANNEL_USES_KEY | key);
	return mark;
}

static void key_leave(struct owner_mark *mark)
{
	channel_leave(mark->channel);
	atomic_store_explicit(&mark->is_busy, false, memory_order_release);
}

/* --- memory --- */

/*
 * If a borrower is suspended for too long, the owner revokes its mark. When the borrower continues,
 * it finds its mark revoked, and looks the key up again. If the key is still valid, the borrower
 * repeats the move.
 */

enum { REVOKED_MAX = 16 }; /* number of revoked marks in a row after which the access fails */

/*
 * Look the key up. The lookup assumes that the pages of on-demand memory are present; if they are
 * not, the later copy fails.
 */
static enum mr_fault key_find(const struct borrowed_domain *domain, uint32_t key, uint32_t qpn,
	uint32_t access, uint64_t iova, uint64_t bytes, struct peer_place *ret_place)
{
	return peer_find_unseen(domain->owner->peer, key, (struct mr_user){domain->pd, qpn}, access,
		iova, bytes, ret_place);
}

enum { SUSPENDED_ROUNDS_MAX = 4000 }; /* calls of local_owner.pause, about 200 ms together */

bool owner_await_key(const struct owner_process *owner, uint32_t key, uint32_t round)
{
	if (round == SUSPENDED_ROUNDS_MAX || !mr_key_is_known(&owner->peer->mrs, key))
		return false;
	owner->self->pause(round);
	return true;
}

enum mr_fault borrowed_check(const struct borrowed_domain *domain, uint32_t key, uint32_t qpn,
	uint32_t access, uint64_t iova, uint64_t bytes)
{
	const struct mr_user user = {domain->pd, qpn};
	const struct mr_table *mrs = &domain->owner->peer->mrs;
	enum mr_fault fault = MR_FAULT_KEY;
	uint32_t round = 0;
	uint8_t *pointer;

	if (is_gone(domain->owner))
		return MR_FAULT_KEY;
	do
		fault = mr_resolve_for(
			mrs, key, user, access & ~(uint32_t)MR_TOUCH, iova, bytes, &pointer);
	while (fault == MR_FAULT_KEY && owner_await_key(domain->owner, key, round++));
	return fault;
}

/* Set a mark and look the key up. After MR_OK the mark is set, after a fault it is not. */
static enum mr_fault key_enter_found(const struct borrowed_domain *domain, uint32_t key,
	uint32_t qpn, uint32_t access, uint64_t iova, uint64_t bytes, struct owner_mark **ret_mark,
	struct peer_place *ret_place)
{
	enum mr_fault fault;
	uint32_t round = 0;

	do {
		*ret_mark = key_enter(domain->owner, key);
		if (!*ret_mark)
			return MR_FAULT_KEY;
		fault = key_find(domain, key, qpn, access, iova, bytes, ret_place);
		if (fault)
			key_leave(*ret_mark);
	} while (fault == MR_FAULT_KEY && owner_await_key(domain->owner, key, round++));
	return fault;
}

/* Copy `from` to the owner's memory; if `from` is NULL, copy the owner's memory to `to`. */
static enum mr_fault bytes_move(const struct borrowed_domain *domain, uint32_t key, uint32_t qpn,
	uint32_t access, uint64_t iova, size_t bytes, const uint8_t *from, uint8_t *to)
{
	struct peer *peer = domain->owner->peer;
	struct owner_mark *mark;
	struct peer_place place;
	enum mr_fault fault;
	bool has_moved, holds = false;

	for (uint32_t attempt = 0; attempt < REVOKED_MAX && !holds; attempt++) {
		fault = key_enter_found(domain, key, qpn, access, iova, bytes, &mark, &place);
		if (fault)
			return fault;
		has_moved = channel_mark_holds(mark->channel) &&
			(from ? peer_put(peer, &place, 0, from, bytes)
			      : peer_get(peer, &place, 0, to, bytes));
		holds = channel_mark_holds(mark->channel);
		key_leave(mark);
	}
	return holds && has_moved ? MR_OK : MR_FAULT_PAGE;
}

enum mr_fault borrowed_put(const struct borrowed_domain *domain, uint32_t key, uint32_t qpn,
	uint32_t access, uint64_t iova, size_t bytes, const uint8_t *from)
{
	return bytes_move(domain, key, qpn, access, iova, bytes, from, NULL);
}

enum mr_fault borrowed_get(const struct borrowed_domain *domain, uint32_t key, uint32_t qpn,
	uint32_t access, uint64_t iova, size_t bytes, uint8_t *to)
{
	return bytes_move(domain, key, qpn, access, iova, bytes, NULL, to);
}

/* The doorbell of one of the owner's lanes. NULL: no lane can be reached. */
static struct doorbell *any_doorbell(const struct owner_process *owner, uint32_t *ret_lane)
{
	for (uint32_t i = 0; i < OWNER_LANES_MAX; i++) {
		*ret_lane = i;
		if (owner->doorbell_offset[i])
			return peer_at_shared(
				owner->peer, owner->doorbell_offset[i], sizeof(struct doorbell));
	}
	return NULL;
}

/* How often a borrower that waits for the owner calls local_owner.pause before it gives up. */
enum {
	ASK_ROUNDS_MAX = 1040, /* until the owner takes the request: about 40 ms */
	DO_ROUNDS_MAX = 4000, /* until the owner has executed the request: about 200 ms */
};

/* Wait for the answer. Returns MR_FAULT_LATER when the owner did not take the request in time. */
static enum mr_fault answer_await(
	const struct owner_process *owner, struct borrower_word *word, uint64_t *ret_before)
{
	uint32_t state = BORROWER_WORD_REQUESTED;
	uint32_t rounds_max = ASK_ROUNDS_MAX;
	uint32_t fault;

	for (uint32_t round = 0; atomic_load(&word->state) != BORROWER_WORD_DONE; round++) {
		if (round == rounds_max && rounds_max == DO_ROUNDS_MAX)
			/* The owner was killed or suspended during the operation */
			return MR_FAULT_PAGE;
		if (round == rounds_max) {
			state = BORROWER_WORD_REQUESTED;
			if (atomic_compare_exchange_strong(
				    &word->state, &state, BORROWER_WORD_NONE))
				return MR_FAULT_LATER;
			rounds_max = DO_ROUNDS_MAX;
		}
		owner->self->pause(round);
	}
	atomic_store(&word->state, BORROWER_WORD_NONE);
	*ret_before = READ_ONCE(word->before);
	fault = READ_ONCE(word->fault);
	return fault <= MR_FAULT_LATER ? (enum mr_fault)fault : MR_FAULT_PAGE;
}

/* Request that the owner execute the operation, and wait for its answer. */
static enum mr_fault word_request(const struct borrowed_domain *domain,
	struct request_channel *channel, uint32_t key, uint32_t qpn, uint32_t access, uint64_t iova,
	const struct mr_word *word, uint64_t *ret_before)
{
	struct owner_process *owner = domain->owner;
	uint32_t lane;
	struct doorbell *doorbell = any_doorbell(owner, &lane);
	struct borrower_word *request = borrower_word_of(owner->borrowers, channel);
	uint32_t state = BORROWER_WORD_DONE; /* left by an earlier request that timed out */

	atomic_compare_exchange_strong(&request->state, &state, BORROWER_WORD_NONE);
	if (!doorbell || atomic_load(&request->state) != BORROWER_WORD_NONE)
		return MR_FAULT_PAGE;
	request->key = key;
	request->pd = domain->pd;
	request->qpn = qpn;
	request->access = access;
	request->operation = word->operation;
	request->iova = iova;
	request->compare = word->compare;
	request->value = word->value;
	atomic_store(&request->state, BORROWER_WORD_REQUESTED);
	doorbell_ring(doorbell, &channel->ready, peer_offset(owner->peer, channel));
	owner->peer->ops->kick(owner->peer, lane);
	return answer_await(owner, request, ret_before);
}

enum mr_fault borrowed_apply(const struct borrowed_domain *domain, uint32_t key, uint32_t qpn,
	uint32_t access, uint64_t iova, const struct mr_word *word, uint64_t *ret_before)
{
	struct owner_mark *mark;
	struct peer_place place;
	enum mr_fault fault =
		key_enter_found(domain, key, qpn, access, iova, sizeof(uint64_t), &mark, &place);

	if (fault)
		return fault;
	if (place.here && (uintptr_t)place.here % sizeof(uint64_t))
		fault = MR_FAULT_ALIGN;
	else if (place.here)
		*ret_before = mr_word_apply(word, place.here);
	if (place.here && !channel_mark_holds(mark->channel))
		fault = MR_FAULT_PAGE; /* the word may have changed, or not */
	/*
	 * Clear the mark before the request, because an owner that waits for the mark executes no
	 * request.
	 */
	channel_leave(mark->channel);
	if (!fault && !place.here)
		fault = word_request(
			domain, mark->channel, key, qpn, access, iova, word, ret_before);
	atomic_store_explicit(&mark->is_busy, false, memory_order_release);
	return fault;
}

/* --- shared receive queues --- */

static struct borrowed_srq *borrowed_srq_of(struct srq *srq)
{
	return container_of(srq, struct borrowed_srq, srq);
}

static struct request_channel *record_channel(struct borrowed_srq *srq, const struct lane *lane)
{
	return owner_channel(srq->owner, lane->index, srq->lane);
}

/*
 * Does the queue still exist? The caller has set a mark, so a queue that exists now remains until
 * the mark is cleared.
 */
static bool is_there(const struct borrowed_srq *srq)
{
	return atomic_load(&srq->public->number) == srq->srq.number &&
		atomic_load(&srq->public->serial) == srq->serial;
}

/* Wake the owner's lane, so that it collects records. */
static void srq_kick(const struct borrowed_srq *srq)
{
	srq->owner->peer->ops->kick(srq->owner->peer, srq->lane);
}

/*
 * Take a receive request, if half of the channel is free (borrower_channel_has_room()). Other queue
 * pairs of this process may have taken requests whose records they have not published yet. The free
 * half has room for those records.
 */
static bool owner_srq_take(struct srq *verbs, struct lane *lane, struct recv_wqe *wqe)
{
	struct borrowed_srq *srq = borrowed_srq_of(verbs);
	struct request_channel *channel = is_gone(srq->owner) ? NULL : record_channel(srq, lane);
	const struct peer *peer = srq->owner->peer;
	bool is_taken;

	if (!channel)
		return false;
	borrower_channel_enter(channel, CHANNEL_PUBLISHES);
	is_taken = is_there(srq) && borrower_channel_has_room(channel);
	if (!is_taken)
		srq_kick(srq);
	is_taken = is_taken && rq_take_borrowed(verbs->rq, peer->base, peer->bytes, wqe);
	channel_leave(channel);
	return is_taken;
}

/*
 * A request was taken, and its record published. Wake the owner's threads that wait for a
 * completion or for the queue's limit event.
 */
static void srq_notify(const struct borrowed_srq *srq, bool is_solicited)
{
	if (rq_note_low(srq->srq.rq))
		srq_kick(srq);
	else
		peer_notify(srq->owner->peer, srq->cq, srq->lane, is_solicited);
}

/* Publish a record. The caller has set a mark. Returns false when the channel has no room. */
static bool srq_publish(const struct borrowed_srq *srq, struct request_channel *channel,
	const struct channel_record *record)
{
	const struct peer *peer = srq->owner->peer;
	struct doorbell *doorbell =
		peer_at_shared(peer, srq->owner->doorbell_offset[srq->lane], sizeof(*doorbell));

	return doorbell &&
		borrower_channel_publish(peer, srq->owner->borrowers, channel, doorbell, record);
}

/* Publish the record of a request. If the queue no longer exists, the owner discards the record. */
static void owner_srq_complete(
	struct srq *verbs, struct lane *lane, const struct cqe *cqe, bool is_solicited)
{
	struct borrowed_srq *srq = borrowed_srq_of(verbs);
	struct request_channel *channel = is_gone(srq->owner) ? NULL : record_channel(srq, lane);
	struct channel_record record = {
		.wr_id = cqe->wr_id,
		.opcode = cqe->opcode,
		.flags = cqe->flags,
		.byte_count = cqe->byte_count,
		.imm = cqe->imm,
		.is_solicited = is_solicited,
		.qpn = cqe->qpn,
		.number = verbs->number,
		.fault = cqe->fault,
	};

	if (!channel)
		return;
	borrower_channel_enter(channel, CHANNEL_PUBLISHES);
	if (srq_publish(srq, channel, &record) && is_there(srq))
		srq_notify(srq, is_solicited);
	channel_leave(channel);
}

static bool srq_is_there(const struct srq *verbs)
{
	const struct borrowed_srq *srq = container_of(verbs, struct borrowed_srq, srq);

	return !is_gone(srq->owner) && is_there(srq);
}

static const struct srq_borrowed borrowed = {
	.take = owner_srq_take,
	.complete = owner_srq_complete,
	.is_there = srq_is_there,
};

bool borrowed_srq_init(struct borrowed_srq *srq, struct owner_process *owner, uint64_t offset,
	uint32_t pd, uint32_t xrcd)
{
	struct srq_public *public = peer_at(owner->peer, offset, sizeof(*public));
	uint32_t number;

	memset(srq, 0, sizeof(*srq));
	if (!public)
		return false;
	number = atomic_load(&public->number);
	srq->owner = owner;
	srq->public = public;
	srq->serial = atomic_load(&public->serial);
	srq->lane = public->lane;
	srq->cq = peer_at(owner->peer, public->cq_offset, sizeof(struct cq_ring));
	srq->srq.rq = peer_at(owner->peer, public->rq_offset, sizeof(struct recv_queue));
	srq->srq.number = number;
	srq->srq.pd = pd;
	srq->srq.xrcd = xrcd;
	srq->srq.borrowed = &borrowed;
	return number && public->file.inode && srq->cq && srq->srq.rq &&
		srq->lane < OWNER_LANES_MAX && is_there(srq);
}

void owner_process_done(struct owner_process *owner)
{
	for (uint32_t i = 0; i < OWNER_MARKS_MAX; i++)
		if (owner->mark[i].channel)
			borrower_channel_release(owner->mark[i].channel);
	for (uint32_t i = 0; i < OWNER_LANES_MAX; i++)
		for (uint32_t j = 0; j < OWNER_LANES_MAX; j++)
			if (owner->record[i][j])
				borrower_channel_release(owner->record[i][j]);
}
