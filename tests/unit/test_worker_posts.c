/* SPDX-License-Identifier: BSD-2-Clause */
/* Datagrams that wait for the next post or poll, and what ends the wait. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "support/arena_memory.h"
#include "support/permutation.h"
#include "support/udp_ends.h"
#include "worker/worker.h"

enum { ARENA_BYTES = 1 << 20, DEPTH = 64, DATAGRAM_BYTES = 4096 };
enum { POLLS = POLL_COUNT_PER_TICK << POLL_TRUST_MAX, ATTEMPTS = 20 };

static struct arena arena;
static struct mr_table mrs;
static struct nic_public_lane public;
static struct worker *worker;
static struct cq cq;
static struct qp *qp;
static uint32_t path;
static struct sge sge;
static uint8_t payload[DATAGRAM_BYTES];

/* Datagrams go to a host that does not listen. */
static void qp_start(void)
{
	const struct gid here = gid_from_ipv4((uint8_t[]){127, 0, 0, 1});
	const struct port_udp_path settings = {
		.destination_slot = 2, .remote = gid_from_ipv4((uint8_t[]){127, 0, 0, 2})};
	const struct mr_region region = {
		.iova = (uint64_t)(uintptr_t)payload, .bytes = sizeof(payload), .address = payload};
	struct qp_attr attr = {.port = 1, .path_mtu = 5};

	assert_int_equal(worker_address_add(worker, &here, 0, udp_bound_socket(&here, 0)), 0);
	assert_int_equal(port_udp_path_open(worker->port, &settings, &path), 0);
	assert_int_equal(mr_table_add(&mrs, &region, 0, &sge.lkey), 0);
	sge.address = region.iova;
	sge.bytes = DATAGRAM_BYTES;
	assert_int_equal(qp_modify(qp, QP_INIT,
				 ATTR_STATE | ATTR_PKEY_INDEX | ATTR_PORT | ATTR_QKEY, &attr, 1),
		0);
	assert_int_equal(qp_modify(qp, QP_RTR, ATTR_STATE, &attr, 1), 0);
	assert_int_equal(qp_modify(qp, QP_RTS, ATTR_STATE | ATTR_SQ_PSN, &attr, 1), 0);
}

static int make_worker(void **state)
{
	static const struct worker_hooks hooks = {.signal = NULL};
	struct qp_init init = {
		.type = QP_TYPE_UD,
		.send_cq = &cq,
		.recv_cq = &cq,
		.caps = {DEPTH, 4, 1, 1, 0},
		.mtu_bytes = DATAGRAM_BYTES,
	};

	(void)state;
	void *memory = arena_memory_new(ARENA_BYTES);

	arena_init(&arena, memory, ARENA_BYTES);
	memset(&public, 0, sizeof(public));
	assert_int_equal(mr_table_init(&mrs, &arena, 4, test_permutation(1)), 0);
	assert_int_equal(cq_init(&cq, &arena, DEPTH), 0);
	assert_int_equal(worker_create(&arena, &mrs, 1, 0, &public, &hooks, &worker), 0);
	assert_int_equal(engine_qp_create(&worker->lane, &init, 1, &qp), 0);
	worker_lock(worker);
	qp_start();
	return 0;
}

static int unmake_worker(void **state)
{
	(void)state;
	engine_qp_destroy(qp);
	worker_unlock(worker);
	worker_destroy(worker, false);
	mr_table_done(&mrs);
	arena_memory_free(arena.base, ARENA_BYTES);
	return 0;
}

/* As nic_qp_post_send() does for a program that will poll. Returns whether the datagram waits. */
static bool post_datagram(void)
{
	struct send_wr send = {.opcode = WR_SEND, .sge = &sge, .sge_count = 1};
	uint32_t posted;

	send.datagram = (struct datagram_target){.path = path, .qpn = 0x20001};
	worker->now_ns = clock_now_ns();
	assert_int_equal(engine_post_send(qp, &send, 1, &posted, worker->now_ns), 0);
	if (worker_post_waits(worker, qp))
		return true;
	worker_send(worker, true);
	return false;
}

/* After it, each post waits. */
static void streak_begin(void)
{
	for (uint32_t i = 0; i < POST_STREAK_MIN; i++)
		assert_false(post_datagram());
	assert_int_equal(public.port.tx_packets, POST_STREAK_MIN);
}

static void datagrams_posted_in_a_row_leave_in_a_super_packet(void **state)
{
	(void)state;
	streak_begin();
	for (uint32_t i = 1; i < POST_WAITING_MAX; i++)
		assert_true(post_datagram());
	assert_int_equal(public.port.tx_packets, POST_STREAK_MIN);
	assert_true(atomic_load(&worker->are_posts_waiting));
	assert_false(post_datagram());
	assert_int_equal(public.port.tx_packets, POST_STREAK_MIN + POST_WAITING_MAX);
	assert_int_equal(public.port.tx_datagrams, POST_STREAK_MIN + 1);
	assert_false(atomic_load(&worker->are_posts_waiting));
}

