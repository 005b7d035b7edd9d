/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_PORT_SOCKET_H
#define URNIC_PORT_SOCKET_H

#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * socket(2) itself. A program may run with librspreload, which makes rsockets of the program's
 * sockets. urnic's own sockets must be real ones, whichever thread opens them.
 */
static inline int socket_open(int family, int type, int protocol)
{
	return (int)syscall(SYS_socket, family, type, protocol);
}

#endif
