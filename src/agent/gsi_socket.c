/* SPDX-License-Identifier: BSD-2-Clause */
#include "agent/gsi_socket.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <linux/errqueue.h>

#include "os/log.h"
#include "port/address.h"
#include "port/socket.h"
#include "wire/icrc.h"

enum {
	SENDS_MAX = 2, /* the first sendto() may only report the error of an earlier packet */
};

static const char no_messages[] = "no messages of the connection manager";

int gsi_socket_open(struct gsi_socket *gsi, const struct agent_address *address)
{
	bool is_ipv4 = gid_is_ipv4(&address->gid);
	int rc;

	gsi->address = *address;
	gsi->fd = socket_open_sender(
		&address->gid, address->scope_ifindex, no_messages, &gsi->source_port);
	if (gsi->fd < 0)
		return gsi->fd;
	rc = socket_set(gsi->fd, is_ipv4 ? IPPROTO_IP : IPPROTO_IPV6,
		is_ipv4 ? IP_RECVERR : IPV6_RECVERR, 1);
	if (!rc)
		return 0;
	log_refusal(no_messages, "setsockopt");
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
	socket_set(gsi->fd, is_ipv4 ? IPPROTO_IP : IPPROTO_IPV6, is_ipv4 ? IP_TOS : IPV6_TCLASS,
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
	/* A router may have returned only the beginning of the packet. */
	if ((size_t)bytes < GSI_PACKET_BYTES || header.msg_namelen < sizeof(name.ipv4))
		return 0;
	*ret_to = socket_address_gid(&name);
	memcpy(ret_packet, data, GSI_PACKET_BYTES);
	return report_errno(&header);
}
