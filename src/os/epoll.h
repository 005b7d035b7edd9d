/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_OS_EPOLL_H
#define URNIC_OS_EPOLL_H

/*
 * The system calls of epoll, not the C library's functions. A program may run with librspreload,
 * which replaces these functions by repoll_create(), repoll_ctl() and repoll_wait(). These use
 * epoll themselves. Arguments, results and errno are those of the functions. Any thread may call.
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
