/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_TESTS_SUPPORT_NVMF_BACKEND_H
#define URNIC_TESTS_SUPPORT_NVMF_BACKEND_H

/*
 * Files of a test, and requests to their backends. Include it after cmocka.h.
 */

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "nvmf/target/backend/backend.h"

enum { BLOCK_BYTES = 512, BLOCK_COUNT = 256, SIZE_BYTES = BLOCK_BYTES * BLOCK_COUNT };

static char sentence[BACKEND_SENTENCE_BYTES];
static char path[64]; /* of the last file that was made */

/* Make a file of zeroes in the directory. */
static inline void make_file_in(const char *directory, off_t bytes)
{
	int fd;

	(void)snprintf(path, sizeof(path), "%s/urnic-backend-XXXXXX", directory);
	fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, bytes), 0);
	close(fd);
}

static inline void make_file(off_t bytes)
{
	make_file_in("/tmp", bytes);
}

/* What a request ended with; its own, so that several can be under way. */
struct pending {
	struct backend_request request;
	struct iovec iov[3];
	bool is_done;
	enum backend_status status;
};

static inline void note_done(struct backend_request *request, enum backend_status status)
{
	struct pending *pending = (struct pending *)request;

	assert_false(pending->is_done);
	pending->is_done = true;
	pending->status = status;
}

static inline void finish(struct backend_ring *ring, const struct pending *pending)
{
	while (!pending->is_done) {
		if (backend_ring_poll(ring))
			continue;
		struct pollfd wait = {.fd = backend_ring_fd(ring), .events = POLLIN};
		assert_int_not_equal(poll(&wait, 1, 20000), 0);
	}
}

static inline void start(struct backend_ring *ring, struct backend *backend,
	struct pending *pending, enum backend_operation operation, uint64_t offset, void *buffer,
	uint64_t length)
{
	/* Three uneven pieces, if there is a buffer. */
	uint64_t third = length / 3;

	memset(pending->iov, 0, sizeof(pending->iov));
	if (buffer) {
		pending->iov[0] = (struct iovec){buffer, third};
		pending->iov[1] = (struct iovec){(char *)buffer + third, third};
		pending->iov[2] = (struct iovec){(char *)buffer + 2 * third, length - 2 * third};
	}
	pending->is_done = false;
	pending->request.operation = operation;
	pending->request.offset_bytes = offset;
	pending->request.length_bytes = length;
	pending->request.iov = pending->iov;
	pending->request.iov_count = 3;
	pending->request.done = note_done;
	backend_submit(backend, ring, &pending->request);
}

static inline enum backend_status run(struct backend_ring *ring, struct backend *backend,
	enum backend_operation operation, uint64_t offset, void *buffer, uint64_t length)
{
	struct pending pending = {0};

	start(ring, backend, &pending, operation, offset, buffer, length);
	finish(ring, &pending);
	return pending.status;
}

#endif
