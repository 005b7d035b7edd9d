/* SPDX-License-Identifier: BSD-2-Clause */
#include "local/borrower.h"

#include <assert.h>

#include "base/once.h"
#include "local/ud_endpoint.h"

static_assert(sizeof(struct borrower_record) == 64, "a cache line each");

/* --- the owner --- */

static void srq_collect(struct lane *lane, const struct borrower_record *record, uint64_t now_ns)
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

static void collect_one(struct lane *lane, const struct borrower_record *record, uint64_t now_ns)
{
	if (record->serial)
		ud_endpoint_collect(lane, record, now_ns);
	else
		srq_collect(lane, record, now_ns);
}

/* Borrowers ask for nothing else. */
static const uint32_t word_access = MR_REMOTE_ATOMIC | MR_REMOTE_WRITE;

/* Do what the borrower asks for, if it still does. Returns 1 if so. */
static uint32_t word_execute(struct lane *lane, struct borrower_word *asked)
{
	uint32_t expected = BORROWER_WORD_REQUESTED;
	struct mr_word word;
	uint64_t before = 0, iova;
	uint32_t operation;

	if (!atomic_compare_exchange_strong(&asked->state, &expected, BORROWER_WORD_TAKEN))
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
	atomic_store(&asked->state, BORROWER_WORD_DONE);
	return 1;
}

/* Of its twin: what is told, and linked. */
static uint64_t borrower_channel_offset(
	const struct lane *lane, const struct borrower_channel *channel)
{
	return arena_offset(lane->arena, arena_owners_side(channel));
}

/* --- channels that were rung --- */

struct rung {
	struct borrower_channel *channel[BORROWER_CHANNEL_COUNT];
	uint32_t count;
};

static struct borrower_doorbell_private *doorbell_private(struct doorbell *doorbell)
{
	return (struct borrower_doorbell_private *)arena_owners_side(doorbell);
}

static struct borrower_table *table_of(struct doorbell *doorbell)
{
	return (struct borrower_table *)((uintptr_t)doorbell +
		doorbell_private(doorbell)->table_distance);
}

/* The channel whose twin is at this offset, any value; NULL when none is. */
static struct borrower_channel *channel_at(
	const struct lane *lane, struct doorbell *doorbell, uint64_t offset)
{
	struct borrower_table *table = table_of(doorbell);
	uint64_t distance = offset - borrower_channel_offset(lane, &table->channel[0]);

	if (distance % sizeof(table->channel[0]) ||
		distance / sizeof(table->channel[0]) >= BORROWER_CHANNEL_COUNT)
		return NULL;
	return &table->channel[distance / sizeof(table->channel[0])];
}

/* The owner's own count of what it has collected. */
static uint32_t *channel_collected_own(const struct borrower_channel *channel)
{
	return (uint32_t *)arena_owners_side(&channel->collected);
}

