/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_LANE_FAILURE_H
#define URNIC_LANE_FAILURE_H

/*
 * The failures that a process keeps: the last FAILURES_MAX, with their facts.
 *
 * The code that finds a failure adds what it knows as facts of its lane (lane_fact()), and then
 * reports the failure. The report takes these facts. All lanes and calls of a process share one
 * list. Its owner writes each failure to a file and to the log (nic/nic_failure.c); a test or the
 * simulator has no list, and nothing is kept.
 *
 * A failure that repeats itself (struct failure.is_repeated) is counted in the entry of the first
 * one, so that a flood leaves the earlier failures in the list. Nothing here runs while nothing
 * fails.
 *
 * Threads: any. A lane's facts are covered by its lock, the list by its own.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/gid.h"
#include "base/spin.h"

enum {
	FAILURES_MAX = 64,
	FAILURE_FACTS_MAX = 15,
	FAILURE_TEXT_BYTES = 120, /* terminated */
};

enum fact {
#define FACT(name, format, sentence) FACT_##name,
#include "lane/fact.def"
#undef FACT
	FACT_COUNT
};

struct failure_facts {
	uint64_t value[FAILURE_FACTS_MAX];
	uint8_t fact[FAILURE_FACTS_MAX]; /* enum fact */
	uint8_t count;
};

struct failure {
	uint64_t number; /* from 1, in the order of the reports; set by failures_add() */
	uint64_t at_ns; /* monotonic */
	uint64_t wall_ns; /* since 1970; set by the list's owner */
	uint32_t reason; /* enum reason (qp/reason.h) */
	uint32_t qpn; /* 0: the failure is of no queue pair */
	uint32_t dest_qpn;
	uint32_t count; /* how often; more than 1 only if is_repeated */
	uint64_t wr_id;
	struct failure_facts facts;
	struct gid local; /* the queue pair's address; zero: none */
	struct gid remote; /* its peer's */
	uint8_t has_wr_id;
	/* Count the failure with an earlier one of equal reason, queue pair and text. */
	uint8_t is_repeated;
	uint8_t reserved[6];
	char text[FAILURE_TEXT_BYTES]; /* what the facts cannot say: a call's name; "" if nothing */
};

/*
 * The owner's function for a failure that was added or counted. It is called without the list's
 * lock.
 */
typedef void failures_noted_fn(const struct failure *failure, uint32_t place);

struct failures {
	struct spin lock;
	uint32_t reserved;
	uint64_t count; /* failures reported so far, without repetitions */
	failures_noted_fn *noted;
	struct failure list[FAILURES_MAX]; /* number n is at place (n - 1) % FAILURES_MAX */
};

/* Add a fact, if there is room for one more. */
static inline void failure_facts_add(struct failure_facts *facts, enum fact fact, uint64_t value)
{
	if (facts->count == FAILURE_FACTS_MAX)
		return;
	facts->value[facts->count] = value;
	facts->fact[facts->count++] = (uint8_t)fact;
}

/* Does the failure have the fact? */
bool failure_fact(const struct failure *failure, enum fact fact, uint64_t *ret_value);

/*
 * Add a failure to the list, or count it. A repetition is passed on to the owner when its count is
 * a power of two, so that a flood makes few calls. `failures` may be NULL.
 */
void failures_add(struct failures *failures, const struct failure *failure);

/*
 * Count a repetition of the newest failure, at little cost, for floods. Returns false when
 * failures_add() has to be called: the newest failure has another reason or queue pair, or a text,
 * or the owner has to hear of this repetition.
 */
bool failures_count(struct failures *failures, uint32_t reason, uint32_t qpn, uint64_t now_ns);

#endif
