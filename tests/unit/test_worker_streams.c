/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two lanes and four streams between them, over the kernel's TCP: what resumes a stream that has
 * stopped. Either nothing but polls drives the lanes, or only their threads do, or only a thread
 * that waits for events.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>

#include "os/clock.h"
#include "support/arena_memory.h"
#include "support/permutation.h"
#include "worker/worker.h"
#include "worker/worker_streams.h"

enum {
	ARENA_BYTES = 4 << 20,
	STREAMS = 4,
	DEPTH = 32,
	LONG_BYTES = 65536,
	SHORT_BYTES = 100,
	SOCKET_BYTES = 32768, /* much less than DEPTH long messages */
	PD = 1,
	WAIT_MS = 60000,
	SILENT_POLLS = 200, /* more than it takes until the streams' set is silent */
	SELDOM = 16, /* a silent set is read on every 16th poll */
};

struct end {
	struct arena arena;
	struct mr_table mrs;
	struct nic_public_lane public;
	struct worker *worker;
	struct cq cq;
	struct qp *qp[STREAMS];
	struct worker_stream stream[STREAMS];
	uint8_t *memory;
	uint32_t key;
	uint32_t sent;
	uint32_t received[STREAMS];
};

static struct end a, b;
static _Atomic bool has_events;
static _Atomic bool is_closing;
static const char channel;

/* --- making --- */

static void on_signal(struct worker *of, struct signal *signal, uint32_t events)
{
	(void)of;
	if (signal->kind == SIGNAL_KIND_QP && !atomic_load(&is_closing))
		fail_msg("a queue pair reports %#x", events);
}

static const struct worker_hooks hooks = {.signal = on_signal};

static void memory_open(struct end *end)
{
	struct mr_region region = {.pd = PD, .access = MR_LOCAL_WRITE, .bytes = LONG_BYTES};

	end->memory = calloc(1, LONG_BYTES);
	assert_non_null(end->memory);
	region.address = end->memory;
	region.iova = (uintptr_t)end->memory;
	assert_int_equal(mr_table_add(&end->mrs, &region, 0, &end->key), 0);
}

static void qp_open(struct end *end, uint32_t i)
{
	struct qp_attr attr = {.port = 1};
	const struct qp_init init = {
		.type = QP_TYPE_IWARP,
		.pd = PD,
		.send_cq = &end->cq,
		.recv_cq = &end->cq,
		.caps = {DEPTH, DEPTH, 1, 1, 0},
		.is_all_signaled = true,
	};

	assert_int_equal(engine_qp_create(&end->worker->lane, &init, i, &end->qp[i]), 0);
	assert_int_equal(qp_modify(end->qp[i], QP_INIT, ATTR_STATE | ATTR_ACCESS, &attr, 1), 0);
}

static void end_open(struct end *end, uint8_t slot)
{
	memset(end, 0, sizeof(*end));
	arena_init(&end->arena, arena_memory_new(ARENA_BYTES), ARENA_BYTES);
	assert_int_equal(mr_table_init(&end->mrs, &end->arena, 4, test_permutation(1)), 0);
	assert_int_equal(cq_init(&end->cq, &end->arena, 2 * STREAMS * DEPTH), 0);
	assert_int_equal(
		worker_create(&end->arena, &end->mrs, slot, 0, &end->public, &hooks, &end->worker),
		0);
	memory_open(end);
	for (uint32_t i = 0; i < STREAMS; i++)
		qp_open(end, i);
}

static void end_close(struct end *end)
{
	worker_lock(end->worker);
	for (uint32_t i = 0; i < STREAMS; i++) {
		worker_stream_close(end->worker, &end->stream[i]);
		engine_qp_destroy(end->qp[i]);
	}
	worker_unlock(end->worker);
	worker_destroy(end->worker, false);
	mr_table_done(&end->mrs);
	arena_memory_free(end->arena.base, ARENA_BYTES);
	free(end->memory);
}

static void stream_open(struct end *end, uint32_t i, int fd)
{
	const struct iwarp_settings settings = {
		.has_crc = true, .is_initiator = end == &a, .ready = MPA_READY_WRITE};
	int bytes = SOCKET_BYTES;

	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
	end->stream[i] = (struct worker_stream){.fd = fd, .iwarp = iwarp_from_qp(end->qp[i])};
	worker_lock(end->worker);
	assert_int_equal(worker_stream_add(end->worker, &end->stream[i]), 0);
	assert_int_equal(iwarp_open(end->stream[i].iwarp, &settings, clock_now_ns()), 0);
	worker_send(end->worker, true);
	worker_unlock(end->worker);
}

static void await_fd(int fd, short events)
{
	struct pollfd wait = {.fd = fd, .events = events};

	assert_int_equal(poll(&wait, 1, WAIT_MS), 1);
}

