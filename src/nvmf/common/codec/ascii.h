/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_NVMF_COMMON_CODEC_ASCII_H
#define URNIC_NVMF_COMMON_CODEC_ASCII_H

/* ASCII fields of fixed length (NVMe base 2.0, section 1.4.2). */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/*
 * Decode a field, which is padded with spaces or ends at a NUL. `ret_text` has room for
 * `field_bytes` bytes and a NUL. Returns false if the field has bytes beyond ASCII, or control
 * characters, which must not reach a terminal.
 */
static inline bool ascii_decode(const uint8_t *field, size_t field_bytes, char *ret_text)
{
	size_t length = strnlen((const char *)field, field_bytes);

	while (length && field[length - 1] == ' ')
		length--;
	for (size_t i = 0; i < length; i++)
		if (field[i] < 0x20 || field[i] >= 0x7f)
			return false;
	memcpy(ret_text, field, length);
	ret_text[length] = 0;
	return true;
}

#endif
