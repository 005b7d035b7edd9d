/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Request channels: where an initiator leaves what its requests have done at its target.
 *
 * A channel lies in the NIC memory of the target, its owner. The initiator has it mapped. It is
 * connected, or a borrower (local/channel/borrower.h) whose channel belongs to no queue pair. The
 * two share no lock, because a process may be stopped or killed between any two instructions.
 * Instead each word has one writer, or changes by one compare-and-swap:
 *
 *   `generation`       Odd while the channel is open.
 *   `record.sequence`  Which record is there. The initiator publishes the next record by a
 *                      compare-and-swap of its sequence. The owner closes the channel by another
 *                      compare-and-swap of the same word, so one of the two is first.
 *   `in_use`           The initiator's in-use mark: the key that it is using, or that it is
 *                      publishing. The owner waits for it before memory or a channel changes hands,
 *                      and revokes the mark of a stopped initiator.
 *   `ready`            Whether the channel is on the ready list of its lane's doorbell.
 *
 * A record says which receive request was taken, and how it completes. Only the owner collects
 * records into completion queues, so overruns, events and moderation have one implementation. A
 * request of the queue pair's own receive queue is taken by the publication of its record, so an
 * initiator that dies takes none with it. A request of a shared receive queue is taken first, and
 * is reserved until its record is published (shared.h).
 *
 * A channel lies on the peers' side of NIC memory (base/arena.h), so its words may be invalid. The
 * owner keeps the generation and the count of collected records in the twin on its own side.
 *
 * A record is one cache line, and the only line that a message needs besides its payload. The owner
 * of a busy channel watches the next record (is_watched), and the initiator rings no doorbell.
 *
 * Channels never return to the allocator of NIC memory, because a stopped initiator may keep a
 * pointer to one. Later queue pairs reuse them with another generation.
 *
 * Threads: the initiator holds its lane's lock, the owner its own. Both run at the same time.
 */
#ifndef URNIC_LOCAL_CHANNEL_H
#define URNIC_LOCAL_CHANNEL_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/fence.h"
#include "base/gid.h"
#include "base/once.h"
#include "local/channel/doorbell.h"
#include "memory/mr.h"
#include "queue/rq.h"

enum {
	/* A power of two: what an initiator may be ahead of the owner */
	CHANNEL_RECORD_COUNT = 128,
	CHANNEL_TABLE_COUNT = 1 << 16, /* queue pairs of a lane, by the low bits of their numbers */
};

/* The marks of channel.in_use that are no keys (those are below 2^32, with CHANNEL_USES_KEY). */
#define CHANNEL_IS_FREE   0ull
#define CHANNEL_USES_KEY  (1ull << 32)
#define CHANNEL_PUBLISHES (2ull << 32)

/*
 * The owner adds this bit to a mark after it has waited too long for it, and before it replaces the
 * memory that the mark protects. The initiator clears the bit when it leaves or sets another mark.
 */
#define CHANNEL_IS_REVOKED (1ull << 63)

struct borrower_table;

/* This process, as owner of the channels in its NIC memory, and as initiator in those of others. */
struct local_owner {
	/*
	 * Let some time pass, because the process named `who` uses a channel. `round` counts the
	 * calls of one wait from 0. Returns false when that process has ended.
	 */
	bool (*wait)(uint32_t who, uint32_t round);
	void (*pause)(uint32_t round); /* the same without a process to wait for */
	uint64_t (*now_ns)(void);
	uint32_t who; /* the name of this process at its targets (request_channel.initiator) */
	struct borrower_table *borrowers; /* NULL: none are served */
	_Atomic uint64_t last_serial; /* of UD endpoints that were ever opened */
};

/*
 * The opcode of a record that completes nothing: the reserved receive request serves a message that
 * follows in packets.
 */
#define CHANNEL_TAKEN UINT32_MAX

/* A receive request that was taken from a shared queue and has no record yet. */
struct channel_reservation {
	_Atomic uint64_t sequence; /* that its record will have; 0: nothing is reserved */
	uint64_t wr_id;
	uint32_t srqn;
};

