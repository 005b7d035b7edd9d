/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_SEGMENT_NIC_MEMORY_H
#define URNIC_SEGMENT_NIC_MEMORY_H

/*
 * The descriptor of another process's NIC memory, and its mapping. The process that creates the NIC
 * sends the descriptor to urnicd, and urnicd hands it out to other processes.
 *
 * A hostile sender may pass any descriptor instead: a pipe, a device, a file of another user, or
 * memory that the sender truncates while the receiver maps it. So the receiver checks a descriptor
 * before any other use.
 */

#include <stdint.h>
#include <sys/types.h>

/*
 * Check that `fd` is an ordinary memfd with F_SEAL_SHRINK, with room for a struct nic_public, and
 * no longer than a side of an arena. Reading such a file never blocks, and its mapping raises no
 * SIGBUS. Returns 0 or -EBADF.
 */
int nic_memory_check(int fd);

/*
 * Open the file of `fd` again, for reading and writing. A caller that locks the file needs an open
 * file description of its own (open(2)), and `fd` may share that of another process.
 *
 * `fd`         The caller still closes it.
 * `owner`      The user of the process that `fd` came from. If the file belongs to another user,
 *              the call fails, because the caller must not write to it.
 * `ret_bytes`  The file's length, which does not change.
 *
 * Returns a descriptor; -EBADF as nic_memory_check(); -EACCES for another user's file; or another
 * -errno.
 */
int nic_memory_open(int fd, uid_t owner, uint64_t *ret_bytes);

/* Like nic_memory_check(), and check that the file has `bytes`, the length of the other side. */
int nic_memory_check_side(int fd, uint64_t bytes);

/*
 * Get the peers' side (segment/nic_public.h): duplicate descriptor `fd` of the process of `pidfd`.
 * A hostile process may have any file there, so the call checks the file. `bytes` is the length of
 * the owner's side. Returns a descriptor; -EBADF as nic_memory_check_side(); or another -errno.
 */
int nic_memory_get_shared(int pidfd, int fd, uint64_t bytes);

/*
 * Map the owner's side, which has `bytes`, for reading. The call reserves the address range behind
 * it for the peers' side.
 *
 * `ret_base`  Set once the address range is reserved, also when the call then fails. The caller
 *             unmaps ARENA_SPAN(bytes) from there.
 *
 * Returns 0; -EPROTO when another version of urnic has made the memory; or another -errno.
 */
int nic_memory_map(int memory, uint64_t bytes, uint8_t **ret_base);

/* Map the peers' side into the range reserved for it, to read and write. Returns 0 or -errno. */
int nic_memory_map_shared(uint8_t *base, uint64_t bytes, int shared);

#endif
