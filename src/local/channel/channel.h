/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Request channels. Through a request channel an initiator tells its target which requests it has
 * executed.
 *
 * A channel lies in the NIC memory of the target, its owner, and the initiator maps it. The channel
 * belongs to a connected queue pair of the target, or to no queue pair, if the initiator is a
 * borrower (local/channel/borrower.h). A channel has a ring of records, which lies in other pages.
 * Until the initiator publishes a record, neither end touches the ring, so the channel of an idle
 * connection takes no memory for it. Owner and initiator share no lock, because a process may be
 * suspended or killed between any two instructions. Instead each word has only one writer, or
 * changes only by a compare-and-swap:
 *
 *   `generation`       Odd while the channel is open. Each opening and each closing adds 1.
 *   `record.sequence`  The number of the record in this place. The initiator publishes the next
 *                      record by a compare-and-swap of this word. The owner closes the channel by
 *                      another compare-and-swap of the same word, so either the publication or the
 *                      closing succeeds. The word is 0 in a place that was never used.
 *   `has_published`    An initiator sets this word before it publishes its first record. Until then
 *                      the owner does not read the ring.
 *   `in_use`           The initiator's in-use mark. It says which key the initiator uses, or that
 *                      the initiator publishes a record. The owner waits until the mark is clear
 *                      before memory or a channel changes hands, and revokes the mark of a
 *                      suspended initiator.
 *   `ready`            Whether the channel is on the ready list of its lane's doorbell.
 *
 * A record says which receive request was taken, and how it completes. Only the owner collects
 * records into completion queues, so overruns, events and moderation have one implementation. If
 * the queue pair has a receive queue of its own, publishing the record takes the request, so an
 * initiator that dies before that loses no request. A request of a shared receive queue is taken
 * before its buffer is filled, and is reserved until its record is published (shared.h).
 *
 * A channel lies on the peers' side of NIC memory (base/arena.h), so its words may be invalid. The
 * owner keeps the generation and the count of collected records in the twin on its own side.
 *
 * A record is one cache line, and the only line besides the payload that moves from CPU to CPU for
 * a message. The owner polls the next record of a busy channel (is_watched), and then the initiator
 * rings no doorbell.
 *
 * Channels never return to the allocator of NIC memory, because a suspended initiator may keep a
 * pointer to one. Later queue pairs reuse a channel with another generation.
 *
 * Threads: the initiator holds the lock of its lane, and the owner holds that of the owner's lane.
 * Both may run at the same time.
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

enum {
	/* The most records that may be published and not yet collected. A power of two. */
	CHANNEL_RECORD_COUNT = 128,
	CHANNEL_TABLE_COUNT = 1 << 16, /* one entry for each queue pair number of a lane */
};

/*
 * Values of request_channel.in_use. The mark for the use of a key is CHANNEL_USES_KEY | key; keys
 * are below 2^32.
 */
#define CHANNEL_IS_FREE   0ull
#define CHANNEL_USES_KEY  (1ull << 32)
#define CHANNEL_PUBLISHES (2ull << 32)

/*
 * The owner adds this bit to a mark when it has waited too long for the initiator to clear the
 * mark. Then the owner replaces the memory that the mark protects. The initiator clears the bit
 * when it clears the mark or sets another one.
 */
#define CHANNEL_IS_REVOKED (1ull << 63)

struct borrower_table;

/*
 * This process, as owner of the channels in its NIC memory, and as initiator in the channels of
 * other processes.
 */
struct local_owner {
	/*
	 * Let some time pass, because the caller waits for the process named `who`. `round` counts
	 * the calls of the caller's wait, from 0. Returns false when that process has ended.
	 */
	bool (*wait)(uint32_t who, uint32_t round);
	/* Let some time pass, as wait() does, but for no particular process */
	void (*pause)(uint32_t round);
	uint64_t (*now_ns)(void);
	uint32_t who; /* the name of this process at its targets (request_channel.initiator) */
	struct borrower_table *borrowers; /* NULL: this process serves no borrowers */
	_Atomic uint64_t last_serial; /* the serial of the UD endpoint that was opened last */
};

/*
 * The opcode of a record that completes no request. The record hands the reserved receive request
 * over to the responder, for a message that follows in packets.
 */
#define CHANNEL_TAKEN UINT32_MAX

/* A receive request that was taken from a shared queue and has no record yet. */
struct channel_reservation {
	/* Sequence of the record that will complete the request; 0: no request */
	_Atomic uint64_t sequence;
	uint64_t wr_id;
	uint32_t srqn;
};

