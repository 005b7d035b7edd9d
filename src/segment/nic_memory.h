/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_SEGMENT_NIC_MEMORY_H
#define URNIC_SEGMENT_NIC_MEMORY_H

/*
 * The descriptor of a process's NIC memory, as another process gets it: from urnicd, or from a NIC
 * that begins.
 *
 * The sender may have put any descriptor in its place: a pipe, a device, a file of another user's,
 * or memory that it truncates while it is mapped. So a descriptor is looked at before anything else
 * is done with it.
 */

#include <stdint.h>
#include <sys/types.h>

/*
 * Is it memory that cannot shrink, and holds at least a struct nic_public, and not more than a side
 * of an arena? It is then an ordinary memfd with F_SEAL_SHRINK, which reading and mapping cannot
 * hurt or block.
 *
 * Returns 0 or -EBADF.
 */
int nic_memory_check(int fd);

/*
 * Open it anew, for reading and writing, since locks are of who has opened a file.
 *
 * `fd`         Stays the caller's.
 * `owner`      The user of the process that it came from. Nobody is made to write to what another
 *              user has.
 * `ret_bytes`  How long it is, and stays.
 *
 * Returns a descriptor; -EBADF as above; -EACCES when it is another user's; or another -errno.
 */
int nic_memory_open(int fd, uid_t owner, uint64_t *ret_bytes);

/* Is it one side of NIC memory whose other side has so many bytes? Returns 0 or -EBADF. */
int nic_memory_check_side(int fd, uint64_t bytes);

/*
 * The peers' side (segment/nic_public.h), of which the process behind `pidfd` has the descriptor
 * `fd`, which may be of anything. The other side has `bytes`. Returns a descriptor; -EBADF as
 * above; or another -errno.
 */
int nic_memory_get_shared(int pidfd, int fd, uint64_t bytes);

#endif
