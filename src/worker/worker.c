/* SPDX-License-Identifier: BSD-2-Clause */
#include "worker/worker.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/arith.h"
#include "lane/placer.h"
#include "os/clock.h"
#include "os/epoll.h"
#include "os/kick.h"
#include "os/log.h"
#include "os/own_thread.h"
#include "os/strict.h"
#include "worker/worker_frames.h"
#include "worker/worker_port.h"
#include "worker/worker_streams.h"

/*
 * When packets of equal length have FLUSH_BYTES together, the worker flushes them to the kernel in
 * one super-packet, so that the receiver starts early. The same flush sends staged packets of
 * another length that precede them; for example, the first packet of a WRITE is longer by its RETH.
 * Those packets do not count towards FLUSH_BYTES, because a full super-packet costs less for each
 * byte.
 */
enum { FLUSH_BYTES = 60000, FLUSH_BYTES_ALL = 2 * FLUSH_BYTES };

static_assert(FLUSH_BYTES / 2048 < PORT_UDP_RUN_PACKETS_MAX, "a run is of full packets");

/* The buffer capacity that packets_fetch() requires before it fetches a packet from the engine. */
#define FETCH_BYTES_MIN (0u + FLUSH_BYTES + ENGINE_PACKET_BYTES_MAX)

static_assert(FETCH_BYTES_MIN <= PORT_UDP_PACKET_BYTES_MAX &&
		PORT_UDP_PACKET_BYTES_MAX + ROCE_ICRC_BYTES + 0u <= PORT_UDP_STAGE_BYTES,
	"packets_fetch() ends only if an empty buffer is large enough");

/* A shorter payload is copied, because the kernel takes longer to gather it as a separate piece. */
enum { ZEROCOPY_BYTES_MIN = 2048 };

/* --- progress --- */

/*
 * Set the alarm for the next impaired packet, and wake the lane's thread or waiter if that packet
 * is due before the previous alarm. A program that polls its memory drives no lane, so the thread
 * or waiter sends the packet.
 */
static void held_follow(struct worker *worker)
{
	uint64_t until_ns = port_udp_held_until_ns(worker->port);
	bool is_sooner = worker->held.position == 0 || until_ns < worker->held.at_ns;

	deadline_set(&worker->alarms, &worker->held, until_ns);
	atomic_store_explicit(
		&worker->has_held, until_ns != DEADLINE_NEVER, memory_order_relaxed);
	if (until_ns == DEADLINE_NEVER)
		return;
	if (poll_policy_is_skipping(&worker->policy))
		poll_policy_set_skip(&worker->policy, 0);
	if (is_sooner && !pthread_equal(pthread_self(), worker->thread))
		worker_rouse(worker);
}

/* An impaired packet is due. Send all that are due, and set the alarm for the next one. */
static void held_send(struct worker *worker)
{
	worker->kind->flush(worker);
	held_follow(worker);
}

static void packets_fetch(struct worker *worker, bool with_acks)
{
	struct lane *lane = &worker->lane;
	uint32_t staged_bytes = 0, equal_bytes = 0, last_bytes = 0;

	if (worker_is_blocked(worker) && worker->kind->flush(worker))
		return;
	if (!engine_has_packets(lane, with_acks))
		return;
	while (engine_has_packets(lane, with_acks)) {
		uint32_t capacity_bytes;
		struct packet_run run = {
			.buffer = worker->kind->buffer(worker, &capacity_bytes),
			.run_bytes = FLUSH_BYTES - equal_bytes,
		};
		size_t bytes = 0;

		if (capacity_bytes >= FETCH_BYTES_MIN)
			bytes = engine_next_packet(lane, with_acks, &run, worker->now_ns);
		if (bytes) {
			worker->kind->stage_run(worker, (uint32_t)bytes, &run);
			equal_bytes = bytes == last_bytes ? equal_bytes : 0;
			last_bytes = (uint32_t)bytes;
			equal_bytes += run.packets * last_bytes;
			staged_bytes += run.packets * last_bytes;
		}
		if (!bytes || equal_bytes >= FLUSH_BYTES || staged_bytes >= FLUSH_BYTES_ALL) {
			worker->flushes++;
			if (worker->kind->flush(worker) || (!bytes && lane->waits_for_room))
				return;
			staged_bytes = 0;
			equal_bytes = 0;
		}
	}
	worker->kind->flush(worker);
}

