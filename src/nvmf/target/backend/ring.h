/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * System calls of file backends, by io_uring or at once. Only file.c uses it.
 *
 * A request takes one or more steps, each a system call. backend_ring_start() asks the request's
 * backend for the next step (file_step_next), and gives the outcome to file_step_done().
 */
#ifndef URNIC_NVMF_TARGET_BACKEND_RING_H
#define URNIC_NVMF_TARGET_BACKEND_RING_H

#include <stdbool.h>

#include "nvmf/target/backend/backend.h"

enum file_call { FILE_READ, FILE_WRITE, FILE_FALLOCATE, FILE_SYNC };

/* One system call. */
struct file_step {
	enum file_call call;
	int fd;
	/* Reads and writes. */
	const struct iovec *iov;
	unsigned iov_count;
	/* RWF_* of a write, the mode of a fallocate. */
	int flags;
	uint64_t offset_bytes;
	/* fallocate. */
	uint64_t length_bytes;
};

/* What to do next for a request. */
struct file_step file_step_next(struct backend_request *request);

/*
 * `outcome` is what the system call returned, or -errno. Returns true if another step follows;
 * otherwise `*ret_status` is how the request ended.
 */
bool file_step_done(
	struct backend_request *request, int64_t outcome, enum backend_status *ret_status);

void backend_ring_start(struct backend_ring *ring, struct backend_request *request);

#endif
