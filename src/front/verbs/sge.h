/* SPDX-License-Identifier: BSD-2-Clause */
/* Scatter/gather lists, which have the same layout in the ABI and the NIC. */
#ifndef URNIC_FRONT_VERBS_SGE_H
#define URNIC_FRONT_VERBS_SGE_H

#include "front/verbs/abi.h"
#include "memory/copy.h"

/* tests/abi checks the layout. */
static inline const struct sge *sge_list(const struct ibv_sge *list)
{
	return (const struct sge *)(const void *)list;
}

/*
 * The count for the NIC. If the list is missing or the count is negative, return a count beyond
 * every queue's limit.
 */
static inline uint32_t sge_count(const struct ibv_sge *list, int count)
{
	return list || !count ? (uint32_t)count : UINT32_MAX;
}

#endif
