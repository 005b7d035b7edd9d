/* SPDX-License-Identifier: BSD-2-Clause */
#include "local/guest.h"

#include <assert.h>

#include "local/door.h"

static_assert(sizeof(struct guest_record) == 64, "a cache line each");
static_assert(sizeof(struct guest_bell) == 64, "a cache line of its own");

/* --- the owner --- */

static void srq_collect(struct lane *lane, const struct guest_record *record, uint64_t now_ns)
{
	struct srq *srq = srq_table_find(lane->srqs, record->srqn);
	uint32_t fault = record->fault < FAULT_COUNT ? record->fault : FAULT_PEER_PROTOCOL;
	struct cqe cqe = {
		.wr_id = record->wr_id,
		.status = fault_status((enum fault)fault),
		.opcode = record->opcode,
		.fault = fault,
		.byte_count = record->byte_count,
		.imm = record->imm,
		.qpn = record->qpn,
		.flags = record->flags,
		.made_ns = now_ns,
	};

	if (!srq || !srq->is_shared)
		return; /* it is gone */
	srq_note_taken(srq, &lane->signals);
	cq_push(srq->cq, lane->arena, &cqe, record->is_solicited, &lane->signals);
}

static void collect_one(struct lane *lane, const struct guest_record *record, uint64_t now_ns)
{
	if (record->serial)
		door_collect(lane, record, now_ns);
	else
		srq_collect(lane, record, now_ns);
}

/* Guests ask for nothing else. */
static const uint32_t word_access = MR_REMOTE_ATOMIC | MR_REMOTE_WRITE;

/* Do what the guest asks for, if it still does. Returns 1 if so. */
static uint32_t word_execute(struct lane *lane, struct guest_word *asked)
{
	uint32_t expected = GUEST_WORD_ASKED;
	struct mr_word word;
	uint64_t before = 0;

	if (!atomic_compare_exchange_strong(&asked->state, &expected, GUEST_WORD_TAKEN))
		return 0;
	word = (struct mr_word){
		asked->operation <= MR_WORD_STORE ? asked->operation : MR_WORD_STORE,
		asked->compare, asked->value};
	asked->fault = asked->iova % sizeof(uint64_t)
		? MR_FAULT_ALIGN
		: mr_apply(lane->mrs, asked->key, (struct mr_user){asked->pd, asked->qpn},
			  asked->access & word_access, asked->iova, &word, &before);
	asked->before = before;
	atomic_store(&asked->state, GUEST_WORD_DONE);
	return 1;
}

static void ring(struct guest_seat *seat, struct guest_bell *bell, uint64_t offset)
{
	uint64_t first;

	if (atomic_exchange(&seat->is_rung, 1))
		return;
	first = atomic_load_explicit(&bell->first_offset, memory_order_relaxed);
	do {
		seat->next_offset = first;
	} while (!atomic_compare_exchange_weak(&bell->first_offset, &first, offset));
}

/* What was published and not collected first; NULL: nothing. */
static const struct guest_record *seat_next_record(const struct guest_seat *seat)
{
	uint32_t collected = atomic_load_explicit(&seat->collected, memory_order_relaxed);

	return collected == atomic_load_explicit(&seat->published, memory_order_acquire)
		? NULL
		: &seat->record[collected % GUEST_RECORD_COUNT];
}

static void seat_collect_one(struct lane *lane, struct guest_seat *seat, uint64_t now_ns)
{
	const struct guest_record record = *seat_next_record(seat);
	uint32_t collected = atomic_load_explicit(&seat->collected, memory_order_relaxed);

	/* First, as a queue pair that fails by it collects, too. */
	atomic_store_explicit(&seat->collected, collected + 1, memory_order_release);
	collect_one(lane, &record, now_ns);
}

/* Seats that were rung. */
struct rung {
	struct guest_seat *seat[GUEST_SEAT_COUNT];
	uint32_t count;
};

/* Take the seats off the list, and do what they ask for. Returns how much that was. */
static uint32_t rung_take(struct rung *rung, struct lane *lane, struct guest_bell *bell)
{
	uint64_t offset = atomic_exchange(&bell->first_offset, 0);
	uint32_t count = 0;

	rung->count = 0;
	while (offset && rung->count < GUEST_SEAT_COUNT) {
		struct guest_seat *seat = arena_at(lane->arena, offset);

		offset = seat->next_offset;
		/* From here on it may be rung again: look at it after that. */
		atomic_exchange(&seat->is_rung, 0);
		count += word_execute(lane, &seat->word);
		rung->seat[rung->count++] = seat;
	}
	return count;
}

