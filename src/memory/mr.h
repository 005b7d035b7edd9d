/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory regions and their keys: the protection hardware of the NIC.
 *
 * This is the only code that turns (key, address, length) into a pointer. Local work requests and
 * remote peers come through the same endpoint, mr_resolve(), with the rights that their operation
 * needs (IBTA 10.6, 9.7.5.2.4: R_Key, bounds, access).
 *
 * A key is 32 bits: the upper 24 are a secret permutation of (slot, generation), so that keys are
 * unpredictable (IBTA 10.6.3.3 leaves their making to the NIC; base/permute.h says how far); the
 * low 8 are a random variant. Both change each time a slot is used again, and slots are used again
 * as late as possible, so a key of a region that is gone does not match a later region. lkey and
 * rkey of a region are equal; what remote peers may do is decided by the access flags.
 *
 * Memory is not pinned: a registration costs no memlock limit, pages may be swapped or moved, a NIC
 * made of software uses the process's own page tables. Registering does not touch the pages. What a
 * program registers is there when it does, and has to stay; only of an on-demand region
 * (MR_ON_DEMAND) it may be missing, so each access there asks first (mr_touch_fn), which others do
 * not pay for.
 *
 * A null region discards what is written to it and gives zeros: scatter/gather entries may name any
 * address of it.
 *
 * Memory windows have slots of the same table (memory/mw.h), so that a peer's key is looked up once
 * whatever it names.
 *
 * Beside each region the table says which of its bytes another process can map (struct mr_extent):
 * a peer on the same host copies to and from those directly.
 *
 * The table is plain data in NIC memory. Threads: adding, changing and removing are serialized by
 * the caller (set-up path), and what changes or removes also needs every lane's lock: whoever still
 * copies holds one of them. A lookup runs under one lane's lock.
 */
#ifndef URNIC_MEMORY_MR_H
#define URNIC_MEMORY_MR_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/permute.h"
#include "base/spin.h"

/* Rights of a region and needs of an operation; the values of enum ibv_access_flags. */
enum mr_access {
	MR_LOCAL_WRITE = 1 << 0,
	MR_REMOTE_WRITE = 1 << 1,
	MR_REMOTE_READ = 1 << 2,
	MR_REMOTE_ATOMIC = 1 << 3,
	MR_WINDOW_BIND = 1 << 4, /* windows may be bound to the region */
	MR_ZERO_BASED = 1 << 5, /* of a window: peers count from its first byte */
	MR_ON_DEMAND = 1 << 6, /* pages may be missing: they are looked for before each access */
	MR_FLUSH_GLOBAL = 1 << 8,
	MR_RELAXED_ORDERING = 1 << 20,
	/* Not flags of verbs: */
	MR_LOCAL_READ = 1 << 16, /* every region grants it, no window does */
	MR_TOUCH = 1 << 17, /* the bytes are read or written next; see mr_touch_fn */

	MR_ACCESS_DEFINED = 0x3ff003ff, /* all that verbs define, or may in the optional range */
	MR_REMOTE_ANY = MR_REMOTE_WRITE | MR_REMOTE_READ | MR_REMOTE_ATOMIC,
};

/* Why an access, a bind or an invalidation was refused: see the sentences of the table. */
enum mr_fault {
	MR_OK,
#define MR_FAULT(name, local, bind, tagged, read, sentence) MR_FAULT_##name,
#include "memory/mr_fault.def"
#undef MR_FAULT
};

enum mr_kind {
	MR_KIND_FREE,
	MR_KIND_REGION,
	MR_KIND_NULL,
	MR_KIND_WINDOW_1,
	MR_KIND_WINDOW_2,
};

/*
 * One slot of the table; a cache line. Of a region, everything is written under all lanes' locks or
 * while `key_word` is 0; of a window, under `lock`, and read between two equal values of
 * `key_word`.
 */
