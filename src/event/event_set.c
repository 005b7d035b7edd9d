/* SPDX-License-Identifier: BSD-2-Clause */
/* The program's descriptor as an epoll set, and the flags and owner that the program gives it. */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "event/event_queue.h"
#include "os/epoll.h"
#include "os/log.h"

int event_queue_init_set(struct event_queue *queue)
{
	struct epoll_event event = {.events = EPOLLIN};
	int error = event_queue_init(queue);
	int set;

	if (error)
		return error;
	set = epoll_open(EPOLL_CLOEXEC);
	if (set >= 0 && !epoll_change(set, EPOLL_CTL_ADD, queue->read_fd, &event)) {
		queue->fd = set;
		return 0;
	}
	error = log_refusal("no channel for events", set < 0 ? "epoll_create1" : "epoll_ctl");
	if (set >= 0)
		close(set);
	event_queue_done(queue);
	return error;
}

int event_queue_is_blocking(const struct event_queue *queue)
{
	int flags = fcntl(queue->fd, F_GETFL);

	if (flags < 0)
		return errno == EBADF ? -EBADF
				      : log_refusal("no thread can wait for events", "fcntl");
	return !(flags & O_NONBLOCK);
}

bool event_queue_has_owner(const struct event_queue *queue)
{
	struct f_owner_ex owner;

	return fcntl(queue->fd, F_GETOWN_EX, &owner) || owner.pid;
}

/* Linux does not store O_ASYNC for an epoll set, so every set with an owner gets signals. */
void event_queue_copy_owner(struct event_queue *queue)
{
	struct f_owner_ex owner;
	int flags;

	if (queue->fd == queue->read_fd || fcntl(queue->fd, F_GETOWN_EX, &owner) ||
		(!owner.pid && !queue->is_signaling))
		return;
	flags = fcntl(queue->read_fd, F_GETFL);
	queue->is_signaling = owner.pid != 0;
	fcntl(queue->read_fd, F_SETOWN_EX, &owner);
	fcntl(queue->read_fd, F_SETSIG, fcntl(queue->fd, F_GETSIG));
	fcntl(queue->read_fd, F_SETFL, queue->is_signaling ? flags | O_ASYNC : flags & ~O_ASYNC);
}
