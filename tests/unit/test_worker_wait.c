/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A program's thread that drives a lane while it waits. The lane's own thread does not run; the
 * tests do its work.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/arena_memory.h"
#include "support/permutation.h"
#include "support/udp_ends.h"
#include "worker/worker.h"

enum { ARENA_BYTES = 1 << 20, HANG_MS = 60000 };

static const uint64_t far_ns = UINT64_MAX / 2;

static struct arena arena;
static struct mr_table mrs;
static struct nic_public_lane public;
static struct worker *worker;
static struct cq cq;
static struct qp *qp;
static int socket_of_lane;
static struct sockaddr_in address; /* of that socket */
static _Atomic bool has_events;
static const char one_channel, other_channel;

/* A thread in worker_wait(). */
struct waiter_thread {
	pthread_t thread;
	const void *channel;
	_Atomic int result; /* 1: it waits */
};

static void on_signal_of_lane(struct worker *of, struct signal *signal, uint32_t events)
{
	(void)of;
	(void)signal;
	(void)events;
	atomic_store(&has_events, true);
}

static void address_open(void)
{
	const struct gid here = gid_from_ipv4((uint8_t[]){127, 0, 0, 1});
	socklen_t bytes = sizeof(address);

	socket_of_lane = udp_bound_socket(&here, 0);
	assert_int_equal(getsockname(socket_of_lane, (struct sockaddr *)&address, &bytes), 0);
	worker_lock(worker);
	assert_int_equal(worker_address_add(worker, &here, 0, socket_of_lane), 0);
	worker_unlock(worker);
}

static int set_up(void **state)
{
	static const struct worker_hooks hooks = {.signal = on_signal_of_lane};
	struct qp_init init = {
		.type = QP_TYPE_RC,
		.send_cq = &cq,
		.recv_cq = &cq,
		.caps = {4, 4, 1, 1, 0},
	};
	void *memory = arena_memory_new(ARENA_BYTES);

	(void)state;
	memset(&public, 0, sizeof(public));
	arena_init(&arena, memory, ARENA_BYTES);
	assert_int_equal(mr_table_init(&mrs, &arena, 4, test_permutation(1)), 0);
	assert_int_equal(cq_init(&cq, &arena, 8), 0);
	assert_int_equal(worker_create(&arena, &mrs, 1, 0, &public, &hooks, &worker), 0);
	assert_int_equal(engine_qp_create(&worker->lane, &init, 1, &qp), 0);
	address_open();
	atomic_store(&has_events, false);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	worker_lock(worker);
	engine_qp_destroy(qp);
	worker_unlock(worker);
	worker_destroy(worker, false);
	mr_table_done(&mrs);
	arena_memory_free(arena.base, ARENA_BYTES);
	return 0;
}

static void *waiter_main(void *argument)
{
	struct waiter_thread *waiter = argument;

	atomic_store(&waiter->result, worker_wait(worker, waiter->channel, &has_events));
	return NULL;
}

static void asleep_await(void)
{
	while (!atomic_load(&worker->wait.is_asleep))
		sched_yield();
}

static void waiter_start(struct waiter_thread *waiter)
{
	waiter->channel = &one_channel;
	atomic_store(&waiter->result, 1);
	assert_int_equal(pthread_create(&waiter->thread, NULL, waiter_main, waiter), 0);
	asleep_await();
}

static void waiter_end(struct waiter_thread *waiter)
{
	atomic_store(&has_events, true);
	worker_wait_wake(worker);
	pthread_join(waiter->thread, NULL);
	atomic_store(&has_events, false);
}

/* A wait that finds its event at once. */
static void wait_briefly(void)
{
	atomic_store(&has_events, true);
	assert_int_equal(worker_wait(worker, &one_channel, &has_events), 0);
	atomic_store(&has_events, false);
}

static bool is_readable_within(int fd, int ms)
{
	struct pollfd readable = {.fd = fd, .events = POLLIN};

	return poll(&readable, 1, ms) == 1;
}

static bool is_kicked(void)
{
	return is_readable_within(worker->kick, 0);
}

static void waiter_returns_after_an_event(void **state)
{
	struct waiter_thread waiter;

	(void)state;
	waiter_start(&waiter);
	assert_true(worker->is_deep_asleep);
	assert_false(worker->is_watching_sockets);
	waiter_end(&waiter);
	assert_int_equal(waiter.result, 0);
	assert_false(worker->wait.is_in);
	assert_true(worker->wait.is_assigned);
	assert_false(worker->is_deep_asleep);
	assert_false(is_kicked());
}

