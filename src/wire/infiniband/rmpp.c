/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/infiniband/rmpp.h"

#include "wire/bytes.h"

enum {
	RMPP_OFFSET = MAD_HEADER_BYTES,
	SA_OFFSET = MAD_HEADER_BYTES + RMPP_HEADER_BYTES,
	/*
	 * Before their data, device management has reserved bytes behind the RMPP header, and
	 * vendor classes have an OUI.
	 */
	DEV_MGT_DATA_OFFSET = 64,
	VENDOR_DATA_OFFSET = 40,
};

void rmpp_header_decode(struct rmpp_header *header, const uint8_t mad[MAD_BYTES])
{
	const uint8_t *from = mad + RMPP_OFFSET;

	*header = (struct rmpp_header){
		.version = from[0],
		.type = from[1],
		.response_time = from[2] >> 3,
		.flags = from[2] & 7,
		.status = from[3],
		.segment = get_be32(from + 4),
		.length = get_be32(from + 8),
	};
}

void rmpp_header_encode(const struct rmpp_header *header, uint8_t mad[MAD_BYTES])
{
	uint8_t *to = mad + RMPP_OFFSET;

	to[0] = header->version;
	to[1] = header->type;
	to[2] = (uint8_t)(header->response_time << 3 | (header->flags & 7));
	to[3] = header->status;
	put_be32(to + 4, header->segment);
	put_be32(to + 8, header->length);
}

void sa_header_decode(struct sa_header *header, const uint8_t mad[MAD_BYTES])
{
	const uint8_t *from = mad + SA_OFFSET;

	*header = (struct sa_header){
		.sm_key = get_be64(from),
		.attribute_offset = get_be16(from + 8),
		.component_mask = get_be64(from + 12),
	};
}

void sa_header_encode(const struct sa_header *header, uint8_t mad[MAD_BYTES])
{
	uint8_t *to = mad + SA_OFFSET;

	put_be64(to, header->sm_key);
	put_be16(to + 8, header->attribute_offset);
	put_be16(to + 10, 0);
	put_be64(to + 12, header->component_mask);
}

bool rmpp_has_header(uint8_t management_class)
{
	return management_class == MAD_CLASS_SUBN_ADM || management_class == MAD_CLASS_DEV_MGT ||
		management_class == MAD_CLASS_BIS || mad_class_has_oui(management_class);
}

uint32_t rmpp_data_offset(uint8_t management_class)
{
	if (management_class == MAD_CLASS_SUBN_ADM)
		return SA_DATA_OFFSET;
	if (management_class == MAD_CLASS_DEV_MGT || management_class == MAD_CLASS_BIS)
		return DEV_MGT_DATA_OFFSET;
	return mad_class_has_oui(management_class) ? VENDOR_DATA_OFFSET : MAD_HEADER_BYTES;
}
