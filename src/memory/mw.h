/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory windows (IBTA 10.6.7): keys for parts of regions, granted and revoked on the data path.
 *
 * A window is made without memory behind it. A bind lets it stand for a part of a region, under a
 * key whose low 8 bits the binder chooses. Type 1 is for every queue pair of its protection domain,
 * and a bind replaces the one before. Type 2 (the specification's 2B) is for the queue pair that
 * bound it and is bound again only after it was invalidated. A window is named by remote peers,
 * never in a scatter/gather list; mr_resolve_for() knows both.
 *
 * Threads: making and removing are serialized by the caller, and removing needs every lane's lock,
 * as for regions. Binding and invalidating run under the lock of the queue pair's lane. A type 1
 * window that is bound again on one lane may still serve the packet that another lane is executing
 * at that moment; a type 2 window is used on one lane only.
 */
#ifndef URNIC_MEMORY_MW_H
#define URNIC_MEMORY_MW_H

#include "memory/mr.h"

/* What a bind asks for. */
struct mw_bind {
	uint32_t key; /* that the window shall have; its upper 24 bits name the window */
	uint32_t region_key;
	struct mr_user user; /* the queue pair that binds */
	uint32_t access; /* enum mr_access: remote rights, MR_ZERO_BASED */
	uint64_t iova; /* of the first byte, as the region counts */
	uint64_t bytes;
};

/*
 * Make a window, `kind` MR_KIND_WINDOW_1 or _2, that is not bound. `variant` is a random byte.
 * *ret_key is the key that it does not grant anything with yet. Returns 0 or -ENOMEM.
 */
int mw_add(
	struct mr_table *table, uint32_t pd, enum mr_kind kind, uint8_t variant, uint32_t *ret_key);

/*
 * Take a window away, bound or not. Every lane is locked. `key` is any that it ever had. Returns 0,
 * or -EINVAL when `pd` has no such window.
 */
int mw_remove(struct mr_table *table, uint32_t key, uint32_t pd);

/*
 * Execute a bind (IBTA 10.6.7.2). One of no bytes leaves a type 1 window unbound, and needs no
 * region; for type 2 it is refused. On failure nothing has changed.
 */
enum mr_fault mw_bind(const struct mr_table *table, const struct mw_bind *bind);

/*
 * May `user` invalidate this key? Only that of a type 2 window which it has bound (IBTA
 * 10.6.7.2.2): regions of programs are deregistered, and windows of type 1 bound again.
 */
enum mr_fault mw_check(const struct mr_table *table, uint32_t key, struct mr_user user);

/* Invalidate: the key grants nothing from now on. Refused as mw_check() says. */
enum mr_fault mw_invalidate(const struct mr_table *table, uint32_t key, struct mr_user user);

/* A queue pair goes, or is reset: invalidate what it has bound. Looks at the whole table. */
void mw_release(const struct mr_table *table, uint32_t qpn);

#endif
