/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_ETHER_FLOW_H
#define URNIC_ETHER_FLOW_H

/*
 * Flow steering: which raw packet queue pairs get a frame.
 *
 * A rule is a masked key, a rank and the queue pair it steers to. A frame goes to the owners of all
 * matching rules of the best (lowest) rank. If none of these rules traps, the search goes on at the
 * next rank. Sniffers come first and never trap; the default rules are last.
 *
 * To add a rule, the table's owner makes a longer table and replaces the old one; it removes a rule
 * in place. The owner does both while no thread reads the table.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "wire/frame.h"

struct qp;

enum flow_kind {
	FLOW_SNIFFER, /* every frame of the port, in both directions */
	FLOW_NORMAL,
	FLOW_MULTICAST_DEFAULT, /* multicast frames that no normal rule traps */
	FLOW_ALL_DEFAULT, /* frames that no other rule traps */
};

/* The frames that a rule has delivered. Shared with the threads that read the counters. */
struct flow_counters {
	_Atomic uint64_t packets;
	_Atomic uint64_t bytes;
};

struct flow_rule {
	enum flow_kind kind;
	uint16_t priority; /* among normal rules; 0 is the best */
	bool does_trap; /* normal rules only: a matching frame is not offered to worse ranks */
	uint32_t ifindex; /* frames of this interface only */
	uint32_t tag; /* shown in completions */
	struct frame_key value; /* 0 where the mask is 0 */
	struct frame_key mask;
	const struct qp *owner; /* only compared, never dereferenced */
	struct flow_counters *counters; /* NULL: none */
};

struct flow_table {
	uint32_t count;
	const struct flow_rule *rules[]; /* best rank first */
};

/*
 * Returns a copy of `old` (NULL: an empty table) with `rule` behind the rules of equal rank. NULL:
 * there is no memory. The caller keeps the rule for the life of the table.
 */
struct flow_table *flow_table_with(const struct flow_table *old, const struct flow_rule *rule);

void flow_table_remove(struct flow_table *table, const struct flow_rule *rule);

struct flow_frame {
	struct frame_key key;
	uint32_t ifindex;
	uint32_t bytes;
	bool is_departing; /* sent by this host to another one: for sniffers only */
};

/* The rule that steers this frame to `owner`, or NULL. `table` may be NULL. */
const struct flow_rule *flow_table_find(
	const struct flow_table *table, const struct flow_frame *frame, const struct qp *owner);

/* Count a frame that a rule has delivered. Any thread may call. */
static inline void flow_rule_count(const struct flow_rule *rule, uint32_t bytes)
{
	if (rule->counters) {
		atomic_fetch_add_explicit(&rule->counters->packets, 1, memory_order_relaxed);
		atomic_fetch_add_explicit(&rule->counters->bytes, bytes, memory_order_relaxed);
	}
}

#endif
