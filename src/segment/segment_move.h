/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_SEGMENT_SEGMENT_MOVE_H
#define URNIC_SEGMENT_SEGMENT_MOVE_H

/*
 * Moving private memory into a file that others can map, and back, at the same addresses.
 * docs/memory.md ("Memory that a peer can map") argues why no write is lost.
 *
 * Moving in needs a caller that is alone (own_threads_park()), because another thread could write
 * between the copy and the exchange of the mapping. Moving out does not: the kernel replaces the
 * shared mapping of the file by a private one, with the same bytes, in one step.
 */

#include <stdbool.h>
#include <stdint.h>

/* The file's name in /proc/self/maps, behind "memfd:". */
#define SEGMENT_FILE_NAME "urnic-memory"

/*
 * May the pages of [start, start + bytes) be moved in? They must be ordinary private memory,
 * readable and writable. And only the process's threads may write to its memory: all its
 * descriptors and mappings are of kinds that are known not to hold pages. The caller is alone.
 * *ret_is_anonymous: all of it is anonymous; else some was moved before.
 */
bool segment_may_move(uint64_t start, uint64_t bytes, bool *ret_is_anonymous);

/*
 * Move them to `offset` of `file`, where it has a hole. All are multiples of the page size. A
 * forked child does not have them. The caller is alone, and its signals are blocked. Returns 0, or
 * -errno with nothing changed.
 */
int segment_move_in(int file, uint64_t offset, uint64_t start, uint64_t bytes, bool is_anonymous);

/*
 * Make all mapped pages of [offset, offset + bytes) of `file` private memory again, wherever they
 * are, with the same bytes and rights; the file gets a hole. No other process writes to the file.
 * With `is_alone` the memory becomes anonymous. Otherwise it stays a mapping of the hole, which
 * reads as zeros when discarded, like anonymous memory. Returns 0, or -errno when some pages are
 * unchanged.
 */
int segment_move_out(int file, uint64_t offset, uint64_t bytes, bool is_alone);

/* Make [offset, offset + bytes) of `file` a hole of zeros. Returns 0 or -errno. */
int segment_hole_punch(int file, uint64_t offset, uint64_t bytes);

#endif
