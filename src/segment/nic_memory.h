/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_SEGMENT_NIC_MEMORY_H
#define URNIC_SEGMENT_NIC_MEMORY_H

/*
 * The descriptor of another process's NIC memory, from urnicd or from a new NIC, and its mapping.
 *
 * The sender may have passed any descriptor instead: a pipe, a device, a file of another user, or
 * memory that it truncates while it is mapped. So the receiver checks a descriptor before any other
 * use.
 */

#include <stdint.h>
#include <sys/types.h>

/*
 * Is it memory that cannot shrink, and holds at least a struct nic_public, and not more than a side
 * of an arena? It is then an ordinary memfd with F_SEAL_SHRINK, which cannot block a reader, or
 * kill it through a mapping. Returns 0 or -EBADF.
 */
int nic_memory_check(int fd);

/*
 * Open it again, for reading and writing, because a lock belongs to an open file.
 *
 * `fd`         Stays the caller's.
 * `owner`      The user of the process that it came from. The caller must not write to another
 *              user's memory.
 * `ret_bytes`  Its length, which does not change.
 *
 * Returns a descriptor; -EBADF as above; -EACCES when it is another user's; or another -errno.
 */
int nic_memory_open(int fd, uid_t owner, uint64_t *ret_bytes);

/* Is it a side of NIC memory whose other side has `bytes`? Returns 0 or -EBADF. */
int nic_memory_check_side(int fd, uint64_t bytes);

/*
 * The peers' side (segment/nic_public.h): descriptor `fd`, which may be of anything, in the process
 * behind `pidfd`. The other side has `bytes`. Returns a descriptor; -EBADF as above; or another
 * -errno.
 */
int nic_memory_get_shared(int pidfd, int fd, uint64_t bytes);

/*
 * Map the owner's side, of `bytes`, for reading, with room for the peers' side behind it.
 *
 * `ret_base`  Set unless that room is missing, also when the call fails; the caller unmaps
 *             ARENA_SPAN(bytes).
 *
 * Returns 0; -EPROTO when it is of another version of urnic; or another -errno.
 */
int nic_memory_map(int memory, uint64_t bytes, uint8_t **ret_base);

/* Map the peers' side there, for reading and writing. Returns 0 or -errno. */
int nic_memory_map_shared(uint8_t *base, uint64_t bytes, int shared);

#endif