/*
 * The seat that has the oldest record, of those up to `limit`; NULL: none has one. Seats without are forgotten; those that have younger
 * ones are rung again. Datagrams whose turn has not come stay.
 */
static struct guest_seat *rung_oldest(
	struct rung *rung, const struct lane *lane, struct guest_bell *bell, uint64_t limit)
{
	struct guest_seat *oldest = NULL;
	uint64_t oldest_stamp = UINT64_MAX;

	for (uint32_t i = 0; i < rung->count;) {
		struct guest_seat *seat = rung->seat[i];
		const struct guest_record *record = seat_next_record(seat);

		if (!record || record->stamp > limit) {
			if (record)
				ring(seat, bell, arena_offset(lane->arena, seat));
			rung->seat[i] = rung->seat[--rung->count];
			continue;
		}
		if (record->serial) {
			if (door_is_in_turn(lane, record))
				return seat;
		} else if (record->stamp < oldest_stamp) {
			oldest = seat;
			oldest_stamp = record->stamp;
		}
		i++;
	}
	return oldest;
}

/* Datagrams whose turn has not come are left. *ret_early is the first of them, among those of its queue pair; or has no serial. */
static void rung_leave(const struct rung *rung, const struct lane *lane, struct guest_bell *bell,
	struct guest_record *ret_early)
{
	ret_early->serial = 0;
	for (uint32_t i = 0; i < rung->count; i++) {
		const struct guest_record *record = seat_next_record(rung->seat[i]);

		if (!ret_early->serial ||
			(record->serial == ret_early->serial &&
				(int32_t)(record->taken - ret_early->taken) < 0))
			*ret_early = *record;
		ring(rung->seat[i], bell, arena_offset(lane->arena, rung->seat[i]));
	}
}

/*
 * By the stamps: of whatever was published before a record up to the limit was stamped, the seat is among those that are taken after the
 * limit was read, or it was collected.
 */
static uint32_t collect_round(
	struct lane *lane, struct guest_bell *bell, uint64_t now_ns, struct guest_record *ret_early)
{
	uint64_t limit = atomic_load(&bell->stamp);
	struct guest_seat *seat;
	struct rung rung;
	uint32_t count = rung_take(&rung, lane, bell);

	while ((seat = rung_oldest(&rung, lane, bell, limit))) {
		seat_collect_one(lane, seat, now_ns);
		count++;
	}
	rung_leave(&rung, lane, bell, ret_early);
	return count;
}

uint32_t guest_collect(struct lane *lane, struct guest_bell *bell, uint64_t now_ns)
{
	struct guest_record early;
	uint32_t count = collect_round(lane, bell, now_ns, &early);
	uint32_t found = count;
	bool has_waited = false;

	while (early.serial) {
		/* Nothing was in turn: who has taken what is missing leaves it soon, or never will. */
		if (!found && has_waited)
			door_skip(lane, &early);
		else if (!found)
			door_wait(lane, &early);
		has_waited = !found;
		found = collect_round(lane, bell, now_ns, &early);
		count += found;
	}
	return count;
}

static uint32_t used_count(const struct guest_table *table)
{
	uint32_t count = atomic_load(&table->used_count);

	return count < GUEST_SEAT_COUNT ? count : GUEST_SEAT_COUNT;
}

static void seat_quiesce(const struct guest_seat *seat, guest_wait_fn *wait,
	const struct mr_table *mrs, uint32_t key)
{
	for (uint32_t round = 0;; round++) {
		uint64_t mark = atomic_load(&seat->in_use);

		if (!(mark & INBOX_USES_KEY) || !mr_keys_may_meet(mrs, (uint32_t)mark, key))
			return;
		if (!wait(atomic_load(&seat->guest), round))
			return;
	}
}

void guest_quiesce(const struct guest_table *table, guest_wait_fn *wait, const struct mr_table *mrs,
	uint32_t key)
{
	uint32_t count;

	atomic_thread_fence(memory_order_seq_cst);
	count = used_count(table);
	for (uint32_t i = 0; i < count; i++)
		seat_quiesce(&table->seat[i], wait, mrs, key);
}

