/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/grh.h"

#include <string.h>

enum { IPV4_OFFSET = GRH_BYTES - IPV4_BYTES };

void grh_encode(const struct ip_header *header, uint8_t to[GRH_BYTES])
{
	uint32_t offset = gid_is_ipv4(&header->sgid) ? IPV4_OFFSET : 0;

	memset(to, 0, offset);
	ip_header_encode(header, to + offset);
}

bool grh_decode(struct ip_header *header, const uint8_t from[GRH_BYTES])
{
	const uint8_t *ipv4 = from + IPV4_OFFSET;

	/* Try IPv4 first, because the bytes before an IPv4 header may look like an IPv6 header. */
	if (ip_sum_fold(ip_sum_add(0, ipv4, IPV4_BYTES)) == 0xffff &&
		ipv4_header_decode(header, ipv4))
		return true;
	return ipv6_header_decode(header, from);
}