static void streams_open(void)
{
	struct port_tcp_address address = {.gid = gid_from_ipv4((uint8_t[]){127, 0, 0, 1})};
	const struct port_tcp_address any = address;
	int listener = port_tcp_listen(&address, false, STREAMS);
	struct sockaddr_in name = {0};
	socklen_t bytes = sizeof(name);

	assert_true(listener >= 0);
	assert_return_code(getsockname(listener, (struct sockaddr *)&name, &bytes), errno);
	address.port = ntohs(name.sin_port);
	for (uint32_t i = 0; i < STREAMS; i++) {
		int fd = port_tcp_connect(&any, &address, 0);

		assert_true(fd >= 0);
		await_fd(fd, POLLOUT);
		stream_open(&a, i, fd);
		await_fd(listener, POLLIN);
		fd = port_tcp_accept(listener);
		assert_true(fd >= 0);
		stream_open(&b, i, fd);
	}
	close(listener);
}

/* --- what a program does --- */

static void count(struct end *end, const struct cqe *cqe)
{
	assert_int_equal(cqe->status, WC_SUCCESS);
	if (cqe->opcode == WC_SEND)
		end->sent++;
	else
		end->received[cqe->wr_id]++;
}

/* Take completions that are there already. */
static void reap(struct end *end)
{
	struct cqe cqe;

	while (cq_poll(&end->cq, &end->arena, 1, &cqe))
		count(end, &cqe);
}

/* Drive the lane, as a poll of the queue does (nic/object/nic_cq.c). */
static void drive(struct end *end)
{
	struct cqe cqes[16];
	struct cq_taker taker = {.cq = &end->cq, .out = cqes, .room = 16};

	reap(end);
	worker_lock(end->worker);
	worker_streams_read_ahead(end->worker);
	end->worker->lane.taker = &taker;
	worker_poll(end->worker, &end->cq);
	end->worker->lane.taker = NULL;
	worker_unlock(end->worker);
	for (uint32_t i = 0; i < taker.taken; i++)
		count(end, &cqes[i]);
	reap(end);
}

static void post_send(struct end *end, uint32_t i, uint32_t bytes)
{
	struct sge sge = {(uintptr_t)end->memory, bytes, end->key};
	const struct send_wr wr = {.opcode = WR_SEND, .sge = &sge, .sge_count = 1, .wr_id = i};
	uint32_t posted;

	worker_lock(end->worker);
	worker_glance(end->worker);
	assert_int_equal(engine_post_send(end->qp[i], &wr, 1, &posted, end->worker->now_ns), 0);
	worker_send(end->worker, true);
	worker_unlock(end->worker);
}

static void post_receives(struct end *end, uint32_t messages)
{
	struct sge sge = {(uintptr_t)end->memory, LONG_BYTES, end->key};

	for (uint32_t i = 0; i < STREAMS; i++)
		for (uint32_t n = 0; n < messages; n++)
			assert_int_equal(
				qp_post_recv(end->qp[i], &(struct recv_wr){i, &sge, 1}), 0);
}

/* Post a short message and `longs` long ones on each stream, which then take no more. */
static void fill(struct end *end, uint32_t longs)
{
	for (uint32_t i = 0; i < STREAMS; i++) {
		post_send(end, i, SHORT_BYTES);
		for (uint32_t n = 0; n < longs; n++)
			post_send(end, i, LONG_BYTES);
	}
	worker_lock(end->worker);
	for (uint32_t i = 0; i < STREAMS; i++)
		assert_true(end->stream[i].is_blocked);
	worker_unlock(end->worker);
}

static bool has_received(const struct end *end, uint32_t messages)
{
	for (uint32_t i = 0; i < STREAMS; i++)
		if (end->received[i] < messages)
			return false;
	return true;
}

static bool is_ready(const struct end *end)
{
	for (uint32_t i = 0; i < STREAMS; i++)
		if (end->stream[i].iwarp->tx.is_held)
			return false;
	return true;
}

static uint64_t hang_ns(void)
{
	return clock_now_ns() + WAIT_MS * 1000000ull;
}

static int open_both(void **state)
{
	uint64_t until_ns = hang_ns();

	(void)state;
	atomic_store(&is_closing, false);
	end_open(&a, 1);
	end_open(&b, 2);
	streams_open();
	while (!is_ready(&b)) {
		drive(&b);
		assert_true(clock_now_ns() < until_ns);
	}
	return 0;
}

static int close_both(void **state)
{
	(void)state;
	atomic_store(&is_closing, true); /* the thread of `b` notices the end */
	end_close(&a);
	end_close(&b);
	return 0;
}

