/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Device memory: a piece of the NIC's own memory, which programs reach by copying, and peers
 * through a region of it.
 */
#ifndef URNIC_FRONT_VERBS_DM_H
#define URNIC_FRONT_VERBS_DM_H

#include "front/verbs/object.h"

/*
 * What a device has of it, for one process: as much as common adapters, and little enough to be
 * always there.
 */
#define DM_BYTES_MAX (1u << 20)

/* Release all but the structure; the object is already out of the table. */
void dm_release(struct object *object);

/* The operations that programs reach through the table in a context. */
struct ibv_dm *dm_alloc(struct ibv_context *context, struct ibv_alloc_dm_attr *attr);
int dm_free(struct ibv_dm *dm);
struct ibv_mr *dm_register(struct ibv_pd *pd, struct ibv_dm *dm, uint64_t dm_offset, size_t length,
	unsigned int access);

#endif
