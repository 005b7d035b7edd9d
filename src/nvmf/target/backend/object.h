/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the kinds of backends share. Only the files of this folder include this header.
 */
#ifndef URNIC_NVMF_TARGET_BACKEND_OBJECT_H
#define URNIC_NVMF_TARGET_BACKEND_OBJECT_H

#include <stdatomic.h>

#include "nvmf/target/backend/backend.h"

struct backend_kind {
	/*
	 * Execute a request, or begin to. backend_submit() has checked its range, and that a
	 * read-only backend is not changed. Each request ends in one call of backend_finish(), by
	 * submit() itself or later on the thread of `ring` (backend_ring_poll()). The paragraphs on
	 * durability in backend.h say what a flush and `is_fua` require.
	 */
	void (*submit)(struct backend *backend, struct backend_ring *ring,
		struct backend_request *request);
	/* Does the work of backend_resize(), and sets backend->size_bytes. */
	int (*resize)(struct backend *backend, uint64_t size_bytes, char *sentence);
	/* Frees the backend. No request is pending. */
	void (*close)(struct backend *backend);
};

/*
 * The first member of each kind's object. The function that opens a backend zeroes the object, and
 * then sets all members but `pending`, which backend_submit() increments and backend_finish()
 * decrements.
 */
struct backend {
	const struct backend_kind *kind;
	uint64_t size_bytes;
	uint32_t block_bytes;
	bool is_read_only;
	bool discard_reads_zeroes;
	atomic_uint pending;
};

/* Open a memory or null backend, or one of a file or device. The caller has checked block_bytes. */
int backend_memory_open(
	const struct backend_settings *settings, struct backend **ret_backend, char *sentence);
int backend_file_open(
	const struct backend_settings *settings, struct backend **ret_backend, char *sentence);

/* End a request: call its `done`, after which the caller owns it again. */
void backend_finish(struct backend_request *request, enum backend_status status);

/* Write the sentence. Returns -`error`, so that the caller can return it. */
int backend_refuse(char *sentence, int error, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#endif
