/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * `lock` protects all state of this file but `watchers`. The watch's thread does not take `lock`,
 * so a caller that holds it can stop the watch and wait for the thread. The thread's watchers take
 * other locks. The holder of `lock` waits for them, so `lock` is above their locks in
 * lock_order.def.
 */
#include "netdev/netdev_watch.h"

#include <assert.h>
#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/rtnetlink.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "os/cancel.h"
#include "os/kick.h"
#include "os/log.h"
#include "os/own_thread.h"

enum { WATCHERS_MAX = 2 /* verbs and rdma_cm */ };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t users;
static uint32_t epoch =
	1; /* a forked child has another epoch, so it does not stop the watches of its parent */
static bool is_running;
static pthread_t thread;
static struct mnl_socket *netlink;
static int stop_fd = -1;
static void (*_Atomic watchers[WATCHERS_MAX])(void); /* the thread calls them */

/*
 * Discard all messages of the socket, because the watchers read the present state themselves. A
 * message that the kernel has lost counts as an event, too.
 */
static void messages_discard(int fd)
{
	char byte;

	while (recv(fd, &byte, 1, MSG_DONTWAIT | MSG_TRUNC) >= 0 || errno == ENOBUFS ||
		errno == EINTR)
		;
}

/*
 * Wait for events on the first `count` descriptors. Returns true for an event on fds[0], which ends
 * the thread.
 */
static bool is_told_to_stop(struct pollfd *fds, nfds_t count, int timeout_ms)
{
	fds[0].revents = 0;
	return own_thread_poll(fds, count, timeout_ms) ? fds[0].revents != 0
						       : kick_clear(fds[0].fd) != 0;
}

static void notify_watchers(void)
{
	for (unsigned i = 0; i < WATCHERS_MAX; i++) {
		void (*on_change)(void) = atomic_load(&watchers[i]);

		if (on_change)
			on_change();
	}
}

static void watchers_add(void (*on_change)(void))
{
	unsigned i = 0;

	while (atomic_load(&watchers[i]) && atomic_load(&watchers[i]) != on_change)
		i++;
	assert(i < WATCHERS_MAX);
	atomic_store(&watchers[i], on_change);
}

static void watchers_forget(void)
{
	for (unsigned i = 0; i < WATCHERS_MAX; i++)
		atomic_store(&watchers[i], NULL);
}

static void *watch_thread(void *argument)
{
	struct pollfd fds[] = {
		{.fd = stop_fd, .events = POLLIN},
		{.fd = mnl_socket_get_fd(netlink), .events = POLLIN},
	};

	(void)argument;
	own_thread_wake();
	while (!is_told_to_stop(fds, 2, -1)) {
		if (!fds[1].revents)
			continue;
		messages_discard(fds[1].fd);
		notify_watchers();
		if (is_told_to_stop(fds, 1, WATCH_PAUSE_MS))
			break;
	}
	own_thread_end();
	return NULL;
}

static const char not_noticed[] = "changes of links and addresses will not be noticed";

static int netlink_open(void)
{
	int groups[] = {RTNLGRP_LINK, RTNLGRP_IPV4_IFADDR, RTNLGRP_IPV6_IFADDR};

	netlink = mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC);
	if (!netlink)
		return log_refusal(not_noticed, "socket");
	if (mnl_socket_bind(netlink, 0, MNL_SOCKET_AUTOPID))
		return log_refusal(not_noticed, "bind");
	for (size_t i = 0; i < sizeof(groups) / sizeof(*groups); i++)
		if (mnl_socket_setsockopt(
			    netlink, NETLINK_ADD_MEMBERSHIP, &groups[i], sizeof(groups[i])))
			return log_refusal(not_noticed, "setsockopt");
	return 0;
}

static void descriptors_close(void)
{
	struct mnl_socket *closing = netlink;
	int fd = stop_fd;

	netlink = NULL;
	stop_fd = -1;
	if (closing)
		mnl_socket_close(closing);
	if (fd >= 0)
		close(fd);
}

static int watch_start(void)
{
	int error;

	stop_fd = kick_create(not_noticed);
	error = stop_fd < 0 ? stop_fd : netlink_open();
	if (!error)
		error = own_thread_start(&thread, "urnic-netdev", watch_thread, NULL);
	if (error)
		descriptors_close();
	return error;
}

/*
 * fork() does not take `lock`: the holder of `lock` may wait for the thread, and the thread for a
 * lock that fork() takes. So the child resets all state here, whatever the parent's threads were
 * doing.
 */
static void fork_child(void)
{
	pthread_mutex_init(&lock, NULL);
	descriptors_close();
	watchers_forget();
	is_running = false;
	users = 0;
	epoch++;
}

static void fork_watch(void)
{
	pthread_atfork(NULL, NULL, fork_child);
}

uint32_t netdev_watch_start(void (*on_change)(void))
{
	static pthread_once_t fork_once = PTHREAD_ONCE_INIT;
	int cancel = cancel_forbid();
	uint32_t watch_epoch;

	pthread_once(&fork_once, fork_watch);
	pthread_mutex_lock(&lock);
	watch_epoch = epoch;
	watchers_add(on_change);
	if (users++ == 0)
		is_running = !watch_start();
	pthread_mutex_unlock(&lock);
	cancel_allow(cancel);
	return watch_epoch;
}

void netdev_watch_stop(uint32_t watch_epoch)
{
	int cancel = cancel_forbid();

	pthread_mutex_lock(&lock);
	if (watch_epoch == epoch && --users == 0) {
		if (is_running) {
			kick_raise(stop_fd);
			pthread_join(thread, NULL);
			descriptors_close();
		}
		is_running = false;
		watchers_forget();
	}
	pthread_mutex_unlock(&lock);
	cancel_allow(cancel);
}