/* A receive request that was taken, and how it completes. */
struct channel_record {
	_Atomic uint64_t sequence; /* the value of channel_sequence(), which is written last */
	uint64_t wr_id;
	uint32_t opcode; /* enum wc_opcode */
	uint32_t flags; /* enum wc_flags */
	uint32_t byte_count;
	uint32_t imm;
	/*
	 * Number of requests that were taken from the queue pair's own queue before this one:
	 * rq_taken()
	 */
	uint32_t taken;
	/* Names the shared receive queue of the request, or the receiving UD queue pair */
	uint32_t number;
	/* Only a borrower sets the fields from here on. */
	uint32_t qpn; /* the number of the borrower's queue pair */
	uint32_t fault; /* enum fault */
	uint64_t serial; /* datagram: the serial of the UD endpoint; 0: no datagram */
	uint32_t is_solicited;
	uint32_t service_level; /* datagram: enum wc_service_level */
};

/*
 * In request_channel.access: the owner's max_dest_rd_atomic is not 0, so it accepts requests that
 * have an answer (READs, atomics, ATOMIC WRITEs and FLUSHes).
 */
enum { CHANNEL_ANSWERS = 1u << 18 };

/* The records of a channel. Record number n of a generation is at n % CHANNEL_RECORD_COUNT. */
struct channel_ring {
	struct channel_record record[CHANNEL_RECORD_COUNT];
};

struct request_channel {
	/*
	 * The initiator reads this cache line for each request. The owner may write the fields up
	 * to `revoked` at any time, but writes them seldom. The owner writes the other fields of
	 * this line and of the next one only while the channel is closed, except `collected`. A
	 * borrower's channel does not use these other fields, except `collected`.
	 */
	_Atomic uint32_t generation;
	_Atomic uint32_t access; /* enum mr_access, and CHANNEL_ANSWERS */
	/* The next request rings the doorbell, even if it has no record: see local_establish() */
	_Atomic uint32_t wants_first;
	/*
	 * The packets that a UC queue pair has received, because UC has no acknowledgements: the
	 * value of channel_arrived()
	 */
	_Atomic uint32_t arrived;
	_Atomic uint32_t is_watched; /* the owner polls for the next record */
	_Atomic uint32_t revoked; /* count of in-use marks that the owner has revoked */
	uint32_t qpn;
	uint32_t lane; /* index of the owner's lane, for peer_ops.kick */
	uint32_t pd;
	uint32_t recv_pd;
	uint64_t rq_offset; /* the receive queue; 0: initiators take no receive requests */
	uint64_t cq_offset; /* struct cq_ring: the initiator reads whether the queue is armed */
	uint32_t is_rq_shared; /* other queue pairs take from the receive queue, too */
	/*
	 * The XRC domain of an XRC_RECV queue pair, whose requests name the receive queue;
	 * otherwise 0
	 */
	uint32_t xrcd;

	/*
	 * The owner writes `collected` often. The initiator reads the other fields of this line
	 * when it attaches.
	 */
	alignas(64) _Atomic uint32_t collected; /* count of records that the owner has collected */
	uint32_t dest_qpn;
	struct gid local;
	struct gid remote;
	uint64_t srqs_offset; /* struct srq_directory, to find the queue that a request names */
	uint64_t doorbell_offset; /* struct doorbell */
	uint64_t ring_offset; /* struct channel_ring */

	/* The initiator writes the fields up to `bytes`. */
	alignas(64) _Atomic uint64_t in_use;
	_Atomic uint32_t count; /* number of records published in this generation */
	/* The initiator's name (local_owner.who); 0: no borrower has the channel */
	_Atomic uint32_t initiator;
	/* What the initiator has executed, for the owner's counters (lane/counter.def). */
	_Atomic uint64_t writes;
	_Atomic uint64_t reads;
	_Atomic uint64_t atomics;
	_Atomic uint64_t atomic_writes;
	_Atomic uint64_t flushes;
	_Atomic uint64_t bytes;

	/* Owner and initiator write `ready`. */
	alignas(64) struct ready ready;
	/*
	 * The initiator writes `reservation`. The owner reads it when a record has CHANNEL_TAKEN,
	 * or after the owner has closed the channel (shared_reclaim()).
	 */
	struct channel_reservation reservation;
	uint32_t rq_psn; /* distinguishes this connection from earlier ones between the two QPNs */
	/* The initiator sets this word before its first record of a generation. It stays set. */
	_Atomic uint32_t has_published;
};

/* The twin of a channel on the owner's side: the initiator cannot change it. */
struct channel_private {
	uint32_t generation;
	uint32_t collected;
	/* The owner has seen has_published, or has closed a record: the ring is in use. */
	bool is_ring_used;
	/* A record was invalid, so any place of the ring may have any contents. */
	bool is_ring_unsound;
};

