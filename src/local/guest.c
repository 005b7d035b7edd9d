/* SPDX-License-Identifier: BSD-2-Clause */
#include "local/guest.h"

#include <assert.h>

#include "base/once.h"
#include "local/door.h"

static_assert(sizeof(struct guest_record) == 64, "a cache line each");

/* --- the owner --- */

static void srq_collect(struct lane *lane, const struct guest_record *record, uint64_t now_ns)
{
	struct srq *srq = srq_table_find(lane->srqs, record->srqn);
	uint32_t fault = record->fault < FAULT_COUNT ? record->fault : FAULT_PEER_PROTOCOL;
	struct cqe cqe = {
		.status = fault_status((enum fault)fault),
		.opcode = record->opcode,
		.fault = fault,
		.byte_count = record->byte_count,
		.imm = record->imm,
		.qpn = record->qpn,
		.flags = record->flags & (WC_WITH_IMM | WC_WITH_INV),
		.made_ns = now_ns,
	};
	struct recv_wqe wqe;

	if (!srq || !srq->is_shared)
		return; /* it is gone */
	if ((record->opcode != WC_RECV && record->opcode != WC_RECV_RDMA_WITH_IMM) ||
		record->byte_count > MESSAGE_BYTES_MAX || srq->tags ||
		!rq_redeem(srq->rq, record->wr_id, &wqe) ||
		(!fault && record->opcode == WC_RECV && record->byte_count > wqe.total_bytes)) {
		lane_count_unsound(lane);
		return;
	}
	cqe.wr_id = wqe.wr_id;
	srq_note_taken(srq, &lane->signals);
	cq_push(srq->cq, lane->arena, &cqe, record->is_solicited != 0, &lane->signals);
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
	uint64_t before = 0, iova;
	uint32_t operation;

	if (!atomic_compare_exchange_strong(&asked->state, &expected, GUEST_WORD_TAKEN))
		return 0;
	operation = READ_ONCE(asked->operation);
	iova = READ_ONCE(asked->iova);
	word = (struct mr_word){operation <= MR_WORD_STORE ? operation : MR_WORD_STORE,
		READ_ONCE(asked->compare), READ_ONCE(asked->value)};
	asked->fault = iova % sizeof(uint64_t)
		? MR_FAULT_ALIGN
		: mr_apply(lane->mrs, READ_ONCE(asked->key),
			  (struct mr_user){READ_ONCE(asked->pd), READ_ONCE(asked->qpn)},
			  READ_ONCE(asked->access) & word_access, iova, &word, &before);
	asked->before = before;
	atomic_store(&asked->state, GUEST_WORD_DONE);
	return 1;
}

/* Of its twin: what is told, and linked. */
static uint64_t seat_offset(const struct lane *lane, const struct guest_seat *seat)
{
	return arena_offset(lane->arena, arena_owners_side(seat));
}

/* --- seats that were rung --- */

struct rung {
	struct guest_seat *seat[GUEST_SEAT_COUNT];
	uint32_t count;
};

static struct guest_bell_private *bell_private(struct doorbell *bell)
{
	return (struct guest_bell_private *)arena_owners_side(bell);
}

static struct guest_table *table_of(struct doorbell *bell)
{
	return (struct guest_table *)((uintptr_t)bell + bell_private(bell)->table_distance);
}

/* The seat whose twin is at this offset, any value; NULL when none is. */
static struct guest_seat *seat_at(const struct lane *lane, struct doorbell *bell, uint64_t offset)
{
	struct guest_table *table = table_of(bell);
	uint64_t distance = offset - seat_offset(lane, &table->seat[0]);

	if (distance % sizeof(table->seat[0]) ||
		distance / sizeof(table->seat[0]) >= GUEST_SEAT_COUNT)
		return NULL;
	return &table->seat[distance / sizeof(table->seat[0])];
}

/* The owner's own count of what it has collected. */
static uint32_t *seat_collected(const struct guest_seat *seat)
{
	return (uint32_t *)arena_owners_side(&seat->collected);
}

static struct guest_record record_read(const struct guest_record *place)
{
	return (struct guest_record){
		.wr_id = READ_ONCE(place->wr_id),
		.opcode = READ_ONCE(place->opcode),
		.flags = READ_ONCE(place->flags),
		.byte_count = READ_ONCE(place->byte_count),
		.imm = READ_ONCE(place->imm),
		.qpn = READ_ONCE(place->qpn),
		.srqn = READ_ONCE(place->srqn),
		.fault = READ_ONCE(place->fault),
		.is_solicited = READ_ONCE(place->is_solicited),
		.serial = READ_ONCE(place->serial),
		.source_qpn = READ_ONCE(place->source_qpn),
		.service_level = READ_ONCE(place->service_level),
	};
}

