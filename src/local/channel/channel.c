/* SPDX-License-Identifier: BSD-2-Clause */
#include "local/channel/channel.h"

#include <assert.h>

static_assert(sizeof(struct channel_record) == 64, "a cache line each");
static_assert(sizeof(struct request_channel) == 256,
	"each queue pair with a peer on its host has one block of NIC memory for its channel");

/*
 * The sequence of a closed place. No published record has this sequence, because no open generation
 * is 0. No empty place of a new ring has it either, because such a place has 0.
 */
#define CLOSED channel_sequence(0, 1)

/*
 * Empty the places that earlier generations have used. An initiator publishes in order, so the used
 * places come first, and a place with sequence 0 ends them. But an initiator that has left an
 * invalid record may have written to any place.
 */
static void ring_renew(
	const struct channel_private *private, struct channel_ring *ring, uint32_t generation)
{
	for (uint32_t i = 0; private->is_ring_used && i < CHANNEL_RECORD_COUNT; i++) {
		_Atomic uint64_t *sequence = &ring->record[i].sequence;

		if (!private->is_ring_unsound &&
			!atomic_load_explicit(sequence, memory_order_relaxed))
			return;
		atomic_store_explicit(sequence,
			channel_sequence(generation, i - CHANNEL_RECORD_COUNT),
			memory_order_relaxed);
	}
}

void channel_open(struct request_channel *channel, struct channel_ring *ring)
{
	struct channel_private *private = channel_private(channel);
	uint32_t generation = private->generation + 1;

	assert(channel_generation_is_open(generation));
	ring_renew(private, ring, generation);
	private->generation = generation;
	private->collected = 0;
	private->is_ring_unsound = false;
	atomic_store_explicit(&channel->collected, 0, memory_order_relaxed);
	atomic_store_explicit(&channel->count, 0, memory_order_relaxed);
	atomic_store_explicit(&channel->generation, generation, memory_order_release);
}

/*
 * Close the next unpublished record to the initiator. The initiator publishes in order, so it
 * cannot publish any later record either.
 */
static void records_close(
	struct channel_private *private, struct channel_ring *ring, uint32_t generation)
{
	uint32_t first = private->collected;

	private->is_ring_used = true;
	for (uint32_t number = first; number - first < CHANNEL_RECORD_COUNT; number++)
		if (channel_sequence_set(
			    channel_record_at(ring, number), generation, number, CLOSED))
			return;
}

static bool is_marked(const struct request_channel *channel)
{
	return atomic_load(&channel->in_use) != CHANNEL_IS_FREE;
}

/*
 * Has an initiator ever published a record here? The owner stores a positive answer in
 * own->is_ring_used.
 */
static bool is_ring_used(const struct request_channel *channel)
{
	struct channel_private *own = channel_private(channel);

	if (!own->is_ring_used)
		own->is_ring_used =
			atomic_load_explicit(&channel->has_published, memory_order_acquire) != 0;
	return own->is_ring_used;
}

void channel_close(struct request_channel *channel, struct channel_ring *ring)
{
	struct channel_private *private = channel_private(channel);
	uint32_t generation = private->generation;

	if (!channel_generation_is_open(generation))
		return;
	private->generation = generation + 1;
	atomic_store(&channel->generation, generation + 1);
	/*
	 * An initiator without a mark sets a mark before it publishes, and then finds the
	 * generation closed. An initiator with a mark sets has_published before it publishes and
	 * clears the mark. So if the owner sees neither a mark nor has_published, the ring needs no
	 * change.
	 */
	if (is_marked(channel) || is_ring_used(channel))
		records_close(private, ring, generation);
}

enum {
	/*
	 * The first rounds of a wait do not read the clock. They suffice when the peer is not
	 * suspended.
	 */
	CLOCKLESS_ROUNDS = 200,
	REVOKE_ATTEMPTS_MAX = 16,
};

/* Does the in-use mark say that the initiator may use memory of this key? */
static bool mark_meets(const struct request_channel *channel, const struct mr_table *mrs,
	uint32_t key, uint64_t *ret_mark)
{
	uint64_t mark = atomic_load(&channel->in_use);

	*ret_mark = mark;
	return (mark & CHANNEL_USES_KEY) && mr_keys_may_meet(mrs, (uint32_t)mark, key);
}

/*
 * Revoke the mark, if it is one that meets the key (mark_meets()). Returns true when there is no
 * such mark.
 */
static bool mark_revoke(struct request_channel *channel, const struct mr_table *mrs, uint32_t key)
{
	uint64_t mark;

	for (uint32_t attempt = 0; attempt < REVOKE_ATTEMPTS_MAX; attempt++) {
		if (!mark_meets(channel, mrs, key, &mark))
			return true;
		if (atomic_compare_exchange_strong(
			    &channel->in_use, &mark, mark | CHANNEL_IS_REVOKED))
			return false;
	}
	return false;
}

bool channel_quiesce(struct request_channel *channel, const struct local_owner *owner,
	const struct mr_table *mrs, uint32_t key, uint64_t until_ns)
{
	uint32_t round = 0;
	uint64_t mark;

	atomic_thread_fence(memory_order_seq_cst);
	do {
		if (!mark_meets(channel, mrs, key, &mark))
			return true;
		if (mark & CHANNEL_IS_REVOKED) {
			/*
			 * The thread that revoked the mark may not have incremented the count yet.
			 */
			atomic_fetch_add(&channel->revoked, 1);
			return false;
		}
		if (!owner->wait(atomic_load(&channel->initiator), round))
			return true;
	} while (round++ < CLOCKLESS_ROUNDS || owner->now_ns() < until_ns);
	if (mark_revoke(channel, mrs, key))
		return true;
	atomic_fetch_add(&channel->revoked, 1);
	/* channel_mark_holds() relies on this pause */
	owner->wait(atomic_load(&channel->initiator), round);
	return false;
}

bool channel_wait(const struct request_channel *channel, const struct local_owner *owner,
	uint32_t *round, uint32_t rounds_max)
{
	while (is_marked(channel)) {
		if (!owner->wait(atomic_load(&channel->initiator), *round))
			return true;
		if (*round == rounds_max)
			return !is_marked(channel);
		++*round;
	}
	return true;
}

const struct channel_record *channel_next(
	const struct request_channel *channel, const struct channel_ring *ring)
{
	uint32_t generation = channel_private(channel)->generation;
	uint32_t number = channel_private(channel)->collected;
	const struct channel_record *record = &ring->record[number % CHANNEL_RECORD_COUNT];

	if (!is_ring_used(channel))
		return NULL;
	generation -= !channel_generation_is_open(generation);
	return atomic_load_explicit(&record->sequence, memory_order_acquire) ==
			channel_sequence(generation, number)
		? record
		: NULL;
}

void channel_collected(struct request_channel *channel)
{
	uint32_t collected = ++channel_private(channel)->collected;

	atomic_store_explicit(&channel->collected, collected, memory_order_release);
}

bool channel_remark(struct request_channel *channel, uint32_t generation, uint64_t mark)
{
	atomic_store(&channel->in_use, mark);
	return channel_is_entered(channel, generation);
}