/* Poll at both ends until both have received `messages` on each stream. */
static void poll_until(uint32_t at_a, uint32_t at_b)
{
	uint64_t until_ns = hang_ns();

	while (!has_received(&a, at_a) || !has_received(&b, at_b)) {
		drive(&a);
		drive(&b);
		assert_true(clock_now_ns() < until_ns);
	}
}

/* Wait for the same, and drive nothing. */
static void wait_until(uint32_t at_a, uint32_t at_b)
{
	uint64_t until_ns = hang_ns();

	while (!has_received(&a, at_a) || !has_received(&b, at_b)) {
		sched_yield();
		reap(&a);
		reap(&b);
		assert_true(clock_now_ns() < until_ns);
	}
}

static void await_input(const struct end *end)
{
	for (uint32_t i = 0; i < STREAMS; i++)
		await_fd(end->stream[i].fd, POLLIN);
}

static void assert_stalled(struct end *end, uint32_t count_expected)
{
	assert_int_equal(end->worker->stalled_count, count_expected);
	for (uint32_t i = 0; i < STREAMS; i++)
		assert_int_equal(end->stream[i].is_stalled, count_expected != 0);
}

/* --- polls --- */

static void streams_blocked_in_both_directions_are_resumed_by_polls(void **state)
{
	(void)state;
	post_receives(&a, DEPTH);
	post_receives(&b, DEPTH);
	fill(&a, DEPTH - 1);
	fill(&b, DEPTH - 1);
	poll_until(DEPTH, DEPTH);
	assert_int_equal(a.sent, STREAMS * DEPTH);
	assert_int_equal(b.sent, STREAMS * DEPTH);
}

/* The messages behind the stalled ones are partly in the streams' buffers, partly in the kernel. */
static void streams_stalled_together_are_resumed_by_a_poll(void **state)
{
	(void)state;
	fill(&a, 8);
	await_input(&b);
	drive(&b);
	assert_stalled(&b, STREAMS);
	post_receives(&b, 9);
	poll_until(0, 9);
	assert_stalled(&b, 0);
}

/* Each has to wait until its program posts, while all sockets are full. */
static void streams_stalled_and_blocked_at_both_ends_are_resumed_by_polls(void **state)
{
	(void)state;
	fill(&a, 8);
	fill(&b, 8);
	await_input(&a);
	await_input(&b);
	drive(&a);
	drive(&b);
	assert_stalled(&a, STREAMS);
	assert_stalled(&b, STREAMS);
	post_receives(&a, 9);
	post_receives(&b, 9);
	poll_until(9, 9);
}

static void hot_begin_at_b(void)
{
	worker_lock(b.worker);
	worker_watch_sockets(b.worker, false);
	worker_unlock(b.worker);
	post_send(&a, 0, SHORT_BYTES);
	await_fd(b.stream[0].fd, POLLIN);
	drive(&b);
	assert_int_equal(b.received[0], 1);
	assert_ptr_equal(b.worker->hot_stream, &b.stream[0]);
}

static void stream_beside_a_busy_one_is_read_soon(void **state)
{
	uint32_t polls = 0;

	(void)state;
	post_receives(&b, DEPTH);
	hot_begin_at_b();
	for (uint32_t i = 0; i < SILENT_POLLS; i++)
		drive(&b);
	assert_ptr_equal(b.worker->hot_stream, &b.stream[0]);
	post_send(&a, 1, SHORT_BYTES);
	await_fd(b.stream[1].fd, POLLIN);
	for (; !b.received[1]; polls++) {
		post_send(&a, 0, SHORT_BYTES);
		drive(&b);
		assert_true(polls < SELDOM);
	}
}

static void hot_stream_that_is_blocked_is_resumed_by_polls(void **state)
{
	(void)state;
	post_receives(&a, DEPTH);
	post_receives(&b, 1);
	hot_begin_at_b();
	fill(&b, DEPTH - 1);
	assert_null(b.worker->hot_stream);
	poll_until(DEPTH, 0);
}

/* --- threads --- */

static bool is_asleep(struct end *end)
{
	bool is_deep_asleep;

	worker_lock(end->worker);
	is_deep_asleep = end->worker->is_deep_asleep;
	worker_unlock(end->worker);
	return is_deep_asleep;
}

/* Start the lane's thread. It sleeps until an event of a socket wakes it. */
static void thread_start(struct end *end)
{
	uint64_t until_ns = hang_ns();

	assert_int_equal(worker_start(end->worker), 0);
	while (!is_asleep(end)) {
		sched_yield();
		assert_true(clock_now_ns() < until_ns);
	}
}

static void streams_blocked_in_both_directions_are_resumed_by_the_threads(void **state)
{
	(void)state;
	post_receives(&a, DEPTH);
	post_receives(&b, DEPTH);
	fill(&a, DEPTH - 1);
	fill(&b, DEPTH - 1);
	assert_int_equal(worker_start(a.worker), 0);
	assert_int_equal(worker_start(b.worker), 0);
	wait_until(DEPTH, DEPTH);
}