static inline struct channel_private *channel_private(const struct request_channel *channel)
{
	return (struct channel_private *)arena_owners_side(channel);
}

/* For the owner: is the channel open to its initiator? */
static inline bool channel_is_open(const struct request_channel *channel)
{
	return channel_private(channel)->generation & 1;
}

/* A copy of the record, which the initiator cannot change while the owner checks it. */
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

/*
 * The offsets of a lane's channels, by the low bits of their queue pairs' numbers; 0: there is
 * none.
 */
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
 * The value of request_channel.arrived when the responder has processed all packets before `psn`.
 * `keeps_receive` says that the responder has a receive request for a message that is not complete.
 */
static inline uint32_t channel_arrived(uint32_t psn, bool keeps_receive)
{
	return psn | (uint32_t)keeps_receive << 24;
}

/* The sequence of record `number` of a generation. The first record has number 0. */
static inline uint64_t channel_sequence(uint32_t generation, uint32_t number)
{
	return (uint64_t)generation << 32 | number;
}

static inline struct channel_record *channel_record_at(struct channel_ring *ring, uint32_t number)
{
	return &ring->record[number % CHANNEL_RECORD_COUNT];
}

/* --- the owner --- */

/*
 * The functions of the owner get the channel's ring from their caller, which does not read
 * ring_offset, because a hostile process may have changed it.
 */

/*
 * Open the channel for its initiator. Before the call, the channel is closed and has no mark, and
 * the owner has set the fields that it writes only while the channel is closed.
 */
void channel_open(struct request_channel *channel, struct channel_ring *ring);

/*
 * Close the channel: the initiator can publish no further record. channel_next() still finds the
 * published records. An initiator with a mark in `in_use` may still move bytes. On a closed channel
 * the call has no effect.
 */
void channel_close(struct request_channel *channel, struct channel_ring *ring);

/*
 * Wait until the initiator uses no memory of `key`. Lookups no longer find that key. If the
 * initiator still uses the memory at `until_ns`, the call takes it for suspended, revokes its mark,
 * and returns false. When the initiator continues, it may still move the bytes of one step, at most
 * LOCAL_STEP_BYTES. Then it notices the revocation, and its request falls back to packets. A mark
 * that changes during each of many attempts to revoke it counts as revoked.
 */
bool channel_quiesce(struct request_channel *channel, const struct local_owner *owner,
	const struct mr_table *mrs, uint32_t key, uint64_t until_ns);

/*
 * Wait until the channel has no mark, or its initiator is dead. `*round` counts the calls of
 * local_owner.wait; a caller that waits for several channels passes the same counter to all calls.
 * Returns false if the channel still has a mark when `*round` is `rounds_max`.
 */
bool channel_wait(const struct request_channel *channel, const struct local_owner *owner,
	uint32_t *round, uint32_t rounds_max);

/*
 * The next record to collect; NULL: that record is not published yet. The record is of the present
 * generation or, if the channel is closed, of the last open one. A borrower's channel is never
 * opened, so its records have generation UINT32_MAX. A hostile initiator may change the record
 * while the caller reads it. After it has read the record, the caller calls channel_collected().
 */
const struct channel_record *channel_next(
	const struct request_channel *channel, const struct channel_ring *ring);
void channel_collected(struct request_channel *channel);

/* A record is invalid. When the channel is opened again, all places of its ring become empty. */
static inline void channel_distrust(struct request_channel *channel)
{
	channel_private(channel)->is_ring_unsound = true;
}

/* --- the initiator --- */

static inline void channel_leave(struct request_channel *channel)
{
	atomic_store_explicit(&channel->in_use, CHANNEL_IS_FREE, memory_order_release);
}

/*
 * Is the mark still in force, after bytes were moved? If not, the owner may have replaced the
 * memory during the move, and the request must be executed again.
 *
 * Litmus: the owner revokes the mark, then replaces the memory. The acquire fence orders the reads
 * of the moved bytes before this load. So if the load finds the mark in force, the bytes were read
 * before the memory was replaced. Written bytes may still be in this CPU's store buffer when the
 * load is done. The owner pauses between revoking and replacing, so the store buffer is drained
 * before the memory is replaced. A suspended initiator has an empty store buffer.
 */
static inline bool channel_mark_holds(const struct request_channel *channel)
{
	atomic_thread_fence(memory_order_acquire);
	return !(atomic_load_explicit(&channel->in_use, memory_order_relaxed) & CHANNEL_IS_REVOKED);
}

