/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Backends: where the bytes of a namespace are.
 *
 * A backend is an array of blocks that the target reads and writes. There are four: memory, null
 * (reads zeroes and forgets writes), a regular file, and a block device. Requests to files and
 * devices are asynchronous: a backend_ring carries them to the kernel by io_uring. Where io_uring
 * is not allowed, the ring makes the system call at once, and the caller waits for it.
 *
 * Ownership: the caller owns the requests and their buffers. From backend_submit() to `done` a
 * request belongs to its backend.
 *
 * Threads: each thread that submits has a ring of its own. All threads share the backends; a block
 * that two of them write at once holds what one of them wrote.
 *
 * Durability: a write is durable once a flush that was submitted after its `done` has succeeded, or
 * if it had `is_fua` set; a discard and zeroes, after such a flush. Files and devices keep this
 * promise across the death of the process and, as far as fdatasync() does, across power loss.
 *
 * After a failed flush or FUA write each later one fails too, until the backend is opened anew. The
 * kernel reports an error once and may have dropped the pages that it could not write; so a later
 * success would be for other data than the caller believes. Reads and volatile writes go on.
 */
#ifndef URNIC_NVMF_TARGET_BACKEND_H
#define URNIC_NVMF_TARGET_BACKEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

struct backend;
struct backend_ring;

enum backend_status {
#define BACKEND_STATUS(name, nvme, sentence) BACKEND_##name,
#include "nvmf/target/backend/status.def"
#undef BACKEND_STATUS
};

/* The NVMe status, type << 8 | code, of the completion; and what it means, in a sentence. */
uint16_t backend_status_nvme(enum backend_status status);
const char *backend_status_sentence(enum backend_status status);

enum backend_operation {
	BACKEND_READ,
	BACKEND_WRITE,
	/* Make all finished writes durable. */
	BACKEND_FLUSH,
	/* The range reads as zeroes afterwards. */
	BACKEND_WRITE_ZEROES,
	/* The range may lose its contents; an advice that a backend may ignore. */
	BACKEND_DISCARD,
};

struct backend_request {
	enum backend_operation operation;
	/* Writes: durable before `done`. */
	bool is_fua;
	/* Whole blocks within the namespace; a flush has neither. */
	uint64_t offset_bytes;
	uint64_t length_bytes;
	/*
	 * Reads and writes: buffers of `length_bytes` in all, at most IOV_MAX of them. The backend
	 * may change the entries of the array, not what they point to.
	 */
	struct iovec *iov;
	unsigned iov_count;
	/*
	 * Called once, from backend_submit() itself or from backend_ring_poll(). The request is the
	 * caller's again, and may be submitted again.
	 */
	void (*done)(struct backend_request *request, enum backend_status status);

	/* The backend's own, from backend_submit() to `done`. */
	struct backend *backend;
	struct backend_request *next;
	uint64_t remaining_bytes;
	uint64_t position_bytes;
	struct iovec zeroes;
	uint8_t zero_way;
};

/* What a backend is made of: one of three kinds. */
struct backend_settings {
	/* A regular file or a block device. NULL: memory, or null with `is_null`. */
	const char *path;
	bool is_null;
	bool is_read_only;
	/* Memory and null: the size. Files and devices: 0 for all of it. */
	uint64_t size_bytes;
	/* A power of two from 512 to 65,536; 0 for the device's own, or 512. */
	uint32_t block_bytes;
	/*
	 * Gets a sentence, without a full stop, when the file or device fails: once for each kind
	 * of failure. NULL: no report.
	 */
	void (*report)(void *context, const char *sentence);
	void *report_context;
};

enum {
	BACKEND_BLOCK_BYTES_MIN = 512,
	BACKEND_BLOCK_BYTES_MAX = 65536,
	/* A sentence for the user, with the path in it. */
	BACKEND_SENTENCE_BYTES = 512,
};

/*
 * Open a backend.
 *
 * `sentence`  BACKEND_SENTENCE_BYTES; on failure, what is wrong and what the user can do.
 *
 * Returns 0 or -errno: a missing file, one that another target has open, a size that is not
 * usable, no memory.
 */
int backend_open(
	const struct backend_settings *settings, struct backend **ret_backend, char *sentence);

/* No request may be under way. NULL is allowed. */
void backend_close(struct backend *backend);

uint64_t backend_size_bytes(const struct backend *backend);
uint32_t backend_block_bytes(const struct backend *backend);
bool backend_is_read_only(const struct backend *backend);
/* Discarded blocks read as zeroes: DLFEAT of Identify Namespace. */
bool backend_discard_reads_zeroes(const struct backend *backend);
/* Requests that were submitted and are not done. */
unsigned backend_pending(const struct backend *backend);

/*
 * Take over the size that the file or device has now, larger or smaller; memory and null take
 * `size_bytes`. No request of any thread may be under way. Returns 0 or -errno with a sentence; on
 * failure the size is as it was.
 */
int backend_resize(struct backend *backend, uint64_t size_bytes, char *sentence);

/*
 * Start a request. A request that breaks a rule (range, read-only) is done at once with a status.
 * Requests of one backend may finish in any order; those of one ring, on its thread.
 *
 * `ring`  May be NULL for memory and null.
 */
void backend_submit(
	struct backend *backend, struct backend_ring *ring, struct backend_request *request);

/*
 * A ring with room for `entries` system calls under way; further requests wait their turn inside.
 * `allow_uring` false, or a kernel that refuses io_uring: backend_submit() does the request itself.
 */
int backend_ring_create(unsigned entries, bool allow_uring, struct backend_ring **ret_ring);
void backend_ring_destroy(struct backend_ring *ring);

/* Readable when backend_ring_poll() has something to do; -1 without io_uring. */
int backend_ring_fd(const struct backend_ring *ring);

/*
 * Hand what was submitted to the kernel, and call `done` for what is finished. Call it after each
 * batch of backend_submit() and when the descriptor is readable. Never blocks. Returns the number
 * of requests that finished.
 */
unsigned backend_ring_poll(struct backend_ring *ring);

/*
 * To be called after backend_ring_poll(): has the kernel refused some requests, mostly for lack of
 * memory? The descriptor does not become readable when the kernel would take them, so call
 * backend_ring_poll() again some milliseconds later.
 */
bool backend_ring_is_put_off(const struct backend_ring *ring);

#endif
