/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_LANE_CAPTURE_H
#define URNIC_LANE_CAPTURE_H

/*
 * The capture of a lane's requests within this host.
 *
 * The word capture_public.is_on turns the capture on; the capturing process may set and clear it at
 * any time. While the word is set, the lane records each request that it executes without packets:
 * it writes to a ring in NIC memory the packets that would have carried the request. The capturing
 * process empties the ring. If the ring is full, the lane drops and counts the packet; it never
 * waits. Once a second the lane calls capture_owner.look(), which checks that the capturing process
 * still exists.
 *
 * While the word is not set, the lane only reads the word, once for each request or batch.
 *
 * Threads: the lane's lock covers everything here.
 */

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/record_ring.h"
#include "wire/captured.h"

/* The state of captures, in NIC memory. All lanes of a process share it. */
struct capture_public {
	alignas(64) _Atomic uint32_t is_on;
	_Atomic uint32_t snap_bytes; /* how many bytes of each packet to record, from its BTH on */
};

/* What the NIC provides for a lane's capture. */
struct capture_owner {
	uint64_t (*now_ns)(void); /* monotonic */
	/* The lane captures packets: clear is_on if the process that set it has ended. */
	void (*look)(void);
};

struct capture {
	struct capture_public *public;
	struct record_ring *ring;
	const struct capture_owner *owner;
	uint64_t looked_ns; /* when owner->look() was called; 0: never */
};

/* The capture_public of a lane that is not started yet. Its is_on is never set. */
extern const struct capture_public capture_nowhere;

static inline bool capture_is_on(const struct capture_public *public)
{
	return atomic_load_explicit(&public->is_on, memory_order_relaxed);
}

/* The present time. The lane records the same time for all packets of a request. */
static inline uint64_t capture_now_ns(const struct capture *capture)
{
	return capture->owner->now_ns();
}

/*
 * Write a packet to the ring.
 *
 * `about`  Describes the packet. The function sets captured_bytes; the caller has set all other
 *          fields.
 * `bytes`  The first `count` bytes of the packet from its BTH on. `count` may be less than
 *          about->packet_bytes.
 */
void capture_put(
	struct capture *capture, struct captured *about, const uint8_t *bytes, uint32_t count);

#endif