static void poll_sends_datagrams_that_wait(void **state)
{
	(void)state;
	streak_begin();
	assert_true(post_datagram());
	worker_poll(worker, &cq);
	assert_int_equal(public.port.tx_packets, POST_STREAK_MIN + 1);
	assert_false(post_datagram()); /* a new streak */
}

static void program_that_arms_sends_datagrams_that_wait(void **state)
{
	(void)state;
	streak_begin();
	assert_true(post_datagram());
	worker_unlock(worker);
	worker_send_waiting(worker);
	worker_lock(worker);
	assert_int_equal(public.port.tx_packets, POST_STREAK_MIN + 1);
}

static void turn_of_the_thread_sends_datagrams_and_ends_waiting(void **state)
{
	(void)state;
	streak_begin();
	assert_true(post_datagram());
	worker->posts.since_ns -= POST_LATE_NS;
	worker->now_ns += 1;
	worker_send(worker, true);
	assert_int_equal(public.port.tx_packets, POST_STREAK_MIN + 1);
	assert_false(post_datagram());
	assert_int_equal(worker->posts.prompt, POST_PROMPT_MIN - 1);
}

static void datagram_does_not_wait_for_a_thread_in_deep_sleep(void **state)
{
	(void)state;
	streak_begin();
	worker->is_deep_asleep = true;
	assert_false(post_datagram());
}

static void polls_note(void)
{
	poll_policy_note(&worker->policy, POLLS);
	poll_policy_begin(&worker->policy);
}

/*
 * Let a datagram wait while so many polls are counted that the lane's thread backs off. Returns
 * whether the datagram has left, and the thread has not driven the lane. To drive the lane, the
 * thread puts the sockets back into epoll.
 */
static bool thread_sends_while_it_backs_off(void)
{
	const uint64_t end_ns = clock_now_ns() + 1000000000;

	polls_note();
	worker_rouse(worker);
	worker_watch_sockets(worker, false);
	worker->posts = (struct post_policy){.streak = POST_STREAK_MIN};
	if (!post_datagram())
		return false;
	worker_unlock(worker);
	while (atomic_load(&worker->are_posts_waiting) && clock_now_ns() < end_ns)
		polls_note();
	worker_lock(worker);
	return worker->posts.prompt && !worker->is_watching_sockets;
}

/* Several attempts, because on a busy machine the thread may find no polls, and drive the lane. */
static void thread_that_backs_off_sends_a_late_datagram(void **state)
{
	bool sends = false;

	(void)state;
	assert_int_equal(worker_start(worker), 0);
	for (int i = 0; i < ATTEMPTS && !sends; i++)
		sends = thread_sends_while_it_backs_off();
	assert_true(sends);
}

static void datagram_does_not_wait_while_polls_skip_the_lane(void **state)
{
	(void)state;
	streak_begin();
	poll_policy_set_skip(&worker->policy, POLL_SKIP_MIN);
	assert_false(post_datagram());
}

static void datagram_does_not_wait_for_a_waiter(void **state)
{
	(void)state;
	streak_begin();
	atomic_store(&worker->wait.is_assigned, true);
	assert_false(post_datagram());
	atomic_store(&worker->wait.is_assigned, false);
}

static void datagram_does_not_delay_other_queue_pairs(void **state)
{
	struct qp_init init = {
		.type = QP_TYPE_RC, .send_cq = &cq, .recv_cq = &cq, .caps = {4, 4, 1, 1, 0}};
	struct qp *other;

	(void)state;
	streak_begin();
	assert_int_equal(engine_qp_create(&worker->lane, &init, 1, &other), 0);
	qp_schedule(other, LANE_TX_ACK);
	assert_false(post_datagram());
	engine_qp_destroy(other);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_worker, unmake_worker)
		TEST(datagrams_posted_in_a_row_leave_in_a_super_packet),
		TEST(poll_sends_datagrams_that_wait),
		TEST(program_that_arms_sends_datagrams_that_wait),
		TEST(turn_of_the_thread_sends_datagrams_and_ends_waiting),
		TEST(datagram_does_not_wait_for_a_thread_in_deep_sleep),
		TEST(thread_that_backs_off_sends_a_late_datagram),
		TEST(datagram_does_not_wait_while_polls_skip_the_lane),
		TEST(datagram_does_not_wait_for_a_waiter),
		TEST(datagram_does_not_delay_other_queue_pairs),
#undef TEST
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
