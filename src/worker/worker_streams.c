/* SPDX-License-Identifier: BSD-2-Clause */
#include "worker/worker_streams.h"

#include <errno.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/arith.h"
#include "os/clock.h"
#include "os/epoll.h"
#include "os/log.h"

enum {
	READY_MAX = 64, /* the most streams that one read of the epoll set returns */
	READS_PER_TURN = 8, /* of one stream */
	WRITES_PER_TURN = 8, /* of one stream */
	TURNS_PER_CALL = 32, /* how many turns one call of worker_streams_send() gives to streams */
	/* The number of consecutive reads without a result after which the epoll set is silent. */
	SILENCE_MAX = 64,
	SELDOM = 16, /* a silent set is read on every 16th poll */
	LOOKS = 8, /* number of checks of a peer within its silence_max_ns */
};

/* Tell the epoll set which events of the stream to report. Returns 0 or -errno. */
static int stream_watch(const struct worker *worker, struct worker_stream *stream, int operation)
{
	struct epoll_event event = {
		.events = (stream->is_deaf || stream->is_stalled ? 0u : EPOLLIN) |
			(stream->is_blocked ? EPOLLOUT : 0u),
		.data.ptr = stream,
	};

	return epoll_change(worker->epoll_streams, operation, stream->fd, &event) ? -errno : 0;
}

/*
 * Put the hot stream back into the epoll set. If the set refuses it, the stream stays hot, and each
 * poll reads from it.
 */
static void hot_end(struct worker *worker)
{
	struct worker_stream *hot = worker->hot_stream;

	if (!hot || stream_watch(worker, hot, EPOLL_CTL_ADD))
		return;
	worker_visit_watch_hot(worker, hot->fd, false);
	worker->hot_stream = NULL;
}

/* May the stream leave the epoll set? Not while the lane's thread or a waiter sleeps on the set. */
static bool may_be_hot(struct worker *worker, const struct worker_stream *stream)
{
	if (worker->is_watching_sockets || atomic_load(&worker->wait.is_asleep))
		return false;
	return !stream->is_blocked && !stream->is_deaf && !stream->is_stalled;
}

/*
 * Make the stream hot: take it out of the lane's epoll set, because polls read from it directly. If
 * a program visits the lane (worker_wait.h), the stream moves to the set of the program's channel.
 * A visited lane with several streams makes none hot, because it would move them too often.
 */
static void hot_begin(struct worker *worker, struct worker_stream *stream)
{
	if (!may_be_hot(worker, stream) ||
		(worker->stream_count > 1 && atomic_load(&worker->wait.set) >= 0))
		return;
	hot_end(worker);
	if (worker->hot_stream || worker_visit_watch_hot(worker, stream->fd, true))
		return;
	epoll_change(worker->epoll_streams, EPOLL_CTL_DEL, stream->fd, NULL);
	worker->hot_stream = stream;
}

/* The events to report for the stream have changed: tell the epoll set. */
static void watch_anew(struct worker *worker, struct worker_stream *stream)
{
	if (worker->hot_stream == stream)
		hot_end(worker);
	else
		stream_watch(worker, stream, EPOLL_CTL_MOD);
}

void worker_streams_watch(struct worker *worker)
{
	hot_end(worker);
}

static int timer_open(struct worker *worker)
{
	int error;

	if (worker->streams_timer >= 0)
		return 0;
	worker->streams_timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (worker->streams_timer < 0)
		return log_refusal("no iWARP connection", "timerfd_create");
	error = worker_watch_timer(worker, worker->streams_timer, WORKER_SOURCE_STREAMS);
	if (error) {
		close(worker->streams_timer);
		worker->streams_timer = -1;
	}
	return error;
}

int worker_stream_add(struct worker *worker, struct worker_stream *stream)
{
	int error = timer_open(worker);

	if (error)
		return error;
	if (stream_watch(worker, stream, EPOLL_CTL_ADD))
		return log_refusal("no iWARP connection", "epoll_ctl");
	if (atomic_load(&worker->wait.set) >= 0)
		hot_end(worker);
	list_append(&worker->streams, &stream->link);
	worker->stream_count++;
	stream->iwarp->carrier = stream;
	port_tcp_set_dropping(stream->fd, true);
	worker_wait_wake(worker); /* the waiter has to sleep on the streams, too */
	return 0;
}

