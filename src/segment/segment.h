/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_SEGMENT_SEGMENT_H
#define URNIC_SEGMENT_SEGMENT_H

/*
 * Segments: parts of this process's memory that another process can map.
 *
 * A segment is a range of pages here and a range of a file, with the same bytes. There are two
 * kinds. Shared memory of the program (a memfd, System V shared memory, with or without huge pages)
 * is a segment as it is, if it cannot shrink. Private memory is moved: its pages become a range of
 * a sealed memfd of urnic, at the same addresses. They become private again when the last region
 * with bytes there is deregistered, or when the process forks (segment/segment_move.h).
 *
 * Each range of the memfd is used once in the life of the process, and is a hole afterwards. So a
 * late peer finds zeros, and never other memory. A stopped peer that the owner no longer waits for
 * may still write to such a range. Private mappings of the range may remain (segment_move_out()),
 * so it is punched again whenever memory is registered, deregistered or moved. The list of segments
 * lies in NIC memory, for peers; each segment has a unique serial number.
 *
 * URNIC_MR sets the policy. "copy": no segments, so peers use process_vm_readv() and _writev().
 * "map": segments wherever that is sound. "auto", the default: as "map" once a peer exists that can
 * use them (segments_begin()).
 *
 * Threads: the NIC is locked. `is_alone` arguments are results of own_threads_park().
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "memory/mr.h"

enum { SEGMENT_COUNT_MAX = 1024 };

/* An extent's `segment` for bytes in NIC memory itself: device memory. */
#define SEGMENT_NIC_MEMORY UINT32_MAX

/* The part that peers read. All other fields are written while `serial` is 0. */
struct segment_public {
	_Atomic uint64_t serial; /* 0: there is no such segment */
	uint64_t start; /* in the owner's address space */
	uint64_t bytes;
	uint64_t offset; /* of the first byte in the file */
	uint64_t dev; /* identifies the file, in case the descriptor is reused */
	uint64_t ino;
	int32_t fd; /* the owner's descriptor of the file */
	uint32_t reserved[3];
};

/* Allocate the list. Returns its offset in the arena, or 0 when there is no room. */
uint64_t segments_init(struct arena *arena);

/*
 * A peer on this host exists. Returns true when memory becomes mappable by this call. The caller
 * then calls segment_cover() and segment_hold() for the present regions.
 */
bool segments_begin(void);

/* Would segments_begin() return true? Any thread. */
bool segments_may_begin(void);

/* In the child of a fork: forget the parent's segments. */
void segments_forget(void);

/* Would segment_cover() have an effect on this memory? If not, no thread needs to be parked. */
bool segment_is_wanted(const void *address, uint64_t bytes);

/*
 * Make the whole pages of [address, address + bytes) a segment, if that is wanted and sound.
 * Nothing happens with `has_neighbours`: another region has bytes there, which a peer may be
 * writing.
 */
void segment_cover(const void *address, uint64_t bytes, bool is_alone, bool has_neighbours);

/*
 * A region of this memory is registered: its segments do not change until segment_let_go(). Returns
 * the part of it that lies in one segment.
 */
struct mr_extent segment_hold(const void *address, uint64_t bytes);
void segment_let_go(const void *address, uint64_t bytes, bool is_alone);

bool segments_are_moved(const void *address, uint64_t bytes);

/*
 * Make all moved memory private again, whatever its use. There are two steps: segments_unmap()
 * makes all regions of the table unmappable, then segments_move_out() moves the pages. The table is
 * suspended. Without `is_quiet`, a stopped peer may still write to the file's ranges.
 */
void segments_unmap(const struct mr_table *table);
void segments_move_out(bool is_alone, bool is_quiet);

/*
 * Move the pages of this memory out, because a peer that uses it is stopped. The table is
 * suspended.
 */
void segments_give_up(
	const struct mr_table *table, const void *address, uint64_t bytes, bool is_alone);

uint32_t segments_count(void);

#endif
