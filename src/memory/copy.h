/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Copies of payload between packets and the application's memory.
 *
 * A scatter/gather list is resolved entry by entry: mr_resolve() checks the key of each entry, and
 * only for the part of the entry that is copied. copy_place() keeps the order on which a program
 * relies when it polls the last byte of a WRITE: the last bytes of a packet become visible after
 * all others.
 */
#ifndef URNIC_MEMORY_COPY_H
#define URNIC_MEMORY_COPY_H

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
 * Copy into memory that a program may poll. The last eight bytes, or all if there are fewer, are
 * stored last. If these are four or eight aligned bytes, a single store writes them. Source and
 * destination may overlap, as for memmove().
 */
void copy_place(uint8_t *to, const uint8_t *from, size_t bytes);

/*
 * copy_place() in an order that shows which programs rely on the usual one: the last eight bytes
 * are stored first, and all others some microseconds later. Source and destination do not overlap.
 */
void copy_place_tail_first(uint8_t *to, const uint8_t *from, size_t bytes);

/*
 * How responders place the payload of a WRITE. copy_place(), unless the NIC sets it before the
 * first packet (URNIC_STRICT). It is hidden, so that a call takes one instruction.
 */
typedef void place_fn(uint8_t *to, const uint8_t *from, size_t bytes);
extern place_fn *place_payload __attribute__((visibility("hidden")));

/*
 * copy_place() for long copies. From COPY_STREAM_BYTES on, the stores bypass the caches, because
 * cached stores would evict other data. bench/copy measures the break-even length.
 */
#define COPY_STREAM_BYTES ((size_t)2 << 20)
void copy_place_long(uint8_t *to, const uint8_t *from, size_t bytes);

/* copy_place_long() for callers that often copy eight bytes: a counter, flag or pointer. */
static inline void copy_place_any(uint8_t *to, const uint8_t *from, size_t bytes)
{
	if (bytes == sizeof(uint64_t))
		memmove(to, from, sizeof(uint64_t)); /* one instruction */
	else
		copy_place_long(to, from, bytes);
}

/*
 * Copy to `to` the bytes [offset, offset + bytes) of the memory that the list describes. The list
 * has at least offset + bytes bytes.
 */
enum mr_fault sge_gather(const struct mr_table *table, uint32_t pd, const struct sge *list,
	uint32_t count, uint64_t offset, size_t bytes, uint8_t *to);

/*
 * The address of bytes [offset, offset + bytes) of the list, if one entry has them all and they are
 * readable. NULL: the caller has to gather them. The pointer is valid while the caller holds the
 * lane's lock.
 */
const uint8_t *sge_piece(const struct mr_table *table, uint32_t pd, const struct sge *list,
	uint32_t count, uint64_t offset, size_t bytes);

/*
 * The entry of the list that has byte `offset`, cut to begin there and to be 1 to `bytes` long. No
 * key is resolved. The list has more than `offset` bytes.
 */
struct sge sge_slice(const struct sge *list, uint32_t count, uint64_t offset, size_t bytes);

/*
 * Copy `from` to the bytes [offset, offset + bytes) of the memory that the list describes. If any
 * of them may not be written, none is. The list has at least offset + bytes bytes.
 */
enum mr_fault sge_scatter(const struct mr_table *table, uint32_t pd, const struct sge *list,
	uint32_t count, uint64_t offset, size_t bytes, const uint8_t *from);

/* MR_OK if every entry's key grants `access` to the entry's bytes. Copies nothing. */
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
