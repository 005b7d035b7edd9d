/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/grh.h"

#include <assert.h>
#include <string.h>

#include "wire/bytes.h"

enum {
	IPV4_BYTES = 20,
	IPV4_OFFSET = GRH_BYTES - IPV4_BYTES,
	IPV4_VERSION_AND_WORDS = 0x45,
	IPV4_DF = 0x4000,
	IPV6_VERSION = 6,
	FLOW_LABEL_MASK = 0xfffff,
};

/* RFC 1071: of a header with a zero checksum field its checksum, of a complete and right one 0. */
static uint16_t ipv4_checksum(const uint8_t header[IPV4_BYTES])
{
	uint32_t sum = 0;

	for (int i = 0; i < IPV4_BYTES; i += 2)
		sum += get_be16(header + i);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)~sum;
}

static void ipv4_encode(const struct grh *grh, uint8_t to[IPV4_BYTES])
{
	to[0] = IPV4_VERSION_AND_WORDS;
	to[1] = grh->traffic_class;
	put_be16(to + 2, (uint16_t)(IPV4_BYTES + grh->payload_bytes));
	put_be16(to + 4, 0); /* identification: the socket did not tell */
	put_be16(to + 6, IPV4_DF);
	to[8] = grh->hop_limit;
	to[9] = grh->next_header;
	put_be16(to + 10, 0);
	memcpy(to + 12, grh->sgid.raw + 12, 4);
	memcpy(to + 16, grh->dgid.raw + 12, 4);
	put_be16(to + 10, ipv4_checksum(to));
}

void grh_encode(const struct grh *grh, uint8_t to[GRH_BYTES])
{
	assert(gid_is_ipv4(&grh->sgid) == gid_is_ipv4(&grh->dgid));
	if (gid_is_ipv4(&grh->sgid)) {
		memset(to, 0, IPV4_OFFSET);
		ipv4_encode(grh, to + IPV4_OFFSET);
		return;
	}
	put_be32(to,
		(uint32_t)IPV6_VERSION << 28 | (uint32_t)grh->traffic_class << 20 |
			(grh->flow_label & FLOW_LABEL_MASK));
	put_be16(to + 4, grh->payload_bytes);
	to[6] = grh->next_header;
	to[7] = grh->hop_limit;
	memcpy(to + 8, grh->sgid.raw, 16);
	memcpy(to + 24, grh->dgid.raw, 16);
}

static bool is_ipv4_form(const uint8_t from[GRH_BYTES])
{
	const uint8_t *header = from + IPV4_OFFSET;

	return header[0] == IPV4_VERSION_AND_WORDS && get_be16(header + 2) >= IPV4_BYTES &&
		ipv4_checksum(header) == 0;
}

bool grh_decode(struct grh *grh, const uint8_t from[GRH_BYTES])
{
	uint32_t first = get_be32(from);

	/* First, since what another NIC left before an IPv4 header may look like anything. */
	if (is_ipv4_form(from)) {
		const uint8_t *header = from + IPV4_OFFSET;

		*grh = (struct grh){
			.traffic_class = header[1],
			.payload_bytes = (uint16_t)(get_be16(header + 2) - IPV4_BYTES),
			.next_header = header[9],
			.hop_limit = header[8],
			.sgid = gid_from_ipv4(header + 12),
			.dgid = gid_from_ipv4(header + 16),
		};
		return true;
	}
	if (first >> 28 != IPV6_VERSION)
		return false;
	*grh = (struct grh){
		.traffic_class = (uint8_t)(first >> 20),
		.flow_label = first & FLOW_LABEL_MASK,
		.payload_bytes = get_be16(from + 4),
		.next_header = from[6],
		.hop_limit = from[7],
	};
	memcpy(grh->sgid.raw, from + 8, 16);
	memcpy(grh->dgid.raw, from + 24, 16);
	return true;
}
