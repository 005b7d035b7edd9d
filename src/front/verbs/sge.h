/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Scatter/gather lists, which programs and the NIC write alike.
 */
#ifndef URNIC_FRONT_VERBS_SGE_H
#define URNIC_FRONT_VERBS_SGE_H

#include "front/verbs/abi.h"
#include "memory/copy.h"

/* The same layout on both sides (tests/abi). */
static inline const struct sge *sge_list(const struct ibv_sge *list)
{
	return (const struct sge *)(const void *)list;
}

/*
 * A list that is not there is longer than any queue takes, and so is one of less than no entries.
 */
static inline uint32_t sge_count(const struct ibv_sge *list, int count)
{
	return list || !count ? (uint32_t)count : UINT32_MAX;
}

#endif