/* Of guest_wait_fn, for one that stands still. */
enum {
	WAIT_ROUNDS_MAX = 2000,
	WAIT_ROUNDS_BRIEF = 284, /* some 4 ms */
};

static bool seat_wait(const struct guest_seat *seat, guest_wait_fn *wait, uint32_t rounds_max)
{
	for (uint32_t round = 0; atomic_load(&seat->in_use) != INBOX_IS_FREE; round++) {
		if (!wait(atomic_load(&seat->guest), round))
			return true;
		if (round == rounds_max)
			return false;
	}
	return true;
}

static bool seats_wait(const struct guest_table *table, guest_wait_fn *wait, uint32_t rounds_max)
{
	bool is_free = true;
	uint32_t count;

	atomic_thread_fence(memory_order_seq_cst);
	count = used_count(table);
	for (uint32_t i = 0; i < count; i++)
		is_free = seat_wait(&table->seat[i], wait, rounds_max) && is_free;
	return is_free;
}

bool guest_wait(const struct guest_table *table, guest_wait_fn *wait)
{
	return seats_wait(table, wait, WAIT_ROUNDS_MAX);
}

void guest_wait_briefly(const struct guest_table *table, guest_wait_fn *wait)
{
	seats_wait(table, wait, WAIT_ROUNDS_BRIEF);
}

/* --- the guest --- */

static bool seat_take(struct guest_seat *seat, uint32_t expected, uint32_t who)
{
	uint32_t asked = GUEST_WORD_ASKED;

	if (!atomic_compare_exchange_strong(&seat->guest, &expected, who))
		return false;
	atomic_store(&seat->in_use, INBOX_IS_FREE);
	atomic_compare_exchange_strong(&seat->word.state, &asked, GUEST_WORD_NONE);
	return true;
}

/* Count one more seat as used, and take it. */
static struct guest_seat *seat_next(struct guest_table *table, uint32_t who)
{
	uint32_t count = atomic_load(&table->used_count);

	while (count < GUEST_SEAT_COUNT) {
		if (!atomic_compare_exchange_strong(&table->used_count, &count, count + 1))
			continue;
		/* Somebody else may have found it in between. */
		if (seat_take(&table->seat[count], 0, who))
			return &table->seat[count];
		count++;
	}
	return NULL;
}

struct guest_seat *guest_sit(struct guest_table *table, uint32_t who,
	bool (*is_alive)(void *context, uint32_t who), void *context)
{
	uint32_t count = used_count(table);

	for (uint32_t i = 0; i < count; i++) {
		struct guest_seat *seat = &table->seat[i];
		uint32_t holder = atomic_load(&seat->guest);

		if (atomic_load(&seat->is_rung) || (holder && is_alive(context, holder)))
			continue;
		if (seat_take(seat, holder, who))
			return seat;
	}
	return seat_next(table, who);
}

void guest_rise(struct guest_seat *seat)
{
	atomic_store(&seat->in_use, INBOX_IS_FREE);
	atomic_store(&seat->guest, 0);
}

/* Sequentially consistent: the mark is seen, or what it is to be seen before has happened. */
void guest_enter(struct guest_seat *seat, uint64_t mark)
{
	atomic_store(&seat->in_use, mark);
	atomic_thread_fence(memory_order_seq_cst);
}

void guest_ask(struct guest_seat *seat, struct guest_bell *bell, uint64_t offset)
{
	atomic_store(&seat->word.state, GUEST_WORD_ASKED);
	ring(seat, bell, offset);
}

bool guest_publish(struct guest_seat *seat, struct guest_bell *bell, uint64_t offset,
	const struct guest_record *record)
{
	uint32_t published = atomic_load_explicit(&seat->published, memory_order_relaxed);
	struct guest_record *place = &seat->record[published % GUEST_RECORD_COUNT];

	if (published - atomic_load_explicit(&seat->collected, memory_order_acquire) ==
		GUEST_RECORD_COUNT)
		return false;
	*place = *record;
	place->stamp = record->serial ? 0 : atomic_fetch_add(&bell->stamp, 1) + 1;
	atomic_store_explicit(&seat->published, published + 1, memory_order_release);
	ring(seat, bell, offset);
	atomic_thread_fence(memory_order_seq_cst);
	return true;
}