void worker_stream_remove(struct worker *worker, struct worker_stream *stream)
{
	if (worker->hot_stream == stream) {
		worker_visit_watch_hot(worker, stream->fd, false);
		worker->hot_stream = NULL;
	} else {
		epoll_change(worker->epoll_streams, EPOLL_CTL_DEL, stream->fd, NULL);
	}
	port_tcp_set_dropping(stream->fd, false);
	list_remove(&stream->link);
	worker->stream_count--;
	worker->stalled_count -= stream->is_stalled;
	stream->is_stalled = false;
	stream->iwarp->carrier = NULL;
}

/* Let the kernel send the bytes that it has taken, among them those of all completed requests. */
static void stream_finish(const struct worker_stream *stream)
{
	port_tcp_finish(stream->fd, (unsigned)(stream->silence_max_ns / 1000000));
}

void worker_stream_close(struct worker *worker, struct worker_stream *stream)
{
	if (stream->fd < 0)
		return;
	worker_stream_remove(worker, stream);
	stream_finish(stream);
	close(stream->fd);
	stream->fd = -1;
}

void worker_streams_finish(struct worker *worker)
{
	list_for_each(stream, &worker->streams, struct worker_stream, link) {
		port_tcp_set_dropping(stream->fd, false);
		stream_finish(stream);
	}
}

void worker_streams_forget(struct worker *worker)
{
	worker->hot_stream = NULL;
	list_for_each(stream, &worker->streams, struct worker_stream, link) {
		close(stream->fd);
		stream->fd = -1;
	}
}

/* End the stream if the queue pair wants that. The signal's handler closes the descriptor. */
static void stream_end_if_over(struct worker *worker, struct worker_stream *stream)
{
	if (stream->iwarp->stream == IWARP_STREAM_OPEN || iwarp_wish(stream->iwarp) != IWARP_END)
		return;
	port_tcp_end(stream->fd);
	iwarp_half_closed(stream->iwarp, worker->now_ns);
}

static void set_blocked(struct worker *worker, struct worker_stream *stream, bool is_blocked)
{
	if (stream->is_blocked == is_blocked)
		return;
	stream->is_blocked = is_blocked;
	watch_anew(worker, stream);
}

/* --- receiving --- */

static void note_time(struct worker *worker)
{
	if (!worker->is_now_fresh)
		worker_glance(worker);
}

/*
 * The stream has no more input. The set no longer reports input of the stream, because it would
 * report the end again and again.
 */
static void stream_ended(struct worker *worker, struct worker_stream *stream, bool is_lost)
{
	stream->is_deaf = true;
	watch_anew(worker, stream);
	iwarp_ended(stream->iwarp, is_lost, worker->now_ns);
}

/*
 * Handle the result of a read into `room_bytes` of room: a count of bytes, 0 for the end, or
 * -errno. Returns whether the socket may have more input now.
 */
static inline bool read_take(struct worker *worker, struct worker_stream *stream, int64_t bytes,
	uint64_t room_bytes, unsigned *reads)
{
	if (bytes == -EAGAIN)
		return false;
	note_time(worker);
	++*reads;
	if (bytes <= 0)
		stream_ended(worker, stream, bytes < 0);
	else
		iwarp_received(stream->iwarp, (uint32_t)bytes, worker->now_ns);
	return bytes > 0 && (uint64_t)bytes == room_bytes;
}

static bool read_once(struct worker *worker, struct worker_stream *stream, unsigned *reads)
{
	struct iwarp_span spans[IWARP_SPANS_MAX];
	struct iovec pieces[IWARP_SPANS_MAX];
	unsigned count = iwarp_offer(stream->iwarp, spans);
	uint64_t room_bytes = 0;

	if (!count)
		return false;
	for (unsigned i = 0; i < count; i++) {
		pieces[i] = (struct iovec){spans[i].at, spans[i].bytes};
		room_bytes += spans[i].bytes;
	}
	return read_take(
		worker, stream, port_tcp_receive(stream->fd, pieces, count), room_bytes, reads);
}

