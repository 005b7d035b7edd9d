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
 * The index of the partition of `pkey` in a port's table; 0 if the table does not have it. An entry
 * with full membership is preferred.
 */
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
