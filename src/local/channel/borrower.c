/* SPDX-License-Identifier: BSD-2-Clause */
#include "local/channel/borrower.h"

#include "base/once.h"
#include "memory/mr_borrowed.h"

/* --- the owner --- */

/* The rights that a borrower may request for its operation. */
static const uint32_t word_access = MR_REMOTE_ATOMIC | MR_REMOTE_WRITE;

uint32_t borrower_execute_word(struct lane *lane, struct borrower_word *request)
{
	uint32_t expected = BORROWER_WORD_REQUESTED;
	struct mr_word word;
	uint64_t before = 0, iova;
	uint32_t operation;

	if (!atomic_compare_exchange_strong(&request->state, &expected, BORROWER_WORD_TAKEN))
		return 0;
	operation = READ_ONCE(request->operation);
	iova = READ_ONCE(request->iova);
	word = (struct mr_word){operation <= MR_WORD_STORE ? operation : MR_WORD_STORE,
		READ_ONCE(request->compare), READ_ONCE(request->value)};
	request->fault = iova % sizeof(uint64_t)
		? MR_FAULT_ALIGN
		: mr_apply(lane->mrs, READ_ONCE(request->key),
			  (struct mr_user){READ_ONCE(request->pd), READ_ONCE(request->qpn)},
			  READ_ONCE(request->access) & word_access, iova, &word, &before);
	request->before = before;
	atomic_store(&request->state, BORROWER_WORD_DONE);
	return 1;
}

static uint32_t used_count(const struct borrower_table *table)
{
	uint32_t count = atomic_load(&table->used_count);

	return count < BORROWER_CHANNEL_COUNT ? count : BORROWER_CHANNEL_COUNT;
}

bool borrower_quiesce(const struct local_owner *owner, const struct mr_table *mrs, uint32_t key,
	uint64_t until_ns)
{
	bool is_quiet = true;
	uint32_t count;

	atomic_thread_fence(memory_order_seq_cst);
	count = used_count(owner->borrowers);
	for (uint32_t i = 0; i < count; i++)
		is_quiet =
			channel_quiesce(&owner->borrowers->channel[i], owner, mrs, key, until_ns) &&
			is_quiet;
	return is_quiet;
}

/* How often a wait for a suspended borrower calls local_owner.wait before it gives up. */
enum {
	WAIT_ROUNDS_MAX = 2000,
	WAIT_ROUNDS_BRIEF = 284, /* these calls take about 4 ms */
};

/*
 * Wait until no channel has a mark. The waits for all channels together take `rounds_max` calls of
 * local_owner.wait at most.
 */
static bool channels_wait(const struct local_owner *owner, uint32_t rounds_max)
{
	uint32_t count, round = 0;
	bool is_free = true;

	atomic_thread_fence(memory_order_seq_cst);
	count = used_count(owner->borrowers);
	for (uint32_t i = 0; i < count; i++)
		is_free = channel_wait(&owner->borrowers->channel[i], owner, &round, rounds_max) &&
			is_free;
	return is_free;
}

bool borrower_wait(const struct local_owner *owner)
{
	return channels_wait(owner, WAIT_ROUNDS_MAX);
}

void borrower_wait_briefly(const struct local_owner *owner)
{
	channels_wait(owner, WAIT_ROUNDS_BRIEF);
}

/* --- the borrower --- */

/* The generation of all records in borrowers' channels, see channel_next(). */
#define GENERATION UINT32_MAX

/*
 * Correct the count of records. The channel's last borrower may have been killed after it had
 * published a record, and before it had counted the record.
 */
static void count_mend(struct request_channel *channel, struct channel_ring *ring)
{
	uint32_t count = channel_count(channel);

	if (atomic_load(&channel_record_at(ring, count)->sequence) ==
		channel_sequence(GENERATION, count))
		atomic_store(&channel->count, count + 1);
}

static bool channel_take(
	struct borrower_table *table, uint32_t index, uint32_t expected, uint32_t who)
{
	struct request_channel *channel = &table->channel[index];
	uint32_t requested = BORROWER_WORD_REQUESTED;

	if (!atomic_compare_exchange_strong(&channel->initiator, &expected, who))
		return false;
	atomic_store(&channel->in_use, CHANNEL_IS_FREE);
	atomic_compare_exchange_strong(&table->word[index].state, &requested, BORROWER_WORD_NONE);
	count_mend(channel, &table->ring[index]);
	return true;
}

enum { CHANNEL_ATTEMPTS_MAX = 2 * BORROWER_CHANNEL_COUNT };

/* Take a channel that was never taken before. */
static struct request_channel *channel_take_next(struct borrower_table *table, uint32_t who)
{
	uint32_t count = atomic_load(&table->used_count);

	for (uint32_t attempt = 0; count < BORROWER_CHANNEL_COUNT && attempt < CHANNEL_ATTEMPTS_MAX;
		attempt++) {
		if (!atomic_compare_exchange_strong(&table->used_count, &count, count + 1))
			continue;
		/*
		 * channel_take() fails if another borrower has taken the channel since this call
		 * incremented used_count.
		 */
		if (channel_take(table, count, 0, who))
			return &table->channel[count];
		count++;
	}
	return NULL;
}

struct request_channel *borrower_channel_take(
	struct borrower_table *table, struct peer *owner, uint32_t who)
{
	uint32_t count = used_count(table);

	for (uint32_t i = 0; i < count; i++) {
		struct request_channel *channel = &table->channel[i];
		uint32_t holder = atomic_load(&channel->initiator);

		if (atomic_load(&channel->ready.is_rung) ||
			(holder && owner->ops->is_alive(owner, holder)))
			continue;
		if (channel_take(table, i, holder, who))
			return channel;
	}
	return channel_take_next(table, who);
}

void borrower_channel_release(struct request_channel *channel)
{
	atomic_store(&channel->in_use, CHANNEL_IS_FREE);
	atomic_store(&channel->initiator, 0);
}

/*
 * The call is sequentially consistent, so either the owner sees the mark, or the borrower sees the
 * owner's change.
 */
void borrower_channel_enter(struct request_channel *channel, uint64_t mark)
{
	atomic_store(&channel->in_use, mark);
	atomic_thread_fence(memory_order_seq_cst);
}

bool borrower_channel_publish(const struct peer *owner, struct borrower_table *table,
	struct request_channel *channel, struct doorbell *doorbell,
	const struct channel_record *record)
{
	uint32_t number = channel_count(channel);
	struct channel_record *place = channel_record_at(borrower_ring(table, channel), number);

	if (number - atomic_load_explicit(&channel->collected, memory_order_acquire) ==
		CHANNEL_RECORD_COUNT)
		return false;
	channel_begin_records(channel);
	channel_record_write(place, record);
	atomic_store_explicit(
		&place->sequence, channel_sequence(GENERATION, number), memory_order_release);
	atomic_store_explicit(&channel->count, number + 1, memory_order_relaxed);
	doorbell_ring(doorbell, &channel->ready, peer_offset(owner, channel));
	atomic_thread_fence(memory_order_seq_cst);
	return true;
}
