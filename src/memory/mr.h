/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory regions and their keys: the protection hardware of the NIC.
 *
 * Only this code turns (key, address, length) into a pointer. mr_resolve() checks the keys of local
 * work requests, and mr_resolve_for() those of remote peers, for the rights that the operation
 * needs (IBTA 10.6, 9.7.5.2.4: R_Key, bounds, access).
 *
 * A key has 32 bits. The upper 24 are a secret permutation of (slot, generation), so a peer cannot
 * predict a key (base/permute.h says how far; IBTA 10.6.3.3 leaves the choice to the NIC). The low
 * 8 are a random variant. Each reuse of a slot changes the generation and the variant, and slots
 * are reused as late as possible. So the key of a deregistered region cannot match a later region
 * before its slot has been reused 256 times. The lkey and the rkey of a region are equal; the
 * access flags decide what remote peers may do.
 *
 * Memory is not pinned: the NIC uses the process's own page tables, so pages may be swapped or
 * moved, and no memlock limit applies. Registering does not touch the pages. The memory of a region
 * must be mapped from registration to deregistration. Only on-demand regions (MR_ON_DEMAND) may
 * lack pages, so each access to such a region first calls mr_touch_fn.
 *
 * A null region discards writes and reads as zeros, whatever address a scatter/gather entry has.
 *
 * Memory windows have slots in the same table (memory/mw.h), so one lookup of a peer's key finds a
 * region or a window.
 *
 * For each region the table also has the range that other processes can map (struct mr_extent). A
 * peer on the same host copies to and from those bytes directly.
 *
 * The table is plain data in NIC memory. Threads: the caller serializes adding, changing and
 * removing (set-up path). Changing and removing also need every lane's lock, because a thread that
 * copies holds only its lane's lock. A lookup needs one lane's lock.
 */
#ifndef URNIC_MEMORY_MR_H
#define URNIC_MEMORY_MR_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
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
	MR_ZERO_BASED = 1 << 5, /* in a window, peers' addresses count from its first byte */
	MR_ON_DEMAND = 1 << 6, /* pages may be missing; each access first faults them in */
	MR_FLUSH_GLOBAL = 1 << 8,
	MR_RELAXED_ORDERING = 1 << 20,
	/* Not flags of verbs: */
	MR_LOCAL_READ = 1 << 16, /* each region grants it, no window does */
	MR_TOUCH = 1 << 17, /* the caller reads or writes the bytes next; see mr_touch_fn */

	MR_ACCESS_DEFINED = 0x3ff003ff, /* the flags of verbs, with IBV_ACCESS_OPTIONAL_RANGE */
	MR_REMOTE_ANY = MR_REMOTE_WRITE | MR_REMOTE_READ | MR_REMOTE_ATOMIC,
};

/* The reasons to refuse an access, bind or invalidation; memory/mr_fault.def explains each. */
enum mr_fault {
	MR_OK,
#define MR_FAULT(name, local, bind, tagged, read, error, sentence) MR_FAULT_##name,
#include "memory/mr_fault.def"
#undef MR_FAULT
};

/*
 * The result of a program's call that names memory: 0 for MR_OK, else the -errno of the fault's row
 * in memory/mr_fault.def.
 */
int mr_fault_errno(enum mr_fault fault);

enum mr_kind {
	MR_KIND_FREE,
	MR_KIND_REGION,
	MR_KIND_NULL,
	MR_KIND_WINDOW_1,
	MR_KIND_WINDOW_2,
};

/*
 * A slot of the table. It fills a cache line. The fields of a region are written under all lanes'
 * locks, or while `key_word` is 0. Those of a window are written under `lock`. What a reader has
 * read of a window is valid if `key_word` was the same before and after.
 */
