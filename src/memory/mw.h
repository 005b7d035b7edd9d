/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory windows (IBTA 10.6.7): keys for parts of regions, granted and revoked on the data path.
 *
 * A window is created without memory. A bind gives it a part of a region, and a key whose low 8
 * bits the caller of the bind chooses. Every queue pair of its protection domain may use a type 1
 * window, and a bind replaces the previous one. Only the queue pair that bound a type 2 window (the
 * specification's 2B) may use it, and it must be invalidated before it is bound again. Requests of
 * remote peers may name windows, scatter/gather lists may not; mr_resolve_for() handles both.
 *
 * Threads: the caller serializes creation and removal, and removal needs every lane's lock, as for
 * regions. Binding and invalidating run under the lock of the queue pair's lane. When one lane
 * binds a type 1 window again, another lane may still complete a packet by the previous bind. A
 * type 2 window is used on one lane only.
 */
#ifndef URNIC_MEMORY_MW_H
#define URNIC_MEMORY_MW_H

#include "memory/mr.h"

struct mw_bind {
	uint32_t key; /* the window's key after the bind; the upper 24 bits name the window */
	uint32_t region_key;
	struct mr_user user; /* the queue pair that binds */
	uint32_t access; /* enum mr_access: remote rights, MR_ZERO_BASED */
	uint64_t iova; /* the first byte, as an address in the region (mr_slot.iova) */
	uint64_t bytes;
};

/*
 * Create an unbound window of `kind` MR_KIND_WINDOW_1 or _2. `variant` is a random byte. *ret_key
 * is the window's key, which grants nothing until a bind. Returns 0 or -ENOMEM.
 */
int mw_add(
	struct mr_table *table, uint32_t pd, enum mr_kind kind, uint8_t variant, uint32_t *ret_key);

/*
 * Remove a window, bound or not. Every lane is locked. `key` is any key that the window ever had.
 * Returns 0, or -EINVAL when `pd` has no such window.
 */
int mw_remove(struct mr_table *table, uint32_t key, uint32_t pd);

/*
 * Execute a bind (IBTA 10.6.7.2). A bind of 0 bytes unbinds a type 1 window, and needs no region. A
 * type 2 window refuses a bind of 0 bytes. Errors change nothing.
 */
enum mr_fault mw_bind(const struct mr_table *table, const struct mw_bind *bind);

/*
 * May `user` invalidate this key? Only if it is of a type 2 window that `user` has bound (IBTA
 * 10.6.7.2.2). The keys of regions end by deregistration, those of type 1 windows by another bind.
 */
enum mr_fault mw_check(const struct mr_table *table, uint32_t key, struct mr_user user);

/* Invalidate the key: it grants nothing from now on. Returns a fault if mw_check() would. */
enum mr_fault mw_invalidate(const struct mr_table *table, uint32_t key, struct mr_user user);

/*
 * A queue pair is destroyed or reset: invalidate the type 2 windows that it has bound. Scans the
 * whole table.
 */
void mw_release(const struct mr_table *table, uint32_t qpn);

#endif