/*
 * A faster channel_mark_holds(), by a count. The caller calls channel_revoked() before it sets the
 * mark, and channel_mark_held_since() after the copy. A CPU waits when it reads a word that it has
 * just changed by a locked instruction, such as `in_use`, so these functions read another word. The
 * owner increments the count after it has revoked a mark, and before it pauses. The revoked mark
 * may have been an earlier one. So if the result is false, the caller's mark may still be in force;
 * if it is true, the mark is certainly in force.
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

/* Is the channel open in `generation`? If not, clear the mark, which the caller has just set. */
static inline bool channel_is_entered(struct request_channel *channel, uint32_t generation)
{
	fence_after_rmw(); /* the mark is visible before this thread reads generation and keys */
	if (atomic_load(&channel->generation) == generation)
		return true;
	channel_leave(channel);
	return false;
}

/*
 * Set `mark`. Returns whether the channel is open in `generation`; if not, the mark is clear again.
 * The call is sequentially consistent, so either the owner sees the mark, or the initiator sees
 * that the owner has closed the channel or removed the key.
 */
static inline bool channel_enter(
	struct request_channel *channel, uint32_t generation, uint64_t mark)
{
	uint64_t expected = CHANNEL_IS_FREE;

	return atomic_compare_exchange_strong(&channel->in_use, &expected, mark) &&
		channel_is_entered(channel, generation);
}

/* channel_enter() for an initiator that already has a mark: `mark` replaces it. */
bool channel_remark(struct request_channel *channel, uint32_t generation, uint64_t mark);

/* The number of records that the initiator has published in this generation. */
static inline uint32_t channel_count(const struct request_channel *channel)
{
	return atomic_load_explicit(&channel->count, memory_order_relaxed);
}

/* The place of the next record that the initiator will publish. */
static inline const struct channel_record *channel_place(
	const struct request_channel *channel, const struct channel_ring *ring)
{
	return &ring->record[channel_count(channel) % CHANNEL_RECORD_COUNT];
}

/*
 * Is there room for one more record? `*collected_seen` is the initiator's copy of `collected`. The
 * call updates it only when the copy shows no room.
 */
static inline bool channel_has_room(const struct request_channel *channel, uint32_t *collected_seen)
{
	if (channel_count(channel) - *collected_seen >= CHANNEL_RECORD_COUNT)
		*collected_seen = atomic_load_explicit(&channel->collected, memory_order_acquire);
	return channel_count(channel) - *collected_seen < CHANNEL_RECORD_COUNT;
}

/*
 * Is the channel open in this generation, and are there records that the owner has not collected?
 */
static inline bool channel_has_uncollected(
	const struct request_channel *channel, uint32_t generation)
{
	return channel_generation(channel) == generation &&
		channel_count(channel) !=
		atomic_load_explicit(&channel->collected, memory_order_acquire);
}

/* Copy a record to its place, except for its sequence. */
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
 * Change the sequence of record `number`, which is not published, to `to`. A place has the sequence
 * 0 before its first record is published. Returns false when the record was published or closed.
 */
static inline bool channel_sequence_set(
	struct channel_record *place, uint32_t generation, uint32_t number, uint64_t to)
{
	uint64_t empty = channel_sequence(generation, number - CHANNEL_RECORD_COUNT);

	return atomic_compare_exchange_strong(&place->sequence, &empty, to) ||
		(empty == 0 && number < CHANNEL_RECORD_COUNT &&
			atomic_compare_exchange_strong(&place->sequence, &empty, to));
}

/* Let the owner read the ring. The initiator calls this before its first record is visible. */
static inline void channel_begin_records(struct request_channel *channel)
{
	if (!atomic_load_explicit(&channel->has_published, memory_order_relaxed))
		atomic_store_explicit(&channel->has_published, 1, memory_order_relaxed);
}

/*
 * Publish a record; `record->sequence` is ignored. The initiator has a mark in the channel, and the
 * channel has room for a record. Returns false when the channel was closed. The call is
 * sequentially consistent, so later reads of the caller see the owner's state as it was at the
 * publication, or a newer state.
 */
static inline bool channel_publish(struct request_channel *channel, struct channel_ring *ring,
	uint32_t generation, const struct channel_record *record)
{
	uint32_t number = channel_count(channel);
	struct channel_record *place = channel_record_at(ring, number);

	if (number == 0)
		channel_begin_records(channel);
	channel_record_write(place, record);
	if (!channel_sequence_set(place, generation, number, channel_sequence(generation, number)))
		return false;
	/* The record is visible before the initiator reads is_watched, wants_first, cq_ring.arm */
	fence_after_rmw();
	atomic_store_explicit(&channel->count, number + 1, memory_order_relaxed);
	return true;
}

#endif
