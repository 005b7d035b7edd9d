/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Device memory: a part of NIC memory. Programs copy to and from it, peers access it through a
 * region.
 */
#ifndef URNIC_FRONT_VERBS_DM_H
#define URNIC_FRONT_VERBS_DM_H

#include "front/verbs/object.h"

/* Device memory of a process, per device: as much as common adapters have. */
#define DM_BYTES_MAX (1u << 20)

struct ibv_dm *dm_alloc(struct ibv_context *context, struct ibv_alloc_dm_attr *attr);
int dm_free(struct ibv_dm *dm);
struct ibv_mr *dm_register(struct ibv_pd *pd, struct ibv_dm *dm, uint64_t dm_offset, size_t length,
	unsigned int access);

#endif