/* What was published and not collected first: a copy. False: nothing. */
static bool seat_next_record(
	const struct lane *lane, const struct guest_seat *seat, struct guest_record *ret_record)
{
	uint32_t *collected = seat_collected(seat);
	uint32_t published = atomic_load_explicit(&seat->published, memory_order_acquire);

	if (published - *collected > GUEST_RECORD_COUNT) {
		*collected = published; /* nobody knows what there is */
		lane_count_unsound(lane);
	}
	if (published == *collected)
		return false;
	*ret_record = record_read(&seat->record[*collected % GUEST_RECORD_COUNT]);
	return true;
}

/* The seat's next record, of which `record` is a copy. */
static void seat_collect_one(struct lane *lane, struct guest_seat *seat,
	const struct guest_record *record, uint64_t now_ns)
{
	uint32_t *collected = seat_collected(seat);

	/* First, as a queue pair that fails by it collects, too. */
	++*collected;
	atomic_store_explicit(&seat->collected, *collected, memory_order_release);
	collect_one(lane, record, now_ns);
}

static bool rung_has(const struct rung *rung, const struct guest_seat *seat)
{
	for (uint32_t i = 0; i < rung->count; i++)
		if (rung->seat[i] == seat)
			return true;
	return false;
}

static uint32_t rung_add(struct rung *rung, struct lane *lane, struct guest_seat *seat)
{
	rung->seat[rung->count++] = seat;
	return word_execute(lane, &seat->word);
}

/* The list is broken, and nobody knows who was on it: all seats are. */
static __attribute__((cold, noinline)) uint32_t rung_take_all(
	struct rung *rung, struct lane *lane, struct doorbell *bell)
{
	struct guest_table *table = table_of(bell);
	uint32_t count = 0;

	lane_count_unsound(lane);
	for (uint32_t i = 0; i < GUEST_SEAT_COUNT; i++) {
		struct guest_seat *seat = &table->seat[i];

		if (!rung_has(rung, seat) && ready_reset(&seat->ready))
			count += rung_add(rung, lane, seat);
	}
	return count;
}

/* Take the seats off the list, and do what they ask for. Returns how much that was. */
static uint32_t rung_take(struct rung *rung, struct lane *lane, struct doorbell *bell)
{
	uint64_t offset = doorbell_take(bell);
	uint32_t count = 0;

	rung->count = 0;
	while (offset) {
		struct guest_seat *seat = seat_at(lane, bell, offset);

		offset = seat ? ready_next(&seat->ready) : 0;
		/*
		 * From here on it may be rung again: look at it after that. What is not rung is on
		 * no list.
		 */
		if (!seat || !ready_reset(&seat->ready) || rung_has(rung, seat))
			return count + rung_take_all(rung, lane, bell);
		count += rung_add(rung, lane, seat);
	}
	return count;
}

/*
 * Collect one record of each seat, but for datagrams whose turn has not come. Seats that have none
 * are forgotten. Returns how many records that was.
 */
static uint32_t rung_collect(struct rung *rung, struct lane *lane, uint64_t now_ns)
{
	struct guest_record record;
	uint32_t count = 0;

	for (uint32_t i = 0; i < rung->count;) {
		struct guest_seat *seat = rung->seat[i];

		if (!seat_next_record(lane, seat, &record)) {
			rung->seat[i] = rung->seat[--rung->count];
			continue;
		}
		if (!record.serial || door_is_in_turn(lane, &record)) {
			seat_collect_one(lane, seat, &record, now_ns);
			count++;
		}
		i++;
	}
	return count;
}

/*
 * Datagrams whose turn has not come are left. *ret_early is the first of them, among those of its
 * queue pair; or has no serial.
 */
static void rung_leave(const struct rung *rung, const struct lane *lane, struct doorbell *bell,
	struct guest_record *ret_early)
{
	struct guest_record record;

	ret_early->serial = 0;
	for (uint32_t i = 0; i < rung->count; i++) {
		doorbell_ring(bell, &rung->seat[i]->ready, seat_offset(lane, rung->seat[i]));
		if (!seat_next_record(lane, rung->seat[i], &record) || !record.serial ||
			door_is_in_turn(lane, &record))
			continue; /* it has changed, or more has come */
		if (!ret_early->serial ||
			(record.serial == ret_early->serial &&
				(int32_t)(record.taken - ret_early->taken) < 0))
			*ret_early = record;
	}
}

/* Records of a round: as many as all seats have room for. */
#define ROUND_RECORDS_MAX ((uint32_t)GUEST_SEAT_COUNT * GUEST_RECORD_COUNT)

static uint32_t collect_round(
	struct lane *lane, struct doorbell *bell, uint64_t now_ns, struct guest_record *ret_early)
{
	struct rung rung;
	uint32_t count = rung_take(&rung, lane, bell);
	uint32_t found;

	do {
		found = rung_collect(&rung, lane, now_ns);
		count += found;
	} while (found && count < ROUND_RECORDS_MAX);
	rung_leave(&rung, lane, bell, ret_early);
	return count;
}

/*
 * Datagrams that are waited for, one after the other: more often than that, others wait meanwhile.
 */
enum { ROUNDS_MAX = 64 };

