/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_SEGMENT_SEGMENT_H
#define URNIC_SEGMENT_SEGMENT_H

/*
 * Segments: parts of this process's memory that another process can map.
 *
 * A segment is a range of this process's pages that maps a range of a file. There are two kinds.
 * Shared memory of the program (a memfd, System V shared memory, with or without huge pages)
 * becomes a segment without a change, if it cannot shrink. Private memory is moved: its pages
 * become a range of a sealed memfd of urnic, at the same addresses. They become private again when
 * the last region with bytes there is deregistered, or when the process forks
 * (segment/segment_move.h).
 *
 * Each range of the memfd is used for one segment only, and is a hole afterwards. So a peer that
 * still maps the range finds zeros, and never other memory. A suspended peer for which the owner no
 * longer waits may, when it continues, still write to the range. Private mappings of the range may
 * remain in this process (segment_move_out()) and would show those bytes. So a hole is punched
 * again whenever memory is registered, deregistered or moved. The list of segments lies in NIC
 * memory, for peers; each segment has a unique serial number.
 *
 * URNIC_MR sets the policy. "copy": there are no segments, so peers use process_vm_readv() and
 * process_vm_writev(). "map": all memory that can safely be a segment becomes one. "auto", the
 * default: as "map", from the moment when a peer exists that can use segments (segments_begin()).
 *
 * Threads: the NIC is locked. `is_alone` is the result of own_threads_park(): no other thread runs.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "memory/mr.h"

enum { SEGMENT_COUNT_MAX = 1024 };

/* `segment` of a struct mr_extent whose bytes lie in NIC memory: device memory (ibv_alloc_dm). */
#define SEGMENT_NIC_MEMORY UINT32_MAX

/* What peers read of a segment. The other fields are written only while `serial` is 0. */
struct segment_public {
	_Atomic uint64_t serial; /* 0: there is no such segment */
	uint64_t start; /* in the owner's address space */
	uint64_t bytes;
	uint64_t offset; /* where the file has the first byte */
	/* With `ino`: identifies the file, because `fd` may be reused for another file. */
	uint64_t dev;
	uint64_t ino;
	int32_t fd; /* the owner's descriptor of the file */
	uint32_t reserved[3];
};

/* Allocate the list. Returns its offset in the arena, or 0 when there is no room. */
uint64_t segments_init(struct arena *arena);

/*
 * Tell this room that a peer on this host exists. Returns true when this call permits segments. The
 * caller then calls segment_cover() and segment_ref() for all regions that exist already.
 */
bool segments_begin(void);

/* Would segments_begin() return true? Any thread may call. */
bool segments_may_begin(void);

/* In the child of a fork: forget the parent's segments. */
void segments_forget(void);

/* Would segment_cover() make a segment of this memory? If not, the caller need not park threads. */
bool segment_is_wanted(const void *address, uint64_t bytes);

/*
 * Make the pages of [address, address + bytes) a segment, if segment_is_wanted(), and if they may
 * be moved (segment_may_move()) or are shared memory. With `has_neighbours` the call makes no
 * segment, because another region has bytes on these pages, which a peer may be writing.
 */
void segment_cover(const void *address, uint64_t bytes, bool is_alone, bool has_neighbours);

/*
 * A region of this memory is registered. The segments that contain bytes of the region stay until
 * segment_unref() is called for it. Returns the largest part of the region that lies in one
 * segment.
 */
struct mr_extent segment_ref(const void *address, uint64_t bytes);
void segment_unref(const void *address, uint64_t bytes, bool is_alone);

/* Does this memory have bytes in a segment of moved memory? */
bool segments_are_moved(const void *address, uint64_t bytes);

/*
 * Make all moved memory private again, although regions may use it. First segments_unmap() removes
 * the segments from all regions of the table, then segments_move_out() moves the pages. The table
 * is suspended. `is_quiet` is the result of mr_table_suspend(): if it is false, a suspended peer
 * may still write to the file's ranges.
 */
void segments_unmap(const struct mr_table *table);
void segments_move_out(bool is_alone, bool is_quiet);

/*
 * Make the moved segments of this memory private again, because a peer was suspended while it used
 * them. The table is suspended (mr_table_suspend()).
 */
void segments_give_up(
	const struct mr_table *table, const void *address, uint64_t bytes, bool is_alone);

uint32_t segments_count(void);

#endif
