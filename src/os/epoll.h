/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_OS_EPOLL_H
#define URNIC_OS_EPOLL_H

/*
 * The system calls of epoll, with the C library's arguments, results and errno. Any thread may
 * call.
 *
 * urnic does not call the C library's functions: a program may run with librspreload, which
 * replaces them by repoll_create(), repoll_ctl() and repoll_wait(). Those three use epoll
 * themselves.
 */

#include <stddef.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

static inline int epoll_open(int flags)
{
	return (int)syscall(SYS_epoll_create1, flags);
}

/* `operation` is EPOLL_CTL_ADD, EPOLL_CTL_MOD or EPOLL_CTL_DEL. */
static inline int epoll_change(int epoll, int operation, int fd, struct epoll_event *event)
{
	return (int)syscall(SYS_epoll_ctl, epoll, operation, fd, event);
}

static inline int epoll_sleep(int epoll, struct epoll_event *events, int events_max, int timeout_ms)
{
#ifdef SYS_epoll_wait
	return (int)syscall(SYS_epoll_wait, epoll, events, events_max, timeout_ms);
#else
	return (int)syscall(SYS_epoll_pwait, epoll, events, events_max, timeout_ms, NULL, 0);
#endif
}

#endif
