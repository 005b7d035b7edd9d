/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Visits: how programs with a non-blocking descriptor drive a lane (worker_wait.h).
 *
 * No wake-up is lost, because:
 *
 * - A visit without an event reads every socket until it is empty. A packet that arrives after that
 *   makes the set readable again, even for a program that waits for changes only (EPOLLET).
 * - When another thread posts an event, it puts a byte into the channel's socket (event_queue.h).
 * - The lane's thread stops watching the sockets only while the lane is assigned. Then it wakes up
 *   within a tick, because its sleep has a limit, or because the visit sets the timer.
 */
#include <errno.h>
#include <poll.h>

#include "os/epoll.h"
#include "os/kick.h"
#include "os/log.h"
#include "worker/worker_wait_internal.h"
#include "worker/worker_port.h"

enum { READS_PER_VISIT = 64 };

/*
 * Add a descriptor to the epoll set, or remove it. Returns 0 or -errno; it is no error to remove a
 * descriptor that is not in the set.
 */
static int set_change(int set, int fd, bool shall_watch)
{
	struct epoll_event event = {.events = EPOLLIN};

	if (epoll_change(set, shall_watch ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, fd, &event) &&
		shall_watch)
		return log_refusal("programs that poll for events are slower", "epoll_ctl");
	return 0;
}

/*
 * Put the lane's sockets into the set, or take them out. The worker is locked. Returns 0 or -errno.
 */
static int sockets_change(struct worker *worker, int set, bool shall_watch)
{
	struct pollfd fds[PORT_UDP_FDS_MAX];
	unsigned count = worker->kind->fds(worker, fds);
	int error = set_change(set, worker->epoll_streams, shall_watch);

	for (unsigned i = 0; i < count && !error; i++)
		if (fds[i].events & POLLIN)
			error = set_change(set, fds[i].fd, shall_watch);
	return error;
}

int worker_visit_watch_hot(struct worker *worker, int fd, bool shall_watch)
{
	int set = atomic_load(&worker->wait.set);

	return set < 0 ? 0 : set_change(set, fd, shall_watch);
}

void worker_visit_forget(struct worker *worker)
{
	struct worker_wait *wait = &worker->wait;
	int set = atomic_load(&wait->set);

	if (set < 0)
		return;
	worker_streams_watch(worker); /* if epoll_streams refuses the hot stream, it stays hot */
	if (worker->hot_stream)
		set_change(set, worker->hot_stream->fd, false);
	sockets_change(worker, set, false);
	atomic_store(&wait->set, -1);
	if (!wait->is_in && atomic_load(&wait->is_assigned)) {
		atomic_store(&wait->is_assigned, false);
		kick_raise(worker->kick);
	}
	worker_watch_update(worker);
}

/* Put the lane's sockets into the channel's set, if the lane is free. The worker is locked. */
static bool sockets_assign(struct worker *worker, const void *channel, int set)
{
	struct worker_wait *wait = &worker->wait;

	if (atomic_load(&wait->set) >= 0 && atomic_load(&wait->channel) == channel)
		return true;
	if (!worker_wait_is_free(worker, channel) || !worker_wait_open(worker))
		return false;
	worker_streams_watch(worker);
	if (sockets_change(worker, set, true)) {
		sockets_change(worker, set, false);
		wait->is_impossible = true;
		return false;
	}
	atomic_store(&wait->channel, channel);
	atomic_store(&wait->set, set);
	worker_watch_update(worker);
	wait->vain = 0;
	wait->packets_seen = worker->packets;
	return true;
}

bool worker_visit_begin(struct worker *worker, const void *channel, int set)
{
	struct worker_wait *wait = &worker->wait;
	bool is_begun;

	/*
	 * This check needs no lock: if a queue of another channel is armed just now, its
	 * worker_note_arm() takes the sockets out of the set.
	 */
	if (atomic_load(&wait->set) == set && atomic_load(&wait->channel) == channel)
		return true;
	worker_lock(worker);
	is_begun = sockets_assign(worker, channel, set);
	worker_unlock(worker);
	return is_begun;
}

void worker_visit_end(struct worker *worker, const void *channel)
{
	worker_lock(worker);
	if (atomic_load(&worker->wait.channel) == channel)
		worker_visit_forget(worker);
	worker_unlock(worker);
}

/*
 * Read the sockets until the channel has an event, or all sockets are empty. The port reads idle
 * sockets on some calls only, so all are read at least once before a visit ends without an event.
 * READS_PER_VISIT limits the reads if packets arrive without end. The worker is locked. Returns
 * whether there were packets.
 */
static bool packets_take(struct worker *worker, const _Atomic bool *has_events)
{
	bool has_packets = false, is_everywhere = worker->wait.had_event, is_over = false;
	unsigned datagrams;

	for (unsigned reads = 0; !is_over && reads < READS_PER_VISIT; reads++) {
		if (is_everywhere)
			worker_look_everywhere(worker);
		datagrams = worker_take_in(worker);
		worker_deliver_signals(worker);
		has_packets |= datagrams != 0;
		is_over = atomic_load(has_events) || (!datagrams && is_everywhere);
		is_everywhere = true;
	}
	return has_packets;
}

/*
 * Assign the lane to the channel, because the visit has an event that a packet caused: from now on
 * packets wake only the program. The worker is locked. Returns whether the lane is assigned.
 */
static bool lane_assign(struct worker *worker)
{
	struct worker_wait *wait = &worker->wait;
	const void *channel = atomic_load(&wait->channel);

	if (!worker_wait_is_free(worker, channel))
		return false;
	worker_wait_assign(worker, channel);
	if (worker->is_deep_asleep)
		worker_wait_set_timer(worker, POLL_WAIT_TICK_NS);
	worker->is_deep_asleep = false;
	wait->is_parked = false;
	return atomic_load(&wait->is_assigned);
}

bool worker_visit_needs_thread(struct worker *worker)
{
	return worker_visit_is_assigned(&worker->wait) &&
		(worker_wait_has_left(worker) ||
			worker_deadline_ns(worker) < worker->now_ns + POLL_WAIT_TICK_NS);
}

/* Drive the lane for a visit. The worker is locked. */
static void visit_drive(struct worker *worker, const _Atomic bool *has_events)
{
	struct worker_wait *wait = &worker->wait;
	bool has_packets = packets_take(worker, has_events);
	bool has_event = atomic_load(has_events);
	bool has_come = worker->packets != wait->packets_seen;

	wait->packets_seen = worker->packets;
	wait->waits++;
	wait->had_event = has_event;
	/* A visit that finds nothing does not show yet whether the program answers. */
	if (has_packets || has_event)
		worker_wait_update_hold_budget(worker);
	if (has_event && has_come && lane_assign(worker))
		worker_send(worker, !worker_wait_holds_acks(wait));
	else
		worker_send(worker, !wait->has_held_acks);
	if (worker_visit_needs_thread(worker))
		worker_rouse(worker);
	if (has_event)
		wait->vain = 0;
	else if (++wait->vain >= POLL_VISITS_VAIN_MAX) {
		worker->has_socket_error = true; /* an error may be what makes the set readable */
		worker_wait_return(worker);
	}
}

void worker_visit(struct worker *worker, const void *channel, const _Atomic bool *has_events)
{
	if (atomic_load(&worker->wait.set) < 0)
		return;
	worker_lock(worker);
	if (atomic_load(&worker->wait.set) >= 0 && atomic_load(&worker->wait.channel) == channel)
		visit_drive(worker, has_events);
	worker_unlock(worker);
}
