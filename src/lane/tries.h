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

/* The rest of the allowance of a peer or queue pair. A zeroed structure is a full allowance. */
struct guard {
	/* When the allowance will be full again. A time in the past: it is full. */
	uint64_t whole_at_ns;
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
