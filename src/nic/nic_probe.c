/* SPDX-License-Identifier: BSD-2-Clause */
#include "nic/nic_probe.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "os/clock.h"
#include "port/address.h"
#include "port/socket.h"
#include "wire/roce.h"

/* Send the datagram, and wait for an ICMP error. */
static int probe_send(int fd, const union socket_address *to, socklen_t bytes)
{
	struct pollfd pollfd = {.fd = fd, .events = POLLERR};
	int error = 0;
	socklen_t error_bytes = sizeof(error);

	if (connect(fd, &to->base, bytes) || send(fd, "", 0, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		return errno;
	if (poll(&pollfd, 1, NIC_PROBE_WAIT_MS) == 1)
		getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &error_bytes);
	return error;
}

int nic_probe(const struct gid *local, const struct gid *remote)
{
	static uint64_t next_ns;
	union socket_address to;
	socklen_t bytes = socket_address_make(&to, remote, 0, ROCE_UDP_PORT);
	uint64_t now_ns = clock_now_ns();
	uint16_t port;
	int fd, error;

	if (now_ns < next_ns || gid_is_zero(remote) || gid_is_link_local(remote) ||
		gid_is_ipv4(local) != gid_is_ipv4(remote))
		return 0;
	next_ns = now_ns + NIC_PROBE_PAUSE_MS * 1000000ull;
	fd = socket_open_sender(local, 0, NULL, &port);
	if (fd < 0)
		return 0;
	error = probe_send(fd, &to, bytes);
	close(fd);
	return error;
}
