/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * redirect INTERFACE PEER VICTIM VICTIM-MAC SECONDS [QPN]
 *
 * A third host on the link sends packets to the victim in the peer's name, from its own Ethernet
 * address: for queue pair numbers of all slots, chosen at random, with good ICRCs. With QPN, a
 * queue pair of perftest's for datagrams, all packets are datagrams that this queue pair accepts.
 * The program counts the victim's frames for the peer that arrive at this third host instead.
 *
 * Prints how many packets it sent and how many frames came.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "support/stranger.h"
#include "wire/headers.h"
#include "wire/opcode.h"

enum { DATAGRAM_BYTES = 40, PERFTEST_QKEY = 0x11111111 };

static double now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* A packet socket that sees what comes in. */
static int listener_open(const char *interface)
{
	const struct sockaddr_ll address = {.sll_family = AF_PACKET,
		.sll_protocol = htons(ETH_P_ALL),
		.sll_ifindex = (int)if_nametoindex(interface)};
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0 || bind(fd, (const struct sockaddr *)&address, sizeof(address)))
		exit(2);
	return fd;
}

/* How many RoCE frames have come to this host that are meant for the peer. */
static unsigned frames_taken(int fd, const struct stranger *stranger, const struct gid *peer)
{
	static uint8_t bytes[1 << 16];
	struct roce_frame frame;
	unsigned count = 0;
	ssize_t length;

	while ((length = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT)) > 0)
		if (memcmp(bytes, stranger->mac, sizeof(stranger->mac)) == 0 &&
			roce_frame_decode(&frame, bytes, (size_t)length) &&
			gid_is_equal(&frame.dgid, peer))
			count++;
	return count;
}

static struct gid gid_of(const char *text)
{
	struct gid gid;
	uint8_t ipv4[4];

	if (inet_pton(AF_INET, text, ipv4) == 1)
		return gid_from_ipv4(ipv4);
	if (inet_pton(AF_INET6, text, gid.raw) != 1)
		exit(2);
	return gid;
}

static uint32_t packet_make(uint8_t *packet)
{
	static const uint8_t opcodes[] = {
		OPCODE_RC_ACKNOWLEDGE, OPCODE_RC_SEND_ONLY, OPCODE_UD_SEND_ONLY};
	const struct bth bth = {
		.opcode = opcodes[rand() % 3],
		.pkey = BTH_PKEY_DEFAULT,
		.dest_qpn = qpn_from((uint32_t)rand() & 0xffffff),
		.psn = psn_from((uint32_t)rand() & 0xffffff),
	};

	memset(packet, 0, 64);
	bth_encode(&bth, packet);
	return bth.opcode == OPCODE_UD_SEND_ONLY    ? DATAGRAM_BYTES
		: bth.opcode == OPCODE_RC_SEND_ONLY ? 32
						    : 16;
}

static uint32_t datagram_make(uint8_t *packet, uint32_t qpn)
{
	const struct bth bth = {
		.opcode = OPCODE_UD_SEND_ONLY,
		.pkey = BTH_PKEY_DEFAULT,
		.dest_qpn = qpn_from(qpn),
	};
	const struct deth deth = {.qkey = PERFTEST_QKEY, .source_qpn = qpn_from(qpn)};

	memset(packet, 0, DATAGRAM_BYTES);
	bth_encode(&bth, packet);
	deth_encode(&deth, packet + BTH_BYTES);
	return DATAGRAM_BYTES;
}

int main(int argc, char **argv)
{
	static struct stranger stranger;
	struct stranger_route route = {.source_port = ROCE_SOURCE_PORT_MIN};
	uint64_t sent = 0, taken = 0;
	uint32_t qpn = argc > 6 ? (uint32_t)strtoul(argv[6], NULL, 0) : 0;
	uint8_t packet[64];
	double end_s;
	int listener;

	if (argc < 6 || stranger_open(&stranger, argv[1]) || !stranger_mac(argv[4], route.macs))
		return 2;
	memcpy(route.macs + sizeof(stranger.mac), stranger.mac, sizeof(stranger.mac));
	route.source = gid_of(argv[2]);
	route.destination = gid_of(argv[3]);
	listener = listener_open(argv[1]);
	end_s = now_s() + atof(argv[5]);
	while (now_s() < end_s) {
		for (unsigned i = 0; i < 4 * STRANGER_BATCH; i++, sent++) {
			route.source_port = (uint16_t)(ROCE_SOURCE_PORT_MIN + rand() % 0x4000);
			stranger_send(&stranger, &route, packet,
				qpn ? datagram_make(packet, qpn) : packet_make(packet));
		}
		taken += frames_taken(listener, &stranger, &route.source);
	}
	usleep(100000);
	taken += frames_taken(listener, &stranger, &route.source);
	printf("%llu packets sent, %llu frames taken\n", (unsigned long long)sent,
		(unsigned long long)taken);
	return 0;
}