struct mr_slot {
	/*
	 * 1 << 32 | key while it can be accessed, else 0: every key is a legal one. Above, from bit
	 * 34 on, a version: no two words that a slot is found by are equal (struct mr_cached).
	 */
	_Atomic uint64_t key_word;
	uint32_t pd;
	_Atomic uint32_t access;
	_Atomic uint64_t iova; /* what peers and work requests name as its first address */
	_Atomic uint64_t bytes;
	_Atomic uint64_t address; /* where it lies in the owner's address space */
	_Atomic uint32_t qpn; /* of a bound type 2 window: whose it is */
	_Atomic uint32_t window_count; /* of a region: windows bound to it */
	uint32_t region_index; /* of a bound window: the slot of its region */
	struct spin lock;
	_Atomic uint8_t kind; /* enum mr_kind */
	uint8_t generation;
	uint16_t reserved;
	_Atomic uint32_t version; /* of key_word */
};

/* Who asks: a queue pair and its protection domain. No queue pair has number 0. */
struct mr_user {
	uint32_t pd;
	uint32_t qpn;
};

/*
 * Bytes that lie in memory which other processes can map: [start, end) in the owner's address space
 * are in the segment of this index (segment/segment.h). None: start equals end.
 */
struct mr_extent {
	uint64_t start;
	uint64_t end;
	uint32_t segment;
};

/* The same beside a slot; written like the slot. */
struct mr_place {
	_Atomic uint64_t start;
	_Atomic uint64_t end;
	_Atomic uint32_t segment;
	uint32_t reserved;
};

/* What registering needs to know. */
struct mr_region {
	uint32_t pd;
	uint32_t access; /* enum mr_access, or'ed */
	uint64_t iova;
	uint64_t bytes; /* 0 is legal: such a region grants nothing */
	void *address;
};

enum {
	MR_SLOT_COUNT_MAX = 1 << 16, /* slot and generation share the 24 key bits: 16 + 8 */
	MR_REGION_COUNT_MAX = 3 << 14, /* of these slots, so many are for regions */
	MR_WINDOW_COUNT_MAX = 1 << 14, /* and so many for windows */
	MR_PD_BORROWED_END =
		1 << 20, /* protection domains below may be other processes' (mr_borrowed.h) */
	MR_NULL_BYTES = 1 << 16, /* the longest single copy to or from a null region */
};

/*
 * Bring the pages of [address, address + bytes) in, for reading or for writing. False when they
 * cannot be accessed like that. It may block, as any page fault.
 */
typedef bool mr_touch_fn(void *address, uint64_t bytes, bool is_written);

/*
 * A key has ceased to be found; before what it named changes or goes, nobody in another process may
 * use it any more. Returns when that is so, which may take a while; or false when a process that
 * stands still did not let it be so in time: what that process moves from now on counts for
 * nothing, but may still reach the memory. 0: any key.
 */
typedef bool mr_quiesce_fn(uint32_t key);

/* Where another process that maps NIC memory finds the table. */
struct mr_public {
	uint64_t slots_offset;
	uint64_t places_offset;
	uint64_t permutation_offset;
	uint32_t slot_count;
	uint32_t reserved;
};

struct mr_borrowed;

struct mr_table {
	struct mr_slot *slots;
	struct mr_place *places; /* of each slot that is a region */
	uint32_t slot_count;
	const struct permutation *permutation; /* in NIC memory */
	/* What a null region gives, and where it discards: MR_NULL_BYTES each */
	uint8_t *null_zeros;
	uint8_t *null_sink;
	uint32_t
		*free_ring; /* slots in the order in which they became free; private to the owner */
	uint32_t free_head;
	uint32_t free_count;
	uint32_t fresh_count; /* slots from here on were never used */
	uint32_t region_count;
	uint32_t window_count; /* bound or not */
	mr_touch_fn *touch; /* set by the owner; NULL: what is on demand is there */
	mr_quiesce_fn *quiesce; /* set by the owner; NULL: nobody else maps the table */
	const struct mr_borrowed
		*borrowed; /* set by the owner; NULL: all protection domains are at home */
};

