/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A block device as its users see it: exports (NBD, FUSE), the benchmark and the commands of
 * urnic-nvmf. A remote namespace is one; memory is another, for tests.
 *
 * A user fills a struct block_request, submits it, and leaves it and its data alone until done() is
 * called. Requests are served in any order, also when they overlap. A request that is done with 0
 * has happened for all requests submitted after that. What a write has changed is durable once a
 * later flush is done, or once the write itself is done if it carries BLOCK_FUA.
 *
 * All calls and callbacks of one device are on one thread, the one of its event loop. done() may
 * run inside block_submit(). The device is the provider's; the request and its data are the user's.
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
	BLOCK_TRIM, /* the content may become undefined: zeroes, or what it was */
	BLOCK_WRITE_ZEROES, /* the content becomes zeroes */
};

enum {
	BLOCK_FUA = 1 << 0, /* durable when done; for writes, trims and zeroes */
	BLOCK_NO_HOLE = 1 << 1, /* zeroes: keep the blocks allocated */
};

struct block_request {
	enum block_op op;
	uint32_t flags;
	uint64_t offset_bytes; /* a multiple of the block size; unused by a flush */
	uint64_t length_bytes; /* the same, and not 0; unused by a flush */
	void *data; /* of reads and writes: length_bytes bytes */
	/*
	 * Called once. `error` is 0 or a negative errno: -EINVAL for a range or alignment that the
	 * device does not have, -EROFS, -EOPNOTSUPP, -ENOSPC, -EIO, and -ENOTCONN after the device
	 * gave up reconnecting. After an error a write may have happened in part.
	 */
	void (*done)(struct block_request *request, int error);

	/* The device's own, from block_submit() until done(). */
	struct list link;
	uint64_t submitted_ns;
	uint32_t parts_pending;
	int error;
};

struct block_device {
	const struct block_device_ops *ops;
	uint64_t size_bytes; /* may change while it is open; a multiple of block_bytes */
	uint32_t block_bytes; /* a power of two, 512 to 65536 */
	bool is_read_only;
	bool has_write_cache; /* false: each write is durable when done */
	bool has_trim;
	bool has_write_zeroes;
	bool has_fua;
};

struct block_device_ops {
	/* The range and the kind of the request are checked already. */
	void (*submit)(struct block_device *device, struct block_request *request);
	void (*destroy)(struct block_device *device);
};

/* Start a request. Requests that the device cannot serve are done at once with their error. */
void block_submit(struct block_device *device, struct block_request *request);

/* Free the device; NULL is fine. No request may be pending. */
void block_device_destroy(struct block_device *device);

/*
 * A device in memory, filled with zeroes. Requests are done inside block_submit(), unless it is
 * paused. Returns NULL when out of memory.
 */
struct block_device *block_memory_create(uint64_t size_bytes, uint32_t block_bytes);

/* While a device in memory is paused, it keeps requests; resuming serves the newest one first. */
void block_memory_pause(struct block_device *device, bool is_paused);

/* Fail all later requests of a device in memory with this errno; 0 ends that. */
void block_memory_fail(struct block_device *device, int error);

#endif
