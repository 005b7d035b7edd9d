/* SPDX-License-Identifier: BSD-2-Clause */
#include "local/far.h"

#include <string.h>

#include "base/once.h"

/* --- seats --- */

static bool is_gone(const struct far_host *host)
{
	return atomic_load_explicit(&host->is_gone, memory_order_relaxed);
}

/* The host is not gone. */
static struct guest_seat *sit(struct far_host *host)
{
	return guest_sit(host->guests, host->owner->who, host->owner->is_alive, host);
}

struct guest_seat *far_seat(struct far_host *host, uint32_t own, uint32_t its)
{
	struct guest_seat **seat = &host->record[own][its];

	if (!*seat)
		*seat = sit(host);
	return *seat;
}

/* A seat of ours that nobody marks now, busy from here on. NULL when there is none. */
static struct far_mark_seat *mark_seat_take(struct far_host *host)
{
	for (uint32_t i = 0; i < FAR_MARK_SEATS; i++) {
		struct far_mark_seat *mark = &host->mark[i];

		if (atomic_exchange_explicit(&mark->is_busy, true, memory_order_acquire))
			continue;
		if (!mark->seat)
			mark->seat = sit(host);
		if (mark->seat)
			return mark;
		atomic_store_explicit(&mark->is_busy, false, memory_order_release);
		break;
	}
	return NULL;
}

/* Begin to use `key`. NULL when that is not possible. */
static struct far_mark_seat *key_enter(struct far_host *host, uint32_t key)
{
	struct far_mark_seat *mark = is_gone(host) ? NULL : mark_seat_take(host);

	if (mark)
		guest_enter(mark->seat, INBOX_USES_KEY | key);
	return mark;
}

static void key_leave(struct far_mark_seat *mark)
{
	guest_leave(mark->seat);
	atomic_store_explicit(&mark->is_busy, false, memory_order_release);
}

/* --- memory --- */

/*
 * A host that does not wait any longer revokes the mark of a guest that stands still: then the
 * bytes are moved once more, if the key is found.
 */

enum { REVOKED_MAX = 16 }; /* times in a row: then the bytes are not there */

/* Whoever copies for us finds out whether on-demand memory is there. */
static enum mr_fault find(const struct far_domain *domain, uint32_t key, uint32_t qpn,
	uint32_t access, uint64_t iova, uint64_t bytes, struct peer_place *ret_place)
{
	return peer_find_unseen(domain->host->peer, key, (struct mr_user){domain->pd, qpn}, access,
		iova, bytes, ret_place);
}

enum { SUSPENDED_ROUNDS_MAX = 4000 }; /* of far_owner.pause: some 200 ms */

bool far_await_key(const struct far_host *host, uint32_t key, uint32_t round)
{
	if (round == SUSPENDED_ROUNDS_MAX || !mr_key_is_known(&host->peer->mrs, key))
		return false;
	host->owner->pause(round);
	return true;
}

enum mr_fault far_check(const struct far_domain *domain, uint32_t key, uint32_t qpn,
	uint32_t access, uint64_t iova, uint64_t bytes)
{
	const struct mr_user user = {domain->pd, qpn};
	const struct mr_table *mrs = &domain->host->peer->mrs;
	enum mr_fault fault = MR_FAULT_KEY;
	uint32_t round = 0;
	uint8_t *pointer;

	if (is_gone(domain->host))
		return MR_FAULT_KEY;
	do
		fault = mr_resolve_for(
			mrs, key, user, access & ~(uint32_t)MR_TOUCH, iova, bytes, &pointer);
	while (fault == MR_FAULT_KEY && far_await_key(domain->host, key, round++));
	return fault;
}

/* Where it lies: its key is marked when this is MR_OK. */
static enum mr_fault enter(const struct far_domain *domain, uint32_t key, uint32_t qpn,
	uint32_t access, uint64_t iova, uint64_t bytes, struct far_mark_seat **ret_mark,
	struct peer_place *ret_place)
{
	enum mr_fault fault;
	uint32_t round = 0;

	do {
		*ret_mark = key_enter(domain->host, key);
		if (!*ret_mark)
			return MR_FAULT_KEY;
		fault = find(domain, key, qpn, access, iova, bytes, ret_place);
		if (fault)
			key_leave(*ret_mark);
	} while (fault == MR_FAULT_KEY && far_await_key(domain->host, key, round++));
	return fault;
}

enum mr_fault far_put(const struct far_domain *domain, uint32_t key, uint32_t qpn, uint32_t access,
	uint64_t iova, size_t bytes, const uint8_t *from)
{
	struct far_mark_seat *mark;
	struct peer_place place;
	enum mr_fault fault;
	uint32_t attempt = 0;
	bool has_moved;

	do {
		fault = enter(domain, key, qpn, access, iova, bytes, &mark, &place);
		if (fault)
			return fault;
		if (guest_mark_holds(mark->seat) &&
			!peer_put(domain->host->peer, &place, 0, from, bytes))
			fault = MR_FAULT_PAGE;
		has_moved = guest_mark_holds(mark->seat);
		key_leave(mark);
	} while (!has_moved && ++attempt < REVOKED_MAX);
	return has_moved ? fault : MR_FAULT_PAGE;
}

