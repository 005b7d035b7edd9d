/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_SEGMENT_NIC_MEMORY_H
#define URNIC_SEGMENT_NIC_MEMORY_H

/*
 * The descriptor of another process's NIC memory, and its mapping. urnicd hands the descriptor out;
 * urnicd itself has it from the process that creates the NIC.
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
 * Open the file of `fd` again, for reading and writing. File locks of the caller need an open file
 * description of their own (open(2)).
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

/* nic_memory_check(), and the file is `bytes` long, as the other side of the same NIC memory is. */
int nic_memory_check_side(int fd, uint64_t bytes);

/*
 * Get the peers' side (segment/nic_public.h): a copy of descriptor `fd` of the process of `pidfd`.
 * That descriptor may be of any file, so it is checked; the owner's side has `bytes`. Returns a
 * descriptor; -EBADF as nic_memory_check_side(); or another -errno.
 */
int nic_memory_get_shared(int pidfd, int fd, uint64_t bytes);

/*
 * Map the owner's side, of `bytes`, for reading. The address range behind it is reserved for the
 * peers' side.
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
