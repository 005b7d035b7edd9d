/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Any bytes are a packet with an ICRC. If the ICRC is right for some unknown id, it is right for
 * the id that the search has found, with DF or without. A resealed packet always verifies.
 */
#include <stdlib.h>
#include <string.h>

#include "wire/icrc.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void found_id_check(const struct icrc_flow *flow, const uint8_t *packet, size_t length)
{
	static struct icrc_lengths lengths;
	uint16_t id;

	if (icrc_verify_any_id(flow, &lengths, 1, packet, length, &id) &&
		!icrc_verify(flow, id, ICRC_IPV4_DF, packet, length) &&
		!icrc_verify(flow, id, 0, packet, length))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint8_t address[16] = {[10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1};
	struct icrc_flow flow;
	uint8_t *packet;

	if (size < ROCE_ICRC_BYTES || size > ICRC_PACKET_BYTES_MAX)
		return 0;
	icrc_flow_init(&flow, address, address, 0xc000, ROCE_UDP_PORT);
	found_id_check(&flow, data, size - ROCE_ICRC_BYTES);
	if (size < 16)
		return 0;

	packet = malloc(size);
	if (!packet)
		abort();
	memcpy(packet, data, size);
	icrc_seal(&flow, packet[5], packet, size - ROCE_ICRC_BYTES);
	if (!icrc_verify(&flow, packet[5], ICRC_IPV4_DF, packet, size - ROCE_ICRC_BYTES))
		abort();
	found_id_check(&flow, packet, size - ROCE_ICRC_BYTES);
	free(packet);
	return 0;
}
