/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_MEMORY_MR_EXPLAIN_H
#define URNIC_MEMORY_MR_EXPLAIN_H

/*
 * Why an access to memory was refused: the region that the key names now or named before, or the
 * region nearest to the address. For failures only: the functions scan the table.
 *
 * The table of a process remembers the last regions that were deregistered or registered anew
 * (mr_gone). Threads: as for a lookup (memory/mr.h).
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/spin.h"
#include "memory/copy.h"
#include "memory/mr.h"

enum { MR_GONE_MAX = 64 };

/* A region as it was before it was deregistered or registered anew. */
struct mr_gone {
	uint64_t at_ns; /* monotonic; 0: an unused entry */
	uint64_t start; /* iova */
	uint64_t bytes;
	uint32_t key;
	uint32_t access;
	bool is_changed; /* registered anew: the key lives on */
};

/*
 * The last regions that were removed or changed: number n is at place n % MR_GONE_MAX. Any thread
 * may hold the lock.
 */
struct mr_gone_list {
	struct spin lock;
	uint64_t count;
	struct mr_gone entry[MR_GONE_MAX];
};

/* Which region the other members of struct mr_explanation describe. */
enum mr_explained {
	MR_EXPLAINED_NONE, /* no region at all */
	MR_EXPLAINED_KEY, /* that of the key */
	MR_EXPLAINED_GONE, /* the one that had the key */
	MR_EXPLAINED_NEAREST, /* the nearest one by address, which has another key */
};

struct mr_explanation {
	enum mr_fault fault; /* what a lookup finds now */
	enum mr_explained explained;
	uint32_t key;
	uint32_t access; /* enum mr_access, flags of verbs alone */
	uint64_t start;
	uint64_t bytes;
	uint64_t
		ago_ns; /* since the region was deregistered, or since it was changed; 0: neither */
	uint64_t distance_bytes; /* NEAREST: from the range to the region; 0: they overlap */
	/* KEY: how many bytes of the range lie before its first byte outside the region. */
	uint64_t first_outside;
	bool is_swapped; /* a region has the key in the other byte order */
};

/*
 * Explain an access of `user` with the rights `access`. `now_ns` is the time of the failure. A null
 * region or a window is explained by its fault alone.
 */
struct mr_explanation mr_explain(const struct mr_table *table, uint32_t key, struct mr_user user,
	uint32_t access, uint64_t iova, uint64_t bytes, uint64_t now_ns);

/*
 * The first entry of a scatter/gather list that does not grant `access` now. Returns its index, or
 * `count` if all do.
 */
uint32_t sge_refused(const struct mr_table *table, uint32_t pd, uint32_t access,
	const struct sge *list, uint32_t count);

/* For mr.c: remember the region of `slot` before it is removed or changed. */
void mr_gone_note(
	const struct mr_table *table, const struct mr_slot *slot, uint32_t key, bool is_changed);

#endif
