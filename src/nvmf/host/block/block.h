/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The interface of a block device. Its users are exports (NBD, FUSE), the benchmark and the
 * commands of urnic-nvmf. Its providers are remote namespaces and, for tests, memory.
 *
 * A user fills a struct block_request and submits it. The user then touches neither the request nor
 * its data until done() is called. The device serves requests in any order, even requests whose
 * ranges overlap. Once a request is done with error 0, every request submitted afterwards sees its
 * effect. A write is durable once a flush that was submitted after its done() is done; a write with
 * BLOCK_FUA is durable when it is done.
 *
 * All calls and callbacks of one device are on one thread, that of the device's event loop. done()
 * may run inside block_submit(). The provider owns the device; the user owns the request and its
 * data.
 */
#ifndef NVMF_HOST_BLOCK_H
#define NVMF_HOST_BLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "nvmf/common/list.h"

enum block_op {
	BLOCK_READ,
	BLOCK_WRITE,
	BLOCK_FLUSH,
	BLOCK_TRIM, /* the range may keep its contents, or read as zeroes */
	BLOCK_WRITE_ZEROES, /* the range reads as zeroes afterwards */
};

enum {
	BLOCK_FUA = 1 << 0, /* durable when done; for writes, trims and zeroes */
	BLOCK_NO_HOLE = 1 << 1, /* for zeroes: the blocks stay allocated */
};

struct block_request {
	enum block_op op;
	uint32_t flags;
	uint64_t offset_bytes; /* a multiple of the block size; unused by a flush */
	uint64_t length_bytes; /* a multiple of the block size, not 0; unused by a flush */
	void *data; /* for reads and writes: length_bytes bytes */
	/*
	 * Called once. `error` is 0 or a negative errno: -EINVAL for a misaligned range or a read
	 * beyond the end of the device, -ENOSPC for other requests beyond its end, -EROFS,
	 * -EOPNOTSUPP, -EIO, and -ENOTCONN after the device gave up reconnecting. After an error a
	 * write may have changed a part of its range.
	 */
	void (*done)(struct block_request *request, int error);

	/* Only the device uses these, from block_submit() until done(). */
	struct list link;
	uint64_t submitted_ns;
	uint32_t parts_pending;
	int error;
};

struct block_device {
	const struct block_device_ops *ops;
	uint64_t size_bytes; /* a multiple of block_bytes; may change at any time */
	uint32_t block_bytes; /* a power of two, 512 to 65536 */
	bool is_read_only;
	bool was_written; /* a request that changes blocks was submitted */
	bool has_write_cache; /* false: each write is durable when it is done */
	bool has_trim;
	bool has_write_zeroes;
	bool has_fua;
};

struct block_device_ops {
	/* block_submit() has checked the range and the operation of the request. */
	void (*submit)(struct block_device *device, struct block_request *request);
	void (*destroy)(struct block_device *device);
};

/* Start a request. A request that the device cannot serve is done at once, with an error. */
void block_submit(struct block_device *device, struct block_request *request);

/* Free the device, which has no pending request. `device` may be NULL. */
void block_device_destroy(struct block_device *device);

/*
 * Create a device in memory, filled with zeroes. Unless the device is paused, its requests are done
 * inside block_submit(). Returns NULL if there is no memory.
 */
struct block_device *block_memory_create(uint64_t size_bytes, uint32_t block_bytes);

/*
 * Pause or resume a device in memory. A paused device keeps its requests. When the device resumes,
 * it serves them, the newest first.
 */
void block_memory_pause(struct block_device *device, bool is_paused);

/* Let all later requests of a device in memory fail with `error`, a negative errno; 0 ends that. */
void block_memory_fail(struct block_device *device, int error);

#endif
