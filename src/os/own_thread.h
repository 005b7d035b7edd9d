/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_OS_OWN_THREAD_H
#define URNIC_OS_OWN_THREAD_H

/*
 * urnic's threads in a program: those of the lanes, the control thread, the connection manager's,
 * the one for neighbours, and the one that watches interfaces.
 *
 * They are counted, so a caller can find out whether it is the program's only thread. They can be
 * parked: while they are parked, none is awake, and none writes to the process's memory except its
 * own stack. A thread is asleep while it waits in a system call that writes only to its stack; it
 * then holds no lock.
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
 * poll(2), asleep. When the kernel or a sandbox refuses it, the thread pauses for a millisecond,
 * all descriptors count as ready, and the result is false.
 */
bool own_thread_poll(struct pollfd *fds, nfds_t count, int timeout_ms);

/* own_thread_poll() with epoll_wait(2); when refused it returns -1 with errno. */
int own_thread_epoll_wait(int epoll, struct epoll_event *events, int events_max, int timeout_ms);

/*
 * Each of urnic's threads calls own_thread_sleep() before a wait and own_thread_wake() after it.
 * own_thread_wake() blocks while threads are parked.
 */
void own_thread_sleep(void) URNIC_EXPORT_AS(own_thread_sleep);
void own_thread_wake(void) URNIC_EXPORT_AS(own_thread_wake);

/*
 * own_thread_sleep() and own_thread_wake() for a wait in code that all threads run; without effect
 * in a thread of the program. Returns whether own_thread_wake() has to follow.
 */
bool own_thread_nap(void);

/* For a thread with a long loop: a point where it may be parked. */
void own_thread_yield(void);

/*
 * If the caller is the process's only thread besides urnic's: park urnic's threads. Until
 * own_threads_unpark() only the caller and its signal handlers run, which it may want to block.
 * False, with nothing parked: there are or may be other threads, or one of urnic's waits for
 * another process.
 *
 * The caller holds no lock that one of urnic's threads may wait for.
 */
bool own_threads_park(void);
void own_threads_unpark(void);

#endif