static void note_stall(struct worker *worker, struct worker_stream *stream)
{
	bool is_stalled = iwarp_is_stalled(stream->iwarp);

	if (stream->is_stalled == is_stalled)
		return;
	stream->is_stalled = is_stalled;
	worker->stalled_count += is_stalled ? 1 : -1u;
	watch_anew(worker, stream);
	/* No packet announces the receive request that ends the stall, so end a long sleep. */
	if (is_stalled && (worker->is_deep_asleep || worker_visit_is_assigned(&worker->wait)))
		worker_rouse(worker);
}

static unsigned stream_receive(struct worker *worker, struct worker_stream *stream)
{
	unsigned reads = 0;

	if (iwarp_is_stalled(stream->iwarp)) {
		note_time(worker);
		iwarp_resume(stream->iwarp, worker->now_ns);
	}
	for (unsigned i = 0; i < READS_PER_TURN && !stream->is_deaf; i++)
		if (!read_once(worker, stream, &reads))
			break;
	note_stall(worker, stream);
	stream_end_if_over(worker, stream);
	return reads;
}

static inline unsigned receive_hot(struct worker *worker)
{
	struct worker_stream *hot = worker->hot_stream;
	unsigned reads = 0;

	if (!worker->has_read_ahead)
		return stream_receive(worker, hot);
	worker->has_read_ahead = false;
	if (read_take(worker, hot, worker->ahead_bytes, IWARP_RX_BYTES, &reads))
		return reads + stream_receive(worker, hot);
	note_stall(worker, hot);
	stream_end_if_over(worker, hot);
	return reads;
}

/* Receive from stalled streams, which the epoll set does not report. */
static unsigned receive_from_stalled(struct worker *worker)
{
	unsigned reads = 0;

	list_for_each(stream, &worker->streams, struct worker_stream, link)
		if (stream->is_stalled)
			reads += stream_receive(worker, stream);
	return reads;
}

static unsigned receive_from_ready(struct worker *worker)
{
	struct epoll_event events[READY_MAX];
	struct worker_stream *last = NULL;
	unsigned reads = 0;
	int count =
		(int)syscall(SYS_epoll_pwait, worker->epoll_streams, events, READY_MAX, 0, NULL, 0);

	if (count < 0 && errno != EINTR)
		count = epoll_sleep(worker->epoll_streams, events, READY_MAX, 0);
	if (count < 0 && errno != EINTR)
		LOG_REFUSAL_ONCE("iWARP connections do not receive", "epoll_pwait");
	worker->streams_silence = count > 0 ? 0 : worker->streams_silence + 1;
	for (int i = 0; i < count; i++) {
		struct worker_stream *stream = events[i].data.ptr;

		if (stream->is_blocked && (events[i].events & (EPOLLOUT | EPOLLERR | EPOLLHUP)))
			iwarp_schedule(stream->iwarp);
		if (events[i].events & ~(uint32_t)EPOLLOUT && stream_receive(worker, stream)) {
			last = stream;
			reads++;
		}
	}
	if (last)
		hot_begin(worker, last);
	return reads;
}

/* Does this poll read the epoll set? Few polls do while only the hot stream has input. */
static bool is_set_due(struct worker *worker)
{
	if (worker->stream_count == 1)
		return !worker->hot_stream;
	return worker->streams_silence < SILENCE_MAX || ++worker->streams_polls % SELDOM == 0;
}

unsigned worker_streams_receive(struct worker *worker)
{
	unsigned reads = worker->stalled_count ? receive_from_stalled(worker) : 0;

	if (worker->hot_stream) {
		reads += receive_hot(worker);
		if (!is_set_due(worker))
			return reads;
	}
	return reads + receive_from_ready(worker);
}

/* --- dead peers --- */

/* Bytes are under way: set the timer to check the peer later, unless the timer is set already. */
static void look_later(struct worker *worker, const struct worker_stream *stream)
{
	uint64_t wait_ns = stream->silence_max_ns / LOOKS;
	const struct itimerspec once = {
		.it_value = {(time_t)(wait_ns / 1000000000u), (long)(wait_ns % 1000000000u)}};

	if (worker->is_streams_timer_set || !wait_ns)
		return;
	worker->is_streams_timer_set = !timerfd_settime(worker->streams_timer, 0, &once, NULL);
}