struct mr_slot {
	/*
	 * 1 << 32 | key while the slot can be accessed, else 0. Bit 32 is needed because 0 is a
	 * legal key. Bit 33 is set while the table is suspended. Bits from 34 on are a version, so
	 * that a slot never has the same word twice (struct mr_cached).
	 */
	_Atomic uint64_t key_word;
	uint32_t pd;
	_Atomic uint32_t access;
	_Atomic uint64_t iova; /* first address, as peers and work requests name it */
	_Atomic uint64_t bytes;
	_Atomic uint64_t address; /* in the owner's address space */
	_Atomic uint32_t qpn; /* bound type 2 window: the queue pair that bound it */
	_Atomic uint32_t window_count; /* region: how many windows are bound to it */
	uint32_t region_index; /* bound window: the slot of its region */
	struct spin lock;
	_Atomic uint8_t kind; /* enum mr_kind */
	uint8_t generation;
	uint16_t reserved;
	_Atomic uint32_t version; /* the version in the last key_word */
};

/*
 * The queue pair that uses a key, and its protection domain. `qpn` 0 is no queue pair; it matches
 * no type 2 window.
 */
struct mr_user {
	uint32_t pd;
	uint32_t qpn;
};

/*
 * Bytes that other processes can map: [start, end) in the owner's address space are in segment
 * number `segment` (segment/segment.h). If start equals end, there are no such bytes.
 */
struct mr_extent {
	uint64_t start;
	uint64_t end;
	uint32_t segment;
};

/* The struct mr_extent of a slot's region, in NIC memory for peers to read. */
struct mr_place {
	_Atomic uint64_t start;
	_Atomic uint64_t end;
	_Atomic uint32_t segment;
	uint32_t reserved;
};

/* The arguments of a registration. */
struct mr_region {
	uint32_t pd;
	uint32_t access; /* enum mr_access, or'ed */
	uint64_t iova;
	uint64_t bytes; /* 0 is legal: such a region grants nothing */
	void *address;
};

enum {
	/* Of the upper 24 bits of a key, 16 are the slot and 8 the generation. */
	MR_SLOT_COUNT_MAX = 1 << 16,
	MR_REGION_COUNT_MAX = 3 << 14, /* regions among these slots */
	MR_WINDOW_COUNT_MAX = 1 << 14, /* windows among these slots */
	MR_PD_BORROWED_END = 1 << 20, /* lower numbers are of borrowed domains (mr_borrowed.h) */
	MR_NULL_BYTES = 1 << 16, /* the longest single copy to or from a null region */
};

/*
 * Fault in the pages of [address, address + bytes), for reading or, with `is_written`, for writing.
 * Returns false when they cannot be accessed in that way. It may block, as any page fault.
 */
typedef bool mr_touch_fn(void *address, uint64_t bytes, bool is_written);

/*
 * Wait until no other process uses the memory of `key` (0: of any key). Lookups no longer find the
 * key. After this call the caller changes or frees the memory. Returns true when no process uses
 * the memory. Returns false when a process did not clear its in-use mark in time, because it does
 * not run (SIGSTOP, a debugger). Such a process may still write to the memory, but completes no
 * request with it.
 */
typedef bool mr_quiesce_fn(uint32_t key);

/* Where other processes that map NIC memory find the table. */
struct mr_public {
	uint64_t slots_offset;
	uint64_t places_offset;
	uint64_t permutation_offset;
	uint32_t slot_count;
	uint32_t reserved;
};

struct mr_borrowed;
struct mr_gone_list;

struct mr_table {
	struct mr_slot *slots;
	struct mr_place *places; /* one for each slot; only those of regions are used */
	uint32_t slot_count;
	const struct permutation *permutation; /* in NIC memory */
	/* A null region is read from the zeros and written to the sink, MR_NULL_BYTES each. */
	uint8_t *null_zeros;
	uint8_t *null_sink;
	uint32_t *free_ring; /* indices of free slots, oldest first; private to the owner */
	uint32_t free_head;
	uint32_t free_count;
	/* Slots with this index or a higher one were never used. Any thread may read it. */
	_Atomic uint32_t fresh_count;
	uint32_t region_count;
	uint32_t window_count; /* bound or not */
	mr_touch_fn *touch; /* set by the owner; NULL: on-demand memory is always present */
	mr_quiesce_fn *quiesce; /* set by the owner; NULL: no other process maps the table */
	/* Set by the owner: the monotonic time; NULL: removed regions are forgotten. */
	uint64_t (*now_ns)(void);
	struct mr_gone_list *gone; /* regions removed or changed (mr_explain.h); private */
	/* Set by the owner; NULL: all protection domains belong to this process. */
	const struct mr_borrowed *borrowed;
};