static void waiter_takes_packets_in(void **state)
{
	struct waiter_thread waiter;
	int socket_of_peer = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	(void)state;
	waiter_start(&waiter);
	/* Too short for a packet: the port counts it, and drops it. */
	assert_int_equal(
		sendto(socket_of_peer, "x", 1, 0, (struct sockaddr *)&address, sizeof(address)), 1);
	while (is_readable_within(socket_of_lane, 0))
		sched_yield();
	asleep_await();
	assert_int_equal(waiter.result, 1);
	waiter_end(&waiter);
	assert_int_equal(waiter.result, 0);
	assert_int_equal(public.port.rx_short, 1);
	close(socket_of_peer);
}

/* The socket is readable for ever, and nothing can be read from it. */
static void waiter_that_is_woken_in_vain_gives_the_lane_to_its_thread(void **state)
{
	struct waiter_thread waiter;

	(void)state;
	waiter_start(&waiter);
	shutdown(socket_of_lane, SHUT_RD);
	pthread_join(waiter.thread, NULL);
	assert_int_equal(waiter.result, -EAGAIN);
	assert_false(worker->wait.is_assigned);
	assert_true(is_kicked());
}

static void waiter_delivers_signals_of_the_lane(void **state)
{
	struct waiter_thread waiter;

	(void)state;
	waiter_start(&waiter);
	worker_lock(worker);
	signal_raise(&worker->lane.signals, &cq.signal, SIGNAL_COMPLETION);
	worker_rouse(worker);
	worker_unlock(worker);
	pthread_join(waiter.thread, NULL);
	assert_int_equal(waiter.result, 0);
}

static void second_waiter_does_not_drive(void **state)
{
	struct waiter_thread waiter;

	(void)state;
	waiter_start(&waiter);
	assert_int_equal(worker_wait(worker, &one_channel, &has_events), -EAGAIN);
	assert_int_equal(waiter.result, 1);
	waiter_end(&waiter);
}

static void armed_queue_of_the_same_channel_lets_the_waiter_sleep(void **state)
{
	struct waiter_thread waiter;

	(void)state;
	waiter_start(&waiter);
	worker_note_arm(worker, &one_channel);
	worker_note_arm(worker, NULL);
	assert_true(worker->wait.is_assigned);
	waiter_end(&waiter);
	assert_int_equal(waiter.result, 0);
}

static void armed_queue_of_another_channel_gives_the_lane_to_its_thread(void **state)
{
	struct waiter_thread waiter;
	unsigned refusals = 0;

	(void)state;
	waiter_start(&waiter);
	worker_note_arm(worker, &other_channel);
	pthread_join(waiter.thread, NULL);
	assert_int_equal(waiter.result, -EAGAIN);
	assert_false(worker->wait.is_assigned);
	assert_true(is_kicked());
	/* For a number of waits. */
	atomic_store(&has_events, true);
	while (worker_wait(worker, &one_channel, &has_events) == -EAGAIN)
		refusals++;
	assert_int_equal(refusals, 256);
	assert_true(worker->wait.is_assigned);
}

static void waiter_of_another_channel_gives_the_lane_to_its_thread(void **state)
{
	(void)state;
	wait_briefly();
	assert_true(worker->wait.is_assigned);
	assert_int_equal(worker_wait(worker, &other_channel, &has_events), -EAGAIN);
	assert_false(worker->wait.is_assigned);
}

static void sleeping_waiter_is_woken_for_a_deadline(void **state)
{
	struct waiter_thread waiter;

	(void)state;
	waiter_start(&waiter);
	worker_lock(worker);
	assert_true(worker->is_deep_asleep);
	qp_set_deadline(qp, far_ns);
	worker_send(worker, true);
	assert_false(worker->is_deep_asleep);
	assert_false(worker->wait.is_asleep);
	worker_unlock(worker);
	assert_false(is_kicked());
	asleep_await();
	waiter_end(&waiter);
	assert_int_equal(waiter.result, 0);
}

static void on_interruption(int number)
{
	(void)number;
}

static void handler_set(int flags)
{
	struct sigaction action = {.sa_handler = on_interruption, .sa_flags = flags};

	assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
}

static void handler_unset(void)
{
	signal(SIGUSR1, SIG_DFL);
}

