/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_SEGMENT_PEER_SEGMENTS_H
#define URNIC_SEGMENT_PEER_SEGMENTS_H

/*
 * Segments of a peer on this host (segment/segment.h), mapped in this process.
 *
 * A segment is mapped when a copy first needs it. It stays mapped until the peer ends, or until the
 * serial number in the peer's list shows that the peer has ended the segment. While an in-use mark
 * names a region's key, the region's segments do not change, so pointers into them stay valid.
 *
 * Threads: any thread may call.
 */

#include <stdint.h>

#include "segment/segment.h"

struct peer_segment {
	_Atomic uint64_t serial; /* 0: never mapped */
	uint8_t *base; /* NULL: this process could not map it */
	uint64_t start; /* in the peer's address space */
	uint64_t bytes;
};

struct peer_segments {
	const struct segment_public *list; /* in the peer's NIC memory; NULL: none */
	int pidfd; /* the peer's; borrowed */
	struct peer_segment *of; /* SEGMENT_COUNT_MAX entries */
	/*
	 * Called when a mapping is no longer needed. A suspended thread of this process may be in
	 * the middle of a copy to the mapping, because the peer ended the segment without waiting
	 * for that thread. So the function wakes another thread, which calls peer_segments_stale(),
	 * waits until each lane was unlocked once, and unmaps the result. NULL: unmap at once.
	 */
	void (*on_stale)(void);
};

/* A mapping to be unmapped. */
struct peer_stale {
	struct peer_stale *next;
	void *base;
	uint64_t bytes;
};

/* The mappings of all peers that became stale since the last call. The caller unmaps them. */
struct peer_stale *peer_segments_stale(void);
void peer_segments_unmap(struct peer_stale *all);

/* Returns 0 or -ENOMEM. */
int peer_segments_init(
	struct peer_segments *segments, const struct segment_public *list, int pidfd);

/*
 * Unmap all segments. `is_child`: this process is a forked child, which has inherited no mapping.
 * On a struct of zeros, before peer_segments_init(), the call has no effect.
 */
void peer_segments_done(struct peer_segments *segments, bool is_child);

/*
 * The address in this process of the peer's bytes [address, address + bytes), which lie in the
 * peer's segment `index`. NULL when they cannot be mapped. All arguments may have any value.
 */
uint8_t *peer_segments_at(
	struct peer_segments *segments, uint32_t index, uint64_t address, uint64_t bytes);

#endif
