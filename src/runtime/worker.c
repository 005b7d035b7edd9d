/* SPDX-License-Identifier: BSD-2-Clause */
#define _GNU_SOURCE
#include "runtime/worker.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/arith.h"
#include "runtime/clock.h"

/*
 * Staged bytes after which packets are handed to the kernel: one super-packet, so that the receiver
 * starts early.
 */
enum { FLUSH_BYTES = 60000 };

/* Who became readable, in epoll data. */
enum source { SOURCE_SOCKET, SOURCE_QUIET, SOURCE_KICK, SOURCE_AGENT };

/* --- progress ------------------------------------------------------------------------------ */

static void on_packet(void *context, const struct port_udp_packet *packet)
{
	struct worker *worker = context;
	uint8_t slot = packet->data[5]; /* the top byte of the BTH's destination QPN */

	if (slot != worker->lane.slot) {
		worker->hooks->forward(slot, packet);
		return;
	}
	engine_receive(&worker->lane, packet->sgid, packet->dgid, packet->data, packet->data_bytes,
		worker->now_ns);
}

void worker_transmit(struct worker *worker, bool with_acks)
{
	uint32_t staged_bytes = 0;

	if (port_udp_is_blocked(worker->port) && port_udp_flush(worker->port))
		return;
	while (engine_has_packets(&worker->lane, with_acks)) {
		uint32_t capacity_bytes, path;
		uint8_t *buffer = port_udp_buffer(worker->port, &capacity_bytes);
		size_t bytes = 0;

		if (capacity_bytes >= ENGINE_PACKET_BYTES_MAX)
			bytes = engine_next_packet(
				&worker->lane, with_acks, buffer, &path, worker->now_ns);
		if (bytes) {
			port_udp_stage(worker->port, path, (uint32_t)bytes);
			staged_bytes += (uint32_t)bytes;
		}
		if (!bytes || staged_bytes >= FLUSH_BYTES) {
			if (port_udp_flush(worker->port))
				return;
			staged_bytes = 0;
		}
	}
	port_udp_flush(worker->port);
}

/* Receive, and let time pass. Returns the datagrams read. */
static unsigned take_in(struct worker *worker)
{
	unsigned datagrams;

	worker->now_ns = clock_now_ns();
	datagrams = port_udp_receive(worker->port, on_packet, worker);
	if (datagrams)
		worker->last_packet_ns = worker->now_ns;
	engine_expire(&worker->lane, worker->now_ns);
	return datagrams;
}

unsigned worker_progress(struct worker *worker)
{
	unsigned datagrams = take_in(worker);

	worker_transmit(worker, true);
	worker->are_acks_deferred = false;
	return datagrams;
}

void worker_poll(struct worker *worker, const struct cq *cq)
{
	if (worker->are_acks_deferred) /* the application did not answer */
		worker_transmit(worker, true);
	take_in(worker);
	bool with_acks = cq_is_empty(cq);
	worker_transmit(worker, with_acks);
	worker->are_acks_deferred = !with_acks;
}

void worker_signals(struct worker *worker)
{
	struct signal *signal;
	uint32_t news;

	while ((signal = signal_take(&worker->lane.signals, &news)))
		worker->hooks->signal(signal, news);
}

void worker_wake(struct worker *worker)
{
	uint64_t one = 1;

	if (!worker->is_deep_asleep)
		return;
	worker->is_deep_asleep = false;
	if (write(worker->kick, &one, sizeof(one)) < 0)
		assert(errno == EAGAIN); /* the counter is full: it is awake */
}

/* --- the NIC thread ------------------------------------------------------------------------- */

static void kick_clear(const struct worker *worker)
{
	uint64_t count;

	if (read(worker->kick, &count, sizeof(count)) < 0)
		assert(errno == EAGAIN || errno == EINTR);
}

static void wait_for(struct worker *worker, int epoll, uint64_t timeout_ns)
{
	struct timespec timeout = {
		(time_t)(timeout_ns / 1000000000u), (long)(timeout_ns % 1000000000u)};
	struct epoll_event events[PORT_UDP_FDS_MAX + 2];
	int count = epoll_pwait2(epoll, events, ARRAY_COUNT(events),
		timeout_ns == DEADLINE_NEVER ? NULL : &timeout, NULL);

	for (int i = 0; i < count; i++) {
		if (events[i].data.u32 == SOURCE_KICK)
			kick_clear(worker);
		else if (events[i].data.u32 == SOURCE_AGENT)
			worker->hooks->agent_ready();
		else if (events[i].data.u32 == SOURCE_QUIET)
			wait_for(worker, worker->epoll_quiet, 0);
	}
}

static bool is_stopping(struct worker *worker)
{
	return __atomic_load_n(&worker->is_stopping, __ATOMIC_ACQUIRE);
}

/* What the thread has seen of the count of empty polls, and when. */
struct polls {
	uint32_t count;
	uint64_t since_ns;
};

/* Has an application polled often enough within a tick? Then it drives the lane. */
static bool is_being_polled(struct worker *worker, struct polls *seen)
{
	uint32_t count = atomic_load_explicit(&worker->empty_polls, memory_order_relaxed);
	uint64_t now_ns = clock_now_ns();
	bool is_polled = count - seen->count >= WORKER_POLLS_PER_TICK;

	if (is_polled || now_ns - seen->since_ns > WORKER_TICK_NS) {
		seen->count = count;
		seen->since_ns = now_ns;
	}
	return is_polled;
}

/*
 * Drive the lane once. Returns how long the thread may sleep: 0 when there is more to do, at most a
 * tick while something is going on, for ever when nothing is. /
 */
