/* SPDX-License-Identifier: BSD-2-Clause */
/* A lane at work, without its thread: what its driver leaves to other threads. */
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

enum { ARENA_BYTES = 1 << 20 };

static struct arena arena;
static struct mr_table mrs;
static struct nic_public_lane public;
static struct worker *worker;
static struct cq cq;
static struct qp *qp;
static uint32_t delivered;

static void deliver(struct worker *of, struct signal *signal, uint32_t events)
{
	assert_ptr_equal(of, worker);
	assert_ptr_equal(signal, &cq.signal);
	delivered |= events;
}

static int make_worker(void **state)
{
	static const struct worker_hooks hooks = {.signal = deliver};
	struct qp_init init = {
		.type = QP_TYPE_RC,
		.send_cq = &cq,
		.recv_cq = &cq,
		.caps = {4, 4, 1, 1, 0},
	};

	(void)state;
	void *memory = arena_memory_new(ARENA_BYTES);

	arena_init(&arena, memory, ARENA_BYTES);
	assert_int_equal(mr_table_init(&mrs, &arena, 4, test_permutation(1)), 0);
	assert_int_equal(cq_init(&cq, &arena, 8), 0);
	assert_int_equal(worker_create(&arena, &mrs, 1, 0, &public, &hooks, &worker), 0);
	assert_int_equal(engine_qp_create(&worker->lane, &init, 1, &qp), 0);
	delivered = 0;
	worker_lock(worker);
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

static bool is_kicked(void)
{
	struct pollfd kick = {.fd = worker->kick, .events = POLLIN};

	return poll(&kick, 1, 0) == 1;
}

static uint8_t payload[1 << 16];

/* To a host that does not listen, which does not matter before the first timeout. */
static void connect_to_nobody(void)
{
	const struct gid here = gid_from_ipv4((uint8_t[]){127, 0, 0, 1});
	const struct port_udp_path path = {
		.destination_slot = 2, .remote = gid_from_ipv4((uint8_t[]){127, 0, 0, 2})};
	struct qp_attr attr = {.port = 1,
		.path = {.local = here, .remote = path.remote},
		.path_mtu = 5,
		.dest_qpn = 0x20001};

	assert_int_equal(worker_address_add(worker, &here, 0, udp_bound_socket(&here, 0)), 0);
	assert_int_equal(port_udp_path_open(worker->port, &path, &attr.path.id), 0);
	assert_int_equal(qp_modify(qp, QP_INIT,
				 ATTR_STATE | ATTR_PKEY_INDEX | ATTR_PORT | ATTR_ACCESS, &attr, 1),
		0);
	assert_int_equal(qp_modify(qp, QP_RTR,
				 ATTR_STATE | ATTR_AV | ATTR_PATH_MTU | ATTR_DEST_QPN |
					 ATTR_RQ_PSN | ATTR_MAX_DEST_RD_ATOMIC | ATTR_MIN_RNR_TIMER,
				 &attr, 1),
		0);
	assert_int_equal(qp_modify(qp, QP_RTS,
				 ATTR_STATE | ATTR_TIMEOUT | ATTR_RETRY_CNT | ATTR_RNR_RETRY |
					 ATTR_SQ_PSN | ATTR_MAX_RD_ATOMIC,
				 &attr, 1),
		0);
}

static void post_write(uint32_t bytes)
{
	const struct mr_region region = {
		.iova = (uint64_t)(uintptr_t)payload, .bytes = sizeof(payload), .address = payload};
	struct sge sge = {.address = region.iova, .bytes = bytes};
	const struct send_wr write = {
		.opcode = WR_RDMA_WRITE, .flags = SEND_SIGNALED, .sge = &sge, .sge_count = 1};
	uint32_t posted;

	assert_int_equal(mr_table_add(&mrs, &region, 0, &sge.lkey), 0);
	assert_int_equal(engine_post_send(qp, &write, 1, &posted, 1), 0);
}

/*
 * The first packet of a WRITE is longer than the others, so it is a datagram of its own. The others
 * fill the next datagram.
 */
static void write_of_64_kib_leaves_in_two_datagrams(void **state)
{
	(void)state;
	connect_to_nobody();
	post_write(sizeof(payload));
	worker_send(worker, true);
	assert_int_equal(public.port.tx_packets, 16);
	assert_int_equal(public.port.tx_datagrams, 2);
}

static void poll_that_sends_a_long_message_counts_for_many(void **state)
{
	uint32_t polls = worker->policy.polls;

	(void)state;
	connect_to_nobody();
	worker_poll(worker, &cq);
	assert_int_equal(worker->policy.polls, polls);
	post_write(sizeof(payload));
	worker_poll(worker, &cq);
	assert_true(worker->policy.polls > polls);
	polls = worker->policy.polls;
	worker_poll(worker, &cq);
	assert_int_equal(worker->policy.polls, polls);
}

static void worker_unlock_delivers_pending_events(void **state)
{
	(void)state;
	signal_raise(&worker->lane.signals, &cq.signal, SIGNAL_COMPLETION);
	worker_unlock(worker);
	assert_int_equal(delivered, SIGNAL_COMPLETION);
	worker_lock(worker);
}

static void worker_thread_asleep_without_work_sleeps_on(void **state)
{
	(void)state;
	worker->is_deep_asleep = true;
	worker_send(worker, true);
	assert_true(worker->is_deep_asleep);
	assert_false(is_kicked());
}

static void worker_thread_asleep_is_woken_for_a_deadline(void **state)
{
	(void)state;
	worker->is_deep_asleep = true;
	qp_set_deadline(qp, 1000000);
	worker_send(worker, true);
	assert_false(worker->is_deep_asleep);
	assert_true(is_kicked());
}

/* An application that polls once and then does something else for long: its peer waits. */
static void worker_thread_asleep_is_woken_for_a_pending_acknowledgement(void **state)
{
	(void)state;
	worker->is_deep_asleep = true;
	qp_schedule(qp, LANE_TX_ACK);
	worker_poll(worker, &cq);
	assert_true(atomic_load(&worker->are_acks_deferred));
	assert_false(worker->is_deep_asleep);
	assert_true(is_kicked());
}

/* A program that polled until now: packets must wake the thread again, and at once. */
static void worker_thread_that_keeps_quiet_is_woken_by_who_arms(void **state)
{
	(void)state;
	worker_note_arm(worker, NULL);
	assert_false(is_kicked());
	atomic_store(&worker->is_keeping_quiet, true);
	worker_note_arm(worker, NULL);
	assert_true(is_kicked());
	assert_true(atomic_load(&worker->was_armed));
	assert_false(atomic_load(&worker->is_keeping_quiet));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			worker_unlock_delivers_pending_events, make_worker, unmake_worker),
		cmocka_unit_test_setup_teardown(
			write_of_64_kib_leaves_in_two_datagrams, make_worker, unmake_worker),
		cmocka_unit_test_setup_teardown(
			poll_that_sends_a_long_message_counts_for_many, make_worker, unmake_worker),
		cmocka_unit_test_setup_teardown(
			worker_thread_asleep_without_work_sleeps_on, make_worker, unmake_worker),
		cmocka_unit_test_setup_teardown(
			worker_thread_asleep_is_woken_for_a_deadline, make_worker, unmake_worker),
		cmocka_unit_test_setup_teardown(
			worker_thread_asleep_is_woken_for_a_pending_acknowledgement, make_worker,
			unmake_worker),
		cmocka_unit_test_setup_teardown(worker_thread_that_keeps_quiet_is_woken_by_who_arms,
			make_worker, unmake_worker),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
