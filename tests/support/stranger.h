/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A stranger on the link: a host that sends RoCEv2 packets in the name of another one. Each packet
 * has a good ICRC, and the IP address and the Ethernet address that the caller likes.
 */
#ifndef URNIC_TESTS_STRANGER_H
#define URNIC_TESTS_STRANGER_H

#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/gid.h"
#include "wire/bth.h"
#include "wire/bytes.h"
#include "wire/icrc.h"
#include "wire/roce.h"
#include "wire/roce_frame.h"

enum { STRANGER_BATCH = 64, STRANGER_PACKET_BYTES_MAX = 256 };

/* In whose name packets go, and to whom. */
struct stranger_route {
	uint8_t macs[ROCE_MACS_BYTES]; /* destination, source */
	struct gid source;
	struct gid destination;
	uint16_t source_port;
};

struct stranger {
	int fd;
	uint8_t mac[6]; /* of its interface */
	unsigned count; /* of frames that wait to be sent */
	uint8_t frames[STRANGER_BATCH][STRANGER_PACKET_BYTES_MAX];
	struct mmsghdr messages[STRANGER_BATCH];
	struct iovec pieces[STRANGER_BATCH];
};

/* Returns 0 or -1. */
static inline int stranger_open(struct stranger *stranger, const char *interface)
{
	struct sockaddr_ll address = {
		.sll_family = AF_PACKET, .sll_ifindex = (int)if_nametoindex(interface)};
	struct ifreq request = {0};

	memset(stranger, 0, sizeof(*stranger));
	strncpy(request.ifr_name, interface, IFNAMSIZ - 1);
	stranger->fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
	if (stranger->fd < 0 || ioctl(stranger->fd, SIOCGIFHWADDR, &request) ||
		bind(stranger->fd, (const struct sockaddr *)&address, sizeof(address)))
		return -1;
	memcpy(stranger->mac, request.ifr_hwaddr.sa_data, sizeof(stranger->mac));
	return 0;
}

/* Send what waits. Returns how many frames went out. */
static inline unsigned stranger_flush(struct stranger *stranger)
{
	unsigned sent = 0;

	while (sent < stranger->count) {
		int count = sendmmsg(
			stranger->fd, stranger->messages + sent, stranger->count - sent, 0);

		if (count <= 0)
			break;
		sent += (unsigned)count;
	}
	stranger->count = 0;
	return sent;
}

/*
 * `packet` is from the BTH to the pad; at most STRANGER_PACKET_BYTES_MAX with its headers and ICRC.
 */
static inline void stranger_send(struct stranger *stranger, const struct stranger_route *route,
	const uint8_t *packet, uint32_t bytes)
{
	unsigned index = stranger->count++;
	uint8_t *frame = stranger->frames[index];
	struct roce_frame_headers headers;
	struct icrc_flow flow;
	uint8_t *data;

	roce_frame_headers_init(
		&headers, &route->source, &route->destination, route->source_port, 2, 64, 0);
	roce_frame_headers_write(&headers, route->macs, bytes + ROCE_ICRC_BYTES, frame);
	data = frame + headers.count;
	/* IPv4 lets UDP go without a checksum. */
	put_be16(data - ROCE_UDP_BYTES + ROCE_FRAME_UDP_CHECKSUM, 0);
	memcpy(data, packet, bytes);
	icrc_flow_init(&flow, route->source.raw, route->destination.raw, route->source_port,
		ROCE_UDP_PORT);
	icrc_seal(&flow, 0, data, bytes);
	stranger->pieces[index] = (struct iovec){frame, headers.count + bytes + ROCE_ICRC_BYTES};
	stranger->messages[index] =
		(struct mmsghdr){.msg_hdr = {.msg_iov = &stranger->pieces[index], .msg_iovlen = 1}};
	if (stranger->count == STRANGER_BATCH)
		stranger_flush(stranger);
}

/* A MAC in the usual notation. Returns whether it is one. */
static inline bool stranger_mac(const char *text, uint8_t ret_mac[6])
{
	unsigned byte[6];

	if (sscanf(text, "%x:%x:%x:%x:%x:%x", &byte[0], &byte[1], &byte[2], &byte[3], &byte[4],
		    &byte[5]) != 6)
		return false;
	for (int i = 0; i < 6; i++)
		ret_mac[i] = (uint8_t)byte[i];
	return true;
}

#endif
