/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Borrowers: other processes of this host that use memory and receive queues of this one.
 *
 * A borrower (local/owner.h) is not the peer of a queue pair of this process. Its queue pairs work
 * in a protection domain that it imported, or in a shared XRC domain, or it sends datagrams to a UD
 * endpoint (local/ud_endpoint.h). Each of its lanes takes borrower's channels from a table in the
 * owner's NIC memory. A borrower's channel is like a request channel (local/channel.h), but belongs
 * to no queue pair: the borrower sets its in-use mark there, and leaves records of receive requests
 * that it has taken and filled. The owner's threads collect the records into completion queues.
 *
 * Table, channels and doorbells lie on the peers' side of NIC memory (base/arena.h), so their words
 * may be invalid. The owner's count of collected records is in the twin of the channel. An invalid
 * record completes nothing, and is counted (lane_count_unsound).
 *
 * A borrower takes a channel by writing its name there. Another borrower may take the channel of a
 * dead one. A borrower that is killed while it rings a doorbell may lose its channel, so the table
 * has more than are needed.
 *
 * Threads: borrowers at any time, under the lock of one of their lanes. The owner collects under
 * the lock of its own lane.
 */
#ifndef URNIC_LOCAL_BORROWER_H
#define URNIC_LOCAL_BORROWER_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "lane/lane.h"
#include "local/channel.h"
#include "memory/mr_borrowed.h"
#include "queue/srq.h"

enum {
	BORROWER_CHANNEL_COUNT = 256,
	BORROWER_RECORD_COUNT = 128, /* of a channel: a power of two */
	BORROWER_ROOM_MIN = BORROWER_RECORD_COUNT / 2, /* that must be free for one more request */
};

/* A receive request that was taken, and how it completes. */
struct borrower_record {
	uint64_t wr_id;
	uint32_t opcode; /* enum wc_opcode */
	uint32_t flags; /* enum wc_flags */
	uint32_t byte_count;
	uint32_t imm;
	uint32_t qpn; /* the borrower's; of a datagram, the owner's */
	union {
		uint32_t srqn;
		/*
		 * Of a datagram: how many of the receive queue's requests were taken before this
		 * one
		 */
		uint32_t taken;
	};
	uint32_t fault; /* enum fault */
	uint32_t is_solicited;
	/* Of a datagram: that of the endpoint it came in by (local/ud_endpoint.h); else 0 */
	uint64_t serial;
	uint32_t source_qpn; /* of a datagram: the borrower's */
	uint32_t service_level; /* of a datagram: enum wc_service_level */
	uint64_t reserved;
};

/*
 * An operation on a word that only the owner's own CPUs can do, because nobody else has the memory
 * mapped. The borrower asks, and takes it back if nobody comes; who turns `state` from
 * BORROWER_WORD_REQUESTED has it.
 */
enum borrower_word_state {
	BORROWER_WORD_NONE,
	BORROWER_WORD_REQUESTED,
	BORROWER_WORD_TAKEN, /* the owner is about to do it */
	BORROWER_WORD_DONE,
};

struct borrower_word {
	_Atomic uint32_t state; /* enum borrower_word_state */
	uint32_t key;
	uint32_t pd; /* the owner's */
	uint32_t qpn;
	uint32_t access;
	uint32_t operation; /* enum mr_word_operation */
	uint64_t iova;
	uint64_t compare;
	uint64_t value;
	/* The answer. */
	uint32_t fault; /* enum mr_fault */
	uint32_t reserved;
	uint64_t before;
};

struct borrower_channel {
	_Atomic uint32_t borrower; /* its name (local_owner.who); 0: nobody's */
	_Atomic uint32_t published; /* records */
	_Atomic uint64_t in_use; /* the borrower's mark, as in channels */
	struct ready ready;
	alignas(64) _Atomic uint32_t collected;
	alignas(64) struct borrower_word word;
	alignas(64) struct borrower_record record[BORROWER_RECORD_COUNT];
};

struct borrower_table {
	_Atomic uint32_t used_count; /* channels that were ever taken: the first ones */
	uint32_t reserved[15];
	struct borrower_channel channel[BORROWER_CHANNEL_COUNT];
};

