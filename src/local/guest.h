/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Guests: other processes of this host that use memory and XRC shared receive queues of this one.
 *
 * A guest (local/far.h) is no peer of a queue pair of ours. It has queue pairs of its own, in a
 * protection domain that it imported from us, or in an XRC domain that we share; or it sends
 * datagrams to ours (local/door.h). Each of its lanes takes seats in a table in our NIC memory. In
 * a seat its guest marks what it uses while it uses it, as initiators do in inboxes
 * (local/inbox.h), and leaves records of receive requests that it took from our queues and filled.
 * Our threads collect them into completion queues, so overruns, events and moderation are ours as
 * ever.
 *
 * Table, seats and bells lie on the peers' side of NIC memory (base/arena.h) and may say anything.
 * The owner's own count of what it has collected is in the twin of the seat. A record that cannot
 * be true completes nothing, and is counted (lane_count_unsound).
 *
 * A guest takes a seat by writing its name there. If it dies, the seat is free for another one. A
 * seat whose guest was killed while it was ringing a bell may be lost, which is why there are more
 * than anybody needs.
 *
 * Threads: guests at any time, under a lane's lock of theirs. The owner collects under a lane's
 * lock of its own.
 */
#ifndef URNIC_LOCAL_GUEST_H
#define URNIC_LOCAL_GUEST_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "lane/lane.h"
#include "local/inbox.h"
#include "memory/abroad.h"
#include "queue/srq.h"

enum {
	GUEST_SEAT_COUNT = 256,
	GUEST_RECORD_COUNT = 128, /* of a seat: a power of two */
	GUEST_ROOM_MIN = GUEST_RECORD_COUNT / 2, /* that must be free for one more request */
};

/* A receive request that was taken, and how it completes. */
struct guest_record {
	uint64_t wr_id;
	uint32_t opcode; /* enum wc_opcode */
	uint32_t flags; /* enum wc_flags */
	uint32_t byte_count;
	uint32_t imm;
	uint32_t qpn; /* the guest's; of a datagram, the owner's */
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
	uint64_t serial; /* of a datagram: that of the door it came in by (local/door.h); else 0 */
	uint32_t source_qpn; /* of a datagram: the guest's */
	uint32_t service_level; /* of a datagram: enum wc_service_level */
	uint64_t reserved;
};

/*
 * An operation on a word that only the owner's own CPUs can do, because nobody else has the memory
 * mapped. The guest asks, and takes it back if nobody comes; who turns `state` from
 * GUEST_WORD_ASKED has it.
 */
enum guest_word_state {
	GUEST_WORD_NONE,
	GUEST_WORD_ASKED,
	GUEST_WORD_TAKEN, /* the owner is about to do it */
	GUEST_WORD_DONE,
};

struct guest_word {
	_Atomic uint32_t state; /* enum guest_word_state */
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

struct guest_seat {
	_Atomic uint32_t guest; /* its name (local_owner.who); 0: nobody's */
	_Atomic uint32_t published; /* records */
	_Atomic uint64_t in_use; /* the guest's mark, as in inboxes */
	struct ready ready;
	alignas(64) _Atomic uint32_t collected;
	alignas(64) struct guest_word word;
	alignas(64) struct guest_record record[GUEST_RECORD_COUNT];
};

struct guest_table {
	_Atomic uint32_t used_count; /* seats that were ever taken: the first ones */
	uint32_t reserved[15];
	struct guest_seat seat[GUEST_SEAT_COUNT];
};

/* What the owner itself goes by: the twin of a bell. */
struct guest_bell_private {
	uint64_t table_distance; /* from the bell to the table, modulo 2^64 */
	uint32_t depth; /* calls of guest_collect() that are under way, each within another one */
};

/* --- the owner --- */

/* A bell, zeroed on both sides, is one for seats of this table. */
static inline void guest_bell_init(struct doorbell *bell, const struct guest_table *table)
{
	struct guest_bell_private *private = (struct guest_bell_private *)arena_owners_side(bell);

	private->table_distance = (uintptr_t)table - (uintptr_t)bell;
}

/*
 * Somebody called `who` uses something, and has for `round` calls: let some time pass. False when
 * nobody does in truth, because the guest is dead.
 */
typedef bool guest_wait_fn(uint32_t who, uint32_t round);

/*
 * Complete what guests have left for a lane, and do what they ask for. Returns how much it was.
 * Requests of a datagram queue pair's own receive queue complete in the order in which they were
 * posted: who is about to leave one that comes before another is waited for a moment.
 *
 * A record may fail a datagram queue pair, whose door calls this again. A call that is nested too
 * deeply does nothing: the calls around it, or the next one, collect the rest.
 */
uint32_t guest_collect(struct lane *lane, struct doorbell *bell, uint64_t now_ns);

/* Wait until no guest uses memory of this key, which is found no longer. As local_quiesce(). */
bool guest_quiesce(struct guest_table *table, guest_wait_fn *wait, const struct mr_table *mrs,
	uint32_t key, const struct inbox_patience *patience);

/*
 * Something that guests find by its number is found no longer: wait until nobody uses it. False
 * when somebody stands still there: then its memory must never be used again.
 */
bool guest_wait(const struct guest_table *table, guest_wait_fn *wait);

/*
 * Give whoever is at it the time to leave what he has taken. Who stands still, or is dead, is not
 * waited for any longer.
 */
void guest_wait_briefly(const struct guest_table *table, guest_wait_fn *wait);

/* --- the guest --- */

/*
 * Take a seat for `who`, or NULL when there is none. `is_alive` says whether the process lives that
 * calls itself so at the owner's.
 */
struct guest_seat *guest_sit(struct guest_table *table, uint32_t who,
	bool (*is_alive)(void *context, uint32_t who), void *context);

/* Nothing is in use, and nothing will be left any more. */
void guest_rise(struct guest_seat *seat);

/* Begin to use what `mark` says, before it is looked up; and leave it. */
void guest_enter(struct guest_seat *seat, uint64_t mark);
static inline void guest_leave(struct guest_seat *seat)
{
	atomic_store_explicit(&seat->in_use, INBOX_IS_FREE, memory_order_release);
}

/* As inbox_mark_holds(). */
static inline bool guest_mark_holds(const struct guest_seat *seat)
{
	return inbox_mark_holds(&seat->in_use);
}

/* Is there room for records of all that the guest may have taken, and one more? */
static inline bool guest_has_room(const struct guest_seat *seat)
{
	return atomic_load_explicit(&seat->published, memory_order_relaxed) -
		atomic_load_explicit(&seat->collected, memory_order_acquire) <
		GUEST_RECORD_COUNT - GUEST_ROOM_MIN;
}

/* Ask for what seat->word says, but its state. The owner's lane is to be woken. */
void guest_ask(struct guest_seat *seat, struct doorbell *bell, uint64_t offset);

/*
 * Leave a record, and put the seat on the bell's list; `offset` is where the seat is. False when
 * there is no room. What is read after that is as it was then or later.
 */
bool guest_publish(struct guest_seat *seat, struct doorbell *bell, uint64_t offset,
	const struct guest_record *record);

#endif
