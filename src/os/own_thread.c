/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Lock: `awake`. Each awake thread of urnic holds it for reading; own_threads_park() takes it for
 * writing. A thread of urnic that waits for `awake` holds no other lock. The caller of
 * own_threads_park() may hold locks, but only locks for which no thread of urnic waits.
 */
#include "os/own_thread.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "os/clock.h"
#include "os/epoll.h"
#include "os/log.h"

/*
 * How long own_threads_park() waits for the threads to fall asleep. Most stay awake for
 * microseconds, but the control thread stays awake while it waits for urnicd or another process.
 */
enum { PARK_NS = 50000000 };

/* A waiting writer (own_threads_park) has precedence over readers (own_thread_wake). */
static pthread_rwlock_t awake = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
static _Atomic bool is_parking;
static __thread bool is_awake; /* is the calling thread an awake thread of urnic? */
/*
 * The number of urnic's threads. A thread is counted only after it has begun, and no longer just
 * before it ends, so the number is too small for a moment.
 */
static _Atomic int thread_count;

/* The child of a fork has none of urnic's threads. */
static void fork_child(void)
{
	pthread_rwlock_t fresh = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;

	awake = fresh;
	atomic_store(&is_parking, false);
	atomic_store(&thread_count, 0);
}

static void fork_watch(void)
{
	pthread_atfork(NULL, NULL, fork_child);
}

int own_thread_start(pthread_t *ret_thread, const char *name, void *(*run)(void *), void *argument)
{
	static pthread_once_t fork_once = PTHREAD_ONCE_INIT;
	sigset_t all, before;
	pthread_t thread;
	int error;

	pthread_once(&fork_once, fork_watch);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = pthread_create(&thread, NULL, run, argument);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (error) {
		errno = error;
		return log_refusal("no thread for the NIC", "clone3");
	}
	atomic_fetch_add(&thread_count, 1);
	pthread_setname_np(thread, name);
	if (ret_thread)
		*ret_thread = thread;
	else
		pthread_detach(thread);
	return 0;
}

void own_thread_end(void)
{
	atomic_fetch_sub(&thread_count, 1);
	own_thread_sleep();
}

/* The kernel's struct sched_attr of Linux 3.14; older C libraries do not declare it. */
struct scheduling {
	uint32_t bytes;
	uint32_t policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime_ns; /* for SCHED_OTHER: the slice; 0: the default */
	uint64_t deadline_ns;
	uint64_t period_ns;
};

/*
 * If the program has set another policy than SCHED_OTHER, that policy stays. An error is ignored,
 * because the thread also works with the default slice.
 */
void own_thread_shorten_slice(void)
{
	struct scheduling scheduling = {.bytes = sizeof(scheduling)};
	int before = errno;

	if (!syscall(SYS_sched_getattr, 0, &scheduling, sizeof(scheduling), 0) &&
		scheduling.policy == SCHED_OTHER) {
		scheduling.runtime_ns = OWN_THREAD_SLICE_NS;
		syscall(SYS_sched_setattr, 0, &scheduling, 0);
	}
	errno = before;
}

static void wait_refused(const char *call)
{
	const struct timespec pause = {.tv_nsec = 1000000};
	int error = errno;

	LOG_REFUSAL_ONCE("a thread of the NIC cannot sleep", call);
	nanosleep(&pause, NULL);
	errno = error;
}

int own_thread_epoll_wait(int epoll, struct epoll_event *events, int events_max, int timeout_ms)
{
	int count;

	own_thread_sleep();
	count = epoll_sleep(epoll, events, events_max, timeout_ms);
	if (count < 0 && errno != EINTR)
		wait_refused("epoll_wait");
	own_thread_wake();
	return count;
}

bool own_thread_poll(struct pollfd *fds, nfds_t count, int timeout_ms)
{
	bool is_refused;

	own_thread_sleep();
	is_refused = poll(fds, count, timeout_ms) < 0 && errno != EINTR;
	for (nfds_t i = 0; is_refused && i < count; i++)
		fds[i].revents = fds[i].events;
	if (is_refused)
		wait_refused("poll");
	own_thread_wake();
	return !is_refused;
}

void own_thread_sleep(void)
{
	is_awake = false;
	pthread_rwlock_unlock(&awake);
}

void own_thread_wake(void)
{
	pthread_rwlock_rdlock(&awake);
	is_awake = true;
}

bool own_thread_nap(void)
{
	if (!is_awake)
		return false;
	own_thread_sleep();
	return true;
}

void own_thread_yield(void)
{
	if (!atomic_load_explicit(&is_parking, memory_order_relaxed))
		return;
	own_thread_sleep();
	own_thread_wake();
}

/*
 * Is the caller the process's only thread besides urnic's? The link count of the task directory is
 * the number of threads plus 2, for "." and "..".
 */
static bool is_alone(void)
{
	struct stat task;

	if (stat("/proc/self/task", &task))
		return false;
	return (long)task.st_nlink - 2 == (long)atomic_load(&thread_count) + 1;
}

/* Take `awake` for writing. Returns false when that takes longer than PARK_NS. */
static bool awake_lock(void)
{
	uint64_t until_ns = clock_now_ns() + PARK_NS;
	const struct timespec until = {
		(time_t)(until_ns / 1000000000u), (long)(until_ns % 1000000000u)};

	return !pthread_rwlock_clockwrlock(&awake, CLOCK_MONOTONIC, &until);
}

bool own_threads_park(void)
{
	bool is_parked;

	if (!is_alone())
		return false;
	atomic_store(&is_parking, true);
	if (!awake_lock()) {
		atomic_store(&is_parking, false);
		return false;
	}
	is_parked = is_alone();
	if (!is_parked)
		own_threads_unpark();
	return is_parked;
}

void own_threads_unpark(void)
{
	atomic_store(&is_parking, false);
	pthread_rwlock_unlock(&awake);
}
