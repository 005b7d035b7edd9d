/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sockets over RDMA: not here. The functions exist so that programs with a choice start; they take no notice of their arguments.
 */
#include <errno.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/export.h"

#define NODE(version)
#define SYMBOL(name)
#define REFUSED(type, name)           \
	URNIC_EXPORT type name(void); \
	type name(void)               \
	{                             \
		errno = EOPNOTSUPP;   \
		return (type)-1;      \
	}
#define NODE_END(previous)
#include "front/rdmacm/symbols.def"
