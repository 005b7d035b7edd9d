/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_NVMF_HOST_BLOCK_BLOCK_MERGE_H
#define URNIC_NVMF_HOST_BLOCK_BLOCK_MERGE_H

/*
 * Writes of any bytes to a block device, which takes whole blocks only.
 *
 * If a write begins or ends within a block, the merger reads the blocks of the write, copies the
 * bytes into them, and writes the blocks. Meanwhile no other change of these blocks is at work:
 * later changes wait. Otherwise two writes to one block would both read it, and the second one to
 * be written would undo the first one. Changes of whole blocks do not wait for each other.
 *
 * Ownership: the caller owns the changes and their memory. From block_merge() to `done` a change
 * belongs to the merger. The thread of the device makes all calls.
 */

#include "nvmf/host/block/block.h"

struct block_merger {
	struct block_device *device;
	struct list changes; /* struct block_change that are not done, in the order of arrival */
};

struct block_change {
	enum block_op op; /* BLOCK_WRITE or BLOCK_WRITE_ZEROES */
	uint64_t offset_bytes;
	uint64_t length_bytes; /* zeroes: whole blocks */
	uint8_t *data; /* the bytes of a write; NULL for zeroes */
	/* block_merge_bytes() bytes. May be NULL if that is 0. */
	uint8_t *blocks;
	/* Called once, with the error of the device (block.h). */
	void (*done)(struct block_change *change, int error);

	/* Only the merger uses these, from block_merge() to `done`. */
	struct block_merger *merger;
	struct list node;
	struct block_request block;
	uint64_t from, to; /* the first byte of its blocks, and the byte after the last one */
	bool is_merging;
	bool has_begun;
};

void block_merger_init(struct block_merger *merger, struct block_device *device);

/* The memory that a write needs to be merged into its blocks; 0 for a write of whole blocks. */
uint64_t block_merge_bytes(const struct block_device *device, uint64_t offset, uint64_t length);

/* Start a change, whose `done` may be called before this returns. */
void block_merge(struct block_merger *merger, struct block_change *change);

#endif
