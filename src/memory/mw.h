/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory windows (IBTA 10.6.7): keys for parts of regions, granted and revoked on the data path.
 *
 * A window is created without memory. A bind gives it a part of a region, and a key whose low 8
 * bits the binder chooses. Type 1 is for every queue pair of its protection domain, and a bind
 * replaces the previous one. Type 2 (the specification's 2B) is for the queue pair that bound it,
 * and must be invalidated before it is bound again. Remote peers name windows, scatter/gather lists
 * do not; mr_resolve_for() knows both.
 *
 * Threads: the caller serializes making and removing, and removing needs every lane's lock, as for
 * regions. Binding and invalidating run under the lock of the queue pair's lane. A type 1 window
 * that is bound again on one lane may still serve the packet that another lane is executing. A type
 * 2 window is used on one lane only.
 */
#ifndef URNIC_MEMORY_MW_H
#define URNIC_MEMORY_MW_H

#include "memory/mr.h"

struct mw_bind {
	uint32_t key; /* future key of the window; its upper 24 bits name the window */
	uint32_t region_key;
	struct mr_user user; /* the binding queue pair */
	uint32_t access; /* enum mr_access: remote rights, MR_ZERO_BASED */
	uint64_t iova; /* of the first byte, in the region's count */
	uint64_t bytes;
};

/*
 * Make an unbound window of `kind` MR_KIND_WINDOW_1 or _2. `variant` is a random byte. *ret_key is
 * its key, which grants nothing yet. Returns 0 or -ENOMEM.
 */
int mw_add(
	struct mr_table *table, uint32_t pd, enum mr_kind kind, uint8_t variant, uint32_t *ret_key);

/*
 * Remove a window, bound or not. Every lane is locked. `key` is any that it ever had. Returns 0, or
 * -EINVAL when `pd` has no such window.
 */
int mw_remove(struct mr_table *table, uint32_t key, uint32_t pd);

/*
 * Execute a bind (IBTA 10.6.7.2). A bind of no bytes unbinds a type 1 window, and needs no region;
 * for type 2 it is refused. Errors change nothing.
 */
enum mr_fault mw_bind(const struct mr_table *table, const struct mw_bind *bind);

/*
 * May `user` invalidate this key? Only that of a type 2 window which it has bound (IBTA
 * 10.6.7.2.2): regions are deregistered, and type 1 windows bound again.
 */
enum mr_fault mw_check(const struct mr_table *table, uint32_t key, struct mr_user user);

/* Invalidate: the key grants nothing from now on. Refused as mw_check() says. */
enum mr_fault mw_invalidate(const struct mr_table *table, uint32_t key, struct mr_user user);

/* A queue pair is destroyed or reset: invalidate its bound windows. Scans the whole table. */
void mw_release(const struct mr_table *table, uint32_t qpn);

#endif
