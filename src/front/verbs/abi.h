/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The ABI of libibverbs.so.1, as its callers see it.
 *
 * Every source of this room includes the public headers through this file and in no other way. What
 * is declared here has default visibility, everything else in the library is hidden; the version
 * script made of symbols.def then gives each name its version.
 *
 * The three calls that the public header covers with a macro of the same name are uncovered,
 * because here they are defined. Names that the library exports but no public header declares
 * (rdma-core kept their header to itself) are declared at the end.
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
 * Read one attribute file of a device, as it would stand in sysfs.
 *
 * `dir`   The device's ibdev_path, or any directory.
 * `file`  The name below it, "board_id" or "ports/1/gid_attrs/types/0".
 * `buf`   Takes the text without its final newline, always terminated when `size` is not 0.
 *
 * Returns the length of the text, or -1.
 */
int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size);

/* The mount point of sysfs, or what SYSFS_PATH says in its place. Static storage. */
const char *ibv_get_sysfs_path(void);

/*
 * The kernel's layouts into the library's and back. librdmacm was their only user; the destination
 * is wholly overwritten.
 */
void ibv_copy_ah_attr_from_kern(struct ibv_ah_attr *dst, struct ib_uverbs_ah_attr *src);
void ibv_copy_qp_attr_from_kern(struct ibv_qp_attr *dst, struct ib_uverbs_qp_attr *src);
void ibv_copy_path_rec_from_kern(struct ibv_sa_path_rec *dst, struct ib_user_path_rec *src);
void ibv_copy_path_rec_to_kern(struct ib_user_path_rec *dst, struct ibv_sa_path_rec *src);

/*
 * The type of one GID the way ibv_devinfo and pyverbs ask for it: 0 for InfiniBand and RoCE v1, 1
 * for RoCE v2.
 *
 * Returns 0, or -1 with errno.
 */
int ibv_query_gid_type(
	struct ibv_context *context, uint8_t port_num, unsigned int index, int *type);

#pragma GCC visibility pop

#endif
