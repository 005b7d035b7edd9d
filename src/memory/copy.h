/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Moving payload between packets and the application's memory.
 *
 * Scatter/gather lists are resolved entry by entry, each approved by mr_resolve() for the bytes
 * that move. Placing keeps the order that programs rely on when they poll on the last byte of a
 * WRITE: the last bytes of a packet become visible after all others.
 */
#ifndef URNIC_MEMORY_COPY_H
#define URNIC_MEMORY_COPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "memory/mr.h"

/* One entry of a scatter/gather list; the layout of struct ibv_sge. */
struct sge {
	uint64_t address;
	uint32_t bytes;
	uint32_t lkey;
};

/*
 * Copy into memory that others are watching: the last up to eight bytes are stored last, by one
 * store where they are aligned. A program may WRITE over what it WRITEs from: the bytes arrive as
 * they were, as by memmove().
 */
void copy_place(uint8_t *to, const uint8_t *from, size_t bytes);

/*
 * The same, for what may be long: from COPY_STREAM_BYTES on around the caches, which it would only
 * sweep. bench/copy measures from where on that is faster.
 */
#define COPY_STREAM_BYTES ((size_t)2 << 20)
void copy_place_long(uint8_t *to, const uint8_t *from, size_t bytes);

/*
 * Long copies of the same bytes to the same place, again and again. What one has moved last is what
 * the nearest caches hold when the next one comes, so that goes the other way: page by page from
 * the end. The last bytes become visible last all the same. What overlaps is copied as ever.
 *
 * Zero to begin with; what is in it is compared and never followed.
 */
struct copy_turn {
	const uint8_t *from; /* of the last long copy */
	uint8_t *to;
	size_t bytes;
	bool is_backwards; /* it was */
};

/* From here on what is copied does not fit the nearest cache twice. */
#define COPY_TURN_BYTES ((size_t)32 << 10)
void copy_place_turning(struct copy_turn *turn, uint8_t *to, const uint8_t *from, size_t bytes);

/* copy_place_long() for one of a series, most of which may be short. */
static inline void copy_place_next(
	struct copy_turn *turn, uint8_t *to, const uint8_t *from, size_t bytes)
{
	if (bytes == sizeof(uint64_t))
		memmove(to, from,
			sizeof(uint64_t)); /* one instruction: counters, flags, pointers */
	else if (bytes < COPY_TURN_BYTES)
		copy_place(to, from, bytes);
	else
		copy_place_turning(turn, to, from, bytes);
}

/*
 * Collect `bytes` bytes, starting `offset` bytes into the list, into `to`. The list holds at least
 * offset + bytes bytes.
 */
enum mr_fault sge_gather(const struct mr_table *table, uint32_t pd, const struct sge *list,
	uint32_t count, uint64_t offset, size_t bytes, uint8_t *to);

/*
 * Where these bytes lie, if it is in one piece that may be read; NULL: gather them. The pointer is
 * good as long as no region can go away.
 */
const uint8_t *sge_piece(const struct mr_table *table, uint32_t pd, const struct sge *list,
	uint32_t count, uint64_t offset, size_t bytes);

/*
 * Which part of which entry of the list comes `offset` bytes into it? At most `bytes` of it, at
 * least 1; nothing is resolved. The list holds more than `offset` bytes.
 */
struct sge sge_slice(const struct sge *list, uint32_t count, uint64_t offset, size_t bytes);

/*
 * The opposite: spread `bytes` bytes over the list, starting `offset` bytes into it. Nothing is
 * written unless all of it may be. The list holds at least offset + bytes bytes.
 */
enum mr_fault sge_scatter(const struct mr_table *table, uint32_t pd, const struct sge *list,
	uint32_t count, uint64_t offset, size_t bytes, const uint8_t *from);

/*
 * Check a whole list for `access` without moving anything.
 */
enum mr_fault sge_check(const struct mr_table *table, uint32_t pd, uint32_t access,
	const struct sge *list, uint32_t count);

/* The bytes that a list holds. */
static inline uint64_t sge_total_bytes(const struct sge *list, uint32_t count)
{
	uint64_t total_bytes = 0;

	for (uint32_t i = 0; i < count; i++)
		total_bytes += list[i].bytes;
	return total_bytes;
}

#endif
