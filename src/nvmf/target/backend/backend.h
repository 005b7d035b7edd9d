/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Backends: they store the bytes of namespaces.
 *
 * A backend is an array of blocks that the target reads and writes. There are four kinds: memory,
 * null (reads zeroes and forgets writes), a regular file, and a block device. Requests to files and
 * devices are asynchronous: a backend_ring carries them to the kernel by io_uring. If the kernel
 * refuses io_uring, the ring makes the system call within backend_submit(), which may then block.
 *
 * Ownership: the caller owns the requests and their buffers. From backend_submit() to `done` a
 * request belongs to its backend.
 *
 * Threads: all threads share the backends. All requests of a file or device go to one ring, which
 * one thread uses. If two threads write the same block at once, the block afterwards has the data
 * of one of them.
 *
 * Durability: a write, discard or write of zeroes is durable once a flush that was submitted after
 * its `done` has succeeded. A write with `is_fua` is durable at its `done`. Files and devices keep
 * durable data if the process dies and, as far as fdatasync() guarantees it, at a power loss.
 *
 * After a failed flush or FUA write, each later flush or FUA write fails, until the backend is
 * closed and opened again. The kernel reports an error only once, and may have dropped the pages
 * that it could not write. So the success of a later flush would not cover all earlier writes.
 * Reads and other writes are still executed.
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

/* The NVMe status of the completion, type << 8 | code; and a sentence that says what it means. */
uint16_t backend_status_nvme(enum backend_status status);
const char *backend_status_sentence(enum backend_status status);

enum backend_operation {
	BACKEND_READ,
	BACKEND_WRITE,
	/* Make all writes whose `done` was called durable. */
	BACKEND_FLUSH,
	/* The range reads as zeroes afterwards. */
	BACKEND_WRITE_ZEROES,
	/* The caller no longer needs the contents of the range. A backend may ignore this. */
	BACKEND_DISCARD,
};

struct backend_request {
	enum backend_operation operation;
	/* For writes: the data is durable before `done` is called. */
	bool is_fua;
	/* Whole blocks within the backend; unused by a flush. */
	uint64_t offset_bytes;
	uint64_t length_bytes;
	/*
	 * For reads and writes: at most IOV_MAX buffers, together of `length_bytes` bytes. The
	 * backend may change the entries of this array.
	 */
	struct iovec *iov;
	unsigned iov_count;
	/*
	 * Called once, by backend_submit() or by backend_ring_poll(). From then on the caller owns
	 * the request, and may submit it again.
	 */
	void (*done)(struct backend_request *request, enum backend_status status);

	/* Only the backend uses these, from backend_submit() to `done`. */
	struct backend *backend;
	struct backend_request *next;
	uint64_t remaining_bytes;
	uint64_t position_bytes;
	struct iovec zeroes;
	uint8_t zero_way;
	bool is_cached; /* a read of the page cache only */
	bool has_missed; /* that read has not found all data */
	bool has_thread; /* a thread of the kernel makes the present system call */
};

/* The kind of a backend, and its properties. */
struct backend_settings {
	/* A regular file or a block device. NULL: a memory backend, or a null one if `is_null`. */
	const char *path;
	bool is_null;
	bool is_read_only;
	/* The size of the backend. For a file or device, 0 means its whole size. */
	uint64_t size_bytes;
	/* A power of two from 512 to 65,536; 0: the block size of the device, or 512. */
	uint32_t block_bytes;
	/*
	 * Called with a sentence, without a full stop, when the file or device fails: once for each
	 * kind of failure. NULL: no report.
	 */
	void (*report)(void *context, const char *sentence);
	void *report_context;
};

enum {
	BACKEND_BLOCK_BYTES_MIN = 512,
	BACKEND_BLOCK_BYTES_MAX = 65536,
	/* The length of a sentence for the user, including the path. */
	BACKEND_SENTENCE_BYTES = 512,
};

/*
 * Open a backend.
 *
 * `sentence`  BACKEND_SENTENCE_BYTES bytes; on failure, what is wrong and what the user can do.
 *
 * Returns 0 or -errno, for example if the file is missing, another target has it open, its size is
 * not usable, or there is no memory.
 */
int backend_open(
	const struct backend_settings *settings, struct backend **ret_backend, char *sentence);

/* Close a backend, which has no pending request. `backend` may be NULL. */
void backend_close(struct backend *backend);

uint64_t backend_size_bytes(const struct backend *backend);
uint32_t backend_block_bytes(const struct backend *backend);
bool backend_is_read_only(const struct backend *backend);
/* Whether discarded blocks read as zeroes (DLFEAT of Identify Namespace). */
bool backend_discard_reads_zeroes(const struct backend *backend);
/* The number of requests that were submitted and are not done. */
unsigned backend_pending(const struct backend *backend);

/*
 * Change the size of a backend, which has no pending request of any thread. With `size_bytes` 0, a
 * file or device takes over its present size. Returns 0 or -errno with a sentence; on failure the
 * size is unchanged.
 */
int backend_resize(struct backend *backend, uint64_t size_bytes, char *sentence);

/*
 * Start a request. A request that is out of range, or would change a read-only backend, is done at
 * once. Requests of one backend may be done in any order. `done` runs on the thread of the ring.
 *
 * `ring`  May be NULL for memory and null backends.
 */
void backend_submit(
	struct backend *backend, struct backend_ring *ring, struct backend_request *request);

/*
 * Create a ring. At most `entries` system calls are pending in the kernel. One disk or one file
 * never uses all entries (ring.c, has_share()). The ring keeps further requests until there is
 * room. If `allow_uring` is false or the kernel refuses io_uring, backend_submit() executes each
 * request itself. Returns 0 or -ENOMEM.
 */
int backend_ring_create(unsigned entries, bool allow_uring, struct backend_ring **ret_ring);
void backend_ring_destroy(struct backend_ring *ring);

/* A descriptor that is readable when backend_ring_poll() has work to do; -1 without io_uring. */
int backend_ring_fd(const struct backend_ring *ring);

/*
 * Pass submitted requests to the kernel, and call `done` for finished ones. The caller calls this
 * after each batch of backend_submit(), and when the descriptor is readable. Never blocks. Returns
 * the number of requests that are done.
 */
unsigned backend_ring_poll(struct backend_ring *ring);

/*
 * Whether the ring keeps requests that the kernel has refused, often for lack of memory, and that
 * it will try again. The descriptor does not become readable when the kernel has memory again, so
 * the caller calls backend_ring_poll() again some milliseconds later.
 */
bool backend_ring_is_put_off(const struct backend_ring *ring);

#endif