enum mr_fault far_get(const struct far_domain *domain, uint32_t key, uint32_t qpn, uint32_t access,
	uint64_t iova, size_t bytes, uint8_t *to)
{
	struct far_mark_seat *mark;
	struct peer_place place;
	enum mr_fault fault;
	uint32_t attempt = 0;
	bool has_moved;

	do {
		fault = enter(domain, key, qpn, access, iova, bytes, &mark, &place);
		if (fault)
			return fault;
		if (!peer_get(domain->host->peer, &place, 0, to, bytes))
			fault = MR_FAULT_PAGE;
		has_moved = guest_mark_holds(mark->seat);
		key_leave(mark);
	} while (!has_moved && ++attempt < REVOKED_MAX);
	return has_moved ? fault : MR_FAULT_PAGE;
}

/* A lane of the host's that can be woken, and its bell. NULL: there is none. */
static struct doorbell *any_bell(const struct far_host *host, uint32_t *ret_lane)
{
	for (uint32_t i = 0; i < FAR_LANES_MAX; i++) {
		*ret_lane = i;
		if (host->bell_offset[i])
			return peer_at_shared(
				host->peer, host->bell_offset[i], sizeof(struct doorbell));
	}
	return NULL;
}

enum {
	ASK_ROUNDS_MAX =
		1040, /* of far_owner.pause, until it is asked for again later: some milliseconds */
	DO_ROUNDS_MAX = 4000, /* for one who has begun */
};

/* The answer. MR_FAULT_LATER when nobody came. */
static enum mr_fault answer_await(
	const struct far_host *host, struct guest_word *word, uint64_t *ret_before)
{
	uint32_t state = GUEST_WORD_ASKED;
	uint32_t rounds_max = ASK_ROUNDS_MAX;
	uint32_t fault;

	for (uint32_t round = 0; atomic_load(&word->state) != GUEST_WORD_DONE; round++) {
		if (round == rounds_max && rounds_max == DO_ROUNDS_MAX)
			return MR_FAULT_PAGE; /* it was killed or stopped over it */
		if (round == rounds_max) {
			state = GUEST_WORD_ASKED;
			if (atomic_compare_exchange_strong(&word->state, &state, GUEST_WORD_NONE))
				return MR_FAULT_LATER;
			rounds_max = DO_ROUNDS_MAX;
		}
		host->owner->pause(round);
	}
	atomic_store(&word->state, GUEST_WORD_NONE);
	*ret_before = READ_ONCE(word->before);
	fault = READ_ONCE(word->fault);
	return fault <= MR_FAULT_LATER ? (enum mr_fault)fault : MR_FAULT_PAGE;
}

/* The host's own CPUs have to do it. */
static enum mr_fault ask(const struct far_domain *domain, struct guest_seat *seat, uint32_t key,
	uint32_t qpn, uint32_t access, uint64_t iova, const struct mr_word *word,
	uint64_t *ret_before)
{
	struct far_host *host = domain->host;
	uint32_t lane;
	struct doorbell *bell = any_bell(host, &lane);
	uint32_t state = GUEST_WORD_DONE; /* an answer that came too late for who asked */

	atomic_compare_exchange_strong(&seat->word.state, &state, GUEST_WORD_NONE);
	if (!bell || atomic_load(&seat->word.state) != GUEST_WORD_NONE)
		return MR_FAULT_PAGE;
	seat->word.key = key;
	seat->word.pd = domain->pd;
	seat->word.qpn = qpn;
	seat->word.access = access;
	seat->word.operation = word->operation;
	seat->word.iova = iova;
	seat->word.compare = word->compare;
	seat->word.value = word->value;
	guest_ask(seat, bell, far_seat_offset(host->peer, seat));
	host->peer->ops->kick(host->peer, lane);
	return answer_await(host, &seat->word, ret_before);
}

enum mr_fault far_apply(const struct far_domain *domain, uint32_t key, uint32_t qpn,
	uint32_t access, uint64_t iova, const struct mr_word *word, uint64_t *ret_before)
{
	struct far_mark_seat *mark;
	struct peer_place place;
	enum mr_fault fault =
		enter(domain, key, qpn, access, iova, sizeof(uint64_t), &mark, &place);

	if (fault)
		return fault;
	if (place.here && (uintptr_t)place.here % sizeof(uint64_t))
		fault = MR_FAULT_ALIGN;
	else if (place.here)
		*ret_before = mr_word_apply(word, place.here);
	if (place.here && !guest_mark_holds(mark->seat))
		fault = MR_FAULT_PAGE; /* nobody can know whether the word had it */
	guest_leave(
		mark->seat); /* the host may have to take the key away before it comes to this */
	if (!fault && !place.here)
		fault = ask(domain, mark->seat, key, qpn, access, iova, word, ret_before);
	atomic_store_explicit(&mark->is_busy, false, memory_order_release);
	return fault;
}

