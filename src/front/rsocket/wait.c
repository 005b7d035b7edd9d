/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Waiting: for one stream in a blocking call, and for many descriptors in rpoll() and rselect().
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/select.h>

#include "front/rsocket/rsocket.h"
#include "os/clock.h"

/*
 * SLICE_MS is the longest sleep of rpoll(), because another thread may handle the event for which
 * rpoll() sleeps, and does not wake rpoll().
 */
enum { SLICE_MS = 50, FDS_ON_STACK = 32 };

/* A call polls for completions this long before it sleeps, because a wake-up takes longer. */
#define SPIN_NS 10000

int rs_result(int error)
{
	if (!error)
		return 0;
	errno = error;
	return -1;
}

void rs_advance(struct rs *rs)
{
	if (rs->datagram) {
		rs_datagram_advance(rs);
		return;
	}
	rs_connection_advance(rs);
	if (rs->cq) {
		rs_completions_take(rs);
		rs_grant(rs);
	}
}

/* Request a wake-up; the caller polls once more afterwards. */
static void rs_arm(struct rs *rs)
{
	if (rs->datagram)
		rs_datagram_arm(rs);
	else if (rs->cq)
		rs_completions_arm(rs);
}

/* List the descriptors that report events of a socket. Returns their number. */
static nfds_t fd_watch(const struct rs *rs, struct pollfd fds[2])
{
	nfds_t count = 0;

	if (rs->datagram) {
		fds[count++] = (struct pollfd){.fd = rs_datagram_watched(rs), .events = POLLIN};
		return count;
	}
	fds[count++] = (struct pollfd){.fd = rs->events->fd, .events = POLLIN};
	if (rs->completions)
		fds[count++] = (struct pollfd){.fd = rs->completions->fd, .events = POLLIN};
	return count;
}

static void poll_spin(struct rs *rs, rs_condition_fn *condition)
{
	uint64_t end_ns = clock_now_ns() + SPIN_NS;

	while ((rs->cq || rs->datagram) && !condition(rs) && clock_now_ns() < end_ns) {
		if (rs->datagram) {
			rs_datagram_advance(rs);
			continue;
		}
		rs_completions_take(rs);
		rs_grant(rs);
	}
}

/* Sleep until a descriptor is readable. The socket is locked before and after. */
static int sleep_for_completion(struct rs *rs)
{
	struct pollfd fds[2];
	nfds_t count = fd_watch(rs, fds);
	int error = 0;

	rs->is_waited_for = true;
	pthread_mutex_unlock(&rs->lock);
	if (poll(fds, count, -1) < 0)
		error = errno;
	pthread_mutex_lock(&rs->lock);
	rs->is_waited_for = false;
	return error;
}

int rs_wait(struct rs *rs, rs_condition_fn *condition, bool is_nonblocking)
{
	int error = 0;

	rs_advance(rs);
	if (condition(rs))
		return 0;
	if (is_nonblocking)
		return EAGAIN;
	poll_spin(rs, condition);
	while (!error && !condition(rs)) {
		if (rs->is_waited_for) {
			pthread_cond_wait(&rs->changed, &rs->lock);
			continue;
		}
		rs_arm(rs);
		rs_advance(rs);
		if (condition(rs))
			break;
		error = sleep_for_completion(rs);
		rs_advance(rs);
		pthread_cond_broadcast(&rs->changed);
	}
	pthread_cond_broadcast(&rs->changed);
	return error;
}

/* --- rpoll --- */

static short rs_readiness(const struct rs *rs)
{
	short events = 0;

	if (rs->datagram)
		return (short)((rs_datagram_can_receive(rs) ? POLLIN : 0) |
			(rs_datagram_can_send(rs) ? POLLOUT : 0));
	switch (rs->state) {
	case RS_INIT:
	case RS_BOUND:
		return POLLOUT | POLLHUP;
	case RS_LISTENING: {
		struct pollfd fd = {.fd = rs->events->fd, .events = POLLIN};

		return poll(&fd, 1, 0) == 1 ? POLLIN : 0;
	}
	case RS_RESOLVING_ADDRESS:
	case RS_RESOLVING_ROUTE:
	case RS_CONNECTING:
	case RS_ACCEPTING:
		return 0;
	case RS_CONNECTED:
		if (rs->message_count || !rs->can_read)
			events |= POLLIN;
		if (rs_can_send(rs) || !rs->can_write)
			events |= POLLOUT;
		return events;
	case RS_DISCONNECTED: /* report the received bytes first, then the end */
		return rs->message_count ? POLLIN : POLLIN | POLLOUT | POLLHUP;
	case RS_FAILED:
		return POLLIN | POLLOUT | POLLHUP | POLLERR;
	}
	return 0;
}

