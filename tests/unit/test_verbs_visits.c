/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What makes a completion channel's descriptor readable. For programs like the manual page's
 * example that is only an event. For programs that have got EAGAIN it is also a packet. Two ends of
 * one process exchange packets. The ends are on lanes of their own; the program of end `a` is the
 * one with the descriptor.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "nic/nic_internal.h"
#include "os/setting.h"
#include "support/netns.h"
#include "support/verbs_pair.h"

enum { ROUNDS = 200, READS = 300, LONG_BYTES = PAIR_BYTES, COMPUTE_MS = 1000 };

static struct ibv_context *context;
static struct verbs_pair pair;

/* A thread that looks at the descriptor all the time. */
static struct watcher {
	pthread_t thread;
	_Atomic bool is_over;
	uint32_t readable;
} watcher;

static int set_up(void **state)
{
	(void)state;
	context = verbs_pair_open();
	verbs_pair_make(&pair, context);
	fcntl(pair.a.channel->fd, F_SETFL, O_NONBLOCK);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	verbs_pair_unmake(&pair);
	return ibv_close_device(context);
}

static bool is_readable(int ms)
{
	struct pollfd readable = {.fd = pair.a.channel->fd, .events = POLLIN};

	return poll(&readable, 1, ms) == 1;
}

static int event_take(void)
{
	struct ibv_cq *cq;
	void *cq_context;

	if (ibv_get_cq_event(pair.a.channel, &cq, &cq_context))
		return errno;
	MUST(cq == pair.a.cq);
	ibv_ack_cq_events(cq, 1);
	return 0;
}

static void arm(void)
{
	assert_int_equal(ibv_req_notify_cq(pair.a.cq, 0), 0);
}

/* The program shows that it tolerates EAGAIN, and goes on. */
static void miss(void)
{
	assert_int_equal(event_take(), EAGAIN);
	arm();
}

static void *watch(void *argument)
{
	(void)argument;
	while (!atomic_load(&watcher.is_over))
		watcher.readable += is_readable(0);
	return NULL;
}

static void *visit_always(void *argument)
{
	(void)argument;
	while (!atomic_load(&watcher.is_over))
		if (is_readable(1)) {
			MUST(event_take() == EAGAIN);
			watcher.readable++;
		}
	return NULL;
}

static void watcher_start(void *(*body)(void *argument))
{
	watcher.readable = 0;
	atomic_store(&watcher.is_over, false);
	assert_int_equal(pthread_create(&watcher.thread, NULL, body, NULL), 0);
}

/* Returns how often the descriptor was readable. */
static uint32_t watcher_end(void)
{
	atomic_store(&watcher.is_over, true);
	pthread_join(watcher.thread, NULL);
	return watcher.readable;
}

/* The other end reads this end's memory, `count` times. */
static void memory_read(uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		assert_int_equal(verbs_post(&pair.b, IBV_WR_RDMA_READ, &pair.a, 0, 64), 0);
		assert_int_equal(verbs_poll_one(pair.b.cq).status, IBV_WC_SUCCESS);
	}
}

static void message_send(void)
{
	assert_int_equal(verbs_post(&pair.b, IBV_WR_SEND, &pair.a, 0, LONG_BYTES), 0);
}

static void message_await(void)
{
	assert_int_equal(verbs_poll_one(pair.a.cq).status, IBV_WC_SUCCESS);
	assert_int_equal(verbs_poll_one(pair.b.cq).status, IBV_WC_SUCCESS);
}

/* The example of the manual page of ibv_get_cq_event. */
static void program_that_polls_first_always_gets_an_event(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < ROUNDS; i++) {
		verbs_post_recv(&pair.a, 1, 0, LONG_BYTES);
		arm();
		memory_read(3);
		message_send();
		assert_true(is_readable(PAIR_TIMEOUT_S * 1000));
		assert_int_equal(event_take(), 0);
		message_await();
	}
}

static void packets_leave_the_descriptor_of_such_a_program_alone(void **state)
{
	(void)state;
	arm();
	watcher_start(watch);
	memory_read(READS);
	assert_int_equal(watcher_end(), 0);
}

static void packets_wake_a_program_that_tolerates_it(void **state)
{
	uint32_t readable = 0;

	(void)state;
	/* A program that the machine leaves waiting for long does not count as one that visits. */
	for (uint32_t i = 0; i < ROUNDS && !readable; i++) {
		miss();
		watcher_start(visit_always);
		memory_read(READS);
		readable = watcher_end();
	}
	assert_true(readable > 0);
}

