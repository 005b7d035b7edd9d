/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * repoll_create(), repoll_ctl() and repoll_wait(): the calls of epoll, for rsockets and ordinary
 * descriptors. Each wait calls rpoll() with all members, so its cost grows with their number.
 *
 * The number of an instance is that of a kernel descriptor, which is never ready. rclose() frees
 * the instance. If the program calls close() instead, the instance is freed when repoll_create()
 * gets the same number again.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/list.h"
#include "front/rsocket/call/call.h"
#include "os/clock.h"
#include "os/epoll.h"

/* The longest time until a wait notices what another thread has changed by repoll_ctl(). */
enum { SLICE_MS = 20 };

/*
 * The events and flags that repoll_ctl() accepts. EPOLLET is not one of them, because rpoll()
 * reports states and not changes.
 */
#define EVENTS_KNOWN (EPOLLIN | EPOLLOUT | EPOLLERR | EPOLLHUP | EPOLLONESHOT)
#define EVENTS_ASKED (EPOLLIN | EPOLLOUT)

struct member {
	int fd;
	bool is_spent; /* with EPOLLONESHOT: reported, and not changed by repoll_ctl() since */
	struct epoll_event event;
};

struct instance {
	struct list node; /* in `instances` */
	int fd;
	struct member *members;
	int count, size;
	int next; /* the member with which the next report begins, so that no member starves */
};

static pthread_mutex_t repoll_lock = PTHREAD_MUTEX_INITIALIZER; /* guards all instances */
static struct list instances = {&instances, &instances};

static struct instance *instance_find(int fd)
{
	list_for_each(instance, &instances, struct instance, node) {
		if (instance->fd == fd)
			return instance;
	}
	return NULL;
}

static void instance_free(struct instance *instance)
{
	list_remove(&instance->node);
	free(instance->members);
	free(instance);
}

bool rs_repoll_close(int fd)
{
	struct instance *instance;

	pthread_mutex_lock(&repoll_lock);
	instance = instance_find(fd);
	if (instance)
		instance_free(instance);
	pthread_mutex_unlock(&repoll_lock);
	if (instance)
		close(fd);
	return instance != NULL;
}

int repoll_create(int flags)
{
	struct instance *instance = calloc(1, sizeof(*instance)), *stale;

	if (!instance)
		return -1;
	instance->fd = epoll_open(flags);
	if (instance->fd < 0) {
		free(instance);
		return -1;
	}
	pthread_mutex_lock(&repoll_lock);
	stale = instance_find(instance->fd);
	if (stale)
		instance_free(stale);
	list_append(&instances, &instance->node);
	pthread_mutex_unlock(&repoll_lock);
	return instance->fd;
}

static struct member *member_find(const struct instance *instance, int fd)
{
	for (int i = 0; i < instance->count; i++)
		if (instance->members[i].fd == fd)
			return &instance->members[i];
	return NULL;
}

static int member_add(struct instance *instance, int fd, const struct epoll_event *event)
{
	if (instance->count == instance->size) {
		int size = 2 * instance->size + 8;
		struct member *larger = realloc(instance->members, (size_t)size * sizeof(*larger));

		if (!larger)
			return rs_no_memory();
		instance->members = larger;
		instance->size = size;
	}
	instance->members[instance->count++] = (struct member){.fd = fd, .event = *event};
	return 0;
}

static int member_change(
	struct instance *instance, int operation, int fd, const struct epoll_event *event)
{
	struct member *member = member_find(instance, fd);

	switch (operation) {
	case EPOLL_CTL_ADD:
		return member ? EEXIST : member_add(instance, fd, event);
	case EPOLL_CTL_MOD:
		if (!member)
			return ENOENT;
		*member = (struct member){.fd = fd, .event = *event};
		return 0;
	case EPOLL_CTL_DEL:
		if (!member)
			return ENOENT;
		*member = instance->members[--instance->count];
		return 0;
	default:
		return EINVAL;
	}
}

int repoll_ctl(int epfd, int op, int fd, struct epoll_event *event)
{
	struct instance *instance;
	int error = EBADF;

	if (op != EPOLL_CTL_DEL && (!event || event->events & ~(uint32_t)EVENTS_KNOWN))
		return rs_result(EINVAL);
	pthread_mutex_lock(&repoll_lock);
	instance = instance_find(epfd);
	if (instance && fd >= 0 && fd != epfd)
		error = member_change(instance, op, fd, event);
	pthread_mutex_unlock(&repoll_lock);
	return rs_result(error);
}

/* List the members for rpoll(). The caller frees the list. NULL with errno on failure. */
static struct pollfd *members_list(int epfd, nfds_t *ret_count)
{
	struct pollfd *fds = NULL;
	struct instance *instance;

	pthread_mutex_lock(&repoll_lock);
	instance = instance_find(epfd);
	errno = EBADF;
	if (instance)
		fds = calloc((size_t)instance->count + 1, sizeof(*fds));
	for (int i = 0; fds && i < instance->count; i++) {
		const struct member *member = &instance->members[i];

		fds[i].fd = member->is_spent ? -1 : member->fd;
		fds[i].events = (short)(member->event.events & EVENTS_ASKED);
	}
	*ret_count = fds ? (nfds_t)instance->count : 0;
	pthread_mutex_unlock(&repoll_lock);
	return fds;
}

/* Report what rpoll() has found, for members that still exist. Returns the number of events. */
static int ready_report(int epfd, const struct pollfd *fds, nfds_t count,
	struct epoll_event *events, int events_max)
{
	struct instance *instance;
	int reported = 0;
	nfds_t first;

	pthread_mutex_lock(&repoll_lock);
	instance = instance_find(epfd);
	first = instance ? (nfds_t)instance->next : 0;
	for (nfds_t i = 0; instance && i < count && reported < events_max; i++) {
		nfds_t at = (first + i) % count;
		struct member *member = fds[at].revents ? member_find(instance, fds[at].fd) : NULL;

		if (!member || member->is_spent)
			continue;
		events[reported] = member->event;
		events[reported++].events = (uint32_t)fds[at].revents;
		member->is_spent = (member->event.events & EPOLLONESHOT) != 0;
		instance->next = (int)at + 1;
	}
	pthread_mutex_unlock(&repoll_lock);
	return reported;
}

/* Wait for at most `timeout_ms`. Returns the number of events, or -1 with errno. */
static int slice_wait(int epfd, struct epoll_event *events, int events_max, int timeout_ms)
{
	nfds_t count;
	struct pollfd *fds = members_list(epfd, &count);
	int ready;

	if (!fds)
		return -1;
	ready = rpoll(fds, count, timeout_ms);
	if (ready > 0)
		ready = ready_report(epfd, fds, count, events, events_max);
	free(fds);
	return ready;
}

int repoll_wait(int epfd, struct epoll_event *events, int maxevents, int timeout)
{
	uint64_t start_ns = clock_now_ns();
	int ready, left_ms;

	if (maxevents <= 0 || !events)
		return rs_result(EINVAL);
	do {
		left_ms = timeout - (int)((clock_now_ns() - start_ns) / 1000000u);
		if (timeout < 0 || left_ms > SLICE_MS)
			left_ms = SLICE_MS;
		ready = slice_wait(epfd, events, maxevents, left_ms > 0 ? left_ms : 0);
	} while (ready == 0 && left_ms > 0);
	return ready;
}
