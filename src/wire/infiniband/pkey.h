/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_WIRE_INFINIBAND_PKEY_H
#define URNIC_WIRE_INFINIBAND_PKEY_H

/* P_Keys (IBTA 10.9): 15 bits are the partition's number, the top bit says full membership. */

#include <stdbool.h>
#include <stdint.h>

enum { PKEY_FULL = 0x8000, PKEY_PARTITION = 0x7fff };

static inline bool pkey_is_of_partition(uint16_t pkey, uint16_t of)
{
	return (pkey & PKEY_PARTITION) != 0 && ((pkey ^ of) & PKEY_PARTITION) == 0;
}

/*
 * May a packet with P_Key `pkey` pass where the table has `own`? Both are of one partition, and one
 * of them is a full member's (IBTA 10.9.3).
 */
static inline bool pkey_matches(uint16_t own, uint16_t pkey)
{
	return pkey_is_of_partition(own, pkey) && ((own | pkey) & PKEY_FULL) != 0;
}

/* The same for a whole table. */
static inline bool pkey_table_matches(const uint16_t *pkeys, uint32_t count, uint16_t pkey)
{
	for (uint32_t i = 0; i < count; i++)
		if (pkey_matches(pkeys[i], pkey))
			return true;
	return false;
}

/* The first P_Key of a port that another port's table lets pass; 0: there is none. */
static inline uint16_t pkey_find_common(
	const uint16_t *pkeys, uint32_t count, const uint16_t *others, uint32_t other_count)
{
	for (uint32_t i = 0; i < count; i++)
		if (pkey_table_matches(others, other_count, pkeys[i]))
			return pkeys[i];
	return 0;
}

/* Where a port's table has the partition of `pkey`, as a full member if possible; 0: nowhere. */
static inline uint16_t pkey_index_find(const uint16_t *pkeys, uint32_t count, uint16_t pkey)
{
	uint16_t found = 0;
	bool is_found = false;

	for (uint32_t i = 0; i < count; i++) {
		if (!pkey_is_of_partition(pkeys[i], pkey))
			continue;
		if (pkeys[i] & PKEY_FULL)
			return (uint16_t)i;
		if (!is_found)
			found = (uint16_t)i;
		is_found = true;
	}
	return found;
}

#endif
