/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_SEGMENT_SEGMENT_H
#define URNIC_SEGMENT_SEGMENT_H

/*
 * Segments: stretches of this process's memory that another process can map.
 *
 * A segment is a range of pages here and a range of a file, with the same bytes. There are two
 * kinds. Shared memory of the program's (a memfd, System V shared memory, huge pages or not) is a
 * segment as it is, when it cannot shrink under whoever maps it. Private memory is moved: its pages
 * become a range of a sealed memfd of ours, at the same addresses, and private again when the last
 * region that has bytes there is deregistered, or when the process forks (segment/segment_move.h).
 *
 * A range of the memfd is used once in the life of the process, and then is a hole: a peer that is
 * late finds zeros, and nobody else's memory. A peer that stands still in the middle of a copy, and
 * is not waited for any longer, may write to such a range: that is punched again whenever memory is
 * registered, deregistered or moved, since private mappings of the range remain where threads ran
 * beside (segment_move_out()). The list of segments lies in NIC memory, for peers; each has a
 * serial number that no other ever has.
 *
 * URNIC_MR chooses: "copy", no segments, so that peers use process_vm_readv() and _writev(); "map",
 * wherever that is sound; "auto", the default, as "map" from the moment on when there is a peer
 * that could use them (segments_begin()).
 *
 * Threads: the NIC is locked. What takes `is_alone` is told whether own_threads_park() said so.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "memory/mr.h"

enum { SEGMENT_COUNT_MAX = 1024 };

/* An extent's `segment` for bytes that lie in NIC memory itself: device memory. */
#define SEGMENT_NIC_MEMORY UINT32_MAX

/* As peers see it. Everything else is written while `serial` is 0. */
struct segment_public {
	_Atomic uint64_t serial; /* 0: there is no such segment */
	uint64_t start; /* in the owner's address space */
	uint64_t bytes;
	uint64_t offset; /* of the first byte in the file */
	uint64_t dev; /* which file, should the descriptor be another's by now */
	uint64_t ino;
	int32_t fd; /* the owner's descriptor of it */
	uint32_t reserved[3];
};

/* Make room for the list. Returns its offset in the arena, or 0 when there is none. */
uint64_t segments_init(struct arena *arena);

/*
 * There is a peer on this host. True when memory becomes mappable by that, from here on: what is
 * registered already is to be covered and held now.
 */
bool segments_begin(void);

/* Would segments_begin() say so? Any thread. */
bool segments_may_begin(void);

/* The child of a fork: nothing of its parent's. */
void segments_forget(void);

/*
 * Would segment_cover() do something for a region of this memory? If not, nobody needs to park
 * threads for it.
 */
bool segment_is_wanted(const void *address, uint64_t bytes);

/*
 * Make the whole pages of [address, address + bytes) a segment, if it is wanted and sound.
 * `has_neighbours`: another region has bytes there, which a peer may be writing right now; then
 * nothing is done.
 */
void segment_cover(const void *address, uint64_t bytes, bool is_alone, bool has_neighbours);

/*
 * A region of this memory is registered: segments that it touches stay what they are until
 * segment_let_go(), and the extent is as much of it as is in one of them.
 */
struct mr_extent segment_hold(const void *address, uint64_t bytes);
void segment_let_go(const void *address, uint64_t bytes, bool is_alone);

/* Was some of this memory moved? */
bool segments_are_moved(const void *address, uint64_t bytes);

/*
 * All that was moved becomes private again, whoever holds it, in two steps: no region of the table
 * can be mapped there any more, then the pages. The table is suspended. Without `is_quiet`, a peer
 * that stands still may write to the file's ranges later on.
 */
void segments_unmap(const struct mr_table *table);
void segments_move_out(bool is_alone, bool is_quiet);

/*
 * The same for what was moved of this memory, because a peer that uses it stands still. The table
 * is suspended.
 */
void segments_give_up(
	const struct mr_table *table, const void *address, uint64_t bytes, bool is_alone);

/* How many there are. */
uint32_t segments_count(void);

#endif