/* Send RoCE packets. Not inlined, because it is long, and lanes with only streams never need it. */
static __attribute__((noinline)) void packets_transmit(struct worker *worker, bool with_acks)
{
	if (worker->posts.since_ns) {
		post_policy_sent(&worker->posts, worker->now_ns);
		atomic_store_explicit(&worker->are_posts_waiting, false, memory_order_relaxed);
	}
	packets_fetch(worker, with_acks);
	if (worker->lane.impair)
		held_follow(worker);
}

static void deadlines_expire(struct worker *worker)
{
	struct deadline *alarm;

	engine_expire(&worker->lane, worker->now_ns);
	while ((alarm = deadline_heap_first(&worker->alarms)) && alarm->at_ns <= worker->now_ns) {
		deadline_set(&worker->alarms, alarm, DEADLINE_NEVER);
		if (alarm == &worker->held)
			held_send(worker);
		else
			worker->hooks->alarm(worker, alarm);
	}
}

uint64_t worker_deadline_ns(const struct worker *worker)
{
	const struct deadline *alarm = deadline_heap_first(&worker->alarms);
	uint64_t deadline_ns = engine_deadline_ns(&worker->lane);

	return alarm ? min_u64(alarm->at_ns, deadline_ns) : deadline_ns;
}

/* Collect what peers on this host have left. worker->now_ns may be the time of an earlier turn. */
static unsigned local_work_collect(struct worker *worker)
{
	return local_has_work(&worker->local)
		? local_collect(&worker->lane, &worker->local, worker->now_ns)
		: 0;
}

void worker_collect(struct worker *worker)
{
	worker->now_ns = clock_now_ns();
	local_work_collect(worker);
}

unsigned worker_take_in(struct worker *worker)
{
	unsigned datagrams, records;

	worker->now_ns = clock_now_ns();
	worker->is_now_fresh = true;
	records = local_work_collect(worker);
	datagrams = worker->kind->receive(worker);
	if (!list_is_empty(&worker->frames))
		datagrams += worker_frames_receive(worker);
	if (worker->stream_count)
		datagrams += worker_streams_receive(worker);
	worker->packets += datagrams != 0;
	datagrams += records;
	if (datagrams)
		worker->last_packet_ns = worker->now_ns;
	deadlines_expire(worker);
	return datagrams;
}

/*
 * Limits the calls of worker_take_in() by worker_drain(), because a peer may send faster than this
 * lane receives. worker_drain() has to receive only what arrived before it was called.
 */
enum { DRAIN_CALLS_MAX = 64 };

void worker_drain(struct worker *worker)
{
	unsigned datagrams, calls = 0;

	do {
		worker_look_everywhere(worker);
		datagrams = worker_take_in(worker);
	} while (datagrams && ++calls < DRAIN_CALLS_MAX);
	worker_send(worker, true);
}

static unsigned poll_collect(struct worker *worker)
{
	if (!worker_has_local_work(worker))
		return 0;
	worker_stamp(worker);
	poll_policy_local_work(&worker->policy);
	return local_work_collect(worker);
}

/*
 * Like worker_take_in(), but for a poll, which usually finds nothing. It reads the clock when a
 * packet has arrived. Otherwise it reads the clock on some calls only, to let deadlines expire.
 */
static unsigned poll_take_in(struct worker *worker)
{
	unsigned datagrams, reads, records;

	poll_policy_begin(&worker->policy);
	worker->is_now_fresh = false;
	reads = worker->stream_count ? worker_streams_receive(worker) : 0;
	records = poll_collect(worker);
	datagrams = reads;
	if (!records) {
		unsigned count = worker->kind->receive(worker);

		poll_policy_sockets_read(&worker->policy, count, worker->kind->looks(worker));
		datagrams += count;
	}
	if (!list_is_empty(&worker->frames))
		datagrams += worker_frames_receive(worker);
	worker->packets += datagrams != 0;
	datagrams += records;
	if (datagrams) {
		worker->last_packet_ns = worker->now_ns;
	} else if (poll_policy_reads_clock(&worker->policy)) {
		worker->now_ticks = clock_ticks();
		worker->now_ns = clock_now_ns();
		deadlines_expire(worker);
	}
	return datagrams;
}

