/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Moving payload between packets and the application's memory.
 *
 * Scatter/gather lists are resolved entry by entry; mr_resolve() approves each entry for the bytes
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
 * Copy into memory that a program may poll: up to eight bytes at the end are stored last, by a
 * single store where they are aligned. Source and destination may overlap, as for memmove().
 */
void copy_place(uint8_t *to, const uint8_t *from, size_t bytes);

/*
 * copy_place() for long copies. From COPY_STREAM_BYTES on, the stores bypass the caches; they would
 * only evict what is cached. bench/copy measures the break-even.
 */
#define COPY_STREAM_BYTES ((size_t)2 << 20)
void copy_place_long(uint8_t *to, const uint8_t *from, size_t bytes);

/* copy_place_long() where eight bytes are frequent: counters, flags, pointers. */
static inline void copy_place_any(uint8_t *to, const uint8_t *from, size_t bytes)
{
	if (bytes == sizeof(uint64_t))
		memmove(to, from, sizeof(uint64_t)); /* one instruction */
	else
		copy_place_long(to, from, bytes);
}

/*
 * Copy `bytes` bytes, from `offset` bytes into the list on, to `to`. The list holds at least offset
 * + bytes bytes.
 */
enum mr_fault sge_gather(const struct mr_table *table, uint32_t pd, const struct sge *list,
	uint32_t count, uint64_t offset, size_t bytes, uint8_t *to);

/*
 * The address of these bytes, if they are contiguous and readable; NULL: gather them. The pointer
 * is valid as long as no region is removed.
 */
const uint8_t *sge_piece(const struct mr_table *table, uint32_t pd, const struct sge *list,
	uint32_t count, uint64_t offset, size_t bytes);

/*
 * The part of an entry that is `offset` bytes into the list: 1 to `bytes` bytes of it; nothing is
 * resolved. The list holds more than `offset` bytes.
 */
struct sge sge_slice(const struct sge *list, uint32_t count, uint64_t offset, size_t bytes);

/*
 * Copy `bytes` bytes to the list, from `offset` bytes into it on. Nothing is written unless all of
 * it may be. The list holds at least offset + bytes bytes.
 */
enum mr_fault sge_scatter(const struct mr_table *table, uint32_t pd, const struct sge *list,
	uint32_t count, uint64_t offset, size_t bytes, const uint8_t *from);

/* Check a whole list for `access` without moving anything. */
enum mr_fault sge_check(const struct mr_table *table, uint32_t pd, uint32_t access,
	const struct sge *list, uint32_t count);

static inline uint64_t sge_total_bytes(const struct sge *list, uint32_t count)
{
	uint64_t total_bytes = 0;

	for (uint32_t i = 0; i < count; i++)
		total_bytes += list[i].bytes;
	return total_bytes;
}

#endif
