/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/infiniband/mad.h"

#include <string.h>

#include "wire/bytes.h"

void mad_header_decode(struct mad_header *header, const uint8_t from[MAD_HEADER_BYTES])
{
	*header = (struct mad_header){
		.base_version = from[0],
		.management_class = from[1],
		.class_version = from[2],
		.method = from[3],
		.status = get_be16(from + 4),
		.class_specific = get_be16(from + 6),
		.transaction_id = get_be64(from + 8),
		.attribute_id = get_be16(from + 16),
		.attribute_modifier = get_be32(from + 20),
	};
}

void mad_header_encode(const struct mad_header *header, uint8_t to[MAD_HEADER_BYTES])
{
	memset(to, 0, MAD_HEADER_BYTES);
	to[0] = header->base_version;
	to[1] = header->management_class;
	to[2] = header->class_version;
	to[3] = header->method;
	put_be16(to + 4, header->status);
	put_be16(to + 6, header->class_specific);
	put_be64(to + 8, header->transaction_id);
	put_be16(to + 16, header->attribute_id);
	put_be32(to + 20, header->attribute_modifier);
}
