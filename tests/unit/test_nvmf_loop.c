/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "nvmf/common/bytes.h"
#include "nvmf/common/loop.h"
#include "nvmf/common/network.h"

static char order[16];

static bool is_recording;
static int recorded_ms;

/* In place of the C library's, so that a test sees how long the loop would sleep. */
int epoll_wait(int fd, struct epoll_event *events, int events_max, int timeout_ms)
{
	if (!is_recording)
		return epoll_pwait(fd, events, events_max, timeout_ms, NULL);
	recorded_ms = timeout_ms;
	return 0;
}

static void note(char letter)
{
	size_t length = strlen(order);

	assert_true(length + 1 < sizeof(order));
	order[length] = letter;
	order[length + 1] = 0;
}

static void expired_a(struct loop_timer *timer)
{
	(void)timer;
	note('a');
}

static void expired_b(struct loop_timer *timer)
{
	(void)timer;
	note('b');
}

static void timers_of_a_virtual_loop_expire_by_deadline(void **state)
{
	struct loop_timer a;
	struct loop_timer b;
	struct loop *loop;

	(void)state;
	order[0] = 0;
	assert_int_equal(loop_create_virtual(NULL, &loop), 0);
	loop_timer_init(&a, expired_a);
	loop_timer_init(&b, expired_b);
	assert_true(loop_deadline_ns(loop) == UINT64_MAX);
	loop_timer_set(loop, &a, 20);
	loop_timer_set(loop, &b, 10);
	assert_int_equal(loop_deadline_ns(loop), 10);
	loop_advance(loop, 9);
	assert_string_equal(order, "");
	loop_advance(loop, 20);
	assert_string_equal(order, "ba");
	loop_timer_set(loop, &a, 30);
	loop_timer_set(loop, &a, 40);
	loop_advance(loop, 35);
	assert_string_equal(order, "ba");
	loop_timer_cancel(&a);
	loop_advance(loop, 50);
	assert_string_equal(order, "ba");
	loop_destroy(loop);
}

static int sleep_ms(struct loop *loop, uint64_t wait_ns)
{
	is_recording = true;
	loop_step(loop, wait_ns);
	is_recording = false;
	return recorded_ms;
}

/* A sleep without end would miss the timer. */
static void idle_loop_wakes_each_hour_for_a_timer_that_is_days_away(void **state)
{
	const uint64_t hour_ns = 3600000000000u;
	struct loop_timer timer;
	struct loop *loop;

	(void)state;
	assert_int_equal(loop_create(&loop), 0);
	assert_int_equal(sleep_ms(loop, UINT64_MAX), -1);
	assert_int_equal(sleep_ms(loop, 2 * hour_ns), 3600000);
	loop_timer_init(&timer, expired_a);
	loop_timer_set(loop, &timer, loop_now_ns(loop) + 48 * hour_ns);
	assert_int_equal(sleep_ms(loop, UINT64_MAX), 3600000);
	assert_int_equal(sleep_ms(loop, 1), 1);
	loop_timer_cancel(&timer);
	loop_destroy(loop);
}

static struct loop *running;
static struct loop_watch watches[2];

/* Whichever comes first unwatches the other, whose event is pending then. */
static void pipe_ready(struct loop_watch *watch, uint32_t events)
{
	(void)events;
	note('p');
	loop_unwatch(running, &watches[0]);
	loop_unwatch(running, &watches[1]);
	(void)watch;
	loop_stop(running);
}

static void pending_event_of_a_removed_watch_is_dropped(void **state)
{
	int pipes[2][2];

	(void)state;
	order[0] = 0;
	assert_int_equal(loop_create(&running), 0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(pipe(pipes[i]), 0);
		watches[i].ready = pipe_ready;
		assert_int_equal(loop_watch(running, &watches[i], pipes[i][0], EPOLLIN), 0);
		assert_int_equal(write(pipes[i][1], "x", 1), 1);
	}
	loop_run(running);
	assert_string_equal(order, "p");
	for (int i = 0; i < 2; i++) {
		close(pipes[i][0]);
		close(pipes[i][1]);
	}
	loop_destroy(running);
}

static void work_run(struct loop_work *work)
{
	(void)work;
	note('w');
	loop_stop(running);
}

static void *post(void *argument)
{
	loop_post(running, argument);
	return NULL;
}

static void work_posted_by_another_thread_wakes_the_loop(void **state)
{
	struct loop_work work;
	pthread_t thread;

	(void)state;
	order[0] = 0;
	assert_int_equal(loop_create(&running), 0);
	loop_work_init(&work, work_run);
	assert_int_equal(pthread_create(&thread, NULL, post, &work), 0);
	loop_run(running);
	assert_string_equal(order, "w");
	assert_int_equal(pthread_join(thread, NULL), 0);
	loop_destroy(running);
}

