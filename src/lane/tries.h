/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_LANE_TRIES_H
#define URNIC_LANE_TRIES_H

/*
 * Guards: how many wrong numbers or keys a stranger may send before a queue pair drops what it
 * usually accepts. A queue pair has an allowance of each kind, and so has each peer of a lane.
 * qp/guard.h has the model.
 */

#include <stdint.h>

enum { GUARD_PEERS = 64 }; /* a power of two */

/* What a peer or queue pair has left of its allowance of tries. A zeroed structure is full. */
struct guard {
	uint64_t whole_at_ns; /* when it will be full again; a time in the past: it is full */
};

/* What strangers guess. */
enum guard_kind {
	GUARD_NUMBERS,
	GUARD_KEYS,
	GUARD_KIND_COUNT,
};

/* The guards of a lane. While the structure is zeroed, no guard is up. */
struct guards {
	struct guard peer[GUARD_PEERS][GUARD_KIND_COUNT];
	uint64_t until_ns[GUARD_KIND_COUNT]; /* from this time on no guard of the lane is up */
};

#endif
