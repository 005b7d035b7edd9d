/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_SEGMENT_SEGMENT_MOVE_H
#define URNIC_SEGMENT_SEGMENT_MOVE_H

/*
 * Moving private memory into a file that other processes can map, and back, at the same addresses.
 * docs/memory.md ("Memory that a peer can map") explains why no write is lost.
 *
 * To move memory in, the caller must be alone (own_threads_park()), because another thread could
 * write between the copy and the exchange of the mapping. To move memory out, the caller need not
 * be alone, because the kernel replaces the shared mapping of the file by a private mapping with
 * the same bytes in one step.
 */

#include <stdbool.h>
#include <stdint.h>

/* The name of the memfd, which /proc/self/maps shows behind "memfd:". */
#define SEGMENT_FILE_NAME "urnic-memory"

/*
 * May the pages of [start, start + bytes) be moved in? They must be ordinary private memory,
 * readable and writable. Only threads of this process may write to its memory, so all descriptors
 * and mappings of the process must be of kinds that are known to hold no reference to pages. The
 * caller is alone. *ret_is_anonymous: the whole range is anonymous memory; otherwise a part of the
 * range is a private mapping of the file, because that part was moved in and out before.
 */
bool segment_may_move(uint64_t start, uint64_t bytes, bool *ret_is_anonymous);

/*
 * Move the pages of [start, start + bytes) to `offset` of `file`, which has a hole there. All three
 * numbers are multiples of the page size. A forked child does not inherit the pages. The caller is
 * alone, and its signals are blocked. Returns 0, or -errno with nothing changed.
 */
int segment_move_in(int file, uint64_t offset, uint64_t start, uint64_t bytes, bool is_anonymous);

/*
 * Make all pages of this process that map [offset, offset + bytes) of `file` private memory again,
 * at whatever addresses they are, with the same bytes and rights. The file gets a hole. No other
 * process writes to the file. With `is_alone` the memory becomes anonymous. Otherwise it becomes a
 * private mapping of the hole; pages that the program discards (MADV_DONTNEED) then read as zeros,
 * like anonymous memory. Returns 0, or -errno when some pages are unchanged.
 */
int segment_move_out(int file, uint64_t offset, uint64_t bytes, bool is_alone);

/* Make [offset, offset + bytes) of `file` a hole of zeros. Returns 0 or -errno. */
int segment_hole_punch(int file, uint64_t offset, uint64_t bytes);

#endif
