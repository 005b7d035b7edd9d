/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory windows, as objects of the ABI around the NIC's.
 */
#ifndef URNIC_FRONT_VERBS_MW_H
#define URNIC_FRONT_VERBS_MW_H

#include <stdbool.h>

#include "front/verbs/object.h"
#include "queue/sq.h"

/*
 * The parts of a bind request that say what is bound: rkey, remote_address, bind. For every way to
 * post one.
 *
 * `rkey`  Its low 8 bits, the tag, become those of the window's key. The upper 24 bits are the
 *         window's own, and those of `rkey` do not matter: many programs pass the tag alone, and
 *         adapters take the index from the window.
 *
 * False when the request cannot be right: access flags that a window does not have, or bytes of no
 * region.
 */
bool mw_bind_from_verbs(struct send_wr *wr, const struct ibv_mw *mw, uint32_t rkey,
	const struct ibv_mw_bind_info *info);

/* The same for windows of type 2 only. Either pointer may be NULL, which cannot be right. */
bool mw_bind_2_from_verbs(struct send_wr *wr, const struct ibv_mw *mw, uint32_t rkey,
	const struct ibv_mw_bind_info *info);

/* Release all but the structure; the object is already out of the table. */
void mw_release_front(struct object *object);

/* The operations that programs reach through the tables in a context. */
struct ibv_mw *mw_alloc(struct ibv_pd *pd, enum ibv_mw_type type);
int mw_dealloc(struct ibv_mw *mw);
int mw_bind_verbs(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind);

#endif