/* A receive request that was taken, and how it completes. */
struct channel_record {
	_Atomic uint64_t sequence; /* channel_sequence(): written last */
	uint64_t wr_id;
	uint32_t opcode; /* enum wc_opcode */
	uint32_t flags; /* enum wc_flags */
	uint32_t byte_count;
	uint32_t imm;
	/* Of the queue pair's own queue, before this one: rq_taken() */
	uint32_t taken;
	/* Of the shared receive queue that it was taken from, or of the receiving UD queue pair */
	uint32_t number;
	/* A borrower sets these, too. */
	uint32_t qpn; /* the borrower's */
	uint32_t fault; /* enum fault */
	uint64_t serial; /* of the UD endpoint (local/ud_endpoint.h); 0: it is no datagram */
	uint32_t is_solicited;
	uint32_t service_level; /* of a datagram: enum wc_service_level */
};

/*
 * An atomic operation on memory that only the owner has mapped, so only the owner can execute it.
 * The borrower requests it, and withdraws the request if the owner takes too long. The owner takes,
 * or the borrower withdraws, by a compare-and-swap of `state` from CHANNEL_WORD_REQUESTED.
 */
enum channel_word_state {
	CHANNEL_WORD_NONE,
	CHANNEL_WORD_REQUESTED,
	CHANNEL_WORD_TAKEN, /* the owner is about to do it */
	CHANNEL_WORD_DONE,
};

struct channel_word {
	_Atomic uint32_t state; /* enum channel_word_state */
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

struct request_channel {
	/* The owner writes these while the channel is closed. A borrower's channel has none. */
	uint32_t qpn;
	uint32_t dest_qpn;
	uint32_t rq_psn; /* the first PSN: earlier connections of the same numbers had another */
	uint32_t pd;
	uint32_t recv_pd;
	uint32_t lane; /* its index, for peer_ops.kick */
	struct gid local;
	struct gid remote;
	uint64_t rq_offset; /* 0: initiators take no receive requests */
	uint32_t is_rq_shared; /* other queue pairs take from it, too */
	uint32_t xrcd; /* of an XRC target, whose requests name the queue; else 0 */
	uint64_t srqs_offset; /* struct srq_directory, to find that queue */
	uint64_t cq_offset; /* struct cq_ring, to see whether it is armed */
	uint64_t doorbell_offset; /* struct doorbell */
	/* The owner writes these at any time, but seldom. */
	_Atomic uint32_t generation;
	_Atomic uint32_t access; /* enum mr_access */
	_Atomic uint32_t wants_first; /* the next request rings the doorbell, whatever it is */
	/* channel_arrived(): for transports without acknowledgements (UC) */
	_Atomic uint32_t arrived;
	_Atomic uint32_t is_watched; /* the owner polls for the next record */
	_Atomic uint32_t revoked; /* count of in-use marks that the owner has revoked */
	alignas(64) _Atomic uint32_t collected; /* count of records that the owner has collected */

	/* The initiator writes these. */
	alignas(64) _Atomic uint64_t in_use;
	_Atomic uint32_t count; /* of records in this generation */
	_Atomic uint32_t initiator; /* its name (local_owner.who); 0: no borrower has the channel */
	/* What the initiator has executed, for the owner's counters (lane/counter.def). */
	_Atomic uint64_t writes;
	_Atomic uint64_t reads;
	_Atomic uint64_t atomics;
	_Atomic uint64_t atomic_writes;
	_Atomic uint64_t flushes;
	_Atomic uint64_t bytes;

	/* Both write it. */
	alignas(64) struct ready ready;

	alignas(64) struct channel_record record[CHANNEL_RECORD_COUNT];

	/*
	 * The initiator writes it. The owner reads it when a record has CHANNEL_TAKEN, or when the
	 * channel is closed.
	 */
	alignas(64) struct channel_reservation reservation;

