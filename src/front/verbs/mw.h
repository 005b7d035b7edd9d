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
 * Returns false if the window is not of type 2, if a window cannot have the access flags, if the
 * range has no region, or if `mw` or `info` is NULL.
 */
bool mw_bind_2_from_verbs(struct send_wr *wr, const struct ibv_mw *mw, uint32_t rkey,
	const struct ibv_mw_bind_info *info);

#endif