/*
 * Make an empty table for up to `slot_count` regions and windows (1 to MR_SLOT_COUNT_MAX) in
 * `arena`. `permutation` is random; it is copied. Returns 0, or -ENOMEM.
 */
int mr_table_init(struct mr_table *table, struct arena *arena, uint32_t slot_count,
	const struct permutation *permutation);
void mr_table_done(struct mr_table *table);

/*
 * Register a region. `variant` is a random byte. *ret_key is set on success. Returns 0; -ENOMEM
 * when the table is full; -EINVAL when the range wraps around the address space, or when remote
 * write or atomic access is requested without local write (IBTA 10.6.3.1, C10-87).
 */
int mr_table_add(
	struct mr_table *table, const struct mr_region *region, uint8_t variant, uint32_t *ret_key);

/* Register a null region. Returns 0 or -ENOMEM. */
int mr_table_add_null(struct mr_table *table, uint32_t pd, uint8_t variant, uint32_t *ret_key);

/*
 * The region was changed or removed, but a process that does not run now may still write to the
 * region's former memory (mr_quiesce_fn returned false).
 */
enum { MR_IN_USE = 1 };

/*
 * Replace a region's memory, rights and protection domain in one step; the key stays the same.
 * Every lane is locked. Returns 0; MR_IN_USE; -EINVAL as mr_table_add(), or when `pd` has no region
 * with this key; -EBUSY when windows are bound to the region. Errors change nothing.
 */
int mr_table_change(
	struct mr_table *table, uint32_t key, uint32_t pd, const struct mr_region *region);

/*
 * Deregister a region. Every lane is locked. Returns 0; MR_IN_USE; -EINVAL when no region of `pd`
 * has the key; -EBUSY when windows are bound to the region (IBTA 10.6.7.2).
 */
int mr_table_remove(struct mr_table *table, uint32_t key, uint32_t pd);

/*
 * Turn (key, address, length) into a pointer, if the key grants `user` the rights `access`.
 *
 * `user`         The queue pair whose work request, or whose peer's request, names the key.
 * `access`       The required rights: MR_LOCAL_READ, MR_LOCAL_WRITE, or remote ones; with MR_TOUCH
 *                when the caller accesses the bytes next, and does not only check the range.
 * `iova, bytes`  The range; any values are legal, because a hostile peer may have sent them.
 * `ret_pointer`  Set on success. Must not be dereferenced if `bytes` is 0. For a null region it is
 *                valid for MR_NULL_BYTES bytes.
 */
enum mr_fault mr_resolve_for(const struct mr_table *table, uint32_t key, struct mr_user user,
	uint32_t access, uint64_t iova, uint64_t bytes, uint8_t **ret_pointer);

/* mr_resolve_for() for scatter/gather lists, where only the protection domain matters. */
static inline enum mr_fault mr_resolve(const struct mr_table *table, uint32_t key, uint32_t pd,
	uint32_t access, uint64_t iova, uint64_t bytes, uint8_t **ret_pointer)
{
	return mr_resolve_for(
		table, key, (struct mr_user){pd, 0}, access, iova, bytes, ret_pointer);
}

/*
 * The cached result of a lookup. Only the struct mr_user that the lookup was for may use it. It is
 * valid while `*key_word` equals `word`. Only regions are cached. The rights of an on-demand region
 * lack MR_TOUCH, so its bytes are never accessed by way of the cache. A zeroed struct is an empty
 * cache.
 */
struct mr_cached {
	const _Atomic uint64_t *key_word; /* NULL: empty; all other fields are 0 */
	uint64_t word;
	uint64_t iova; /* of the first cached byte, as peers and work requests name it */
	uint64_t bytes;
	uint8_t *pointer; /* to the first cached byte */
	uint32_t access; /* the rights of the region */
};

/*
 * The pointer to the bytes, if the cache has it; NULL when the caller has to call mr_resolve_for().
 * The caller holds one lane's lock. `access` is not 0, so an empty cache grants nothing.
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
 * Cache what mr_resolve_for() has just found for `key`, if it can be cached. The cached pointer is
 * the address in the table; a reader of another process's table has to translate it.
 */
void mr_cache(const struct mr_table *table, uint32_t key, struct mr_cached *ret_cached);

