/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * VL arbitration: which virtual lane of a port sends next (IBTA 7.6.9).
 *
 * A port has two tables of lanes with weights. A lane of the high table sends before those of the
 * low one, until the high table has sent its limit; then the low table may send a packet. Within a
 * table the entries take turns. An entry's turn lasts until it has sent its weight, or its lane has
 * nothing to send. A weight is in units of 64 bytes. A packet counts whole units, as for credits,
 * and a turn is rounded up to whole packets.
 */
#ifndef URNIC_FABRIC_INFINIBAND_ARBITRATION_H
#define URNIC_FABRIC_INFINIBAND_ARBITRATION_H

#include <stdbool.h>
#include <stdint.h>

enum {
	IB_VL_COUNT = 16,
	IB_VL_MANAGEMENT = 15, /* not arbitrated: its packets always go first */
	IB_DATA_VL_COUNT = 15,
	ARBITRATION_ENTRIES_MAX = 64,
	ARBITRATION_UNLIMITED = 255, /* of high_limit */
	ARBITRATION_LIMIT_BYTES = 4096, /* the unit of high_limit */
	ARBITRATION_NONE = IB_VL_COUNT,
};

struct arbitration_entry {
	uint8_t vl;
	uint8_t weight; /* 0: the entry is skipped */
};

struct arbitration_table {
	uint32_t count;
	struct arbitration_entry entries[ARBITRATION_ENTRIES_MAX];
};

struct arbitration {
	struct arbitration_table high;
	struct arbitration_table low;
	uint8_t high_limit; /* 0: one packet */
};

/* Which entry of a table has its turn. */
struct arbiter_turn {
	uint32_t entry;
	int32_t left_blocks; /* of the entry's weight; 0 and below: its turn is over */
};

/* All zero but for `config`: no packet has been sent. */
struct arbiter {
	const struct arbitration *config;
	struct arbiter_turn high;
	struct arbiter_turn low;
	uint32_t high_bytes; /* sent by the high table since the low one had a chance */
	bool is_high_over; /* the high table has sent its limit: the low one is next */
};

/*
 * Choose the lane that sends next.
 *
 * `ready`       A bit for each data lane that has a packet and credits for it.
 * `head_bytes`  The length of each such packet.
 *
 * Returns ARBITRATION_NONE when no ready lane is in a table.
 */
uint32_t arbiter_choose(
	struct arbiter *arbiter, uint16_t ready, const uint32_t head_bytes[IB_VL_COUNT]);

#endif
