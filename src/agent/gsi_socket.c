/* SPDX-License-Identifier: BSD-2-Clause */
#include "agent/gsi_socket.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <linux/errqueue.h>
#include <linux/filter.h>

#include "port/address.h"
#include "port/socket.h"
#include "wire/icrc.h"

enum {
	SOURCE_PORTS_TRIED_MAX = 1024,
	HOP_LIMIT = 64,
	SENDS_MAX = 2, /* the first may only report an earlier packet's fate */
};

static int set_option(int fd, int level, int name, int value)
{
	return setsockopt(fd, level, name, &value, sizeof(value)) ? -errno : 0;
}

/* No peer sends to this socket: drop what arrives, so that the queue stays empty. */
static int refuse_input(int fd)
{
	struct sock_filter drop = BPF_STMT(BPF_RET | BPF_K, 0);
	struct sock_fprog program = {.len = 1, .filter = &drop};

	return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)) ? -errno : 0;
}

/* DF makes the IPv4 identification 0, which the ICRC covers. */
static int set_options(int fd, bool is_ipv4)
{
	int level = is_ipv4 ? IPPROTO_IP : IPPROTO_IPV6;
	int rc;

	if ((rc = set_option(fd, level, is_ipv4 ? IP_MTU_DISCOVER : IPV6_MTU_DISCOVER,
		     is_ipv4 ? IP_PMTUDISC_DO : IPV6_PMTUDISC_DO)) ||
		(rc = set_option(fd, level, is_ipv4 ? IP_RECVERR : IPV6_RECVERR, 1)) ||
		(rc = set_option(fd, level, is_ipv4 ? IP_TTL : IPV6_UNICAST_HOPS, HOP_LIMIT)))
		return rc;
	return refuse_input(fd);
}

/* Bind to a free source port, searched upwards from a random one. */
static int bind_source(struct gsi_socket *gsi)
{
	const unsigned range = 0x10000 - ROCE_SOURCE_PORT_MIN;
	uint16_t first = 0;

	/* Without a random number the search begins at the lowest port. */
	if (getrandom(&first, sizeof(first), 0) != sizeof(first))
		first = 0;
	for (unsigned i = 0; i < SOURCE_PORTS_TRIED_MAX; i++) {
		uint16_t port = (uint16_t)(ROCE_SOURCE_PORT_MIN + (first + i) % range);
		union socket_address name;
		socklen_t bytes = socket_address_make(
			&name, &gsi->address.gid, gsi->address.scope_ifindex, port);

		if (bind(gsi->fd, &name.base, bytes) == 0) {
			gsi->source_port = port;
			return 0;
		}
		if (errno != EADDRINUSE)
			return -errno;
	}
	return -EADDRINUSE;
}

int gsi_socket_open(struct gsi_socket *gsi, const struct agent_address *address)
{
	bool is_ipv4 = gid_is_ipv4(&address->gid);
	int rc;

	gsi->address = *address;
	gsi->fd = socket_open(is_ipv4 ? AF_INET : AF_INET6,
		SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_UDP);
	if (gsi->fd < 0)
		return -errno;
	if ((rc = set_options(gsi->fd, is_ipv4)) || (rc = bind_source(gsi)))
		gsi_socket_close(gsi);
	return rc;
}

void gsi_socket_close(struct gsi_socket *gsi)
{
	close(gsi->fd);
	gsi->fd = -1;
}

int gsi_socket_send(struct gsi_socket *gsi, const struct gid *to, uint8_t traffic_class,
	const uint8_t packet[GSI_PACKET_BYTES])
{
	bool is_ipv4 = gid_is_ipv4(&gsi->address.gid);
	uint8_t sealed[GSI_PACKET_BYTES + ROCE_ICRC_BYTES];
	union socket_address name;
	socklen_t bytes = socket_address_make(&name, to, gsi->address.scope_ifindex, ROCE_UDP_PORT);
	struct icrc_flow flow;

	if (gid_is_ipv4(to) != is_ipv4)
		return -EAFNOSUPPORT;
	memcpy(sealed, packet, GSI_PACKET_BYTES);
	icrc_flow_init(&flow, gsi->address.gid.raw, to->raw, gsi->source_port, ROCE_UDP_PORT);
	icrc_seal(&flow, 0, sealed, GSI_PACKET_BYTES);
	set_option(gsi->fd, is_ipv4 ? IPPROTO_IP : IPPROTO_IPV6, is_ipv4 ? IP_TOS : IPV6_TCLASS,
		traffic_class);
	for (unsigned i = 0; i < SENDS_MAX; i++)
		if (sendto(gsi->fd, sealed, sizeof(sealed), MSG_DONTWAIT, &name.base, bytes) >= 0)
			return 0;
	return -errno;
}

static int report_errno(struct msghdr *header)
{
	for (struct cmsghdr *cmsg = CMSG_FIRSTHDR(header); cmsg; cmsg = CMSG_NXTHDR(header, cmsg)) {
		struct sock_extended_err error;

		if ((cmsg->cmsg_level != IPPROTO_IP || cmsg->cmsg_type != IP_RECVERR) &&
			(cmsg->cmsg_level != IPPROTO_IPV6 || cmsg->cmsg_type != IPV6_RECVERR))
			continue;
		memcpy(&error, CMSG_DATA(cmsg), sizeof(error));
		if (error.ee_origin == SO_EE_ORIGIN_LOCAL || error.ee_origin == SO_EE_ORIGIN_ICMP ||
			error.ee_origin == SO_EE_ORIGIN_ICMP6)
			return (int)error.ee_errno;
	}
	return 0;
}

int gsi_socket_report(
	struct gsi_socket *gsi, struct gid *ret_to, uint8_t ret_packet[GSI_PACKET_BYTES])
{
	uint8_t data[GSI_PACKET_BYTES + ROCE_ICRC_BYTES];
	_Alignas(struct cmsghdr) uint8_t control[512];
	union socket_address name;
	struct iovec iov = {data, sizeof(data)};
	struct msghdr header = {
		.msg_name = &name,
		.msg_namelen = sizeof(name),
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control),
	};
	ssize_t bytes = recvmsg(gsi->fd, &header, MSG_ERRQUEUE | MSG_DONTWAIT);

	if (bytes < 0)
		return -EAGAIN;
	/* A router may have returned only the beginning. */
	if ((size_t)bytes < GSI_PACKET_BYTES || header.msg_namelen < sizeof(name.ipv4))
		return 0;
	*ret_to = socket_address_gid(&name);
	memcpy(ret_packet, data, GSI_PACKET_BYTES);
	return report_errno(&header);
}
