/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Waiting: for one socket in a blocking call, and for many descriptors in rpoll() and rselect().
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/select.h>

#include "front/rsocket/rsocket.h"
#include "os/clock.h"
#include "os/log.h"

/*
 * SLICE_MS is the longest sleep of rpoll(). A limit is needed, because another thread may handle
 * the event for which rpoll() sleeps, and does not wake rpoll().
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

int rs_no_memory(void)
{
	errno = ENOMEM;
	return -log_refusal("an rsocket lacks memory", "malloc");
}

static void poll_spin(struct rs *rs, rs_condition_fn *condition)
{
	uint64_t end_ns = clock_now_ns() + SPIN_NS;

	while (!condition(rs) && clock_now_ns() < end_ns && rs->kind->look(rs))
		;
}

/* Sleep until a descriptor is readable. The socket is locked before and after. */
static int sleep_for_completion(struct rs *rs)
{
	struct pollfd fds[RS_FDS_MAX];
	nfds_t count = rs->kind->watch(rs, fds);
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

	rs->kind->advance(rs);
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
		rs->kind->arm(rs);
		rs->kind->advance(rs);
		if (condition(rs))
			break;
		error = sleep_for_completion(rs);
		rs->kind->advance(rs);
		pthread_cond_broadcast(&rs->changed);
	}
	pthread_cond_broadcast(&rs->changed);
	return error;
}

void rs_advance(struct rs *rs)
{
	rs->kind->advance(rs);
}

/* --- rpoll --- */

/* Which of the wanted events are ready? If none is ready and `shall_arm`, arm the descriptors. */
static short ready_events(struct rs *rs, short wanted, bool shall_arm)
{
	short ready;

	pthread_mutex_lock(&rs->lock);
	rs->kind->advance(rs);
	ready = rs->kind->readiness(rs);
	if (!(ready & (wanted | POLLHUP | POLLERR)) && shall_arm) {
		rs->kind->arm(rs);
		rs->kind->advance(rs);
		ready = rs->kind->readiness(rs);
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
			under_count += rs->kind->watch(rs, under + under_count);
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
	struct pollfd on_stack[RS_FDS_MAX * FDS_ON_STACK];
	struct pollfd *under = on_stack;
	int ready;

	if (nfds > FDS_ON_STACK)
		under = calloc(nfds, RS_FDS_MAX * sizeof(*under));
	if (!under)
		return rs_result(rs_no_memory());
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
		return rs_result(rs_no_memory());
	count = fd_sets_to_poll(&sets, nfds, fds);
	ready = rpoll(fds, count, fd_sets_timeout_ms(timeout));
	if (ready >= 0)
		ready = fd_sets_from_poll(&sets, fds, count);
	free(fds);
	return ready;
}
