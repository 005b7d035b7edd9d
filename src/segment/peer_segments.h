/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_SEGMENT_PEER_SEGMENTS_H
#define URNIC_SEGMENT_PEER_SEGMENTS_H

/*
 * Segments of another process (segment/segment.h), mapped here.
 *
 * One is mapped when its first byte is needed and stays mapped until its place in the peer's list
 * is another's, or the peer goes. Its serial number tells. While somebody uses a key, the segments
 * of its region stay what they are, so who holds such a key may use what he was given.
 *
 * Threads: any.
 */

#include <stdint.h>

#include "segment/segment.h"

struct peer_segment {
	_Atomic uint64_t serial; /* 0: never mapped */
	uint8_t *base; /* NULL: could not be mapped */
	uint64_t start; /* in the peer's address space */
	uint64_t bytes;
};

struct peer_segments {
	const struct segment_public *list; /* in the peer's NIC memory; NULL: it has none */
	int pidfd; /* of the peer; borrowed */
	struct peer_segment *of; /* SEGMENT_COUNT_MAX */
	/*
	 * A mapping is of no use any more. The peer may have taken the segment away from under a
	 * copy of ours that stood still, and other threads of this process go on with that: call
	 * peer_segments_stale(), wait until each lane was unlocked once, then unmap what it
	 * returned. NULL: mappings are unmapped at once.
	 */
	void (*on_stale)(void);
};

/* A mapping that is to be unmapped. */
struct peer_stale {
	struct peer_stale *next;
	void *base;
	uint64_t bytes;
};

/* Those that have become stale since the last call, of all peers; the caller's. */
struct peer_stale *peer_segments_stale(void);
void peer_segments_unmap(struct peer_stale *stale);

/* Returns 0 or -ENOMEM. */
int peer_segments_init(
	struct peer_segments *segments, const struct segment_public *list, int pidfd);

/*
 * Unmap all. `is_child` of a fork: none was inherited. Before peer_segments_init() (all zeros) it
 * does nothing.
 */
void peer_segments_done(struct peer_segments *segments, bool is_child);

/*
 * Where [address, address + bytes) of the peer's lies here, which is in its segment `index`, or
 * NULL when that cannot be mapped. Any values are legal.
 */
uint8_t *peer_segments_at(
	struct peer_segments *segments, uint32_t index, uint64_t address, uint64_t bytes);

#endif