static bool is_assigned;

static void assigned_look(struct worker *worker)
{
	is_assigned |= atomic_load(&worker->wait.is_assigned);
}

/* It was busy, or it polled the armed queue. */
static void program_that_comes_after_its_event_gets_the_lane(void **state)
{
	(void)state;
	miss();
	is_assigned = false;
	for (uint32_t i = 0; i < ROUNDS && !is_assigned; i++) {
		verbs_post_recv(&pair.a, 1, 0, LONG_BYTES);
		message_send();
		message_await();
		usleep(1000);
		assert_int_equal(event_take(), 0);
		nic_for_each_worker(assigned_look);
		arm();
	}
	assert_true(is_assigned);
}

static void blocking_descriptor_is_readable_for_events_only(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 3; i++) {
		fcntl(pair.a.channel->fd, F_SETFL, O_NONBLOCK);
		miss();
		memory_read(3);
		fcntl(pair.a.channel->fd, F_SETFL, 0);
		verbs_post_recv(&pair.a, 1, 0, LONG_BYTES);
		arm();
		watcher_start(watch);
		memory_read(READS);
		assert_int_equal(watcher_end(), 0);
		message_send();
		assert_true(is_readable(PAIR_TIMEOUT_S * 1000));
		assert_int_equal(event_take(), 0);
		message_await();
	}
}

static void descriptor_with_an_owner_is_readable_for_events_only(void **state)
{
	sigset_t signals;

	(void)state;
	sigemptyset(&signals);
	sigaddset(&signals, SIGIO);
	pthread_sigmask(SIG_BLOCK, &signals, NULL);
	fcntl(pair.a.channel->fd, F_SETOWN, getpid());
	verbs_post_recv(&pair.a, 1, 0, LONG_BYTES);
	miss();
	watcher_start(watch);
	memory_read(READS);
	assert_int_equal(watcher_end(), 0);
	message_send();
	assert_int_equal(sigwaitinfo(&signals, NULL), SIGIO);
	assert_int_equal(event_take(), 0);
	message_await();
}

/* Sleeps at the descriptor and takes events until there are none. */
static void visit_until_event(void)
{
	int error;

	while ((error = event_take()) == EAGAIN)
		assert_true(is_readable(PAIR_TIMEOUT_S * 1000));
	assert_int_equal(error, 0);
	arm();
}

static void exchange(uint32_t rounds)
{
	for (uint32_t i = 0; i < rounds; i++) {
		verbs_post_recv(&pair.a, 1, 0, LONG_BYTES);
		memory_read(i % 3);
		message_send();
		visit_until_event();
		message_await();
	}
}

static void message_of_several_packets_is_one_event(void **state)
{
	(void)state;
	miss();
	exchange(ROUNDS);
}

/* The lane's thread serves the READs. */
static void program_that_computes_delays_reads_by_little(void **state)
{
	struct timespec begin, end;

	(void)state;
	miss();
	exchange(3);
	clock_gettime(CLOCK_MONOTONIC, &begin);
	memory_read(20);
	clock_gettime(CLOCK_MONOTONIC, &end);
	assert_true((end.tv_sec - begin.tv_sec) * 1000 + (end.tv_nsec - begin.tv_nsec) / 1000000 <
		COMPUTE_MS);
}

/* A child shares the descriptor, and its end changes nothing. */
static void fork_of_a_program_leaves_its_visits(void **state)
{
	int status;
	pid_t child;

	(void)state;
	miss();
	exchange(3);
	child = fork();
	if (child == 0) {
		event_take();
		ibv_destroy_comp_channel(pair.a.channel);
		_exit(0);
	}
	exchange(3);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	exchange(3);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(program_that_polls_first_always_gets_an_event),
		TEST(packets_leave_the_descriptor_of_such_a_program_alone),
		TEST(packets_wake_a_program_that_tolerates_it),
		TEST(program_that_comes_after_its_event_gets_the_lane),
		TEST(blocking_descriptor_is_readable_for_events_only),
		TEST(descriptor_with_an_owner_is_readable_for_events_only),
		TEST(message_of_several_packets_is_one_event),
		TEST(program_that_computes_delays_reads_by_little),
		TEST(fork_of_a_program_leaves_its_visits),
	};

	if (netns_enter_new() < 0)
		return 77;
	unsetenv("URNIC_DEVICE_NAME");
	unsetenv("URNIC_INTERFACES");
	setenv("URNIC_LOCAL", "off", 1);
	setenv("URNIC_LANES", "4", 1);
	settings_read();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