static void bytes_are_little_endian(void **state)
{
	uint8_t bytes[8];

	(void)state;
	le64_put(bytes, 0x8877665544332211u);
	for (int i = 0; i < 8; i++)
		assert_int_equal(bytes[i], 0x11 * (i + 1));
	assert_int_equal(le16_get(bytes), 0x2211);
	assert_int_equal(le24_get(bytes), 0x332211);
	assert_int_equal(le32_get(bytes), 0x44332211);
	assert_true(le64_get(bytes) == 0x8877665544332211u);
	le24_put(bytes + 1, 0xabcdef);
	assert_int_equal(le32_get(bytes + 1), 0x55abcdef);
}

static uint32_t wanted_events;

static void events_wanted(struct network *network, struct loop_watch *watch)
{
	(void)network;
	assert_int_equal(watch->fd, 7);
	wanted_events = watch->events;
}

static struct loop *virtual_loop;
static struct loop_watch other_watch;

static void ready_removes_other(struct loop_watch *watch, uint32_t events)
{
	(void)watch;
	note(events == EPOLLIN ? 'i' : 'o');
	loop_unwatch(virtual_loop, &other_watch);
}

static void ready_never(struct loop_watch *watch, uint32_t events)
{
	(void)watch;
	(void)events;
	fail();
}

static void network_of_a_virtual_loop_reports_events(void **state)
{
	struct network network = {.watch = events_wanted};
	struct loop_watch watch = {.ready = ready_removes_other};
	struct loop_timer timer;

	(void)state;
	order[0] = 0;
	assert_int_equal(loop_create_virtual(&network, &virtual_loop), 0);
	assert_ptr_equal(loop_network(virtual_loop), &network);
	other_watch.ready = ready_never;
	assert_int_equal(loop_watch(virtual_loop, &other_watch, 7, EPOLLOUT), 0);
	assert_int_equal(wanted_events, EPOLLOUT);
	assert_int_equal(loop_watch(virtual_loop, &watch, 7, EPOLLIN), 0);
	loop_timer_init(&timer, expired_a);
	loop_timer_set(virtual_loop, &timer, 10);
	/* Reports precede timers, and a removed watch gets no report. */
	loop_report(virtual_loop, &watch, EPOLLIN);
	loop_report(virtual_loop, &other_watch, EPOLLOUT);
	loop_report(virtual_loop, &watch, EPOLLIN);
	loop_advance(virtual_loop, 10);
	assert_string_equal(order, "ia");
	assert_int_equal(loop_rewatch(virtual_loop, &watch, EPOLLOUT), 0);
	assert_int_equal(wanted_events, EPOLLOUT);
	loop_unwatch(virtual_loop, &watch);
	assert_int_equal(wanted_events, 0);
	loop_destroy(virtual_loop);
}

/* The kernel ends a connection whose peer has vanished, also one that owes acknowledgements. */
static void accepted_socket_has_keep_alive(void **state)
{
	struct network *network = &network_sockets;
	struct sockaddr_storage address = {.ss_family = AF_INET}, none = {0}, peer;
	struct sockaddr_in *ipv4 = (struct sockaddr_in *)&address;
	socklen_t bytes = sizeof(*ipv4), option_bytes = sizeof(int);
	int listener, connected, accepted, is_on = 0, timeout_ms = 0;

	(void)state;
	ipv4->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	listener = network->listen(network, &address);
	assert_true(listener >= 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &bytes), 0);
	connected = network->connect(network, &none, &address);
	assert_true(connected >= 0);
	accepted = network->accept(network, listener, &peer);
	assert_true(accepted >= 0);
	assert_int_equal(getsockopt(accepted, SOL_SOCKET, SO_KEEPALIVE, &is_on, &option_bytes), 0);
	assert_true(is_on);
	assert_int_equal(
		getsockopt(accepted, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, &option_bytes), 0);
	assert_int_equal(timeout_ms, 60000);
	network->close(network, accepted);
	network->close(network, connected);
	network->close(network, listener);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(timers_of_a_virtual_loop_expire_by_deadline),
		cmocka_unit_test(idle_loop_wakes_each_hour_for_a_timer_that_is_days_away),
		cmocka_unit_test(network_of_a_virtual_loop_reports_events),
		cmocka_unit_test(pending_event_of_a_removed_watch_is_dropped),
		cmocka_unit_test(work_posted_by_another_thread_wakes_the_loop),
		cmocka_unit_test(accepted_socket_has_keep_alive),
		cmocka_unit_test(bytes_are_little_endian),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
