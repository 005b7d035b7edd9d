/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_LANE_CAPTURE_H
#define URNIC_LANE_CAPTURE_H

/*
 * The capture of a lane's requests within this host.
 *
 * A word in NIC memory turns it on; the capturing process sets and clears that word at any time.
 * While it is set, the lane writes each request that is executed without packets, as the packets
 * that it would have been, into a ring in NIC memory. The capturing process empties the ring. A
 * packet that finds it full is dropped and counted, and the lane never waits. Once a second the
 * lane calls the owner, which checks that the capturing process still exists.
 *
 * Otherwise a lane only reads the word, once per request or batch.
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

/* The environment of a lane. */
struct capture_owner {
	uint64_t (*now_ns)(void); /* monotonic */
	/* Packets are captured: clear the word if the process that set it has gone. */
	void (*look)(void);
};

struct capture {
	struct capture_public *public;
	struct record_ring *ring;
	const struct capture_owner *owner;
	uint64_t looked_ns; /* when owner->look() was called; 0: never */
};

/* For lanes before they are started: its word is never set. */
extern const struct capture_public capture_nowhere;

static inline bool capture_is_on(const struct capture_public *public)
{
	return atomic_load_explicit(&public->is_on, memory_order_relaxed);
}

/* The time for all packets of a request. */
static inline uint64_t capture_now_ns(const struct capture *capture)
{
	return capture->owner->now_ns();
}

/*
 * Write a packet to the ring.
 *
 * `about`  Without captured_bytes, which is set here.
 * `bytes`  `count` bytes, from the BTH on: about->packet_bytes, or fewer.
 */
void capture_put(
	struct capture *capture, struct captured *about, const uint8_t *bytes, uint32_t count);

#endif
