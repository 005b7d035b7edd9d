/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_SEGMENT_SEGMENT_MOVE_H
#define URNIC_SEGMENT_SEGMENT_MOVE_H

/*
 * Private memory into a file that others can map, and back, at the addresses where it is.
 * docs/memory.md ("Memory that a peer can map") argues why no write is lost.
 *
 * Moving in needs a caller that is alone (own_threads_park()): nothing keeps another thread from
 * writing between the copy and the exchange. Moving out does not: a private mapping of the file
 * takes the place of the shared one in one step of the kernel's, and has the same bytes.
 */

#include <stdbool.h>
#include <stdint.h>

/* What the file is called in /proc/self/maps, behind "memfd:". */
#define SEGMENT_FILE_NAME "urnic-memory"

/*
 * May the pages of [start, start + bytes) be moved in? Those may that are ordinary private memory,
 * readable and writable, in a process where nothing but its threads writes to its memory: all of
 * its descriptors and mappings are of kinds that are known not to hold pages. The caller is alone.
 * *ret_is_anonymous: all of it is anonymous; else some was moved before.
 */
bool segment_may_move(uint64_t start, uint64_t bytes, bool *ret_is_anonymous);

/*
 * Move them to `offset` of `file`, where it has a hole. All are multiples of the page size. A
 * forked child will not have them. The caller is alone, and its signals are blocked. Returns 0, or
 * -errno; then nothing has changed.
 */
int segment_move_in(int file, uint64_t offset, uint64_t start, uint64_t bytes, bool is_anonymous);

/*
 * Wherever pages of [offset, offset + bytes) of `file` are mapped now, if anywhere: make them
 * private memory again, with the same bytes and rights, and give the file its hole back. Nobody
 * else writes to the file. `is_alone`: the caller is, and the memory becomes anonymous; else it
 * stays a mapping of the hole, zeros when it is discarded like anonymous memory. Returns 0, or
 * -errno when some pages are as they were.
 */
int segment_move_out(int file, uint64_t offset, uint64_t bytes, bool is_alone);

/* [offset, offset + bytes) of `file` is zeros again, without pages. Returns 0 or -errno. */
int segment_hole_punch(int file, uint64_t offset, uint64_t bytes);

#endif
