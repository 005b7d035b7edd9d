/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Any bytes are a message of the connection manager, or are refused. A decoded message encodes to
 * bytes that decode to an equal message.
 */
#include <stdlib.h>
#include <string.h>

#include "wire/cm/cm_message.h"
#include "wire/cm/gsi_packet.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint8_t header[] = {1, 7, 2, 3};
	uint8_t mad[MAD_BYTES] = {0}, again[MAD_BYTES], once_more[MAD_BYTES];
	struct cm_message message, decoded;
	struct ip_cm_header ip;

	gsi_packet_mad(data, size);
	memcpy(mad, data, size < sizeof(mad) ? size : sizeof(mad));
	/* Mostly past the first check, so that the others see something. */
	if (mad[0] & 3)
		memcpy(mad, header, sizeof(header));
	if (mad[5] & 3) {
		mad[16] = 0;
		mad[17] = (uint8_t)(0x10 + mad[17] % 12);
	}
	if (!cm_message_decode(&message, mad))
		return 0;
	cm_message_encode(&message, again);
	if (!cm_message_decode(&decoded, again))
		abort();
	cm_message_encode(&decoded, once_more);
	if (memcmp(again, once_more, sizeof(again)) != 0)
		abort();
	if (message.attribute == CM_REQ && ip_cm_header_decode(&ip, message.req.private_data)) {
		uint8_t bytes[IP_CM_HEADER_BYTES];

		ip_cm_header_encode(&ip, bytes);
	}
	return 0;
}
