/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The sets of select(2) as the entries of poll(2).
 */
#ifndef URNIC_FRONT_RSOCKET_FD_SETS_H
#define URNIC_FRONT_RSOCKET_FD_SETS_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/select.h>

struct fd_sets {
	fd_set *read, *write, *except; /* NULL: empty */
};

static inline bool fd_sets_has(const fd_set *set, int fd)
{
	return set && FD_ISSET(fd, set);
}

/*
 * Make an entry for each descriptor below `limit` that is in a set. Returns how many; `fds` has
 * room for `limit`.
 */
static inline nfds_t fd_sets_to_poll(const struct fd_sets *sets, int limit, struct pollfd *fds)
{
	nfds_t count = 0;

	for (int fd = 0; fd < limit; fd++) {
		short events = (short)((fd_sets_has(sets->read, fd) ? POLLIN : 0) |
			(fd_sets_has(sets->write, fd) ? POLLOUT : 0) |
			(fd_sets_has(sets->except, fd) ? POLLPRI : 0));

		if (events)
			fds[count++] = (struct pollfd){.fd = fd, .events = events};
	}
	return count;
}

static inline int fd_sets_keep(fd_set *set, int fd, bool is_ready)
{
	if (!fd_sets_has(set, fd))
		return 0;
	if (!is_ready)
		FD_CLR(fd, set);
	return is_ready;
}

/* Leave only ready descriptors in the sets. Returns the result of select(). */
static inline int fd_sets_from_poll(
	const struct fd_sets *sets, const struct pollfd *fds, nfds_t count)
{
	int ready = 0;

	for (nfds_t i = 0; i < count; i++) {
		short got = fds[i].revents;

		ready += fd_sets_keep(sets->read, fds[i].fd, got & (POLLIN | POLLHUP | POLLERR));
		ready += fd_sets_keep(sets->write, fds[i].fd, got & (POLLOUT | POLLERR));
		ready += fd_sets_keep(sets->except, fds[i].fd, got & POLLPRI);
	}
	return ready;
}

/* The timeout for poll(): rounded up; -1: for ever. */
static inline int fd_sets_timeout_ms(const struct timeval *timeout)
{
	int64_t ms;

	if (!timeout)
		return -1;
	ms = timeout->tv_sec * (int64_t)1000 + (timeout->tv_usec + 999) / 1000;
	return ms > INT32_MAX ? INT32_MAX : (int)ms;
}

#endif