static uint32_t seats_collect(struct lane *lane, struct doorbell *bell, uint64_t now_ns)
{
	struct guest_record early;
	uint32_t count = collect_round(lane, bell, now_ns, &early);
	uint32_t found = count;
	bool has_waited = false;

	for (uint32_t round = 0; early.serial && round < ROUNDS_MAX; round++) {
		/*
		 * Nothing was in turn: who has taken what is missing leaves it soon, or never will.
		 */
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

/*
 * A record may fail a queue pair, which collects for its own door before it flushes. Guests decide
 * how many queue pairs fail in this way, so the depth has a limit. A level takes some 4 KiB of
 * stack.
 */
enum { COLLECT_DEPTH_MAX = 8 };

uint32_t guest_collect(struct lane *lane, struct doorbell *bell, uint64_t now_ns)
{
	struct guest_bell_private *private = bell_private(bell);
	uint32_t count;

	if (private->depth == COLLECT_DEPTH_MAX)
		return 0;
	private->depth++;
	count = seats_collect(lane, bell, now_ns);
	private->depth--;
	return count;
}

static uint32_t used_count(const struct guest_table *table)
{
	uint32_t count = atomic_load(&table->used_count);

	return count < GUEST_SEAT_COUNT ? count : GUEST_SEAT_COUNT;
}

static bool seat_quiesce(struct guest_seat *seat, guest_wait_fn *wait, const struct mr_table *mrs,
	uint32_t key, const struct inbox_patience *patience)
{
	uint32_t round = 0;
	uint64_t mark;

	do {
		if (!inbox_mark_meets(&seat->in_use, mrs, key, &mark))
			return true;
		if (mark & INBOX_IS_REVOKED)
			return false;
		if (!wait(atomic_load(&seat->guest), round))
			return true;
	} while (!inbox_is_late(round++, patience));
	if (inbox_revoke(&seat->in_use, mrs, key))
		return true;
	wait(atomic_load(&seat->guest), round); /* see inbox_mark_holds() */
	return false;
}

bool guest_quiesce(struct guest_table *table, guest_wait_fn *wait, const struct mr_table *mrs,
	uint32_t key, const struct inbox_patience *patience)
{
	bool is_quiet = true;
	uint32_t count;

	atomic_thread_fence(memory_order_seq_cst);
	count = used_count(table);
	for (uint32_t i = 0; i < count; i++)
		is_quiet = seat_quiesce(&table->seat[i], wait, mrs, key, patience) && is_quiet;
	return is_quiet;
}

/* Of guest_wait_fn, for those that stand still. */
enum {
	WAIT_ROUNDS_MAX = 2000,
	WAIT_ROUNDS_BRIEF = 284, /* some 4 ms */
};

static bool is_marked(const struct guest_seat *seat)
{
	return atomic_load(&seat->in_use) != INBOX_IS_FREE;
}

/* `*round` counts for all seats together: marks that stay are waited for at the same time. */
static bool seat_wait(
	const struct guest_seat *seat, guest_wait_fn *wait, uint32_t *round, uint32_t rounds_max)
{
	while (is_marked(seat)) {
		if (!wait(atomic_load(&seat->guest), *round))
			return true;
		if (*round == rounds_max)
			return !is_marked(seat);
		++*round;
	}
	return true;
}

static bool seats_wait(const struct guest_table *table, guest_wait_fn *wait, uint32_t rounds_max)
{
	uint32_t count, round = 0;
	bool is_free = true;

	atomic_thread_fence(memory_order_seq_cst);
	count = used_count(table);
	for (uint32_t i = 0; i < count; i++)
		is_free = seat_wait(&table->seat[i], wait, &round, rounds_max) && is_free;
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

enum { SEAT_ATTEMPTS_MAX = 2 * GUEST_SEAT_COUNT };

/* Count one more seat as used, and take it. */
static struct guest_seat *seat_next(struct guest_table *table, uint32_t who)
{
	uint32_t count = atomic_load(&table->used_count);

	for (uint32_t attempt = 0; count < GUEST_SEAT_COUNT && attempt < SEAT_ATTEMPTS_MAX;
		attempt++) {
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

		if (atomic_load(&seat->ready.is_rung) || (holder && is_alive(context, holder)))
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

void guest_ask(struct guest_seat *seat, struct doorbell *bell, uint64_t offset)
{
	atomic_store(&seat->word.state, GUEST_WORD_ASKED);
	doorbell_ring(bell, &seat->ready, offset);
}

bool guest_publish(struct guest_seat *seat, struct doorbell *bell, uint64_t offset,
	const struct guest_record *record)
{
	uint32_t published = atomic_load_explicit(&seat->published, memory_order_relaxed);
	struct guest_record *place = &seat->record[published % GUEST_RECORD_COUNT];

	if (published - atomic_load_explicit(&seat->collected, memory_order_acquire) ==
		GUEST_RECORD_COUNT)
		return false;
	*place = *record;
	atomic_store_explicit(&seat->published, published + 1, memory_order_release);
	doorbell_ring(bell, &seat->ready, offset);
	atomic_thread_fence(memory_order_seq_cst);
	return true;
}
