/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_OS_FD_PASS_H
#define URNIC_OS_FD_PASS_H

/* Messages over unix sockets that carry file descriptors (SCM_RIGHTS). */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/uio.h>

enum { PASSED_FDS_MAX = 64 }; /* the most in one message; the kernel's limit is 253 */

/*
 * The descriptors of a received message. The receiver owns all of them, even those that it did not
 * expect.
 */
struct passed_fds {
	int fds[PASSED_FDS_MAX]; /* -1: taken out */
	uint32_t count;
};

/*
 * Send a message. A signal does not end the call.
 *
 * `fds`    `count` descriptors to send along, at most PASSED_FDS_MAX; they stay the caller's.
 * `flags`  MSG_DONTWAIT or 0.
 *
 * Returns 0 or -errno.
 */
int fd_pass_send(int socket, struct iovec *pieces, size_t piece_count, const int *fds,
	uint32_t count, int flags);

/*
 * Receive a message. A signal does not end the call. Descriptors are close-on-exec.
 *
 * `most`       How many descriptors to accept; at most PASSED_FDS_MAX.
 * `ret_fds`    The received descriptors. None after a failure, and none of a message without bytes,
 *              which looks like the end of the connection.
 * `ret_flags`  msg_flags of recvmsg(). MSG_CTRUNC: more descriptors were sent than received.
 *
 * Returns the number of bytes, or -errno.
 */
ssize_t fd_pass_receive(int socket, struct iovec *pieces, size_t piece_count, uint32_t most,
	struct passed_fds *ret_fds, int *ret_flags, int flags);

/*
 * Is the descriptor a memfd with a seal against shrinking? Then a read from it never waits, as a
 * read from a pipe or a disk may. And no process can shorten the memfd, which would make accesses
 * to its mapped bytes fail.
 */
bool fd_is_fixed_memory(int fd);

/*
 * Take the descriptor at `index` out, so that passed_fds_close() leaves it open. Returns the
 * descriptor, or -1 when there is none.
 */
int passed_fds_take(struct passed_fds *fds, uint32_t index);

/* Close the descriptors that were not taken out. */
void passed_fds_close(struct passed_fds *fds);

#endif