/* Which of the wanted events are ready? If none is ready and `shall_arm`, arm the descriptors. */
static short ready_events(struct rs *rs, short wanted, bool shall_arm)
{
	short ready;

	pthread_mutex_lock(&rs->lock);
	rs_advance(rs);
	ready = rs_readiness(rs);
	if (!(ready & (wanted | POLLHUP | POLLERR)) && shall_arm) {
		rs_arm(rs);
		rs_advance(rs);
		ready = rs_readiness(rs);
	}
	pthread_mutex_unlock(&rs->lock);
	return ready & (wanted | POLLHUP | POLLERR);
}

/*
 * Check all descriptors once. Returns how many are ready. `under` gets the kernel's descriptors to
 * poll, *ret_under their number.
 */
static int descriptors_check(
	struct pollfd *fds, nfds_t count, bool shall_arm, struct pollfd *under, nfds_t *ret_under)
{
	nfds_t under_count = 0;
	int ready = 0;

	for (nfds_t i = 0; i < count; i++) {
		struct rs *rs = fds[i].fd < 0 ? NULL : rs_find(fds[i].fd);

		fds[i].revents = 0;
		if (rs) {
			fds[i].revents = ready_events(rs, fds[i].events, shall_arm);
			under_count += fd_watch(rs, under + under_count);
			rs_put(rs);
		} else {
			struct pollfd one = fds[i];

			if (poll(&one, 1, 0) == 1)
				fds[i].revents = one.revents;
			under[under_count++] = fds[i];
		}
		ready += fds[i].revents != 0;
	}
	*ret_under = under_count;
	return ready;
}

static int slice_ms(uint64_t start_ns, int timeout_ms)
{
	int64_t left_ms = timeout_ms - (int64_t)((clock_now_ns() - start_ns) / 1000000u);

	if (timeout_ms < 0 || left_ms > SLICE_MS)
		return SLICE_MS;
	return left_ms > 0 ? (int)left_ms : 0;
}

static int poll_with(struct pollfd *fds, nfds_t count, int timeout_ms, struct pollfd *under)
{
	uint64_t start_ns = clock_now_ns();
	nfds_t under_count;
	int ready;

	do {
		ready = descriptors_check(fds, count, false, under, &under_count);
	} while (!ready && timeout_ms && clock_now_ns() - start_ns < SPIN_NS);
	while (!ready && timeout_ms) {
		int sleep_ms;

		ready = descriptors_check(fds, count, true, under, &under_count);
		sleep_ms = slice_ms(start_ns, timeout_ms);
		if (ready || !sleep_ms)
			break;
		if (poll(under, under_count, sleep_ms) < 0)
			return -1;
	}
	return ready;
}

int rpoll(struct pollfd *fds, nfds_t nfds, int timeout)
{
	struct pollfd on_stack[2 * FDS_ON_STACK];
	struct pollfd *under = on_stack;
	int ready;

	if (nfds > FDS_ON_STACK)
		under = calloc(nfds, 2 * sizeof(*under));
	if (!under)
		return rs_result(ENOMEM);
	ready = poll_with(fds, nfds, timeout, under);
	if (under != on_stack)
		free(under);
	return ready;
}

/* --- rselect: the sets of select(2) as the entries of poll(2) --- */

struct fd_sets {
	fd_set *read, *write, *except; /* NULL: empty */
};

static bool fd_sets_has(const fd_set *set, int fd)
{
	return set && FD_ISSET(fd, set);
}

/*
 * Make an entry for each descriptor below `limit` that is in a set. Returns the number of entries;
 * `fds` has room for `limit`.
 */
static nfds_t fd_sets_to_poll(const struct fd_sets *sets, int limit, struct pollfd *fds)
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

static int fd_sets_keep(fd_set *set, int fd, bool is_ready)
{
	if (!fd_sets_has(set, fd))
		return 0;
	if (!is_ready)
		FD_CLR(fd, set);
	return is_ready;
}

/* Leave only ready descriptors in the sets. Returns the result of select(). */
static int fd_sets_from_poll(const struct fd_sets *sets, const struct pollfd *fds, nfds_t count)
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

/* The timeout for poll(), rounded up to milliseconds; -1 if there is none. */
static int fd_sets_timeout_ms(const struct timeval *timeout)
{
	int64_t ms;

	if (!timeout)
		return -1;
	ms = timeout->tv_sec * (int64_t)1000 + (timeout->tv_usec + 999) / 1000;
	return ms > INT32_MAX ? INT32_MAX : (int)ms;
}

int rselect(int nfds, fd_set *readfds, fd_set *writefds, fd_set *exceptfds, struct timeval *timeout)
{
	const struct fd_sets sets = {readfds, writefds, exceptfds};
	struct pollfd *fds;
	nfds_t count;
	int ready;

	if (nfds < 0 || nfds > FD_SETSIZE)
		return rs_result(EINVAL);
	fds = calloc((size_t)nfds + 1, sizeof(*fds));
	if (!fds)
		return rs_result(ENOMEM);
	count = fd_sets_to_poll(&sets, nfds, fds);
	ready = rpoll(fds, count, fd_sets_timeout_ms(timeout));
	if (ready >= 0)
		ready = fd_sets_from_poll(&sets, fds, count);
	free(fds);
	return ready;
}
