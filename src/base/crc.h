/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_BASE_CRC_H
#define URNIC_BASE_CRC_H

/*
 * CRC-32 as Ethernet, gzip and the InfiniBand ICRC use it, with its algebra; and CRC-32C, which
 * iSCSI and MPA use.
 *
 * CRC values are those of zlib: start with 0, and pass each result to the next call.
 *
 * The register of a CRC is a polynomial over GF(2) modulo P = x^32 + x^26 + ... + 1, with x^0 in
 * bit 31. Two messages of equal length that differ by D have CRCs that differ by D * x^32 mod P.
 * Each zero byte that follows multiplies the difference by x^8. So a multiplication by x^-8 per
 * byte leads back from a difference of CRCs to the bytes that caused it, if these are at most four
 * adjacent bytes at a known place.
 *
 * The functions have no state, so any thread may call them.
 */

#include <stddef.h>
#include <stdint.h>

/* Continue `crc`, the CRC of all bytes so far, with `length` bytes, which may be 0. */
uint32_t crc32_update(uint32_t crc, const void *bytes, size_t length);

/*
 * crc32_update() by tables. While the tables are in the L1 cache, a few bytes take half as long as
 * with crc32_update().
 */
struct crc32_tables {
	/* byte[i][value] is the CRC's change by a byte `value` that `i` other bytes follow. */
	uint32_t byte[8][256];
};
void crc32_tables_init(struct crc32_tables *tables);
uint32_t crc32_update_by(
	const struct crc32_tables *tables, uint32_t crc, const void *bytes, size_t length);

/* The CRC-32C (RFC 3720 appendix B.4) of a whole message. */
uint32_t crc32c(const void *bytes, size_t length);

/* The product of two polynomials modulo P. */
uint32_t crc32_multiply(uint32_t a, uint32_t b);

/* x^(8 * count) modulo P: the factor by which `count` following bytes multiply a difference. */
uint32_t crc32_shift(size_t count);

/*
 * x^(-8 * count) modulo P: the factor that cancels the effect of `count` following bytes. `count`
 * is 0 to CRC32_UNSHIFT_BYTES_MAX.
 */
#define CRC32_UNSHIFT_BYTES_MAX 0x1ffff
uint32_t crc32_unshift(size_t count);

#endif
