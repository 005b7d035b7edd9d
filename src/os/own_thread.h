/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_OS_OWN_THREAD_H
#define URNIC_OS_OWN_THREAD_H

/*
 * The threads that the library has in a program: of the lanes, the control thread, of the
 * connection manager, the one that asks for neighbours, and the one that watches interfaces.
 *
 * They are counted, so that a caller can know whether it is the program's only thread. And they can
 * be parked: each of them says when it is awake, and while they are parked none is, so that nothing
 * of the process is written by them but their own stacks. A thread is asleep while it waits in a
 * system call that writes no memory but its stack; it holds no lock then.
 */

#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/epoll.h>

#include "base/export.h"

#define OWN_THREAD_SLICE_NS 100000 /* the shortest that Linux has */

/*
 * Start one, with all signals blocked: the program's are the program's. `run` begins with
 * own_thread_wake() and ends with own_thread_end(). `ret_thread` NULL: nobody will join it. Returns
 * 0 or -errno.
 */
int own_thread_start(pthread_t *ret_thread, const char *name, void *(*run)(void *), void *argument)
	URNIC_EXPORT_AS(own_thread_start);
void own_thread_end(void) URNIC_EXPORT_AS(own_thread_end);

/*
 * Have the kernel run the calling thread soon after each wake-up, and for a short while: a slice of
 * OWN_THREAD_SLICE_NS. Its share of the processors stays what it was. This needs Linux 6.12 and no
 * privilege; an earlier Linux ignores it.
 */
void own_thread_shorten_slice(void);

/*
 * poll(2), asleep. Where the kernel or a sandbox refuses that, the thread pauses for a millisecond
 * and everything counts as ready. Returns false then.
 */
bool own_thread_poll(struct pollfd *fds, nfds_t count, int timeout_ms);

/* The same with epoll_wait(2), which returns -1 then, and errno. */
int own_thread_epoll_wait(int epoll, struct epoll_event *events, int events_max, int timeout_ms);

/*
 * Around each wait of such a thread: own_thread_sleep(), wait, own_thread_wake(). Waking waits
 * while threads are parked.
 */
void own_thread_sleep(void) URNIC_EXPORT_AS(own_thread_sleep);
void own_thread_wake(void) URNIC_EXPORT_AS(own_thread_wake);

/*
 * The same around a wait in code that all threads run: nothing in a thread of the program's.
 * own_thread_nap() returns whether own_thread_wake() is to follow.
 */
bool own_thread_nap(void);

/* For one that does not wait for long: lets itself be parked. */
void own_thread_yield(void);

/*
 * If the caller is the only thread of the process but for ours: park ours. Until
 * own_threads_unpark() nothing runs in this process but the caller (and its signal handlers, which
 * it may want to block). False: there are others, or who knows, or one of ours waits for another
 * process; nothing is parked then.
 *
 * The caller holds no lock that one of our threads may wait for.
 */
bool own_threads_park(void);
void own_threads_unpark(void);

#endif