/* A thread has the lock of b's lane. The main thread may then take that of a's: it has one lock. */
struct holder {
	pthread_t thread;
	sem_t is_locked;
	sem_t may_unlock;
};

static void *holder_main(void *argument)
{
	struct holder *holder = argument;

	worker_lock(b.worker);
	sem_post(&holder->is_locked);
	while (sem_wait(&holder->may_unlock))
		assert_int_equal(errno, EINTR);
	worker_unlock(b.worker);
	return NULL;
}

static void hold_b(struct holder *holder)
{
	sem_init(&holder->is_locked, 0, 0);
	sem_init(&holder->may_unlock, 0, 0);
	assert_int_equal(pthread_create(&holder->thread, NULL, holder_main, holder), 0);
	while (sem_wait(&holder->is_locked))
		assert_int_equal(errno, EINTR);
}

static void let_go_of_b(struct holder *holder)
{
	sem_post(&holder->may_unlock);
	pthread_join(holder->thread, NULL);
	sem_destroy(&holder->is_locked);
	sem_destroy(&holder->may_unlock);
}

static void stream_blocked_by_a_post_wakes_the_sleeping_thread(void **state)
{
	struct holder holder;

	(void)state;
	post_receives(&b, DEPTH);
	thread_start(&a);
	thread_start(&b);
	hold_b(&holder); /* nothing is read before all is posted */
	fill(&a, DEPTH - 1);
	let_go_of_b(&holder);
	wait_until(0, DEPTH);
}

/* No event announces the receive requests. */
static void streams_stalled_together_are_resumed_by_the_thread(void **state)
{
	(void)state;
	fill(&a, 8);
	await_input(&b);
	thread_start(&a);
	worker_lock(b.worker);
	worker_take_in(b.worker);
	assert_stalled(&b, STREAMS);
	assert_int_equal(worker_start(b.worker), 0);
	post_receives(&b, 9);
	worker_unlock(b.worker);
	wait_until(0, 9);
}

/* --- a thread that waits for events --- */

/* After some wake-ups without a completion the waiter gives the lane back to its thread. */
static void *waiter_main(void *argument)
{
	struct end *end = argument;

	worker_wait(end->worker, &channel, &has_events);
	return NULL;
}

static pthread_t waiter_start(struct end *end)
{
	pthread_t thread;

	atomic_store(&has_events, false);
	assert_int_equal(pthread_create(&thread, NULL, waiter_main, end), 0);
	return thread;
}

static void asleep_await(struct end *end)
{
	while (!atomic_load(&end->worker->wait.is_asleep))
		sched_yield();
}

static void waiter_end(struct end *end, pthread_t thread)
{
	atomic_store(&has_events, true);
	worker_wait_wake(end->worker);
	pthread_join(thread, NULL);
}

static void streams_blocked_by_posts_are_resumed_by_a_waiter(void **state)
{
	pthread_t waiter;

	(void)state;
	post_receives(&b, DEPTH);
	assert_int_equal(worker_start(a.worker), 0);
	waiter = waiter_start(&a);
	asleep_await(&a);
	fill(&a, DEPTH - 1);
	assert_int_equal(worker_start(b.worker), 0);
	wait_until(0, DEPTH);
	waiter_end(&a, waiter);
}

static void streams_stalled_together_are_resumed_by_a_waiter(void **state)
{
	pthread_t waiter;

	(void)state;
	fill(&a, 8);
	await_input(&b);
	assert_int_equal(worker_start(a.worker), 0);
	worker_lock(b.worker);
	worker_take_in(b.worker);
	assert_stalled(&b, STREAMS);
	assert_int_equal(worker_start(b.worker), 0);
	waiter = waiter_start(&b);
	post_receives(&b, 9);
	worker_unlock(b.worker);
	wait_until(0, 9);
	waiter_end(&b, waiter);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_both, close_both)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(streams_blocked_in_both_directions_are_resumed_by_polls),
		TEST(streams_stalled_together_are_resumed_by_a_poll),
		TEST(streams_stalled_and_blocked_at_both_ends_are_resumed_by_polls),
		TEST(stream_beside_a_busy_one_is_read_soon),
		TEST(hot_stream_that_is_blocked_is_resumed_by_polls),
		TEST(streams_blocked_in_both_directions_are_resumed_by_the_threads),
		TEST(stream_blocked_by_a_post_wakes_the_sleeping_thread),
		TEST(streams_stalled_together_are_resumed_by_the_thread),
		TEST(streams_blocked_by_posts_are_resumed_by_a_waiter),
		TEST(streams_stalled_together_are_resumed_by_a_waiter),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