/*
 * Make an empty table for up to `slot_count` regions and windows (1 to MR_SLOT_COUNT_MAX) in
 * `arena`. `permutation` is random; it is copied. Returns 0, or -ENOMEM.
 */
int mr_table_init(struct mr_table *table, struct arena *arena, uint32_t slot_count,
	const struct permutation *permutation);
void mr_table_done(struct mr_table *table);

/*
 * Register a region. `variant` is a random byte. On success *ret_key is its key. Returns 0; -ENOMEM
 * when the table is full; -EINVAL when the range wraps around the address space, or when remote
 * write or atomic access is asked for without local write (IBTA 10.6.3.1, C10-87).
 */
int mr_table_add(
	struct mr_table *table, const struct mr_region *region, uint8_t variant, uint32_t *ret_key);

/* Make a null region. Returns 0 or -ENOMEM. */
int mr_table_add_null(struct mr_table *table, uint32_t pd, uint8_t variant, uint32_t *ret_key);

/*
 * The region has changed or gone, and mr_quiesce_fn said false: a process that stands still may
 * reach the memory that it had.
 */
enum { MR_IS_STOOD_ON = 1 };

/*
 * Give a region other memory, rights, protection domain, all at once; its key stays. Every lane is
 * locked. Returns 0; MR_IS_STOOD_ON; -EINVAL as mr_table_add(), or when `pd` has no region with
 * this key; -EBUSY when windows are bound to it. On failure nothing has changed.
 */
int mr_table_change(
	struct mr_table *table, uint32_t key, uint32_t pd, const struct mr_region *region);

/*
 * Deregister a region. Every lane is locked. Returns 0; MR_IS_STOOD_ON; -EINVAL when no region of
 * `pd` has the key; -EBUSY when windows are bound to it (IBTA 10.6.7.2).
 */
int mr_table_remove(struct mr_table *table, uint32_t key, uint32_t pd);

/*
 * Turn (key, address, length) into a pointer, if `user`, or its peer, may do `access` there.
 *
 * `access`       The rights needed: MR_LOCAL_READ, MR_LOCAL_WRITE, or remote ones; with MR_TOUCH
 *                when the bytes are accessed next, and not just checked.
 * `iova, bytes`  The range, from anybody: any values are legal input.
 * `ret_pointer`  Set on success; for bytes == 0 it may point anywhere and must not be followed. For
 *                a null region it is good for MR_NULL_BYTES.
 */
enum mr_fault mr_resolve_for(const struct mr_table *table, uint32_t key, struct mr_user user,
	uint32_t access, uint64_t iova, uint64_t bytes, uint8_t **ret_pointer);

/* The same for scatter/gather lists: the queue pair does not matter to regions. */
static inline enum mr_fault mr_resolve(const struct mr_table *table, uint32_t key, uint32_t pd,
	uint32_t access, uint64_t iova, uint64_t bytes, uint8_t **ret_pointer)
{
	return mr_resolve_for(
		table, key, (struct mr_user){pd, 0}, access, iova, bytes, ret_pointer);
}

/*
 * What one lookup of a region has found, kept for the next ones by the same user: as long as one
 * word is what it was, all of it holds. Of what is neither a window nor a null region nor on
 * demand. Zeroed, it holds nothing.
 */
struct mr_cached {
	const _Atomic uint64_t *key_word; /* NULL: nothing, and all else is 0 */
	uint64_t word;
	uint64_t iova; /* the bytes that it is good for, as peers and work requests name them */
	uint64_t bytes;
	uint8_t *pointer; /* to the first of them */
	uint32_t access; /* all that the region grants */
};

/*
 * Where the bytes lie; NULL when only mr_resolve_for() can tell. What it needs of the world is the
 * same. `access` is not 0: a cache of nothing is all zeros,
 * and grants none.
 */
