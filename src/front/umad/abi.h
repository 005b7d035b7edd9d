/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The ABI of libibumad.so.3, as its callers see it. Every source of this room includes the public
 * headers only through this file. This file gives default visibility to what these headers declare;
 * all other symbols of the library are hidden.
 */
#ifndef URNIC_FRONT_UMAD_ABI_H
#define URNIC_FRONT_UMAD_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#pragma GCC visibility push(default)

#include <infiniband/umad.h>
#include <infiniband/umad_str.h>

#pragma GCC visibility pop

#endif
