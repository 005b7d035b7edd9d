/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/crc.h"

#include <assert.h>
#include <endian.h>
#include <isa-l/crc.h>
#include <stdbool.h>
#include <string.h>

/* Three polynomials, with x^0 in bit 31 (crc.h): P without its x^32 term, then 1, then x^8. */
#define POLYNOMIAL 0xedb88320u
#define ONE        0x80000000u
#define X_TO_8     0x00800000u

/*
 * Clear the upper halves of the AVX registers, in which isa-l leaves data. Otherwise the caller's
 * next SSE instruction would wait for these registers, which costs urnic a tenth of its bandwidth.
 */
#ifdef __x86_64__
__attribute__((target("avx"))) static void vectors_clean(void)
{
	if (__builtin_cpu_supports("avx"))
		__builtin_ia32_vzeroupper();
}
#else
static void vectors_clean(void)
{
}
#endif

uint32_t crc32_update(uint32_t crc, const void *bytes, size_t length)
{
	crc = crc32_gzip_refl(crc, bytes, length);
	vectors_clean();
	return crc;
}

static uint32_t times_x(uint32_t a)
{
	return a >> 1 ^ (-(a & 1) & POLYNOMIAL);
}

void crc32_tables_init(struct crc32_tables *tables)
{
	for (uint32_t value = 0; value < 256; value++) {
		uint32_t crc = value;

		for (uint32_t bit = 0; bit < 8; bit++)
			crc = times_x(crc);
		tables->byte[0][value] = crc;
	}
	/*
	 * Table i is for a byte that i further bytes follow, so continue each CRC of table i - 1 by
	 * a zero byte.
	 */
	for (uint32_t i = 1; i < 8; i++) {
		for (uint32_t value = 0; value < 256; value++) {
			uint32_t crc = tables->byte[i - 1][value];

			tables->byte[i][value] = crc >> 8 ^ tables->byte[0][crc & 0xff];
		}
	}
}

/* How `half` changes the CRC, with `behind` bytes of the eight behind it. */
static inline uint32_t crc32_half(const struct crc32_tables *tables, uint32_t half, uint32_t behind)
{
	uint32_t crc = 0;

#pragma GCC unroll 4
	for (uint32_t i = 0; i < sizeof(half); i++)
		crc ^= tables->byte[behind + 3 - i][half >> 8 * i & 0xff];
	return crc;
}

/*
 * The bytes are loaded four at a time: the caller has just stored fields of four and eight bytes,
 * and a load that spans two of these waits until both are in the cache.
 */
uint32_t crc32_update_by(
	const struct crc32_tables *tables, uint32_t crc, const void *bytes, size_t length)
{
	const uint8_t *from = bytes;
	uint32_t halves[2];

	for (crc = ~crc; length >= sizeof(halves); length -= sizeof(halves)) {
		memcpy(&halves[0], from, sizeof(halves[0]));
		memcpy(&halves[1], from + sizeof(halves[0]), sizeof(halves[1]));
		crc = crc32_half(tables, le32toh(halves[0]) ^ crc, 4) ^
			crc32_half(tables, le32toh(halves[1]), 0);
		from += sizeof(halves);
	}
	if (length >= sizeof(halves[0])) {
		memcpy(&halves[0], from, sizeof(halves[0]));
		crc = crc32_half(tables, le32toh(halves[0]) ^ crc, 0);
		length -= sizeof(halves[0]);
		from += sizeof(halves[0]);
	}
	for (; length; length--, from++)
		crc = crc >> 8 ^ tables->byte[0][(crc ^ *from) & 0xff];
	return ~crc;
}

/*
 * The CRC-32C of a short message, by the processor's instructions. isa-l would read its tables,
 * which are usually not in the cache.
 */
#ifdef __x86_64__
enum { SHORT_BYTES_MAX = 128 };

__attribute__((target("sse4.2"))) static uint32_t crc32c_short(const uint8_t *from, size_t length)
{
	uint64_t crc = UINT32_MAX, word;
	uint32_t half;

	for (; length >= sizeof(word); length -= sizeof(word), from += sizeof(word)) {
		memcpy(&word, from, sizeof(word));
		crc = __builtin_ia32_crc32di(crc, word);
	}
	for (; length >= sizeof(half); length -= sizeof(half), from += sizeof(half)) {
		memcpy(&half, from, sizeof(half));
		crc = __builtin_ia32_crc32si((uint32_t)crc, half);
	}
	for (; length; length--, from++)
		crc = __builtin_ia32_crc32qi((uint32_t)crc, *from);
	return ~(uint32_t)crc;
}

static bool is_short(size_t length)
{
	return length <= SHORT_BYTES_MAX && __builtin_cpu_supports("sse4.2");
}
#else
static bool is_short(size_t length)
{
	(void)length;
	return false;
}

static uint32_t crc32c_short(const uint8_t *from, size_t length)
{
	(void)from, (void)length;
	return 0;
}
#endif

uint32_t crc32c(const void *bytes, size_t length)
{
	uint32_t crc;

	if (is_short(length))
		return crc32c_short(bytes, length);
	assert(length <= INT32_MAX);
	/* isa-l declares the bytes without const, but only reads them. */
	crc = ~crc32_iscsi((unsigned char *)(uintptr_t)bytes, (int)length, UINT32_MAX);
	vectors_clean();
	return crc;
}

uint32_t crc32_multiply(uint32_t a, uint32_t b)
{
	uint32_t product = 0;

	/* Visit the terms of `a` from x^0 upwards; each step multiplies `b` by x. */
	for (; a; a <<= 1) {
		product ^= -(a >> 31) & b;
		b = times_x(b);
	}
	return product;
}

uint32_t crc32_shift(size_t count)
{
	uint32_t product = ONE;

	for (uint32_t power = X_TO_8; count; count >>= 1) {
		if (count & 1)
			product = crc32_multiply(product, power);
		power = crc32_multiply(power, power);
	}
	return product;
}

uint32_t crc32_unshift(size_t count)
{
	/* Element i is x^(-8 * 2^i) modulo P. */
	static const uint32_t powers[] = {
		0x6567cb95,
		0xd7125358,
		0x5b358fd3,
		0x2e9bb40b,
		0x12a59a49,
		0x8df9403d,
		0x5139de12,
		0xba340226,
		0x29c45641,
		0x12fbc105,
		0xecd30c55,
		0x3755ebd8,
		0x24ee460c,
		0x23783fcf,
		0x479933fc,
		0xa39442a5,
		0x9ea0056d,
	};
	uint32_t product = ONE;

	assert(count <= CRC32_UNSHIFT_BYTES_MAX);
	for (size_t i = 0; count >> i; i++) {
		if (count >> i & 1)
			product = crc32_multiply(product, powers[i]);
	}
	return product;
}