void worker_deliver_signals(struct worker *worker)
{
	struct signal *signal;
	uint32_t events;

	while ((signal = signal_take(&worker->lane.signals, &events)))
		worker->hooks->signal(worker, signal, events);
}

/*
 * This function writes `was_armed` and then reads `is_keeping_quiet`; the lane's thread writes
 * `is_keeping_quiet` and then reads `was_armed`. So either the thread sees `was_armed` before it
 * begins its tick, or this function sees that the tick has begun and ends the tick.
 */
void worker_note_arm(struct worker *worker, const void *channel)
{
	worker_wait_note_arm(worker, &worker->wait, channel);
	atomic_store(&worker->was_armed, true);
	if (atomic_load(&worker->is_keeping_quiet) &&
		atomic_exchange(&worker->is_keeping_quiet, false))
		kick_raise(worker->kick);
}

/* Wakes the lane's thread or waiter, which may be in a sleep that ends later than the alarm. */
void worker_set_alarm(struct worker *worker, struct deadline *alarm, uint64_t at_ns)
{
	deadline_set(&worker->alarms, alarm, at_ns);
	if (at_ns != DEADLINE_NEVER && !pthread_equal(pthread_self(), worker->thread))
		worker_rouse(worker);
}

/* Is there a deadline that a sleep without limit, or polls that skip the lane, would miss? */
static bool is_deadline_unattended(const struct worker *worker)
{
	const struct lane *lane = &worker->lane;

	return (lane->deadlines.count || lane->pacing.count || worker->alarms.count) &&
		(worker->is_deep_asleep || poll_policy_is_skipping(&worker->policy));
}

/* Is there nothing to send, no acknowledgement pending, and no thread to wake? */
static bool is_quiet(const struct worker *worker)
{
	const struct lane *lane = &worker->lane;

	return !engine_has_packets(lane, true) && list_is_empty(&lane->tx_frames) &&
		list_is_empty(&lane->tx_streams) && !is_deadline_unattended(worker) &&
		!atomic_load_explicit(&worker->are_acks_deferred, memory_order_relaxed) &&
		!worker_is_blocked(worker);
}

/*
 * Send everything except the bytes of streams. Not inlined, because usually only streams have
 * something to send.
 */
static __attribute__((noinline)) void send_all(struct worker *worker, bool with_acks)
{
	if (poll_policy_is_skipping(&worker->policy) &&
		worker_deadline_ns(worker) != DEADLINE_NEVER)
		poll_policy_set_skip(&worker->policy, 0);
	if (engine_has_packets(&worker->lane, with_acks) || worker_is_blocked(worker))
		packets_transmit(worker, with_acks);
	if (!list_is_empty(&worker->lane.tx_frames))
		worker_frames_send(worker);
	bool has_more = engine_has_packets(&worker->lane, true);
	atomic_store_explicit(
		&worker->are_acks_deferred, !with_acks && has_more, memory_order_release);
	/* The application may not poll again for a long time: let the thread or waiter drive. */
	if (worker->is_deep_asleep &&
		(has_more || worker_deadline_ns(worker) != DEADLINE_NEVER ||
			!list_is_empty(&worker->lane.tx_streams) ||
			worker_is_blocked(worker)))
		worker_rouse(worker);
	else if (worker_visit_needs_thread(worker))
		worker_rouse(worker);
}

void worker_send(struct worker *worker, bool with_acks)
{
	if (!list_is_empty(&worker->lane.tx_streams))
		worker_streams_send(worker);
	if (!is_quiet(worker))
		send_all(worker, with_acks);
}

/* Has the lane nothing to send but packets of `qp`? */
static bool is_alone(const struct lane *lane, const struct qp *qp)
{
	return qp->tx_list == LANE_TX_DATA && lane->tx_data.next == lane->tx_data.prev &&
		list_is_empty(&lane->tx_ack) && list_is_empty(&lane->tx_frames) &&
		list_is_empty(&lane->tx_streams);
}

