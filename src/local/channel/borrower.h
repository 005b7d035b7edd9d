/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Borrowers: other processes of this host that use memory and receive queues of this process.
 *
 * A borrower (local/channel/owner.h) is not the peer of a queue pair of this process. Its queue
 * pairs use a protection domain that it has imported, or a shared XRC domain, or it sends datagrams
 * to a UD endpoint (local/ud_endpoint.h). The borrower takes request channels
 * (local/channel/channel.h) from a table in the owner's NIC memory. Such a channel belongs to no
 * queue pair: the borrower sets its in-use mark there, and leaves records of receive requests that
 * it has taken and filled. The owner's threads collect the records into completion queues.
 *
 * The table lies on the peers' side of NIC memory (base/arena.h), so its words may be invalid. An
 * invalid record completes nothing, and is counted (lane_count_unsound).
 *
 * A borrower takes a channel by writing its name there (local_owner.who). Another borrower may take
 * the channel of a dead borrower. If a borrower is killed while it rings a doorbell, its channel
 * may be lost for all borrowers, so the table has spare channels. A borrower's channel is never
 * opened or closed, so its state does not say whether the queue or endpoint still exists. Therefore
 * the borrower sets its mark, and then checks the serial number of the queue or endpoint.
 *
 * Threads: borrowers use a channel at any time, under the lock of one of their lanes. The owner
 * collects under the lock of its own lane.
 */
#ifndef URNIC_LOCAL_BORROWER_H
#define URNIC_LOCAL_BORROWER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "lane/lane.h"
#include "local/channel/channel.h"
#include "local/channel/peer.h"

enum {
	BORROWER_CHANNEL_COUNT = 256,
	/*
	 * A borrower takes a receive request only if its channel has room for at least this many
	 * records.
	 */
	BORROWER_ROOM_MIN = CHANNEL_RECORD_COUNT / 2,
};

/*
 * A borrower's request for an atomic operation on memory that only the owner has mapped. Only the
 * owner can execute that operation. The borrower withdraws its request if the owner is too slow.
 * The owner takes the request, and the borrower withdraws it, by a compare-and-swap of `state` from
 * BORROWER_WORD_REQUESTED, so only one of the two succeeds.
 */
enum borrower_word_state {
	BORROWER_WORD_NONE,
	BORROWER_WORD_REQUESTED,
	BORROWER_WORD_TAKEN, /* the owner executes the operation */
	BORROWER_WORD_DONE,
};

struct borrower_word {
	_Atomic uint32_t state; /* enum borrower_word_state */
	uint32_t key;
	uint32_t pd; /* the number that the owner's process has for the protection domain */
	uint32_t qpn;
	uint32_t access;
	uint32_t operation; /* enum mr_word_operation */
	uint64_t iova;
	uint64_t compare;
	uint64_t value;
	/* The owner writes the answer to these fields. */
	uint32_t fault; /* enum mr_fault */
	uint32_t reserved;
	uint64_t before;
};

/* The channel with index i has the word and the ring with index i. */
struct borrower_table {
	/* Number of channels that were ever taken; these are the first channels of the table */
	_Atomic uint32_t used_count;
	uint32_t reserved[15];
	struct request_channel channel[BORROWER_CHANNEL_COUNT];
	struct borrower_word word[BORROWER_CHANNEL_COUNT];
	struct channel_ring ring[BORROWER_CHANNEL_COUNT];
};

/* --- the owner --- */

/* Is `channel` the address of a channel of the table? */
static inline bool borrower_has_channel(
	const struct borrower_table *table, const struct request_channel *channel)
{
	uint64_t distance = (uintptr_t)channel - (uintptr_t)table->channel;

	return distance < sizeof(table->channel) && distance % sizeof(*channel) == 0;
}

/* The ring of a channel of the table. */
static inline struct channel_ring *borrower_ring(
	struct borrower_table *table, const struct request_channel *channel)
{
	return &table->ring[channel - table->channel];
}

/* The operation that the channel's borrower requests. */
static inline struct borrower_word *borrower_word_of(
	struct borrower_table *table, const struct request_channel *channel)
{
	return &table->word[channel - table->channel];
}

/* Execute the operation that a borrower requests. Returns 1; 0 if no operation is requested. */
uint32_t borrower_execute_word(struct lane *lane, struct borrower_word *request);

/* channel_quiesce() for all borrowers' channels. */
bool borrower_quiesce(const struct local_owner *owner, const struct mr_table *mrs, uint32_t key,
	uint64_t until_ns);

/*
 * The caller has removed an object from the table in which borrowers look it up. Wait until no
 * borrower uses the object. Returns false when a suspended borrower may still use the object; then
 * the object's memory must never be reused.
 */
bool borrower_wait(const struct local_owner *owner);

/*
 * Wait until the borrowers have published the requests that they have taken. The call does not wait
 * for a dead borrower, and only a limited time for a suspended one.
 */
void borrower_wait_briefly(const struct local_owner *owner);

/* --- the borrower --- */

/*
 * Take a channel of the owner's table for the process named `who` (local_owner.who). Returns NULL
 * when no channel is free. A channel whose borrower is dead (peer_ops.is_alive) counts as free.
 */
struct request_channel *borrower_channel_take(
	struct borrower_table *table, struct peer *owner, uint32_t who);

/*
 * Give the channel back. The borrower has no mark in the channel, and publishes no more records
 * there.
 */
void borrower_channel_release(struct request_channel *channel);

/* Set a mark, before the object that the mark protects is looked up. channel_leave() clears it. */
void borrower_channel_enter(struct request_channel *channel, uint64_t mark);

/*
 * Does the channel have room for one more record, besides those of all requests that the borrower
 * may have taken?
 */
static inline bool borrower_channel_has_room(const struct request_channel *channel)
{
	return channel_count(channel) -
		atomic_load_explicit(&channel->collected, memory_order_acquire) <
		CHANNEL_RECORD_COUNT - BORROWER_ROOM_MIN;
}

/*
 * Publish a record in a channel of the table, and put the channel on the doorbell's ready list.
 * Returns false when the channel has no room for a record. The call is sequentially consistent, as
 * channel_publish() is.
 */
bool borrower_channel_publish(const struct peer *owner, struct borrower_table *table,
	struct request_channel *channel, struct doorbell *doorbell,
	const struct channel_record *record);

#endif