static void signal_whose_handler_interrupts_ends_the_wait(void **state)
{
	struct waiter_thread waiter;

	(void)state;
	handler_set(0);
	waiter_start(&waiter);
	/* The waiter may still be on its way to sleep. */
	while (atomic_load(&waiter.result) == 1) {
		pthread_kill(waiter.thread, SIGUSR1);
		sched_yield();
	}
	pthread_join(waiter.thread, NULL);
	assert_int_equal(waiter.result, -EINTR);
	assert_false(worker->wait.is_in);
	handler_unset();
}

static void signal_whose_handler_restarts_lets_the_waiter_sleep(void **state)
{
	struct waiter_thread waiter;

	(void)state;
	handler_set(SA_RESTART);
	waiter_start(&waiter);
	for (int i = 0; i < 100; i++) {
		pthread_kill(waiter.thread, SIGUSR1);
		sched_yield();
	}
	asleep_await();
	assert_int_equal(waiter.result, 1);
	waiter_end(&waiter);
	assert_int_equal(waiter.result, 0);
	handler_unset();
}

static void cancelled_waiter_leaves_the_lane(void **state)
{
	struct waiter_thread waiter;
	void *result;

	(void)state;
	waiter_start(&waiter);
	pthread_cancel(waiter.thread);
	pthread_join(waiter.thread, &result);
	assert_ptr_equal(result, PTHREAD_CANCELED);
	assert_false(worker->wait.is_in);
	assert_false(worker->wait.is_asleep);
	wait_briefly();
}

static void refused_system_call_leaves_the_lane_to_its_thread(void **state)
{
	(void)state;
	worker->wait.is_impossible = true;
	assert_int_equal(worker_wait(worker, &one_channel, &has_events), -EAGAIN);
	assert_false(worker->wait.is_assigned);
}

static void lane_thread_takes_the_lane_back_a_tick_after_the_last_wait(void **state)
{
	uint64_t sleep_ns;

	(void)state;
	wait_briefly();
	sleep_ns = worker_wait_look(worker);
	assert_true(sleep_ns > 0 && sleep_ns < DEADLINE_NEVER);
	wait_briefly();
	assert_int_equal(worker_wait_look(worker), sleep_ns);
	assert_true(worker->wait.is_assigned);
	assert_int_equal(worker_wait_look(worker), 0);
	assert_false(worker->wait.is_assigned);
}

static void lane_thread_takes_the_lane_back_for_a_deadline(void **state)
{
	(void)state;
	wait_briefly();
	worker_lock(worker);
	qp_set_deadline(qp, 1);
	worker_unlock(worker);
	assert_int_equal(worker_wait_look(worker), 0);
	assert_false(worker->wait.is_assigned);
}

static void lane_thread_sleeps_on_while_a_waiter_sleeps(void **state)
{
	struct waiter_thread waiter;

	(void)state;
	waiter_start(&waiter);
	while (worker_wait_look(worker) != DEADLINE_NEVER)
		assert_true(worker->wait.is_assigned);
	waiter_end(&waiter);
	/* Only the timer wakes the thread. */
	assert_true(is_readable_within(worker->wait.timer, HANG_MS));
	assert_true(is_readable_within(worker->epoll_quiet, HANG_MS));
	assert_true(worker_wait_look(worker) < DEADLINE_NEVER);
	assert_int_equal(worker_wait_look(worker), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(waiter_returns_after_an_event),
		TEST(waiter_takes_packets_in),
		TEST(waiter_that_is_woken_in_vain_gives_the_lane_to_its_thread),
		TEST(waiter_delivers_signals_of_the_lane),
		TEST(second_waiter_does_not_drive),
		TEST(armed_queue_of_the_same_channel_lets_the_waiter_sleep),
		TEST(armed_queue_of_another_channel_gives_the_lane_to_its_thread),
		TEST(waiter_of_another_channel_gives_the_lane_to_its_thread),
		TEST(sleeping_waiter_is_woken_for_a_deadline),
		TEST(signal_whose_handler_interrupts_ends_the_wait),
		TEST(signal_whose_handler_restarts_lets_the_waiter_sleep),
		TEST(cancelled_waiter_leaves_the_lane),
		TEST(refused_system_call_leaves_the_lane_to_its_thread),
		TEST(lane_thread_takes_the_lane_back_a_tick_after_the_last_wait),
		TEST(lane_thread_takes_the_lane_back_for_a_deadline),
		TEST(lane_thread_sleeps_on_while_a_waiter_sleeps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