static bool is_gone(struct worker_stream *stream, const struct port_tcp_state *tcp, uint64_t now_ns)
{
	uint64_t heard_ns = now_ns - min_u64(tcp->heard_ns_ago, now_ns);

	if (!tcp->is_under_way || !tcp->is_repeating)
		stream->silent_since_ns = 0;
	else if (!stream->silent_since_ns)
		stream->silent_since_ns = now_ns;
	else
		stream->silent_since_ns = max_u64(stream->silent_since_ns, heard_ns);
	return stream->silent_since_ns &&
		now_ns - stream->silent_since_ns >= stream->silence_max_ns;
}

static void stream_look(struct worker *worker, struct worker_stream *stream)
{
	struct port_tcp_state tcp;

	if (!stream->silence_max_ns || port_tcp_look(stream->fd, &tcp))
		return;
	if (is_gone(stream, &tcp, worker->now_ns))
		stream_ended(worker, stream, true);
	else if (tcp.is_under_way)
		look_later(worker, stream);
}

void worker_streams_look(struct worker *worker)
{
	uint64_t expirations;

	worker_lock(worker);
	worker->now_ns = clock_now_ns();
	if (read(worker->streams_timer, &expirations, sizeof(expirations)) > 0)
		worker->is_streams_timer_set = false;
	list_for_each(stream, &worker->streams, struct worker_stream, link)
		stream_look(worker, stream);
	worker_unlock(worker);
}

/* --- sending --- */

/*
 * Handle the result of a write: the kernel took `taken` of `bytes`, or `taken` is its -errno.
 * Returns whether the stream may send more at once.
 */
static bool write_done(
	struct worker *worker, struct worker_stream *stream, int64_t taken, int64_t bytes)
{
	if (taken < 0 && taken != -EAGAIN) {
		stream_ended(worker, stream, true);
		return false;
	}
	set_blocked(worker, stream, taken < bytes);
	look_later(worker, stream);
	if (taken > 0)
		iwarp_sent(stream->iwarp, (uint32_t)taken, worker->now_ns);
	return !stream->is_blocked;
}

/* Send the next pieces of the stream. Returns whether it may send more at once. */
static __attribute__((noinline)) bool write_once(
	struct worker *worker, struct worker_stream *stream)
{
	struct iwarp_part parts[IWARP_PIECES_MAX];
	struct iovec pieces[IWARP_PIECES_MAX];
	unsigned count = iwarp_output(stream->iwarp, parts, worker->now_ns);
	int64_t bytes = 0;

	if (!count)
		return false;
	for (unsigned i = 0; i < count; i++) {
		pieces[i] = (struct iovec){(void *)(uintptr_t)parts[i].at, parts[i].bytes};
		bytes += parts[i].bytes;
	}
	return write_done(worker, stream, port_tcp_send(stream->fd, pieces, count), bytes);
}

/* Send a message that is one short piece. Returns whether the stream may send more at once. */
static inline bool write_fast(struct worker *worker, struct worker_stream *stream)
{
	uint32_t bytes;
	const uint8_t *at = iwarp_output_fast(stream->iwarp, &bytes);
	const struct iovec piece = {(void *)(uintptr_t)at, at ? bytes : 0};

	return at && write_done(worker, stream, port_tcp_send(stream->fd, &piece, 1), bytes);
}

static void send_turn(struct worker *worker, struct worker_stream *stream)
{
	unsigned writes = write_fast(worker, stream);

	while (writes < WRITES_PER_TURN && write_once(worker, stream))
		writes++;
	iwarp_unschedule(stream->iwarp);
	if (writes == WRITES_PER_TURN)
		iwarp_schedule(stream->iwarp);
	stream_end_if_over(worker, stream);
}

void worker_streams_send(struct worker *worker)
{
	for (unsigned turns = 0; turns < TURNS_PER_CALL; turns++) {
		struct iwarp_qp *iwarp = iwarp_first(&worker->lane);

		if (!iwarp)
			return;
		if (iwarp->carrier)
			send_turn(worker, iwarp->carrier);
		else
			iwarp_unschedule(iwarp);
	}
}
