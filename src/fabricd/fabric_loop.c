/* SPDX-License-Identifier: BSD-2-Clause */
#include "fabricd/fabric_loop.h"

#include <errno.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "os/clock.h"

enum {
	EVENTS_PER_POLL = 64,
	/* How long after the last frame the loop makes turns before it sleeps. */
	SPIN_NS = 50000,
	/* How many turns pass between two polls of the descriptors, while frames flow. */
	TURNS_PER_POLL = 32,
	LISTENER_REST_NS = 100000000,
};

int fabric_loop_watch(int epoll, int operation, int fd, uint32_t events, void *tag)
{
	struct epoll_event event = {.events = events, .data.ptr = tag};

	return epoll_ctl(epoll, operation, fd, &event) < 0 ? -errno : 0;
}

/* --- its life --- */

static int signals_watch(struct fabric_loop *loop)
{
	sigset_t signals;

	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	if (sigprocmask(SIG_BLOCK, &signals, NULL) < 0)
		return -errno;
	loop->signals = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
	if (loop->signals < 0)
		return -errno;
	return fabric_loop_watch(loop->epoll, EPOLL_CTL_ADD, loop->signals, EPOLLIN, loop);
}

int fabric_loop_init(struct fabric_loop *loop, const struct fabric_loop_user *user)
{
	*loop = (struct fabric_loop){.user = user, .signals = -1};
	loop->epoll = epoll_create1(EPOLL_CLOEXEC);
	return loop->epoll < 0 ? -errno : signals_watch(loop);
}

void fabric_loop_done(struct fabric_loop *loop)
{
	if (loop->signals >= 0)
		close(loop->signals);
	if (loop->epoll >= 0)
		close(loop->epoll);
}

/* --- turns --- */

int fabric_loop_poll(struct fabric_loop *loop, int timeout_ms)
{
	const struct fabric_loop_user *user = loop->user;
	struct epoll_event events[EVENTS_PER_POLL];
	int count = epoll_wait(loop->epoll, events, EVENTS_PER_POLL, timeout_ms);

	*user->now_ns = clock_now_ns();
	if (count < 0 && errno != EINTR)
		return -errno;
	for (int i = 0; i < count; i++) {
		if (events[i].data.ptr == loop)
			loop->is_ended = true;
		else
			user->ready(user->context, events[i].data.ptr, events[i].events);
	}
	return user->polled(user->context);
}

int fabric_loop_poll_rarely(struct fabric_loop *loop)
{
	return loop->turn++ % TURNS_PER_POLL ? 0 : fabric_loop_poll(loop, 0);
}

int fabric_loop_run(struct fabric_loop *loop)
{
	const struct fabric_loop_user *user = loop->user;
	uint64_t busy_until_ns = 0;
	int rc = 0;

	while (!loop->is_ended && rc >= 0) {
		rc = user->turn(user->context);
		if (rc > 0)
			busy_until_ns = *user->now_ns + SPIN_NS;
		else if (rc == 0 && *user->now_ns >= busy_until_ns)
			rc = user->sleep(user->context);
	}
	return rc < 0 ? rc : 0;
}

/* --- listeners --- */

int fabric_listener_watch(struct fabric_loop *loop, struct fabric_listener *listener)
{
	return fabric_loop_watch(loop->epoll, EPOLL_CTL_ADD, listener->fd, EPOLLIN, listener);
}

static void listener_rest(struct fabric_loop *loop, struct fabric_listener *listener)
{
	listener->rests_until_ns = *loop->user->now_ns + LISTENER_REST_NS;
}

void fabric_listener_failed(struct fabric_loop *loop, struct fabric_listener *listener, int error)
{
	if (error != EMFILE && error != ENFILE && error != ENOBUFS && error != ENOMEM)
		return;
	epoll_ctl(loop->epoll, EPOLL_CTL_DEL, listener->fd, NULL);
	listener_rest(loop, listener);
}

void fabric_listener_go_on(struct fabric_loop *loop, struct fabric_listener *listener)
{
	if (!listener->rests_until_ns || *loop->user->now_ns < listener->rests_until_ns)
		return;
	listener->rests_until_ns = 0;
	if (fabric_listener_watch(loop, listener))
		listener_rest(loop, listener);
}
