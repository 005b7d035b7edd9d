/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_TESTS_SIM_MIXED_H
#define URNIC_TESTS_SIM_MIXED_H

#include <stdbool.h>
#include <stdint.h>

/* What a run did, for the summary. */
struct mixed_result {
	uint64_t packets;
	uint64_t bad_fates; /* frames that did not arrive, or twice */
	uint64_t retransmitted;
	uint64_t virtual_ns;
};

/* The kind of the connections. */
enum mixed_kind {
	MIXED_RC, /* reliable connections with receive queues of their own */
	MIXED_SRQ, /* with shared ones, which are resized and have limits */
	/* The first, with queue pairs that are drained, migrate, and are paced (states.h) */
	MIXED_STATES,
	MIXED_XRC, /* extended reliable connections, each message to one of two shared queues */
};

/*
 * Mixed operations in both directions over links that the seed makes good or bad. Ends the program
 * at the first error.
 */
void mixed_run(
	enum mixed_kind kind, uint64_t seed, bool is_traced, struct mixed_result *ret_result);

#endif
