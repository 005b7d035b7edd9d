/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which disk a file is on. Only file.c uses this header.
 */
#ifndef URNIC_NVMF_TARGET_BACKEND_DISK_H
#define URNIC_NVMF_TARGET_BACKEND_DISK_H

#include <sys/stat.h>

/*
 * The device number of the disk that has the file's bytes, or that the file is. A partition belongs
 * to its disk. A file system without a block device, and a device of the device mapper, count as a
 * disk of their own.
 */
dev_t disk_number(const struct stat *status);

#endif