	alignas(64) struct channel_word word;
};

/* The twin of a channel: what the owner relies on. */
struct channel_private {
	uint32_t generation;
	uint32_t collected;
};

static inline struct channel_private *channel_private(const struct request_channel *channel)
{
	return (struct channel_private *)arena_owners_side(channel);
}

/* For the owner: may initiators come in? */
static inline bool channel_is_open(const struct request_channel *channel)
{
	return channel_private(channel)->generation & 1;
}

/* A copy of the record, so that the initiator cannot change it between checks. */
static inline struct channel_record channel_record_read(const struct channel_record *record)
{
	return (struct channel_record){
		.wr_id = READ_ONCE(record->wr_id),
		.opcode = READ_ONCE(record->opcode),
		.flags = READ_ONCE(record->flags),
		.byte_count = READ_ONCE(record->byte_count),
		.imm = READ_ONCE(record->imm),
		.taken = READ_ONCE(record->taken),
		.is_solicited = READ_ONCE(record->is_solicited),
		.number = READ_ONCE(record->number),
		.qpn = READ_ONCE(record->qpn),
		.fault = READ_ONCE(record->fault),
		.serial = READ_ONCE(record->serial),
		.service_level = READ_ONCE(record->service_level),
	};
}

/* The channels of a lane, by number; 0: none. */
struct channel_table {
	_Atomic uint64_t offset[CHANNEL_TABLE_COUNT];
};

static inline bool channel_generation_is_open(uint32_t generation)
{
	return generation & 1;
}

static inline uint32_t channel_generation(const struct request_channel *channel)
{
	return atomic_load_explicit(&channel->generation, memory_order_acquire);
}

/*
 * request_channel.arrived: all packets before `psn` were processed. `keeps_receive`: the responder
 * has taken a receive request for a message that is not complete.
 */
static inline uint32_t channel_arrived(uint32_t psn, bool keeps_receive)
{
	return psn | (uint32_t)keeps_receive << 24;
}

/* The sequence of record `number`, from 0, of a generation. */
static inline uint64_t channel_sequence(uint32_t generation, uint32_t number)
{
	return (uint64_t)generation << 32 | number;
}

static inline struct channel_record *channel_record_at(
	struct request_channel *channel, uint32_t number)
{
	return &channel->record[number % CHANNEL_RECORD_COUNT];
}

/* --- the owner --- */

/*
 * Open the channel for its initiator. The channel is closed and without a mark, and the fields that
 * the owner writes while it is closed are set.
 */
void channel_open(struct request_channel *channel);

/*
 * Close the channel to initiators: they publish no further record, and channel_next() still finds
 * the published ones. An initiator with a mark in `in_use` may still move bytes. A channel that is
 * closed already stays closed.
 */
void channel_close(struct request_channel *channel);

/*
 * Wait until the initiator uses no memory of this key, which lookups no longer find. Returns false
 * when the initiator still does at `until_ns`: it has stopped, and its mark is revoked. When it
 * continues, it may still move the bytes of one step, at most LOCAL_STEP_BYTES; then it notices the
 * revocation, and the request falls back to packets. A mark that changes faster than it can be
 * revoked counts as revoked.
 */
bool channel_quiesce(struct request_channel *channel, const struct local_owner *owner,
	const struct mr_table *mrs, uint32_t key, uint64_t until_ns);

/*
 * Wait until the channel has no mark, or its initiator is dead. `*round` counts the calls of
 * local_owner.wait, over several channels. Returns false if there is a mark after `rounds_max`.
 */
bool channel_wait(const struct request_channel *channel, const struct local_owner *owner,
	uint32_t *round, uint32_t rounds_max);

/*
 * The next record of the present or, if the channel is closed, the last generation; NULL if it is
 * not published yet. A borrower's channel is never opened: its records have generation UINT32_MAX.
 * The record may change while the caller reads it. After reading, call channel_collected().
 */
const struct channel_record *channel_next(const struct request_channel *channel);
void channel_collected(struct request_channel *channel);

/* --- the initiator --- */

static inline void channel_leave(struct request_channel *channel)
{
	atomic_store_explicit(&channel->in_use, CHANNEL_IS_FREE, memory_order_release);
}

/*
 * Was the mark in force while bytes were moved under it? If not, the memory may have been replaced
 * meanwhile, and the bytes count for nothing.
 *
 * Litmus: the owner revokes, then replaces the memory. Bytes read before this load were read before
 * the revocation, by the acquire fence. Bytes written may still be in this processor's store buffer
 * when the load is done; the owner pauses after it has revoked, so they are out of it before the
 * memory is replaced. An initiator that is stopped has an empty store buffer.
 */
static inline bool channel_mark_holds(const struct request_channel *channel)
{
	atomic_thread_fence(memory_order_acquire);
	return !(atomic_load_explicit(&channel->in_use, memory_order_relaxed) & CHANNEL_IS_REVOKED);
}

/*
 * channel_mark_holds() by a count: call channel_revoked() before the mark is set and
 * channel_mark_held_since() after the copy. A processor waits for a word that it has just changed
 * by a locked instruction, so reading another word than `in_use` is faster. The owner increments
 * the count after it has revoked, and before it pauses. The count may be for an earlier mark, so a
 * result of false is only a suspicion; true is certain.
 */
static inline uint32_t channel_revoked(const struct request_channel *channel)
{
	return atomic_load_explicit(&channel->revoked, memory_order_acquire);
}

static inline bool channel_mark_held_since(const struct request_channel *channel, uint32_t revoked)
{
	atomic_thread_fence(memory_order_acquire);
	return atomic_load_explicit(&channel->revoked, memory_order_relaxed) == revoked;
}

/* The mark is set. Is the channel open in `generation`? If not, clear the mark. */
static inline bool channel_is_entered(struct request_channel *channel, uint32_t generation)
{
	fence_after_rmw(); /* the mark is visible before the generation, and keys, are read */
	if (atomic_load(&channel->generation) == generation)
		return true;
	channel_leave(channel);
	return false;
}

/*
 * Set `mark`. Returns whether the channel is open in `generation`; if not, the mark is clear again.
 * Sequentially consistent: either the owner sees the mark, or the initiator sees that the owner has
 * closed the channel or removed the key.
 */
static inline bool channel_enter(
	struct request_channel *channel, uint32_t generation, uint64_t mark)
{
	uint64_t expected = CHANNEL_IS_FREE;

