/* SPDX-License-Identifier: BSD-2-Clause */
#include "port/udp/udp.h"

#include <errno.h>
#include <linux/sock_diag.h>
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/arith.h"
#include "os/log.h"
#include "port/socket.h"
#include "port/udp/udp_internal.h"

static void receive_batch_init(struct port_udp *port)
{
	for (unsigned i = 0; i < UDP_RECEIVE_BATCH; i++) {
		port->in_iov[i].iov_base = port->in_buffers + (size_t)i * UDP_BUFFER_BYTES_RECEIVE;
		port->in_iov[i].iov_len = UDP_BUFFER_BYTES_RECEIVE;
		port->in[i].msg_hdr = (struct msghdr){
			.msg_name = &port->in_from[i],
			.msg_namelen = sizeof(port->in_from[i]),
			.msg_iov = &port->in_iov[i],
			.msg_iovlen = 1,
			.msg_control = port->in_control[i].bytes,
			.msg_controllen = sizeof(port->in_control[i].bytes),
		};
	}
}

int port_udp_create(uint8_t slot, struct port_udp_counters *counters, struct port_udp **ret_port)
{
	struct port_udp *port = calloc(1, sizeof(*port));

	if (!port)
		return -ENOMEM;
	port->slot = slot;
	port->counters = counters;
	port->in_buffers = malloc((size_t)UDP_RECEIVE_BATCH * UDP_BUFFER_BYTES_RECEIVE);
	port->stage = malloc(PORT_UDP_STAGE_BYTES);
	if (!port->in_buffers || !port->stage) {
		port_udp_destroy(port);
		return -ENOMEM;
	}
	receive_batch_init(port);
	*ret_port = port;
	return 0;
}

void port_udp_destroy(struct port_udp *port)
{
	if (!port)
		return;
	if (port->impairments)
		udp_impair_close(port);
	udp_paths_destroy(port);
	for (uint32_t i = 0; i < port->receiver_count; i++) {
		udp_bypass_close(port, i);
		if (port->receivers[i].fd >= 0)
			close(port->receivers[i].fd);
	}
	free(port->in_buffers);
	free(port->stage);
	free(port);
}

/*
 * Set the options by which the socket reports facts of each packet. urnicd has set most of them
 * already, but the port does not rely on that. Returns 0 or -errno.
 */
static int set_options(int fd, bool is_ipv4)
{
	int rc;

	/* A bypass of the socket's previous owner may have left its filter (udp_bypass.c). */
	socket_set(fd, SOL_SOCKET, SO_DETACH_FILTER, 1);
	rc = socket_set(fd, SOL_UDP, UDP_GRO, 1);
	if (!rc)
		rc = socket_set(fd, SOL_SOCKET, SO_RXQ_OVFL, 1);
	/*
	 * Adapters and rxe send packets without UDP checksum, because RoCEv2 has the ICRC. An IPv6
	 * socket drops such packets by default.
	 */
	if (!rc && !is_ipv4)
		rc = socket_set(fd, SOL_UDP, UDP_NO_CHECK6_RX, 1);
	if (!rc)
		rc = socket_set(fd, is_ipv4 ? IPPROTO_IP : IPPROTO_IPV6,
			is_ipv4 ? IP_RECVTOS : IPV6_RECVTCLASS, 1);
	return rc;
}

/* Let the socket report hop limits. If the kernel refuses that, the hop limits stay unknown (0). */
static void report_hops(const struct udp_receiver *receiver)
{
	bool is_ipv4 = gid_is_ipv4(&receiver->gid);

	if (receiver->is_channel)
		return; /* a channel always reports hop limits */
	socket_set(receiver->fd, is_ipv4 ? IPPROTO_IP : IPPROTO_IPV6,
		is_ipv4 ? IP_RECVTTL : IPV6_RECVHOPLIMIT, 1);
}

void port_udp_report_hops(struct port_udp *port)
{
	port->reports_hops = true;
	for (uint32_t i = 0; i < port->receiver_count; i++)
		if (port->receivers[i].fd >= 0)
			report_hops(&port->receivers[i]);
}

/* The number of packets that the socket dropped before the port got the socket. */
static uint32_t overflows_so_far(int fd)
{
	uint32_t info[SK_MEMINFO_VARS];
	socklen_t bytes = sizeof(info);

	if (getsockopt(fd, SOL_SOCKET, SO_MEMINFO, info, &bytes) != 0)
		return 0;
	return info[SK_MEMINFO_DROPS];
}

int port_udp_add_address(
	struct port_udp *port, const struct gid *gid, uint32_t scope_ifindex, int socket)
{
	bool is_channel = udp_is_channel(socket);
	uint32_t index = 0;
	int rc;

	while (index < port->receiver_count && port->receivers[index].fd >= 0)
		index++;
	if (index == PORT_UDP_ADDRESSES_MAX) {
		rc = -ENOSPC;
		goto fail_close;
	}
	rc = is_channel ? 0 : set_options(socket, gid_is_ipv4(gid));
	if (rc) {
		log_refusal("no packets from peers", "setsockopt");
		goto fail_close;
	}
	port->receivers[index] = (struct udp_receiver){
		.fd = socket,
		.is_channel = is_channel,
		.gid = *gid,
		.scope_ifindex = scope_ifindex,
		.overflows_seen = is_channel ? 0 : overflows_so_far(socket),
		.batch = 1,
	};
	if (port->reports_hops)
		report_hops(&port->receivers[index]);
	port->receiver_count = max_u32(port->receiver_count, index + 1);
	return (int)index;
fail_close:
	close(socket);
	return rc;
}

void port_udp_remove_address(struct port_udp *port, uint32_t index)
{
	udp_bypass_close(port, index);
	close(port->receivers[index].fd);
	port->receivers[index].fd = -1;
	for (uint32_t i = 0; i < UDP_FLOWS_COUNT; i++)
		if (port->flows[i].address == index)
			port->flows[i].is_used = false;
}

unsigned port_udp_fds(const struct port_udp *port, struct pollfd *ret_fds)
{
	unsigned count = 0;

	for (uint32_t i = 0; i < port->receiver_count; i++) {
		const struct udp_receiver *receiver = &port->receivers[i];

		if (receiver->fd >= 0)
			ret_fds[count++] = (struct pollfd){.fd = receiver->fd, .events = POLLIN};
		if (receiver->bypass && udp_bypass_fd(receiver->bypass) >= 0)
			ret_fds[count++] = (struct pollfd){
				.fd = udp_bypass_fd(receiver->bypass), .events = POLLIN};
	}
	if (port->is_blocked) {
		/* Wait until the socket of the first staged packet has room again. */
		const struct udp_path *path = port->staged[port->staged_first].path;

		if (path)
			ret_fds[count++] =
				(struct pollfd){.fd = path->sender->fd, .events = POLLOUT};
	}
	return count;
}
