/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_WIRE_INFINIBAND_MULTICAST_ROW_H
#define URNIC_WIRE_INFINIBAND_MULTICAST_ROW_H

/*
 * A row of a switch's MulticastForwardingTable (IBTA 18.2.4.3): a bit for each port to which
 * packets of a multicast LID go. Port 0 is the switch itself. The first row is that of LID 0xc000.
 */

#include <stdbool.h>
#include <stdint.h>

#include "wire/infiniband/lrh.h"

enum {
	MULTICAST_ROW_WORDS = 4,
	MULTICAST_PORTS_MAX = 255, /* port 0 included */
};

struct multicast_row {
	uint64_t ports[MULTICAST_ROW_WORDS];
};

static inline bool multicast_row_has(const struct multicast_row *row, uint32_t port)
{
	return row->ports[port / 64] >> port % 64 & 1;
}

static inline void multicast_row_set(struct multicast_row *row, uint32_t port, bool is_on)
{
	const uint64_t bit = 1ull << port % 64;

	row->ports[port / 64] = is_on ? row->ports[port / 64] | bit : row->ports[port / 64] & ~bit;
}

/* The row of a LID; NULL: the table of `count` rows has none. */
static inline const struct multicast_row *multicast_row_find(
	const struct multicast_row *rows, uint32_t count, uint16_t lid)
{
	return lid_is_multicast(lid) && lid - LID_MULTICAST_FIRST < (int32_t)count
		? &rows[lid - LID_MULTICAST_FIRST]
		: NULL;
}

/*
 * The ports that get a copy of a packet that came in by `in_port`: those of the row of its LID, but
 * never that port. No row, or an empty one: no port does.
 */
static inline struct multicast_row multicast_copies(
	const struct multicast_row *rows, uint32_t count, uint16_t lid, uint32_t in_port)
{
	const struct multicast_row *row = multicast_row_find(rows, count, lid);
	struct multicast_row copies = {{0}};

	if (!row)
		return copies;
	copies = *row;
	multicast_row_set(&copies, in_port, false);
	return copies;
}

#endif
