/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_WIRE_FIELD_H
#define URNIC_WIRE_FIELD_H

/*
 * Fields of management datagrams: members of a struct in host order, and their bits in a message.
 * The formats are tables of rows (*.def); a struct wire_field is one row. The functions are pure,
 * so any thread may call them.
 */

#include <stdint.h>

struct wire_field {
	uint16_t offset; /* offset of the member in its struct */
	/* Length of the member in bytes: 1, 2, 4 or 8; an array may have any length */
	uint8_t size;
	uint8_t byte; /* offset of the field in the message */
	uint8_t bit; /* 0: the most significant bit of the byte */
	uint8_t bits; /* number of bits, at most those of the member; 0: an array of `size` bytes */
};

/* Read a field. `from` has all bytes of the message. */
void wire_field_decode(const struct wire_field *field, void *to_struct, const uint8_t *from);

/*
 * Write a field. The field's bits in the message are zero before. A value that is too large for the
 * field is cut.
 */
void wire_field_encode(const struct wire_field *field, const void *from_struct, uint8_t *to);

#endif
