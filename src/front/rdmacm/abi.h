/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The ABI of librdmacm.so.1, as its callers see it. Every source of this room includes the public
 * headers only through this file: its declarations have default visibility, all other symbols of
 * the library are hidden.
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

#pragma GCC visibility pop

#endif
