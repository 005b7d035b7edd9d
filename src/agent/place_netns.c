/* SPDX-License-Identifier: BSD-2-Clause */
/* The numbers of network namespaces. */
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/place.h"
#include "port/socket.h"

uint64_t place_netns_of(int fd)
{
	uint64_t cookie = 0;
	socklen_t bytes = sizeof(cookie);

	return getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &bytes) ? 0 : cookie;
}

int place_netns(uint64_t *ret_netns)
{
	int fd = socket_open(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	uint64_t netns;

	if (fd < 0)
		return -errno;
	netns = place_netns_of(fd);
	close(fd);
	if (!netns)
		return -ENOPROTOOPT;
	*ret_netns = netns;
	return 0;
}
