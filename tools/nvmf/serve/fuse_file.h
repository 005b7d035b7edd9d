/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A FUSE mount that shows a block device as one file, for losetup, mkfs, dd and mount -o loop.
 *
 * Each write() of a program goes to the device at once, and is durable after fsync(). If it covers
 * only a part of a block, the new bytes are merged into that block (block_merge.h). All calls are
 * on the loop's thread. The caller keeps the loop and the device until fuse_file_stop().
 */
#ifndef TOOLS_NVMF_FUSE_FILE_H
#define TOOLS_NVMF_FUSE_FILE_H

#include "nvmf/common/loop.h"
#include "nvmf/host/block/block.h"

struct fuse_file;

/*
 * Mount the file at `path`. If there is no file at `path` yet, make an empty one to mount on.
 * unmounted(`context`) is called once the mount has ended, whether this process or another one has
 * unmounted it. unmounted() may not call fuse_file_destroy(). Returns 0, or 1 after a sentence on
 * standard error.
 */
int fuse_file_create(struct loop *loop, struct block_device *device, const char *path,
	void (*unmounted)(void *context), void *context, struct fuse_file **ret_file);

/*
 * Start fusermount3, which asks the kernel to unmount. The kernel first writes its dirty pages, so
 * the caller runs the loop until unmounted() is called. If a program still uses the file, the mount
 * stays, and a sentence appears on standard error.
 *
 * Returns true if fusermount3 has started, or the file is not mounted any more. Returns false if
 * fusermount3 cannot be run, after a sentence on standard error, or if an earlier fusermount3 still
 * runs.
 */
bool fuse_file_unmount(struct fuse_file *file);

/*
 * Take no more requests from the kernel. The device may still have requests of the file. The caller
 * lets them end before fuse_file_destroy().
 */
void fuse_file_stop(struct fuse_file *file);

/*
 * Unmount, free the file, and remove the empty file that fuse_file_create() made. `file` may be
 * NULL.
 */
void fuse_file_destroy(struct fuse_file *file);

#endif
