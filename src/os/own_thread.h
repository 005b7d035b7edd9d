/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_OS_OWN_THREAD_H
#define URNIC_OS_OWN_THREAD_H

/*
 * urnic's own threads in a program: those of the lanes, the control thread, those of the connection
 * managers, the resolver's, and those that watch links and interfaces.
 *
 * This file counts them, so a thread of the program can find out whether it is the only one.
 * own_threads_park() parks them: until own_threads_unpark() none of them is awake. A thread is
 * asleep while it waits in a system call; it then holds no lock, and writes to no memory but its
 * stack.
 */

#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/epoll.h>

#include "base/export.h"

#define OWN_THREAD_SLICE_NS 100000 /* the shortest slice of Linux */

/*
 * Start a thread with all signals blocked, so that signals go to the program's threads. `run`
 * begins with own_thread_wake() and ends with own_thread_end(). `ret_thread` NULL: the thread is
 * detached. Returns 0 or -errno.
 */
int own_thread_start(pthread_t *ret_thread, const char *name, void *(*run)(void *), void *argument)
	URNIC_EXPORT_AS(own_thread_start);
void own_thread_end(void) URNIC_EXPORT_AS(own_thread_end);

/*
 * Have the kernel run the calling thread soon after each wake-up, and only for a slice of
 * OWN_THREAD_SLICE_NS. Its share of the processors is unchanged. Needs Linux 6.12 and no privilege;
 * an earlier Linux ignores it.
 */
void own_thread_shorten_slice(void);

/*
 * poll(2), during which the thread counts as asleep. When the kernel or a sandbox refuses the call,
 * the function pauses for a millisecond, marks all descriptors as ready, and returns false.
 */
bool own_thread_poll(struct pollfd *fds, nfds_t count, int timeout_ms);

/*
 * epoll_wait(2), during which the thread counts as asleep. When the call is refused, the function
 * pauses for a millisecond, and returns -1 with errno.
 */
int own_thread_epoll_wait(int epoll, struct epoll_event *events, int events_max, int timeout_ms);

/*
 * Each of urnic's threads calls own_thread_sleep() before a wait and own_thread_wake() after it.
 * own_thread_wake() blocks while threads are parked.
 */
void own_thread_sleep(void) URNIC_EXPORT_AS(own_thread_sleep);
void own_thread_wake(void) URNIC_EXPORT_AS(own_thread_wake);

/*
 * own_thread_sleep() for code that both urnic's threads and the program's run. It has no effect in
 * a thread of the program. Returns whether the caller has to call own_thread_wake() after its wait.
 */
bool own_thread_nap(void);

/* A thread of urnic in a long loop calls this, so that it can be parked at this point. */
void own_thread_yield(void);

/*
 * Park urnic's threads, if the caller is the process's only other thread. Then only the caller runs
 * until own_threads_unpark(), with its signal handlers unless it blocks signals. Returns false,
 * with nothing parked, when the process has or may have other threads, or when a thread of urnic
 * waits for another process.
 *
 * The caller holds no lock that one of urnic's threads may wait for.
 */
bool own_threads_park(void);
void own_threads_unpark(void);

#endif
