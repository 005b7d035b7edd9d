/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The ABI of libibverbs.so.1, as its callers see it.
 *
 * All sources of this room include the public headers only through this file. Declarations here
 * have default visibility; everything else in the library is hidden. The version script, which is
 * made from symbols.def, gives each name its version.
 *
 * The public header defines macros with the names of three calls. This file undefines these macros,
 * because this room defines the calls. The end of this file declares names that the library exports
 * but no public header declares.
 */
#ifndef URNIC_FRONT_VERBS_ABI_H
#define URNIC_FRONT_VERBS_ABI_H

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

#include <rdma/ib_user_sa.h>
#include <rdma/ib_user_verbs.h>

#pragma GCC visibility push(default)

#include <infiniband/sa.h>
#include <infiniband/verbs.h>

#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

/*
 * Read one attribute file of a device, as sysfs would show it.
 *
 * `dir`   The device's ibdev_path, or any directory.
 * `file`  The file's name below `dir`, such as "board_id" or "ports/1/gid_attrs/types/0".
 * `buf`   Gets the text without its final newline, and a terminating zero unless `size` is 0.
 *
 * Returns the length of the text, or -1.
 */
int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size);

/* The mount point of sysfs, or the value of SYSFS_PATH. The text is in static storage. */
const char *ibv_get_sysfs_path(void);

/*
 * Convert from the kernel's layouts to the library's, and back. Each call overwrites all of *dst.
 * Their only user was rdma-core's librdmacm.
 */
void ibv_copy_ah_attr_from_kern(struct ibv_ah_attr *dst, struct ib_uverbs_ah_attr *src);
void ibv_copy_qp_attr_from_kern(struct ibv_qp_attr *dst, struct ib_uverbs_qp_attr *src);
void ibv_copy_path_rec_from_kern(struct ibv_sa_path_rec *dst, struct ib_user_path_rec *src);
void ibv_copy_path_rec_to_kern(struct ib_user_path_rec *dst, struct ibv_sa_path_rec *src);

/*
 * The type of a GID in the numbers that ibv_devinfo and pyverbs expect: 0 for InfiniBand and RoCE
 * v1, 1 for RoCE v2.
 *
 * Returns 0, or -1 with errno.
 */
int ibv_query_gid_type(
	struct ibv_context *context, uint8_t port_num, unsigned int index, int *type);

#pragma GCC visibility pop

#endif
