/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_WIRE_SELECTIVE_H
#define URNIC_WIRE_SELECTIVE_H

/*
 * The map of a selective NAK: which packets a responder has, although an earlier one is missing.
 *
 * Only urnic knows selective NAKs; the specification has none (docs/roce.md, "Selective repeat"). A
 * selective NAK is an acknowledge packet with a PSN sequence error in its AETH. The map follows the
 * AETH as a payload of SELECTIVE_MAP_BYTES. Its first bit, the most significant one of the first
 * byte, is for the packet with the PSN of the NAK, which is the missing packet. The bit after it is
 * for the next packet, and so on. A set bit means that the responder has stored the packet. A
 * stored READ request sets the bits of all PSNs of its responses.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/arith.h"
#include "wire/bytes.h"

enum {
	SELECTIVE_PACKETS_MAX = 128, /* packets that a map covers */
	SELECTIVE_MAP_BYTES = SELECTIVE_PACKETS_MAX / 8,
};

/* Bit 63 of bits[0] is for packet 0, bit 63 of bits[1] for packet 64. */
struct selective_map {
	uint64_t bits[2];
};

static inline bool selective_map_is_empty(const struct selective_map *map)
{
	return !(map->bits[0] | map->bits[1]);
}

/* Is the bit of packet `index` set? False for an index that the map does not cover. */
static inline bool selective_map_has(const struct selective_map *map, uint32_t index)
{
	return index < SELECTIVE_PACKETS_MAX && map->bits[index / 64] >> (63 - index % 64) & 1;
}

/* Set the bit of packet `index`, which is below SELECTIVE_PACKETS_MAX. */
static inline void selective_map_set(struct selective_map *map, uint32_t index)
{
	map->bits[index / 64] |= UINT64_C(1) << (63 - index % 64);
}

/* The index of the last set bit. The map is not empty. */
static inline uint32_t selective_map_last(const struct selective_map *map)
{
	if (map->bits[1])
		return 127 - (uint32_t)__builtin_ctzll(map->bits[1]);
	return 63 - (uint32_t)__builtin_ctzll(map->bits[0]);
}

/* Drop the bits of the first `count` packets; the next one becomes packet 0. */
static inline void selective_map_shift(struct selective_map *map, uint32_t count)
{
	uint32_t rest = min_u32(count, SELECTIVE_PACKETS_MAX);

	for (; rest >= 64; rest -= 64)
		*map = (struct selective_map){{map->bits[1], 0}};
	if (!rest)
		return;
	map->bits[0] = map->bits[0] << rest | map->bits[1] >> (64 - rest);
	map->bits[1] <<= rest;
}

static inline void selective_map_decode(
	struct selective_map *map, const uint8_t from[SELECTIVE_MAP_BYTES])
{
	map->bits[0] = get_be64(from);
	map->bits[1] = get_be64(from + 8);
}

static inline void selective_map_encode(
	const struct selective_map *map, uint8_t to[SELECTIVE_MAP_BYTES])
{
	put_be64(to, map->bits[0]);
	put_be64(to + 8, map->bits[1]);
}

#endif
