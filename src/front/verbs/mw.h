/* SPDX-License-Identifier: BSD-2-Clause */
/* The ABI's memory windows. Each stands for a window of the NIC. */
#ifndef URNIC_FRONT_VERBS_MW_H
#define URNIC_FRONT_VERBS_MW_H

#include <stdbool.h>

#include "front/verbs/object.h"
#include "queue/sq.h"

/*
 * Set the fields of a bind request that name the window and the bound range: rkey, remote_address,
 * bind.
 *
 * `rkey`  Its low 8 bits become the tag of the window's key. Its upper 24 bits are ignored: many
 *         programs pass only the tag, and adapters take the index from the window.
 *
 * Returns false for a window that is not of type 2, access flags that a window cannot have, or a
 * range without a region; also if `mw` or `info` is NULL.
 */
bool mw_bind_2_from_verbs(struct send_wr *wr, const struct ibv_mw *mw, uint32_t rkey,
	const struct ibv_mw_bind_info *info);

#endif
