/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory regions and their keys: the protection hardware of the NIC.
 *
 * This is the only code that turns (key, address, length) into a pointer. Local work requests and
 * remote peers come through the same door, mr_resolve(), with the rights that their operation needs
 * (IBTA 10.6, 9.7.5.2.4: R_Key, bounds, access).
 *
 * A key is 32 bits: the upper 24 are a secret permutation of (slot, generation), so that keys are
 * unpredictable (IBTA 10.6.3.3 leaves their making to the NIC); the low 8 are a random variant.
 * Both change each time a slot is used again, and slots are used again as late as possible, so a
 * key of a region that is gone does not match a later region. lkey and rkey of a region are equal;
 * what remote peers may do is decided by the access flags.
 *
 * Memory is not pinned: a registration costs no memlock limit, pages may be swapped or moved, a NIC
 * made of software uses the process's own page tables. Registering does not touch the pages.
 *
 * The table is plain data in NIC memory. Threads: register and deregister are serialized by the
 * caller (set-up path). A lookup runs under a lane's lock; after mr_table_remove() the caller
 * passes through every lane's lock once before it reports the deregistration as done: whoever still
 * copies holds one of them.
 */
#ifndef URNIC_MEMORY_MR_H
#define URNIC_MEMORY_MR_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/permute.h"

/* Rights of a region and needs of an operation; the values of enum ibv_access_flags. */
enum mr_access {
	MR_LOCAL_READ = 0, /* always granted */
	MR_LOCAL_WRITE = 1 << 0,
	MR_REMOTE_WRITE = 1 << 1,
	MR_REMOTE_READ = 1 << 2,
	MR_REMOTE_ATOMIC = 1 << 3,
	MR_RELAXED_ORDERING = 1 << 20,

	MR_REMOTE_ANY = MR_REMOTE_WRITE | MR_REMOTE_READ | MR_REMOTE_ATOMIC,
};

/* Why an access was refused. */
enum mr_fault {
	MR_OK,
	MR_FAULT_KEY, /* no region has this key (never had, or no longer) */
	MR_FAULT_PD, /* the region belongs to another protection domain */
	MR_FAULT_ACCESS, /* the region does not grant what the operation needs */
	MR_FAULT_BOUNDS, /* the range is not inside the region */
};

/* One slot of the table; a cache line. Written only while `key_word` is 0. */
struct mr_slot {
	_Atomic uint64_t
		key_word; /* 1 << 32 | key while the region lives, else 0: every key is a legal one */
	uint32_t pd;
	uint32_t access;
	uint64_t iova; /* what peers and work requests name as its first address */
	uint64_t bytes;
	uint64_t address; /* where it lies in the owner's address space */
	uint8_t generation;
	uint8_t reserved[23];
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
};

struct mr_table {
	struct mr_slot *slots;
	uint32_t slot_count;
	struct permutation permutation;
	uint32_t
		*free_ring; /* slots in the order in which they became free; private to the owner */
	uint32_t free_head;
	uint32_t free_count;
	uint32_t fresh_count; /* slots from here on were never used */
};

/*
 * Make an empty table for up to `slot_count` regions (1 to MR_SLOT_COUNT_MAX) in `arena`.
 * `secret_a/b` are random. Returns 0, or -ENOMEM.
 */
int mr_table_init(struct mr_table *table, struct arena *arena, uint32_t slot_count,
	uint64_t secret_a, uint64_t secret_b);
void mr_table_done(struct mr_table *table);

/*
 * Register a region. `variant` is a random byte. On success *ret_key is its key. Returns 0; -ENOMEM
 * when the table is full; -EINVAL when the range wraps around the address space, or when remote
 * write or atomic access is asked for without local write (IBTA 10.6.3.1, C10-87).
 */
int mr_table_add(
	struct mr_table *table, const struct mr_region *region, uint8_t variant, uint32_t *ret_key);

/*
 * Deregister. False when no region has the key, or it belongs to another protection domain than
 * `pd`.
 */
bool mr_table_remove(struct mr_table *table, uint32_t key, uint32_t pd);

/*
 * Turn (key, address, length) into a pointer, if `pd` may do `access` there.
 *
 * `access`       The rights needed; MR_LOCAL_READ needs none.
 * `iova, bytes`  The range, from anybody: any values are legal input.
 * `ret_pointer`  Set on success; for bytes == 0 it may point anywhere and must not be followed.
 */
enum mr_fault mr_resolve(const struct mr_table *table, uint32_t key, uint32_t pd, uint32_t access,
	uint64_t iova, uint64_t bytes, uint8_t **ret_pointer);

/* The regions that live now. */
uint32_t mr_table_count(const struct mr_table *table);

#endif
