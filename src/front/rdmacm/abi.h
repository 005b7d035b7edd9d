/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The ABI of librdmacm.so.1, as its callers see it. Every source of this room includes the public
 * headers only through this file. This file gives default visibility to what these headers declare;
 * all other symbols of the library are hidden.
 */
#ifndef URNIC_FRONT_RDMACM_ABI_H
#define URNIC_FRONT_RDMACM_ABI_H

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#pragma GCC visibility push(default)

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

/* Calls of rdma-core 57 and newer (RDMACM_1.4); rdma-core's header describes them. */
int rdma_resolve_addrinfo(struct rdma_cm_id *public, const char *node, const char *service,
	const struct rdma_addrinfo *hints);
int rdma_query_addrinfo(struct rdma_cm_id *public, struct rdma_addrinfo **info);
int rdma_write_cm_event(
	struct rdma_cm_id *public, enum rdma_cm_event_type type, int status, uint64_t arg);

#pragma GCC visibility pop

#endif
