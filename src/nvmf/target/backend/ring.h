/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * System calls of file backends, by io_uring or synchronous. Only file.c uses this header.
 *
 * A request takes one or more steps; each step is a system call. The ring gets the next step of a
 * request from file_step_next(), and passes the outcome to file_step_done().
 */
#ifndef URNIC_NVMF_TARGET_BACKEND_RING_H
#define URNIC_NVMF_TARGET_BACKEND_RING_H

#include <stdbool.h>
#include <sys/types.h>

#include "nvmf/common/list.h"
#include "nvmf/target/backend/backend.h"

/* A disk, with all its files that a ring has had requests for. */
struct ring_disk {
	struct list node; /* in the ring's list of disks */
	dev_t number;
	unsigned files; /* how many struct ring_file point to it */
	unsigned in_flight; /* the number of system calls on these files that io_uring executes */
	unsigned in_threads; /* how many of these calls threads of the kernel make */
};

/* The requests of one file in a ring. All members are 0 before ring_file_init(). */
struct ring_file {
	struct list node; /* in the ring's list of files, while requests wait */
	struct ring_disk *disk; /* not shared with other files before the first request */
	struct backend_request *waiting; /* requests that wait for room in io_uring, oldest first */
	struct backend_request **waiting_end;
	unsigned in_flight; /* the number of system calls on this file that io_uring executes */
};

/* `disk` is the number of the file's disk. Returns 0 or -ENOMEM. */
int ring_file_init(struct ring_file *file, dev_t disk);
/* No request of the file is pending. Has no effect before ring_file_init(). */
void ring_file_done(struct ring_file *file);

enum file_call { FILE_READ, FILE_WRITE, FILE_FALLOCATE, FILE_SYNC };

/* One system call. */
struct file_step {
	enum file_call call;
	int fd;
	/* For reads and writes. */
	const struct iovec *iov;
	unsigned iov_count;
	/* RWF_* for a read or write, the mode for fallocate. */
	int flags;
	/* The call may wait for the disk, so a thread of the kernel makes it. */
	bool has_thread;
	uint64_t offset_bytes;
	/* For fallocate. */
	uint64_t length_bytes;
};

struct ring_file *file_ring(const struct backend_request *request);

/* The next system call of a request. */
struct file_step file_step_next(struct backend_request *request);

/*
 * `outcome` is the result of the system call, or -errno. Returns true if another step follows;
 * otherwise the request has ended with `*ret_status`.
 */
bool file_step_done(
	struct backend_request *request, int64_t outcome, enum backend_status *ret_status);

void backend_ring_start(struct backend_ring *ring, struct backend_request *request);

#endif