static struct borrower_record record_read(const struct borrower_record *place)
{
	return (struct borrower_record){
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
static bool channel_record_next(const struct lane *lane, const struct borrower_channel *channel,
	struct borrower_record *ret_record)
{
	uint32_t *collected = channel_collected_own(channel);
	uint32_t published = atomic_load_explicit(&channel->published, memory_order_acquire);

	if (published - *collected > BORROWER_RECORD_COUNT) {
		*collected = published; /* the count is invalid: skip what it covers */
		lane_count_unsound(lane);
	}
	if (published == *collected)
		return false;
	*ret_record = record_read(&channel->record[*collected % BORROWER_RECORD_COUNT]);
	return true;
}

/* The channel's next record, of which `record` is a copy. */
static void channel_collect_one(struct lane *lane, struct borrower_channel *channel,
	const struct borrower_record *record, uint64_t now_ns)
{
	uint32_t *collected = channel_collected_own(channel);

	/* First, as a queue pair that fails by it collects, too. */
	++*collected;
	atomic_store_explicit(&channel->collected, *collected, memory_order_release);
	collect_one(lane, record, now_ns);
}

static bool rung_has(const struct rung *rung, const struct borrower_channel *channel)
{
	for (uint32_t i = 0; i < rung->count; i++)
		if (rung->channel[i] == channel)
			return true;
	return false;
}

static uint32_t rung_add(struct rung *rung, struct lane *lane, struct borrower_channel *channel)
{
	rung->channel[rung->count++] = channel;
	return word_execute(lane, &channel->word);
}

/* The list is broken: check all channels of the table. */
static __attribute__((cold, noinline)) uint32_t rung_take_all(
	struct rung *rung, struct lane *lane, struct doorbell *doorbell)
{
	struct borrower_table *table = table_of(doorbell);
	uint32_t count = 0;

	lane_count_unsound(lane);
	for (uint32_t i = 0; i < BORROWER_CHANNEL_COUNT; i++) {
		struct borrower_channel *channel = &table->channel[i];

		if (!rung_has(rung, channel) && ready_reset(&channel->ready))
			count += rung_add(rung, lane, channel);
	}
	return count;
}

/* Take the channels off the list, and do what they ask for. Returns how much that was. */
static uint32_t rung_take(struct rung *rung, struct lane *lane, struct doorbell *doorbell)
{
	uint64_t offset = doorbell_take(doorbell);
	uint32_t count = 0;

	rung->count = 0;
	while (offset) {
		struct borrower_channel *channel = channel_at(lane, doorbell, offset);

		offset = channel ? ready_next(&channel->ready) : 0;
		/*
		 * From here on it may be rung again: look at it after that. What is not rung is on
		 * no list.
		 */
		if (!channel || !ready_reset(&channel->ready) || rung_has(rung, channel))
			return count + rung_take_all(rung, lane, doorbell);
		count += rung_add(rung, lane, channel);
	}
	return count;
}

/*
 * Collect one record of each channel, but for datagrams whose turn has not come. Seats that have
 * none are forgotten. Returns how many records that was.
 */
static uint32_t rung_collect(struct rung *rung, struct lane *lane, uint64_t now_ns)
{
	struct borrower_record record;
	uint32_t count = 0;

	for (uint32_t i = 0; i < rung->count;) {
		struct borrower_channel *channel = rung->channel[i];

		if (!channel_record_next(lane, channel, &record)) {
			rung->channel[i] = rung->channel[--rung->count];
			continue;
		}
		if (!record.serial || ud_endpoint_is_in_turn(lane, &record)) {
			channel_collect_one(lane, channel, &record, now_ns);
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
static void rung_leave(const struct rung *rung, const struct lane *lane, struct doorbell *doorbell,
	struct borrower_record *ret_early)
{
	struct borrower_record record;

	ret_early->serial = 0;
	for (uint32_t i = 0; i < rung->count; i++) {
		doorbell_ring(doorbell, &rung->channel[i]->ready,
			borrower_channel_offset(lane, rung->channel[i]));
		if (!channel_record_next(lane, rung->channel[i], &record) || !record.serial ||
			ud_endpoint_is_in_turn(lane, &record))
			continue; /* it has changed, or more has come */
		if (!ret_early->serial ||
			(record.serial == ret_early->serial &&
				(int32_t)(record.taken - ret_early->taken) < 0))
			*ret_early = record;
	}
}

/* Records of a round: as many as all channels have room for. */
#define ROUND_RECORDS_MAX ((uint32_t)BORROWER_CHANNEL_COUNT * BORROWER_RECORD_COUNT)

static uint32_t collect_round(struct lane *lane, struct doorbell *doorbell, uint64_t now_ns,
	struct borrower_record *ret_early)
{
	struct rung rung;
	uint32_t count = rung_take(&rung, lane, doorbell);
	uint32_t found;

	do {
		found = rung_collect(&rung, lane, now_ns);
		count += found;
	} while (found && count < ROUND_RECORDS_MAX);
	rung_leave(&rung, lane, doorbell, ret_early);
	return count;
}

/*
 * Datagrams that are waited for, one after the other: more often than that, others wait meanwhile.
 */
enum { ROUNDS_MAX = 64 };

static uint32_t channels_collect(struct lane *lane, struct doorbell *doorbell, uint64_t now_ns)
{
	struct borrower_record early;
	uint32_t count = collect_round(lane, doorbell, now_ns, &early);
	uint32_t found = count;
	bool has_waited = false;

	for (uint32_t round = 0; early.serial && round < ROUNDS_MAX; round++) {
		/*
		 * Nothing was in turn: who has taken what is missing leaves it soon, or never will.
		 */
		if (!found && has_waited)
			ud_endpoint_skip(lane, &early);
		else if (!found)
			ud_endpoint_wait(lane, &early);
		has_waited = !found;
		found = collect_round(lane, doorbell, now_ns, &early);
		count += found;
	}
	return count;
}

/*
 * A record may fail a queue pair, which collects for its own endpoint before it flushes. Borrowers
 * decide how many queue pairs fail in this way, so the depth has a limit. A level takes some 4 KiB
 * of stack.
 */
enum { COLLECT_DEPTH_MAX = 8 };

uint32_t borrower_collect(struct lane *lane, struct doorbell *doorbell, uint64_t now_ns)
{
	struct borrower_doorbell_private *private = doorbell_private(doorbell);
	uint32_t count;

	if (private->depth == COLLECT_DEPTH_MAX)
		return 0;
	private->depth++;
	count = channels_collect(lane, doorbell, now_ns);
	private->depth--;
	return count;
}

static uint32_t used_count(const struct borrower_table *table)
{
	uint32_t count = atomic_load(&table->used_count);

	return count < BORROWER_CHANNEL_COUNT ? count : BORROWER_CHANNEL_COUNT;
}

static bool channel_wait_key(struct borrower_channel *channel, borrower_wait_fn *wait,
	const struct mr_table *mrs, uint32_t key, const struct wait_budget *budget)
{
	uint32_t round = 0;
	uint64_t mark;

	do {
		if (!channel_mark_meets(&channel->in_use, mrs, key, &mark))
			return true;
		if (mark & CHANNEL_IS_REVOKED)
			return false;
		if (!wait(atomic_load(&channel->borrower), round))
			return true;
	} while (!channel_is_late(round++, budget));
	if (channel_revoke(&channel->in_use, mrs, key))
		return true;
	wait(atomic_load(&channel->borrower), round); /* see channel_mark_holds() */
	return false;
}

bool borrower_quiesce(struct borrower_table *table, borrower_wait_fn *wait,
	const struct mr_table *mrs, uint32_t key, const struct wait_budget *budget)
{
	bool is_quiet = true;
	uint32_t count;

	atomic_thread_fence(memory_order_seq_cst);
	count = used_count(table);
	for (uint32_t i = 0; i < count; i++)
		is_quiet = channel_wait_key(&table->channel[i], wait, mrs, key, budget) && is_quiet;
	return is_quiet;
}

/* Calls of borrower_wait_fn, for a stopped borrower. */
enum {
	WAIT_ROUNDS_MAX = 2000,
	WAIT_ROUNDS_BRIEF = 284, /* some 4 ms */
};

static bool is_marked(const struct borrower_channel *channel)
{
	return atomic_load(&channel->in_use) != CHANNEL_IS_FREE;
}

/* `*round` counts for all channels together: marks that stay are waited for at the same time. */
static bool channel_wait(const struct borrower_channel *channel, borrower_wait_fn *wait,
	uint32_t *round, uint32_t rounds_max)
{
	while (is_marked(channel)) {
		if (!wait(atomic_load(&channel->borrower), *round))
			return true;
		if (*round == rounds_max)
			return !is_marked(channel);
		++*round;
	}
	return true;
}

static bool channels_wait(
	const struct borrower_table *table, borrower_wait_fn *wait, uint32_t rounds_max)
{
	uint32_t count, round = 0;
	bool is_free = true;

	atomic_thread_fence(memory_order_seq_cst);
	count = used_count(table);
	for (uint32_t i = 0; i < count; i++)
		is_free = channel_wait(&table->channel[i], wait, &round, rounds_max) && is_free;
	return is_free;
}

bool borrower_wait(const struct borrower_table *table, borrower_wait_fn *wait)
{
	return channels_wait(table, wait, WAIT_ROUNDS_MAX);
}

void borrower_wait_briefly(const struct borrower_table *table, borrower_wait_fn *wait)
{
	channels_wait(table, wait, WAIT_ROUNDS_BRIEF);
}

/* --- the borrower --- */

static bool channel_take(struct borrower_channel *channel, uint32_t expected, uint32_t who)
{
	uint32_t asked = BORROWER_WORD_REQUESTED;

	if (!atomic_compare_exchange_strong(&channel->borrower, &expected, who))
		return false;
	atomic_store(&channel->in_use, CHANNEL_IS_FREE);
	atomic_compare_exchange_strong(&channel->word.state, &asked, BORROWER_WORD_NONE);
	return true;
}

enum { CHANNEL_ATTEMPTS_MAX = 2 * BORROWER_CHANNEL_COUNT };

/* Count one more channel as used, and take it. */
static struct borrower_channel *channel_take_next(struct borrower_table *table, uint32_t who)
{
	uint32_t count = atomic_load(&table->used_count);

	for (uint32_t attempt = 0; count < BORROWER_CHANNEL_COUNT && attempt < CHANNEL_ATTEMPTS_MAX;
		attempt++) {
		if (!atomic_compare_exchange_strong(&table->used_count, &count, count + 1))
			continue;
		/* Another borrower may have taken it in between. */
		if (channel_take(&table->channel[count], 0, who))
			return &table->channel[count];
		count++;
	}
	return NULL;
}

struct borrower_channel *borrower_channel_take(struct borrower_table *table, uint32_t who,
	bool (*is_alive)(void *context, uint32_t who), void *context)
{
	uint32_t count = used_count(table);

	for (uint32_t i = 0; i < count; i++) {
		struct borrower_channel *channel = &table->channel[i];
		uint32_t holder = atomic_load(&channel->borrower);

		if (atomic_load(&channel->ready.is_rung) || (holder && is_alive(context, holder)))
			continue;
		if (channel_take(channel, holder, who))
			return channel;
	}
	return channel_take_next(table, who);
}

void borrower_channel_release(struct borrower_channel *channel)
{
	atomic_store(&channel->in_use, CHANNEL_IS_FREE);
	atomic_store(&channel->borrower, 0);
}

/* Sequentially consistent: the mark is seen, or what it is to be seen before has happened. */
void borrower_channel_enter(struct borrower_channel *channel, uint64_t mark)
{
	atomic_store(&channel->in_use, mark);
	atomic_thread_fence(memory_order_seq_cst);
}

void borrower_word_request(
	struct borrower_channel *channel, struct doorbell *doorbell, uint64_t offset)
{
	atomic_store(&channel->word.state, BORROWER_WORD_REQUESTED);
	doorbell_ring(doorbell, &channel->ready, offset);
}

bool borrower_channel_publish(struct borrower_channel *channel, struct doorbell *doorbell,
	uint64_t offset, const struct borrower_record *record)
{
	uint32_t published = atomic_load_explicit(&channel->published, memory_order_relaxed);
	struct borrower_record *place = &channel->record[published % BORROWER_RECORD_COUNT];

	if (published - atomic_load_explicit(&channel->collected, memory_order_acquire) ==
		BORROWER_RECORD_COUNT)
		return false;
	*place = *record;
	atomic_store_explicit(&channel->published, published + 1, memory_order_release);
	doorbell_ring(doorbell, &channel->ready, offset);
	atomic_thread_fence(memory_order_seq_cst);
	return true;
}
