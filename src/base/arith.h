/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Small arithmetic that must not go wrong.
 *
 * Lengths and addresses from the wire are hostile, so callers compare them by subtraction, never by
 * a sum that may wrap. All functions are pure and know no protocol.
 */
#ifndef URNIC_BASE_ARITH_H
#define URNIC_BASE_ARITH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ARRAY_COUNT(a) (sizeof(a) / sizeof((a)[0]))

#define container_of(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

static inline uint32_t min_u32(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

static inline uint32_t max_u32(uint32_t a, uint32_t b)
{
	return a > b ? a : b;
}

static inline uint64_t min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static inline uint64_t max_u64(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/*
 * A bijection in which every bit of the result depends on every bit of `value` (SplitMix64). It
 * serves hash tables, and makes random numbers from a counter. It has no key, so its results are
 * predictable.
 */
static inline uint64_t mix_u64(uint64_t value)
{
	value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9u;
	value = (value ^ value >> 27) * 0x94d049bb133111ebu;
	return value ^ value >> 31;
}

static inline uint64_t div_ceil_u64(uint64_t value, uint64_t divisor)
{
	return value / divisor + (value % divisor != 0);
}

/* The smallest power of two that is at least `value`, which is at most 2^31. */
static inline uint32_t pow2_ceil_u32(uint32_t value)
{
	return value <= 1 ? 1 : 1u << (32 - __builtin_clz(value - 1));
}

/* `align` is a power of two, and `value` + `align` does not wrap. */
static inline uint64_t align_up_u64(uint64_t value, uint64_t align)
{
	return (value + align - 1) & ~(align - 1);
}

/*
 * Is [start, start + bytes) inside [base, base + limit_bytes)? Correct even where `start + bytes`
 * or `base + limit_bytes` wraps.
 */
static inline bool range_inside(uint64_t start, uint64_t bytes, uint64_t base, uint64_t limit_bytes)
{
	uint64_t offset = start - base;

	return start >= base && offset <= limit_bytes && bytes <= limit_bytes - offset;
}

#endif
