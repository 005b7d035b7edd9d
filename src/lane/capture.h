/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_LANE_CAPTURE_H
#define URNIC_LANE_CAPTURE_H

/*
 * What a lane shows of its requests within this host while somebody captures them.
 *
 * A word in NIC memory says whether anybody does; another process sets and clears it at any time.
 * While it is set, requests that are executed without packets are written, as the packets that they
 * would have been, into a ring of the lane's in NIC memory. Whoever captures empties it; what finds
 * it full is dropped and counted, and nothing ever waits. Once a second the owner is asked to see
 * whether whoever set the word is still there.
 *
 * Without anybody, a lane looks at the word once for a request, or for a row of them.
 *
 * Threads: all under the lane's lock.
 */

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/record_ring.h"
#include "wire/captured.h"

/* In NIC memory: one for all lanes of a process. */
struct capture_public {
	alignas(64) _Atomic uint32_t is_on;
	_Atomic uint32_t snap_bytes; /* of each packet, from its BTH on */
};

/* What a lane needs of its surroundings. */
struct capture_owner {
	uint64_t (*now_ns)(void); /* monotonic */
	/* Packets are captured: clear the word if whoever set it has gone without doing so. */
	void (*look)(void);
};

struct capture {
	struct capture_public *public;
	struct record_ring *ring;
	const struct capture_owner *owner;
	uint64_t looked_ns; /* when owner->look() was called; 0: never */
};

/* The word is never set there. */
extern const struct capture_public capture_nowhere;

static inline bool capture_is_on(const struct capture_public *public)
{
	return atomic_load_explicit(&public->is_on, memory_order_relaxed);
}

/* What time it is. Packets of one request have one. */
static inline uint64_t capture_now_ns(const struct capture *capture)
{
	return capture->owner->now_ns();
}

/*
 * Show a packet.
 *
 * `about`  But captured_bytes, which is set.
 * `bytes`  `count` of them, from the BTH on: about->packet_bytes, or fewer.
 */
void capture_put(
	struct capture *capture, struct captured *about, const uint8_t *bytes, uint32_t count);

#endif