static inline uint8_t *mr_cached_find(const struct mr_cached *cached, uint32_t key, uint32_t access,
	uint64_t iova, uint64_t bytes)
{
	uint64_t offset = iova - cached->iova;

	if ((uint32_t)cached->word != key || (cached->access & access) != access ||
		offset > cached->bytes || bytes > cached->bytes - offset)
		return NULL;
	if (atomic_load_explicit(cached->key_word, memory_order_acquire) != cached->word)
		return NULL;
	return cached->pointer + offset;
}

/*
 * Keep what mr_resolve_for() has just said of `key` to `user`, unless it is nothing to keep. A
 * table's own pointers are kept as they are; who sees another process's table has to say where the
 * bytes are.
 */
void mr_cache(const struct mr_table *table, uint32_t key, struct mr_cached *ret_cached);

/* The same for all of a region or window, wherever it starts and ends. */
enum mr_fault mr_resolve_whole(
	const struct mr_table *table, uint32_t key, struct mr_user user, uint32_t access);

/*
 * The region that `key` names, or that the window lies in which it names; NULL when that is not
 * known now.
 */
const struct mr_slot *mr_region_of(const struct mr_table *table, uint32_t key);

/*
 * May somebody who uses `used` use memory of the region or window `key`, which is found no longer?
 */
bool mr_keys_may_meet(const struct mr_table *table, uint32_t used, uint32_t key);

/* Say where the table is. */
void mr_table_publish(
	const struct mr_table *table, const struct arena *arena, struct mr_public *ret_public);

/*
 * See another process's table, of which `public` says where it lies in the `bytes` at `base`. For
 * lookups only: they turn keys into addresses of that process; NULL is a null region, whose bytes
 * are nowhere. What is on demand there is refused with MR_FAULT_PAGE. Returns 0, or -EINVAL when
 * the table is not inside of that memory.
 */
int mr_table_view(
	struct mr_table *view, uint8_t *base, uint64_t bytes, const struct mr_public *public);

/*
 * Say which bytes of a region can be mapped; none of a new or changed one can. `key` is a region's,
 * which nobody takes away meanwhile.
 */
void mr_table_place(const struct mr_table *table, uint32_t key, const struct mr_extent *extent);

/*
 * Which bytes of a region can be mapped? False: none. True for whoever uses its key (mr_quiesce_fn)
 * as long as he does.
 */
bool mr_region_extent(
	const struct mr_table *table, const struct mr_slot *region, struct mr_extent *ret_extent);

/*
 * No key is found until mr_table_resume(), and nobody else uses what keys name when this returns
 * true; see mr_quiesce_fn. Every lane is locked.
 */
bool mr_table_suspend(const struct mr_table *table);
void mr_table_resume(const struct mr_table *table);

/*
 * Would this key be found, were the table not suspended? For lookups in another process's table:
 * whether they failed for that.
 */
bool mr_key_is_known(const struct mr_table *table, uint32_t key);

/* From now on no region can be mapped by this segment. The table is suspended. */
void mr_table_unmap(const struct mr_table *table, uint32_t segment);

/* The region, on demand or not, that `pd` has under this key. False: none. */
bool mr_table_find(
	const struct mr_table *table, uint32_t key, uint32_t pd, struct mr_region *ret_region);

/*
 * Walk over all regions but null regions, also while the table is suspended. *index is 0 at first.
 * False: there are no more.
 */
bool mr_table_next(const struct mr_table *table, uint32_t *index, struct mr_region *ret_region);

/* As mr_table_place(), for the region that mr_table_next() came to last. */
void mr_table_place_last(
	const struct mr_table *table, uint32_t index, const struct mr_extent *extent);

/*
 * Does any region, null regions apart, have bytes in [address, address + bytes)? Looks at the whole
 * table.
 */
bool mr_table_overlaps(const struct mr_table *table, uint64_t address, uint64_t bytes);

/* The regions that live now, null regions among them. */
uint32_t mr_table_count(const struct mr_table *table);

#endif