static uint64_t drive(struct worker *worker, uint64_t *idle_since_ns)
{
	uint64_t sleep_ns, deadline_ns;

	pthread_mutex_lock(&worker->lock);
	unsigned datagrams = worker_progress(worker);
	worker_signals(worker);
	deadline_ns = engine_deadline_ns(&worker->lane);
	uint64_t now_ns = worker->now_ns;
	bool is_busy = datagrams || engine_has_packets(&worker->lane, true) ||
		port_udp_is_blocked(worker->port) || deadline_ns != DEADLINE_NEVER;
	if (is_busy)
		*idle_since_ns = now_ns;
	if (datagrams || now_ns - worker->last_packet_ns < WORKER_SPIN_NS)
		sleep_ns = 0;
	else if (deadline_ns != DEADLINE_NEVER)
		sleep_ns = deadline_ns > now_ns ? min_u64(deadline_ns - now_ns, WORKER_TICK_NS) : 0;
	else if (now_ns - *idle_since_ns < 20 * WORKER_TICK_NS)
		sleep_ns = WORKER_TICK_NS;
	else
		sleep_ns = DEADLINE_NEVER;
	worker->is_deep_asleep = sleep_ns == DEADLINE_NEVER;
	pthread_mutex_unlock(&worker->lock);
	return sleep_ns;
}

static void *thread_main(void *argument)
{
	struct worker *worker = argument;
	uint64_t idle_since_ns = clock_now_ns();
	struct polls polls_seen = {0, 0};

	while (!is_stopping(worker)) {
		if (is_being_polled(worker, &polls_seen)) {
			wait_for(worker, worker->epoll_quiet, WORKER_TICK_NS);
			continue;
		}
		uint64_t sleep_ns = drive(worker, &idle_since_ns);
		if (sleep_ns)
			wait_for(worker, worker->epoll_all, sleep_ns);
	}
	return NULL;
}

/* --- life ------------------------------------------------------------------------------------ */

static int watch(int epoll, int fd, enum source source)
{
	struct epoll_event event = {.events = EPOLLIN, .data.u32 = source};

	return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

static int descriptors_open(struct worker *worker)
{
	int error;

	worker->epoll_all = epoll_create1(EPOLL_CLOEXEC);
	worker->epoll_quiet = epoll_create1(EPOLL_CLOEXEC);
	worker->kick = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (worker->epoll_all < 0 || worker->epoll_quiet < 0 || worker->kick < 0)
		return -errno;
	error = watch(worker->epoll_quiet, worker->kick, SOURCE_KICK);
	return error ? error : watch(worker->epoll_all, worker->epoll_quiet, SOURCE_QUIET);
}

static void descriptors_close(struct worker *worker)
{
	int fds[] = {worker->epoll_all, worker->epoll_quiet, worker->kick};

	for (size_t i = 0; i < ARRAY_COUNT(fds); i++)
		if (fds[i] >= 0)
			close(fds[i]);
}

int worker_create(struct arena *arena, const struct mr_table *mrs, uint8_t slot, uint32_t index,
	struct nic_public_lane *public, const struct worker_hooks *hooks,
	struct worker **ret_worker)
{
	struct worker *worker = calloc(1, sizeof(*worker));
	int error;

	if (!worker)
		return -ENOMEM;
	pthread_mutex_init(&worker->lock, NULL);
	worker->hooks = hooks;
	error = descriptors_open(worker);
	if (error)
		goto fail_close;
	error = engine_lane_init(&worker->lane, arena, mrs, slot, index);
	if (error)
		goto fail_close;
	error = port_udp_create(slot, &public->port, &worker->port);
	if (error)
		goto fail_lane_done;
	*ret_worker = worker;
	return 0;

fail_lane_done:
	engine_lane_done(&worker->lane);
fail_close:
	descriptors_close(worker);
	free(worker);
	return error;
}

int worker_start(struct worker *worker)
{
	sigset_t all, before;
	int error;

	/* The application's signals are the application's. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = pthread_create(&worker->thread, NULL, thread_main, worker);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (error)
		return -error;
	pthread_setname_np(worker->thread, "urnic");
	worker->is_running = true;
	return 0;
}

void worker_destroy(struct worker *worker, bool is_child)
{
	uint64_t one = 1;

	if (worker->is_running && !is_child) {
		__atomic_store_n(&worker->is_stopping, true, __ATOMIC_RELEASE);
		if (write(worker->kick, &one, sizeof(one)) < 0)
			assert(errno == EAGAIN);
		pthread_join(worker->thread, NULL);
	}
	port_udp_destroy(worker->port);
	descriptors_close(worker);
	if (!is_child)
		engine_lane_done(&worker->lane);
	free(worker);
}

int worker_address_find(const struct worker *worker, const struct gid *gid, uint32_t scope_ifindex)
{
	for (uint32_t i = 0; i < worker->address_count; i++) {
		const struct worker_address *address = &worker->address[i];

		if (gid_is_equal(&address->gid, gid) && address->scope_ifindex == scope_ifindex)
			return (int)i;
	}
	return -1;
}

int worker_address_add(
	struct worker *worker, const struct gid *gid, uint32_t scope_ifindex, int socket)
{
	int index = port_udp_add_address(worker->port, gid, scope_ifindex, socket);
	int error;

	if (index < 0)
		return index;
	assert((uint32_t)index == worker->address_count);
	worker->address[worker->address_count++] = (struct worker_address){*gid, scope_ifindex};
	error = watch(worker->epoll_all, socket, SOURCE_SOCKET);
	return error ? error : index;
}

int worker_watch_agent(struct worker *worker, int fd)
{
	return watch(worker->epoll_quiet, fd, SOURCE_AGENT);
}