/* --- shared receive queues --- */

static struct far_srq *far_srq_of(struct srq *srq)
{
	return container_of(srq, struct far_srq, srq);
}

static struct guest_seat *record_seat(struct far_srq *srq, const struct lane *lane)
{
	return far_seat(srq->host, lane->index, srq->lane);
}

/* Is the queue still there? The seat is marked, so it stays if it is. */
static bool is_there(const struct far_srq *srq)
{
	return atomic_load(&srq->public->number) == srq->srq.number &&
		atomic_load(&srq->public->serial) == srq->serial;
}

/* The host sleeps until something completes, or does not come for its records. */
static void kick(const struct far_srq *srq)
{
	srq->host->peer->ops->kick(srq->host->peer, srq->lane);
}

/*
 * Queue pairs in the middle of messages have taken requests and left no records: half of the seat
 * is theirs.
 */
static bool take(struct srq *verbs, struct lane *lane, struct recv_wqe *wqe)
{
	struct far_srq *srq = far_srq_of(verbs);
	struct guest_seat *seat = is_gone(srq->host) ? NULL : record_seat(srq, lane);
	const struct peer *peer = srq->host->peer;
	bool is_taken;

	if (!seat)
		return false;
	guest_enter(seat, INBOX_PUBLISHES);
	is_taken = is_there(srq) && guest_has_room(seat);
	if (!is_taken)
		kick(srq);
	is_taken = is_taken && rq_take_afar(verbs->rq, peer->base, peer->bytes, wqe);
	guest_leave(seat);
	return is_taken;
}

/*
 * A request was taken, and its record published: wake who waits at the host, for that or for the
 * queue's limit.
 */
static void srq_tell(const struct far_srq *srq, bool is_solicited)
{
	if (rq_note_low(srq->srq.rq))
		kick(srq);
	else
		peer_tell(srq->host->peer, srq->cq, srq->lane, is_solicited);
}

/* The seat is marked. False when it has no room. */
static bool srq_publish(
	const struct far_srq *srq, struct guest_seat *seat, const struct guest_record *record)
{
	const struct peer *peer = srq->host->peer;
	struct doorbell *bell =
		peer_at_shared(peer, srq->host->bell_offset[srq->lane], sizeof(*bell));

	return bell && guest_publish(seat, bell, far_seat_offset(peer, seat), record);
}

/* A queue that is gone has no use for the record, and its host throws it away. */
static void complete(struct srq *verbs, struct lane *lane, const struct cqe *cqe, bool is_solicited)
{
	struct far_srq *srq = far_srq_of(verbs);
	struct guest_seat *seat = is_gone(srq->host) ? NULL : record_seat(srq, lane);
	struct guest_record record = {
		.wr_id = cqe->wr_id,
		.opcode = cqe->opcode,
		.flags = cqe->flags,
		.byte_count = cqe->byte_count,
		.imm = cqe->imm,
		.is_solicited = is_solicited,
		.qpn = cqe->qpn,
		.srqn = verbs->number,
		.fault = cqe->fault,
	};

	if (!seat)
		return;
	guest_enter(seat, INBOX_PUBLISHES);
	if (srq_publish(srq, seat, &record) && is_there(srq))
		srq_tell(srq, is_solicited);
	guest_leave(seat);
}

static bool srq_is_there(const struct srq *verbs)
{
	const struct far_srq *srq = container_of(verbs, struct far_srq, srq);

	return !is_gone(srq->host) && is_there(srq);
}

static const struct srq_afar afar = {
	.take = take,
	.complete = complete,
	.is_there = srq_is_there,
};

bool far_srq_init(
	struct far_srq *srq, struct far_host *host, uint64_t offset, uint32_t pd, uint32_t xrcd)
{
	struct srq_public *public = peer_at(host->peer, offset, sizeof(*public));
	uint32_t number;

	memset(srq, 0, sizeof(*srq));
	if (!public)
		return false;
	number = atomic_load(&public->number);
	srq->host = host;
	srq->public = public;
	srq->serial = atomic_load(&public->serial);
	srq->lane = public->lane;
	srq->cq = peer_at(host->peer, public->cq_offset, sizeof(struct cq_ring));
	srq->srq.rq = peer_at(host->peer, public->rq_offset, sizeof(struct recv_queue));
	srq->srq.number = number;
	srq->srq.pd = pd;
	srq->srq.xrcd = xrcd;
	srq->srq.afar = &afar;
	return number && public->file.inode && srq->cq && srq->srq.rq &&
		srq->lane < FAR_LANES_MAX && is_there(srq);
}

void far_host_done(struct far_host *host)
{
	for (uint32_t i = 0; i < FAR_MARK_SEATS; i++)
		if (host->mark[i].seat)
			guest_rise(host->mark[i].seat);
	for (uint32_t i = 0; i < FAR_LANES_MAX; i++)
		for (uint32_t j = 0; j < FAR_LANES_MAX; j++)
			if (host->record[i][j])
				guest_rise(host->record[i][j]);
}