	return atomic_compare_exchange_strong(&channel->in_use, &expected, mark) &&
		channel_is_entered(channel, generation);
}

/* channel_enter() for an initiator that has a mark, which is replaced. */
bool channel_remark(struct request_channel *channel, uint32_t generation, uint64_t mark);

/* Records that the initiator has published. */
static inline uint32_t channel_count(const struct request_channel *channel)
{
	return atomic_load_explicit(&channel->count, memory_order_relaxed);
}

/* Where the next one will be. */
static inline const struct channel_record *channel_place(const struct request_channel *channel)
{
	return &channel->record[channel_count(channel) % CHANNEL_RECORD_COUNT];
}

/*
 * Is there room for one more record? `*collected_seen` caches `collected` for the initiator.
 */
static inline bool channel_has_room(const struct request_channel *channel, uint32_t *collected_seen)
{
	if (channel_count(channel) - *collected_seen >= CHANNEL_RECORD_COUNT)
		*collected_seen = atomic_load_explicit(&channel->collected, memory_order_acquire);
	return channel_count(channel) - *collected_seen < CHANNEL_RECORD_COUNT;
}

/* Is the channel still open in this generation, with records that the owner has not collected? */
static inline bool channel_has_uncollected(
	const struct request_channel *channel, uint32_t generation)
{
	return channel_generation(channel) == generation &&
		channel_count(channel) !=
		atomic_load_explicit(&channel->collected, memory_order_acquire);
}

/* Write all of a record but its sequence. */
static inline void channel_record_write(
	struct channel_record *place, const struct channel_record *record)
{
	place->wr_id = record->wr_id;
	place->opcode = record->opcode;
	place->flags = record->flags;
	place->byte_count = record->byte_count;
	place->imm = record->imm;
	place->taken = record->taken;
	place->number = record->number;
	place->qpn = record->qpn;
	place->fault = record->fault;
	place->serial = record->serial;
	place->is_solicited = record->is_solicited;
	place->service_level = record->service_level;
}

/*
 * Publish a record, whose own sequence is ignored. The initiator has a mark in the channel, and
 * there is room. False when the channel was closed. Sequentially consistent: later reads of the
 * caller see the owner's state as it was at the publication, or newer.
 */
static inline bool channel_publish(
	struct request_channel *channel, uint32_t generation, const struct channel_record *record)
{
	uint32_t number = channel_count(channel);
	struct channel_record *place = channel_record_at(channel, number);
	uint64_t empty = channel_sequence(generation, number - CHANNEL_RECORD_COUNT);

	channel_record_write(place, record);
	if (!atomic_compare_exchange_strong(
		    &place->sequence, &empty, channel_sequence(generation, number)))
		return false;
	/* Before the initiator reads is_watched, wants_first and the queue's arm */
	fence_after_rmw();
	atomic_store_explicit(&channel->count, number + 1, memory_order_relaxed);
	return true;
}

#endif