/*
 * A waiter or a thread that sleeps without a time limit would have to be woken for the datagrams.
 * Other ports make no super-packets, and impaired packets leave one by one. Polls that skip the
 * lane send nothing.
 */
bool worker_post_waits(struct worker *worker, const struct qp *qp)
{
	if (worker->kind != &worker_port_udp || worker->lane.impair || worker->is_deep_asleep ||
		atomic_load(&worker->wait.is_assigned) || worker_is_blocked(worker) ||
		poll_policy_is_skipping(&worker->policy) || !is_alone(&worker->lane, qp))
		return false;
	if (!post_policy_waits(&worker->posts, qp->sq->posted - qp->sq->completed, worker->now_ns))
		return false;
	atomic_store_explicit(&worker->are_posts_waiting, true, memory_order_relaxed);
	return true;
}

static bool has_completed(const struct worker *worker, const struct cq *cq)
{
	const struct cq_taker *taker = worker->lane.taker;

	return !cq_is_empty(cq) || (taker && taker->taken);
}

/*
 * An application that gets a completion is likely to post an answer at once. If it gets none, the
 * packet that completes its request may arrive next. In both cases acknowledgements stay pending
 * for a few polls.
 *
 * A poll that sends a long message takes as long as many short polls, so it counts as many polls.
 */
unsigned worker_poll(struct worker *worker, const struct cq *cq)
{
	uint32_t flushes = worker->flushes;
	unsigned datagrams;

	if (worker->is_watching_sockets &&
		atomic_load_explicit(&worker->shall_unwatch, memory_order_relaxed))
		worker_watch_sockets(worker, false);
	datagrams = poll_take_in(worker);
	post_policy_polled(&worker->posts);
	if (worker->posts.since_ns)
		worker->now_ns = clock_now_ns();
	worker_send(worker, false);
	if (worker->flushes != flushes)
		poll_policy_note(&worker->policy, worker->flushes - flushes);
	bool are_deferred = atomic_load_explicit(&worker->are_acks_deferred, memory_order_relaxed);
	if (poll_policy_sends_acks(
		    &worker->policy, are_deferred, are_deferred && has_completed(worker, cq)))
		worker_send(worker, true);
	return datagrams;
}

/* --- life --- */

/* Add the descriptor to the epoll set; no error if it is there already. Returns 0 or -errno. */
static int fd_watch(int epoll, int fd, enum worker_source source)
{
	struct epoll_event event = {.events = EPOLLIN, .data.u32 = source};

	if (epoll_change(epoll, EPOLL_CTL_ADD, fd, &event) && errno != EEXIST)
		return log_refusal("no lane", "epoll_ctl");
	return 0;
}

static int descriptors_open(struct worker *worker)
{
	int error;

	worker->epoll_all = epoll_open(EPOLL_CLOEXEC);
	worker->epoll_quiet = epoll_open(EPOLL_CLOEXEC);
	worker->epoll_streams = epoll_open(EPOLL_CLOEXEC);
	if (worker->epoll_all < 0 || worker->epoll_quiet < 0 || worker->epoll_streams < 0)
		return log_refusal("no lane", "epoll_create1");
	worker->kick = kick_create("no lane");
	if (worker->kick < 0)
		return worker->kick;
	error = fd_watch(worker->epoll_quiet, worker->kick, WORKER_SOURCE_KICK);
	if (!error)
		error = fd_watch(worker->epoll_all, worker->epoll_streams, WORKER_SOURCE_SOCKET);
	return error ? error
		     : fd_watch(worker->epoll_all, worker->epoll_quiet, WORKER_SOURCE_QUIET);
}

