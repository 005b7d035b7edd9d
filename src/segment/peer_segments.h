/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_SEGMENT_PEER_SEGMENTS_H
#define URNIC_SEGMENT_PEER_SEGMENTS_H

/*
 * Segments of another process (segment/segment.h), mapped here.
 *
 * A segment is mapped when its first byte is needed. It stays mapped until another segment has its
 * place in the peer's list, as its serial number shows, or the peer ends. While a process uses a
 * key, the segments of that region do not change, so the pointers that it got stay valid.
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
	const struct segment_public *list; /* in the peer's NIC memory; NULL: none */
	int pidfd; /* of the peer; borrowed */
	struct peer_segment *of; /* SEGMENT_COUNT_MAX */
	/*
	 * A mapping is no longer needed. The peer may have ended the segment during a copy of a
	 * stopped thread of this process, which goes on later. So call peer_segments_stale(), wait
	 * until each lane was unlocked once, then unmap the result. NULL: mappings are unmapped at
	 * once.
	 */
	void (*on_stale)(void);
};

/* A mapping to be unmapped. */
struct peer_stale {
	struct peer_stale *next;
	void *base;
	uint64_t bytes;
};

/* The mappings that have become stale since the last call, of all peers; the caller's. */
struct peer_stale *peer_segments_stale(void);
void peer_segments_unmap(struct peer_stale *stale);

/* Returns 0 or -ENOMEM. */
int peer_segments_init(
	struct peer_segments *segments, const struct segment_public *list, int pidfd);

/*
 * Unmap all. `is_child` of a fork: none was inherited. Without effect before peer_segments_init()
 * (all zeros).
 */
void peer_segments_done(struct peer_segments *segments, bool is_child);

/*
 * The address here of [address, address + bytes) of the peer, in its segment `index`; NULL when it
 * cannot be mapped. Any values are legal.
 */
uint8_t *peer_segments_at(
	struct peer_segments *segments, uint32_t index, uint64_t address, uint64_t bytes);

#endif