/* What the owner itself goes by: the twin of a doorbell. */
struct borrower_doorbell_private {
	uint64_t table_distance; /* from the doorbell to the table, modulo 2^64 */
	/* Calls of borrower_collect() that are under way, each within another one */
	uint32_t depth;
};

/* --- the owner --- */

/* A doorbell, zeroed on both sides, is one for channels of this table. */
static inline void borrower_doorbell_init(
	struct doorbell *doorbell, const struct borrower_table *table)
{
	struct borrower_doorbell_private *private =
		(struct borrower_doorbell_private *)arena_owners_side(doorbell);

	private->table_distance = (uintptr_t)table - (uintptr_t)doorbell;
}

/*
 * Somebody called `who` uses something, and has for `round` calls: let some time pass. False when
 * nobody does in truth, because the borrower is dead.
 */
typedef bool borrower_wait_fn(uint32_t who, uint32_t round);

/*
 * Complete what borrowers have left for a lane, and do what they ask for. Returns how much it was.
 * Requests of a datagram queue pair's own receive queue complete in the order in which they were
 * posted: who is about to leave one that comes before another is waited for a moment.
 *
 * A record may fail a datagram queue pair, whose endpoint calls this again. A call that is nested
 * too deeply does nothing: the calls around it, or the next one, collect the rest.
 */
uint32_t borrower_collect(struct lane *lane, struct doorbell *doorbell, uint64_t now_ns);

/* Wait until no borrower uses memory of this key, which is found no longer. As local_quiesce(). */
bool borrower_quiesce(struct borrower_table *table, borrower_wait_fn *wait,
	const struct mr_table *mrs, uint32_t key, const struct wait_budget *budget);

/*
 * Something that borrowers find by its number is found no longer: wait until nobody uses it. False
 * when somebody stands still there: then its memory must never be used again.
 */
bool borrower_wait(const struct borrower_table *table, borrower_wait_fn *wait);

/*
 * Give whoever is at it the time to leave what he has taken. Who stands still, or is dead, is not
 * waited for any longer.
 */
void borrower_wait_briefly(const struct borrower_table *table, borrower_wait_fn *wait);

/* --- the borrower --- */

/*
 * Take a channel for `who`, or NULL when there is none. `is_alive` says whether the process lives
 * that calls itself so at the owner's.
 */
struct borrower_channel *borrower_channel_take(struct borrower_table *table, uint32_t who,
	bool (*is_alive)(void *context, uint32_t who), void *context);

/* Nothing is in use, and nothing will be left any more. */
void borrower_channel_release(struct borrower_channel *channel);

/* Begin to use what `mark` says, before it is looked up; and leave it. */
void borrower_channel_enter(struct borrower_channel *channel, uint64_t mark);
static inline void borrower_channel_leave(struct borrower_channel *channel)
{
	atomic_store_explicit(&channel->in_use, CHANNEL_IS_FREE, memory_order_release);
}

/* As channel_mark_holds(). */
static inline bool borrower_channel_mark_holds(const struct borrower_channel *channel)
{
	return channel_mark_holds(&channel->in_use);
}

/* Is there room for records of all that the borrower may have taken, and one more? */
static inline bool borrower_channel_has_room(const struct borrower_channel *channel)
{
	return atomic_load_explicit(&channel->published, memory_order_relaxed) -
		atomic_load_explicit(&channel->collected, memory_order_acquire) <
		BORROWER_RECORD_COUNT - BORROWER_ROOM_MIN;
}

/* Ask for what channel->word says, but its state. The owner's lane is to be woken. */
void borrower_word_request(
	struct borrower_channel *channel, struct doorbell *doorbell, uint64_t offset);

/*
 * Leave a record, and put the channel on the doorbell's list; `offset` is where the channel is.
 * False when there is no room. What is read after that is as it was then or later.
 */
bool borrower_channel_publish(struct borrower_channel *channel, struct doorbell *doorbell,
	uint64_t offset, const struct borrower_record *record);

#endif