static void descriptors_close(struct worker *worker)
{
	int fds[] = {worker->epoll_all, worker->epoll_quiet, worker->kick, worker->epoll_streams,
		worker->streams_timer};

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
	list_init(&worker->frames);
	list_init(&worker->streams);
	worker->hooks = hooks;
	worker->kind = &worker_port_udp;
	worker->is_watching_sockets = true;
	worker->streams_timer = -1;
	worker->kick = -1;
	worker_wait_init(&worker->wait);
	error = descriptors_open(worker);
	if (error)
		goto fail_close;
	deadline_heap_init(&worker->alarms);
	error = engine_lane_init(&worker->lane, arena, mrs, slot, index);
	if (error)
		goto fail_close;
	worker->lane.zerocopy_bytes_min = ZEROCOPY_BYTES_MIN;
	worker->lane.is_strict = strict_adapters() != 0;
	worker->lane.placer = placer_find();
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

int worker_impair(struct worker *worker, struct impair *impair)
{
	worker->lane.impair = impair;
	return port_udp_impair(worker->port, impair);
}

int worker_start(struct worker *worker)
{
	int error = own_thread_start(&worker->thread, "urnic", worker_thread_main, worker);

	worker->is_running = !error;
	return error;
}

void worker_destroy(struct worker *worker, bool is_child)
{
	if (worker->is_running && !is_child) {
		__atomic_store_n(&worker->is_stopping, true, __ATOMIC_RELEASE);
		kick_raise(worker->kick);
		pthread_join(worker->thread, NULL);
	}
	port_udp_destroy(worker->port);
	port_ib_destroy(worker->ib);
	worker_frames_forget(worker);
	worker_streams_forget(worker);
	descriptors_close(worker);
	worker_wait_done(&worker->wait);
	deadline_heap_done(&worker->alarms);
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

	if (index < 0)
		return index;
	worker->address[index] = (struct worker_address){*gid, scope_ifindex};
	worker->address_count = max_u32(worker->address_count, (uint32_t)index + 1);
	/* If this fails, the thread watches all sockets again when it next drives the lane. */
	if (worker->is_watching_sockets &&
		fd_watch(worker->epoll_all, socket, WORKER_SOURCE_SOCKET))
		worker->is_watching_sockets = false;
	worker_visit_forget(worker);
	worker_wait_wake(worker);
	return index;
}

/* The port has another descriptor: wait for that, too. */
static void sockets_watch_anew(struct worker *worker)
{
	bool was_watching = worker->is_watching_sockets;

	worker_watch_sockets(worker, false);
	worker_watch_sockets(worker, was_watching);
	worker_wait_wake(worker);
}

int worker_use_link(struct worker *worker, uint32_t index, uint32_t ifindex)
{
	int error;

	worker_visit_forget(worker);
	error = port_udp_use_bypass(worker->port, index, ifindex);
	sockets_watch_anew(worker);
	return error;
}

int worker_use_xdp(struct worker *worker, uint32_t index, uint32_t ifindex, bool is_generic)
{
	int error;

	worker_visit_forget(worker);
	error = port_udp_use_xdp(worker->port, index, ifindex, is_generic);
	sockets_watch_anew(worker);
	return error;
}

void worker_address_remove(struct worker *worker, uint32_t index)
{
	worker_visit_forget(worker);
	port_udp_remove_address(worker->port, index);
	worker->address[index] = (struct worker_address){.scope_ifindex = 0};
}

void worker_watch_sockets(struct worker *worker, bool shall_watch)
{
	struct pollfd fds[PORT_UDP_FDS_MAX];
	unsigned count = worker->kind->fds(worker, fds);

	if (worker->is_watching_sockets == shall_watch)
		return;
	for (unsigned i = 0; i < count; i++) {
		if (!(fds[i].events & POLLIN))
			continue;
		if (shall_watch)
			fd_watch(worker->epoll_all, fds[i].fd, WORKER_SOURCE_SOCKET);
		else
			epoll_change(worker->epoll_all, EPOLL_CTL_DEL, fds[i].fd, NULL);
	}
	worker_frames_watch(worker, shall_watch);
	if (shall_watch) {
		worker_streams_watch(worker);
		fd_watch(worker->epoll_all, worker->epoll_streams, WORKER_SOURCE_SOCKET);
	} else {
		epoll_change(worker->epoll_all, EPOLL_CTL_DEL, worker->epoll_streams, NULL);
	}
	worker->is_watching_sockets = shall_watch;
	worker_watch_update(worker);
}

int worker_watch_timer(struct worker *worker, int timer, enum worker_source source)
{
	return fd_watch(worker->epoll_quiet, timer, source);
}