/*
 * mr_resolve() with a cache, which is used for this `pd` only. If the cache does not have the
 * range, the function looks up the key, and caches its region.
 */
static inline enum mr_fault mr_resolve_cached(const struct mr_table *table,
	struct mr_cached *cached, uint32_t key, uint32_t pd, uint32_t access, uint64_t iova,
	uint64_t bytes, uint8_t **ret_pointer)
{
	enum mr_fault fault;

	*ret_pointer = mr_cached_find(cached, key, access, iova, bytes);
	if (*ret_pointer)
		return MR_OK;
	fault = mr_resolve(table, key, pd, access, iova, bytes, ret_pointer);
	if (!fault)
		mr_cache(table, key, cached);
	return fault;
}

/* MR_OK if `key` grants `user` the rights `access` to the whole region or window. */
enum mr_fault mr_resolve_whole(
	const struct mr_table *table, uint32_t key, struct mr_user user, uint32_t access);

/*
 * The region whose key is `key`. For the key of a window, the region to which the window is bound.
 * NULL when no lookup finds the key now.
 */
const struct mr_slot *mr_region_of(const struct mr_table *table, uint32_t key);

/*
 * May a process whose in-use mark has the key `used` be accessing memory of `key`, a region or
 * window whose key was withdrawn?
 */
bool mr_keys_may_meet(const struct mr_table *table, uint32_t used, uint32_t key);

/* Set *ret_public to the place of the table in NIC memory. */
void mr_table_publish(
	const struct mr_table *table, const struct arena *arena, struct mr_public *ret_public);

/*
 * View another process's table, which lies in the `bytes` of NIC memory at `base`, at the offsets
 * in `where`. The view is for lookups only, which turn keys into addresses of that process. For a
 * null region the address is NULL, because a view has no null_zeros and no null_sink. On-demand
 * regions are refused with MR_FAULT_PAGE. Returns 0, or -EINVAL when the table is not inside that
 * memory.
 */
int mr_table_view(
	struct mr_table *view, uint8_t *base, uint64_t bytes, const struct mr_public *where);

/*
 * Record which bytes of a region peers can map. Until then, a new or changed region has no such
 * bytes. The caller prevents the removal of the region during the call.
 */
void mr_table_place(const struct mr_table *table, uint32_t key, const struct mr_extent *extent);

/*
 * The bytes of a region that peers can map. False: there are none. The result is valid while the
 * caller's in-use mark names the region's key, because the owner waits for the mark
 * (mr_quiesce_fn).
 */
bool mr_region_extent(
	const struct mr_table *table, const struct mr_slot *region, struct mr_extent *ret_extent);

/*
 * Suspend the table: lookups find no key until mr_table_resume(). Returns as mr_quiesce_fn for all
 * keys. Every lane is locked.
 */
bool mr_table_suspend(const struct mr_table *table);
void mr_table_resume(const struct mr_table *table);

/*
 * Is the key valid, although the table may be suspended? After a failed lookup in another process's
 * table, the caller learns in this way whether to look again later.
 */
bool mr_key_is_known(const struct mr_table *table, uint32_t key);

/* Record that peers can map no region by `segment` any more. The table is suspended. */
void mr_table_unmap(const struct mr_table *table, uint32_t segment);

/* The region of `pd` with this key, on-demand or not. False: there is none. */
bool mr_table_find(
	const struct mr_table *table, uint32_t key, uint32_t pd, struct mr_region *ret_region);

/*
 * The next region in a walk over all regions except null regions; the table may be suspended. The
 * caller sets *index to 0 before the first call. False: there are no more.
 */
bool mr_table_next(const struct mr_table *table, uint32_t *index, struct mr_region *ret_region);

/* mr_table_place() for the last region of mr_table_next(). `index` is the *index that it left. */
void mr_table_place_last(
	const struct mr_table *table, uint32_t index, const struct mr_extent *extent);

/* Has any region except null regions bytes in [address, address + bytes)? Scans the table. */
bool mr_table_overlaps(const struct mr_table *table, uint64_t address, uint64_t bytes);

/* The number of registered regions, including null regions. */
uint32_t mr_table_count(const struct mr_table *table);

#endif
