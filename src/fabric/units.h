/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Units of the simulated network, in whole numbers: rates in Mbit/s, times in picoseconds. A byte
 * at 100 Gbit/s takes 80 ps, so sums of times stay exact. 64 bits hold 213 days.
 */
#ifndef URNIC_FABRIC_UNITS_H
#define URNIC_FABRIC_UNITS_H

#include <stdint.h>

#include "base/arith.h"

#define FABRIC_PS_PER_NS 1000ull
#define FABRIC_PS_PER_US 1000000ull
#define FABRIC_PS_PER_MS 1000000000ull
#define FABRIC_PS_PER_S  1000000000000ull

#define FABRIC_NEVER UINT64_MAX

enum {
	FABRIC_PRIORITY_COUNT = 8,
	FABRIC_QUANTUM_BITS = 512, /* the unit of a pause time (IEEE 802.3 annex 31B) */
	FABRIC_PAUSE_QUANTA_MAX = 0xffff,
	FABRIC_PAUSE_FRAME_BYTES = 64,
	FABRIC_GAP_BYTES = 20, /* preamble and gap between frames */
	FABRIC_RATE_MBPS_MAX = 1600000,
	FABRIC_DSCP_COUNT = 64,
};

/* The DSCP of a priority, unless the scenario names another one: its class selector. */
#define FABRIC_DSCP_OF(priority) ((uint8_t)((priority) << 3))

/* The time that `bytes` (up to 2^40) take on a link; a fraction of a picosecond counts as one. */
static inline uint64_t fabric_wire_ps(uint64_t bytes, uint32_t rate_mbps)
{
	return div_ceil_u64(bytes * 8 * FABRIC_PS_PER_US, rate_mbps);
}

/* The time of pause quanta on a link. */
static inline uint64_t fabric_quanta_ps(uint32_t quanta, uint32_t rate_mbps)
{
	return fabric_wire_ps((uint64_t)quanta * (FABRIC_QUANTUM_BITS / 8), rate_mbps);
}

/* The bytes that a link carries in `ps` (up to a second), rounded up. */
static inline uint64_t fabric_bytes_in(uint64_t ps, uint32_t rate_mbps)
{
	return div_ceil_u64(ps * (rate_mbps / 8), FABRIC_PS_PER_US) +
		div_ceil_u64(ps * (rate_mbps % 8), 8 * FABRIC_PS_PER_US);
}

/*
 * The response deadline of a receiver of PFC, in quanta: after it, no further frame begins (IEEE
 * 802.3 annex 31B for 10 and 40 Gbit/s; later amendments).
 */
uint32_t fabric_response_quanta(uint32_t rate_mbps);

#endif
