/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A program with a non-blocking descriptor, which drives a lane when it comes for events. The
 * lane's own thread does not run; the tests do its work.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "os/kick.h"
#include "support/arena_memory.h"
#include "support/permutation.h"
#include "support/udp_ends.h"
#include "worker/worker.h"

enum { ARENA_BYTES = 1 << 20, HANG_MS = 60000, REFUSALS = 256 };

static struct arena arena;
static struct mr_table mrs;
static struct nic_public_lane public;
static struct worker *worker;
static struct cq cq;
static struct qp *qp;
static int socket_of_lane;
static int socket_of_peer;
static int set; /* the channel's descriptor */
static struct sockaddr_in address; /* of that socket */
static _Atomic bool has_events;
static const char one_channel, other_channel;

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
	set = epoll_create1(EPOLL_CLOEXEC);
	socket_of_peer = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	return set < 0 || socket_of_peer < 0 ? -1 : 0;
}

static int tear_down(void **state)
{
	(void)state;
	worker_lock(worker);
	engine_qp_destroy(qp);
	worker_unlock(worker);
	worker_destroy(worker, false);
	close(set);
	close(socket_of_peer);
	mr_table_done(&mrs);
	arena_memory_free(arena.base, ARENA_BYTES);
	return 0;
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

static void begin(void)
{
	assert_true(worker_visit_begin(worker, &one_channel, set));
}

/* Too short for a packet: the port counts it, and drops it. */
static void packet_send(void)
{
	assert_int_equal(
		sendto(socket_of_peer, "x", 1, 0, (struct sockaddr *)&address, sizeof(address)), 1);
}

static void signal_leave(void)
{
	worker_lock(worker);
	signal_raise(&worker->lane.signals, &cq.signal, SIGNAL_COMPLETION);
	worker_unlock(worker);
}

static void visit(void)
{
	worker_visit(worker, &one_channel, &has_events);
}

/* A visit that finds an event, which a packet has brought. */
static void visit_with_event(void)
{
	packet_send();
	signal_leave();
	visit();
	assert_true(has_events);
	atomic_store(&has_events, false);
}

static void packet_makes_the_set_readable_until_the_visit(void **state)
{
	(void)state;
	begin();
	assert_false(is_readable_within(set, 0));
	packet_send();
	assert_true(is_readable_within(set, HANG_MS));
	visit();
	assert_false(is_readable_within(set, 0));
	assert_int_equal(public.port.rx_short, 1);
}

static void visit_without_an_event_reads_all_packets(void **state)
{
	(void)state;
	begin();
	for (unsigned i = 0; i < 40; i++)
		packet_send();
	visit();
	assert_int_equal(public.port.rx_short, 40);
	assert_false(is_readable_within(set, 0));
}

static void visit_without_an_event_leaves_the_lane_to_its_thread(void **state)
{
	(void)state;
	begin();
	packet_send();
	visit();
	assert_false(worker->wait.is_assigned);
	assert_true(worker->is_watching_sockets);
}

static void visit_with_an_event_of_a_packet_assigns_the_lane(void **state)
{
	(void)state;
	begin();
	visit_with_event();
	assert_true(worker->wait.is_assigned);
	assert_false(worker->is_watching_sockets);
	packet_send();
	assert_true(is_readable_within(set, HANG_MS));
	assert_false(is_readable_within(worker->epoll_all, 0));
}

/* A peer on this host left the record. */
static void visit_with_an_event_of_no_packet_assigns_nothing(void **state)
{
	(void)state;
	begin();
	signal_leave();
	visit();
	assert_true(has_events);
	assert_false(worker->wait.is_assigned);
}

static void packet_that_the_thread_has_taken_in_assigns_the_lane(void **state)
{
	(void)state;
	begin();
	packet_send();
	worker_lock(worker);
	worker_take_in(worker);
	worker_unlock(worker);
	signal_leave();
	visit();
	assert_true(worker->wait.is_assigned);
}

static void lane_thread_is_woken_for_an_early_deadline(void **state)
{
	(void)state;
	begin();
	visit_with_event();
	kick_clear(worker->kick);
	worker_lock(worker);
	qp_set_deadline(qp, UINT64_MAX / 2);
	worker_unlock(worker);
	visit();
	assert_false(is_kicked());
	worker_lock(worker);
	qp_set_deadline(qp, worker->now_ns + POLL_WAIT_TICK_NS / 2);
	worker_unlock(worker);
	visit();
	assert_true(is_kicked());
}

/* The thread sleeps at the sockets, which it does not watch any more. */
static void thread_without_a_time_limit_is_woken_after_the_visit(void **state)
{
	(void)state;
	begin();
	worker->is_deep_asleep = true;
	visit_with_event();
	assert_false(worker->is_deep_asleep);
	assert_true(is_readable_within(worker->epoll_quiet, HANG_MS));
	assert_true(worker_wait_look(worker) < DEADLINE_NEVER);
}

static void lane_thread_takes_the_lane_back_a_tick_after_the_last_visit(void **state)
{
	(void)state;
	begin();
	visit_with_event();
	assert_true(worker_wait_look(worker) > 0);
	visit();
	assert_true(worker_wait_look(worker) > 0);
	assert_true(worker->wait.is_assigned);
	assert_int_equal(worker_wait_look(worker), 0);
	assert_false(worker->wait.is_assigned);
	packet_send();
	assert_true(is_readable_within(set, HANG_MS));
}

static void lane_thread_takes_the_lane_back_for_work_that_no_packet_announces(void **state)
{
	(void)state;
	begin();
	visit_with_event();
	worker->stalled_count = 1;
	assert_int_equal(worker_wait_look(worker), 0);
	worker->stalled_count = 0;
}

static void armed_queue_of_another_channel_takes_the_sockets_back(void **state)
{
	unsigned refusals = 0;

	(void)state;
	begin();
	worker_note_arm(worker, &one_channel);
	assert_true(worker->wait.set >= 0);
	worker_note_arm(worker, &other_channel);
	assert_int_equal(worker->wait.set, -1);
	assert_true(is_kicked());
	packet_send();
	assert_false(is_readable_within(set, 10));
	while (!worker_visit_begin(worker, &one_channel, set))
		refusals++;
	assert_int_equal(refusals, REFUSALS);
}

static void second_channel_has_no_visits(void **state)
{
	(void)state;
	begin();
	assert_false(worker_visit_begin(worker, &other_channel, set));
	packet_send();
	visit();
	worker_visit(worker, &other_channel, &has_events);
	assert_int_equal(public.port.rx_short, 0);
}

static void visits_without_an_event_end_at_a_limit(void **state)
{
	(void)state;
	begin();
	for (unsigned i = 0; i < POLL_VISITS_VAIN_MAX - 1; i++)
		visit();
	visit_with_event();
	for (unsigned i = 0; i < POLL_VISITS_VAIN_MAX - 1; i++)
		visit();
	assert_true(worker->wait.set >= 0);
	visit();
	assert_int_equal(worker->wait.set, -1);
	assert_true(worker->has_socket_error);
	assert_true(is_kicked());
}

static void visits_that_end_take_the_sockets_out(void **state)
{
	(void)state;
	begin();
	visit_with_event();
	worker_visit_end(worker, &other_channel);
	assert_true(worker->wait.is_assigned);
	worker_visit_end(worker, &one_channel);
	assert_false(worker->wait.is_assigned);
	assert_true(is_kicked());
	packet_send();
	assert_false(is_readable_within(set, 10));
	begin(); /* at once */
}

/* urnicd may have the socket open, too. */
static void socket_that_is_closed_leaves_the_set(void **state)
{
	int copy = dup(socket_of_lane);

	(void)state;
	begin();
	worker_lock(worker);
	worker_address_remove(worker, 0);
	worker_unlock(worker);
	packet_send();
	assert_true(is_readable_within(copy, HANG_MS));
	assert_false(is_readable_within(set, 0));
	close(copy);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(packet_makes_the_set_readable_until_the_visit),
		TEST(visit_without_an_event_reads_all_packets),
		TEST(visit_without_an_event_leaves_the_lane_to_its_thread),
		TEST(visit_with_an_event_of_a_packet_assigns_the_lane),
		TEST(visit_with_an_event_of_no_packet_assigns_nothing),
		TEST(packet_that_the_thread_has_taken_in_assigns_the_lane),
		TEST(lane_thread_is_woken_for_an_early_deadline),
		TEST(thread_without_a_time_limit_is_woken_after_the_visit),
		TEST(lane_thread_takes_the_lane_back_a_tick_after_the_last_visit),
		TEST(lane_thread_takes_the_lane_back_for_work_that_no_packet_announces),
		TEST(armed_queue_of_another_channel_takes_the_sockets_back),
		TEST(second_channel_has_no_visits),
		TEST(visits_without_an_event_end_at_a_limit),
		TEST(visits_that_end_take_the_sockets_out),
		TEST(socket_that_is_closed_leaves_the_set),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
