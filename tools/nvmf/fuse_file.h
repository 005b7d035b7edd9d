/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A block device as one file, by FUSE: for losetup, mkfs, dd and mount -o loop.
 *
 * Writes go to the device at once; what a program wrote is durable after fsync(). Bytes that are no
 * whole blocks are merged with what the device has. All calls are on the loop's thread; the device
 * outlives the file.
 */
#ifndef TOOLS_NVMF_FUSE_FILE_H
#define TOOLS_NVMF_FUSE_FILE_H

#include "nvmf/common/loop.h"
#include "nvmf/host/block/block.h"

struct fuse_file;

/*
 * Mount the file at `path`, which is created if it does not exist. `unmounted` is called with
 * `context` when it is no longer mounted, on request or from outside; it may not destroy the file.
 * 0, or 1 after a sentence on standard error.
 */
int fuse_file_create(struct loop *loop, struct block_device *device, const char *path,
	void (*unmounted)(void *context), void *context, struct fuse_file **ret_file);

/*
 * Ask the kernel to unmount. It writes what it still has first, so the loop must run on until
 * unmounted() is called. A program that still uses the file prevents it, with a sentence on
 * standard error. False, after a sentence, if the kernel cannot be asked.
 */
bool fuse_file_unmount(struct fuse_file *file);

/* NULL is fine. */
void fuse_file_destroy(struct fuse_file *file);

#endif
