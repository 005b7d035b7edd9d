/* SPDX-License-Identifier: BSD-2-Clause */
#include "nvmf/common/tcp/digest.h"

#include <isa-l/crc.h>

/* isa-l takes the number of bytes as an int. */
enum { PIECE_BYTES_MAX = 1 << 30 };

uint32_t digest_update(uint32_t crc, const void *bytes, size_t length)
{
	/* isa-l only reads, but its parameter is not const. */
	unsigned char *from = (unsigned char *)(uintptr_t)bytes;

	while (length) {
		int piece = length < PIECE_BYTES_MAX ? (int)length : PIECE_BYTES_MAX;

		crc = crc32_iscsi(from, piece, crc);
		from += piece;
		length -= piece;
	}
	return crc;
}
