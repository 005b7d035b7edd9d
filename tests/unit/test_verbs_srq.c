/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared receive queues as a program uses them: two connected queue pairs of this process on the
 * loopback interface, the second of which takes from a shared queue, in a network namespace of
 * their own.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <infiniband/verbs.h>

#include "os/setting.h"
#include "support/netns.h"
#include "support/verbs_pair.h"

enum { SRQ_DEPTH = 8, TIMEOUT = 17 };

static struct ibv_context *context;
static struct verbs_end a;
static struct verbs_end b;
static struct ibv_srq *srq; /* of b's domain */

static struct ibv_srq *srq_make(uint32_t depth, uint32_t sge_count)
{
	struct ibv_srq_init_attr init = {
		.srq_context = &srq, .attr = {.max_wr = depth, .max_sge = sge_count}};

	return ibv_create_srq(b.pd, &init);
}

/* b's queue pair is made anew, with the shared queue. */
static int setup(void **state)
{
	struct ibv_qp_init_attr init = {
		.cap = {4, 1u << 30, 1, 1u << 30, 0}, /* those of the receive queue do not matter */
		.qp_type = IBV_QPT_RC,
	};

	(void)state;
	verbs_end_make(&a, context, NULL);
	verbs_end_make(&b, context, NULL);
	srq = srq_make(SRQ_DEPTH, 2);
	MUST(srq);
	MUST(!ibv_destroy_qp(b.qp));
	init.send_cq = b.cq;
	init.recv_cq = b.cq;
	init.srq = srq;
	MUST(b.qp = ibv_create_qp(b.pd, &init));
	verbs_ends_connect(&a, &b, TIMEOUT);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	MUST(!ibv_destroy_qp(b.qp));
	MUST(!ibv_destroy_srq(srq));
	MUST(b.qp = ibv_create_qp(b.pd,
		     &(struct ibv_qp_init_attr){
			     .send_cq = b.cq, .recv_cq = b.cq, .qp_type = IBV_QPT_RC}));
	verbs_end_unmake(&a);
	verbs_end_unmake(&b);
	return 0;
}

static int post(uint64_t wr_id, uint32_t bytes, int sge_count)
{
	struct ibv_sge sge[3] = {
		{(uintptr_t)b.buffer, bytes, b.mr->lkey},
		{(uintptr_t)b.buffer, 0, b.mr->lkey},
	};
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = sge, .num_sge = sge_count};
	struct ibv_recv_wr *bad = NULL;
	int error = ibv_post_srq_recv(srq, &wr, &bad);

	assert_ptr_equal(bad, error ? &wr : NULL);
	return error;
}

static void send_to_b(uint32_t bytes)
{
	assert_int_equal(verbs_post(&a, IBV_WR_SEND, NULL, 0, bytes), 0);
}

static void event_is(enum ibv_event_type type, const void *element)
{
	struct pollfd readable = {.fd = context->async_fd, .events = POLLIN};
	struct ibv_async_event event;

	assert_int_equal(poll(&readable, 1, PAIR_TIMEOUT_S * 1000), 1);
	assert_int_equal(ibv_get_async_event(context, &event), 0);
	assert_int_equal(event.event_type, type);
	assert_ptr_equal(event.element.srq, element);
	ibv_ack_async_event(&event);
}

static void no_event_waits(void)
{
	struct pollfd readable = {.fd = context->async_fd, .events = POLLIN};

	assert_int_equal(poll(&readable, 1, 0), 0);
}

static void attr_is(uint32_t depth, uint32_t limit)
{
	struct ibv_srq_attr attr;

	assert_int_equal(ibv_query_srq(srq, &attr), 0);
	assert_int_equal(attr.max_wr, depth);
	assert_int_equal(attr.max_sge, 2);
	assert_int_equal(attr.srq_limit, limit);
}

static int modify(uint32_t depth, uint32_t limit, int mask)
{
	struct ibv_srq_attr attr = {.max_wr = depth, .srq_limit = limit};

	return ibv_modify_srq(srq, &attr, mask);
}

static void shared_queue_takes_what_the_device_says(void **state)
{
	struct ibv_device_attr device;
	struct ibv_srq *largest;

	(void)state;
	assert_int_equal(ibv_query_device(context, &device), 0);
	assert_null(srq_make(0, 1));
	assert_int_equal(errno, EINVAL);
	assert_null(srq_make((uint32_t)device.max_srq_wr + 1, 1));
	assert_int_equal(errno, EINVAL);
	assert_null(srq_make(1, (uint32_t)device.max_srq_sge + 1));
	assert_int_equal(errno, EINVAL);
	largest = srq_make((uint32_t)device.max_srq_wr, (uint32_t)device.max_srq_sge);
	assert_non_null(largest);
	assert_int_equal(ibv_destroy_srq(largest), 0);
}

static void shared_queues_are_as_many_as_the_device_says(void **state)
{
	struct ibv_device_attr device;
	struct ibv_srq **all;
	int count = 0;

	(void)state;
	assert_int_equal(ibv_query_device(context, &device), 0);
	all = calloc((size_t)device.max_srq, sizeof(struct ibv_srq *));
	assert_non_null(all);
	/* The one of the set-up is there already. */
	while (count < device.max_srq - 1) {
		all[count] = srq_make(1, 0);
		assert_non_null(all[count]);
		count++;
	}
	assert_null(srq_make(1, 0));
	assert_int_equal(errno, ENOMEM);
	while (count > 0)
		assert_int_equal(ibv_destroy_srq(all[--count]), 0);
	free(all);
}

static void shared_queue_in_use_is_not_destroyed(void **state)
{
	(void)state;
	assert_int_equal(ibv_destroy_srq(srq), EBUSY);
	assert_int_equal(ibv_dealloc_pd(b.pd), EBUSY);
}

static void shared_queue_that_was_destroyed_is_refused(void **state)
{
	struct ibv_srq *other = srq_make(1, 1);
	struct ibv_srq copy;
	struct ibv_srq_attr attr;
	uint32_t number;

	(void)state;
	assert_non_null(other);
	copy = *other;
	assert_int_equal(ibv_destroy_srq(other), 0);
	assert_int_equal(ibv_query_srq(&copy, &attr), ENOENT);
	assert_int_equal(ibv_modify_srq(&copy, &attr, 0), ENOENT);
	assert_int_equal(ibv_get_srq_num(&copy, &number), ENOENT);
	assert_int_equal(ibv_destroy_srq(&copy), ENOENT);
	struct ibv_qp_init_attr init = {
		.send_cq = b.cq, .recv_cq = b.cq, .srq = &copy, .qp_type = IBV_QPT_RC};
	assert_null(ibv_create_qp(b.pd, &init));
	assert_int_equal(errno, ENOENT);
}

static void queue_pair_with_a_shared_queue_is_created_without_one_of_its_own(void **state)
{
	struct ibv_qp_init_attr init = {
		.send_cq = b.cq,
		.recv_cq = b.cq,
		.srq = srq,
		.cap = {3, 4, 1, 2, 0},
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_qp *qp = ibv_create_qp(b.pd, &init);

	(void)state;
	assert_non_null(qp);
	assert_int_equal(init.cap.max_send_wr, 3);
	assert_int_equal(init.cap.max_recv_wr, 0);
	assert_int_equal(init.cap.max_recv_sge, 0);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void queue_pair_with_a_shared_queue_shows_it(void **state)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct ibv_recv_wr wr = {0};
	struct ibv_recv_wr *bad = NULL;

	(void)state;
	assert_ptr_equal(b.qp->srq, srq);
	assert_int_equal(ibv_query_qp(b.qp, &attr, 0, &init), 0);
	assert_ptr_equal(init.srq, srq);
	assert_int_equal(init.cap.max_recv_wr, 0);
	assert_int_equal(init.cap.max_recv_sge, 0);
	assert_int_equal(ibv_post_recv(b.qp, &wr, &bad), EINVAL);
	assert_ptr_equal(bad, &wr);
}

static void posts_to_a_shared_queue_are_checked(void **state)
{
	(void)state;
	assert_int_equal(post(1, 8, 3), EINVAL);
	for (uint64_t i = 0; i < SRQ_DEPTH; i++)
		assert_int_equal(post(i, 8, 2), 0);
	assert_int_equal(post(9, 8, 1), ENOMEM);
	send_to_b(8);
	struct ibv_wc wc = verbs_poll_one(b.cq);
	assert_int_equal(wc.wr_id, 0);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.qp_num, b.qp->qp_num);
	assert_int_equal(post(9, 8, 1), 0);
}

static void shared_queue_tells_when_its_limit_is_reached(void **state)
{
	(void)state;
	for (uint64_t i = 0; i < 3; i++)
		assert_int_equal(post(i, 8, 1), 0);
	assert_int_equal(modify(0, 3, IBV_SRQ_LIMIT), 0);
	attr_is(SRQ_DEPTH, 3);
	no_event_waits();
	send_to_b(8);
	verbs_poll_one(b.cq);
	event_is(IBV_EVENT_SRQ_LIMIT_REACHED, srq);
	attr_is(SRQ_DEPTH, 0);
	send_to_b(8);
	verbs_poll_one(b.cq);
	no_event_waits();
	/* One request is left: the event for a limit that is not met follows at once. */
	assert_int_equal(modify(0, 2, IBV_SRQ_LIMIT), 0);
	event_is(IBV_EVENT_SRQ_LIMIT_REACHED, srq);
	assert_int_equal(modify(0, SRQ_DEPTH + 1, IBV_SRQ_LIMIT), EINVAL);
	assert_int_equal(modify(0, 0, IBV_SRQ_LIMIT), 0);
	no_event_waits();
}

static void shared_queue_is_resized(void **state)
{
	struct ibv_device_attr device;

	(void)state;
	assert_int_equal(ibv_query_device(context, &device), 0);
	assert_true(device.device_cap_flags & IBV_DEVICE_SRQ_RESIZE);
	for (uint64_t i = 0; i < 3; i++)
		assert_int_equal(post(i, 8, 1), 0);
	assert_int_equal(modify(2, 0, IBV_SRQ_MAX_WR), EINVAL);
	assert_int_equal(modify(0, 0, IBV_SRQ_MAX_WR), EINVAL);
	assert_int_equal(modify((uint32_t)device.max_srq_wr + 1, 0, IBV_SRQ_MAX_WR), EINVAL);
	assert_int_equal(modify(100, 101, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT), EINVAL);
	assert_int_equal(modify(100, 3, IBV_SRQ_MAX_WR | 1 << 7), EINVAL);
	attr_is(SRQ_DEPTH, 0);
	assert_int_equal(modify(100, 3, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT), 0);
	attr_is(100, 3);
	for (uint64_t i = 3; i < 100; i++)
		assert_int_equal(post(i, 8, 1), 0);
	assert_int_equal(post(100, 8, 1), ENOMEM);
	send_to_b(8);
	assert_int_equal(verbs_poll_one(b.cq).wr_id, 0);
}

/* Takes one at a time, fast, while the queue is resized to and fro. */
static void *resize_to_and_fro(void *stop)
{
	for (uint32_t i = 0; !__atomic_load_n((bool *)stop, __ATOMIC_ACQUIRE); i++)
		MUST(!modify(i % 2 ? SRQ_DEPTH : 100, 0, IBV_SRQ_MAX_WR));
	return NULL;
}

static void shared_queue_is_resized_while_it_is_used(void **state)
{
	pthread_t thread;
	bool stop = false;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, resize_to_and_fro, &stop), 0);
	for (uint64_t i = 0; i < 2000; i++) {
		assert_int_equal(post(i, 8, 1), 0);
		send_to_b(8);
		struct ibv_wc wc = verbs_poll_one(b.cq);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		assert_int_equal(wc.wr_id, i);
		verbs_poll_one(a.cq);
	}
	__atomic_store_n(&stop, true, __ATOMIC_RELEASE);
	assert_int_equal(pthread_join(thread, NULL), 0);
}

/*
 * Each pair has a completion queue of its own, so the pairs are on different lanes; the receiving
 * ends share the queue.
 */
enum { THREAD_COUNT = 4, MESSAGE_COUNT = 500 };

struct conversation {
	pthread_t thread;
	struct verbs_end from;
	struct verbs_end to;
	uint32_t number;
};

static uint8_t times_completed[THREAD_COUNT * MESSAGE_COUNT];

static void conversation_make(struct conversation *conversation)
{
	struct verbs_end *to = &conversation->to;
	struct ibv_qp_init_attr init = {.cap = {4, 0, 1, 0, 0}, .qp_type = IBV_QPT_RC, .srq = srq};

	verbs_end_make(&conversation->from, context, NULL);
	verbs_end_make(to, context, NULL);
	MUST(!ibv_destroy_qp(to->qp));
	init.send_cq = to->cq;
	init.recv_cq = to->cq;
	MUST(to->qp = ibv_create_qp(to->pd, &init));
	verbs_ends_connect(&conversation->from, to, TIMEOUT);
}

/* Each message brings a request along, which may serve another one. */
static void *converse(void *argument)
{
	struct conversation *conversation = argument;

	for (uint32_t i = 0; i < MESSAGE_COUNT; i++) {
		struct ibv_wc wc;

		MUST(!post(conversation->number * MESSAGE_COUNT + i, 8, 1));
		MUST(!verbs_post(&conversation->from, IBV_WR_SEND, NULL, 0, 8));
		wc = verbs_poll_one(conversation->to.cq);
		MUST(wc.status == IBV_WC_SUCCESS && wc.qp_num == conversation->to.qp->qp_num);
		__atomic_add_fetch(&times_completed[wc.wr_id], 1, __ATOMIC_RELAXED);
		MUST(verbs_poll_one(conversation->from.cq).status == IBV_WC_SUCCESS);
	}
	return NULL;
}

static void shared_queue_serves_queue_pairs_of_several_lanes(void **state)
{
	static struct conversation conversations[THREAD_COUNT];

	(void)state;
	for (uint32_t i = 0; i < THREAD_COUNT; i++) {
		conversations[i].number = i;
		conversation_make(&conversations[i]);
	}
	for (uint32_t i = 0; i < THREAD_COUNT; i++)
		assert_int_equal(
			pthread_create(&conversations[i].thread, NULL, converse, &conversations[i]),
			0);
	for (uint32_t i = 0; i < THREAD_COUNT; i++)
		assert_int_equal(pthread_join(conversations[i].thread, NULL), 0);
	for (uint32_t i = 0; i < THREAD_COUNT * MESSAGE_COUNT; i++)
		assert_int_equal(times_completed[i], 1);
	for (uint32_t i = 0; i < THREAD_COUNT; i++) {
		verbs_end_unmake(&conversations[i].from);
		verbs_end_unmake(&conversations[i].to);
	}
}

static void queue_pair_in_error_says_that_it_takes_no_more(void **state)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	struct ibv_wc wc;

	(void)state;
	assert_int_equal(post(1, 8, 1), 0);
	assert_int_equal(ibv_modify_qp(b.qp, &attr, IBV_QP_STATE), 0);
	event_is(IBV_EVENT_QP_LAST_WQE_REACHED, b.qp);
	assert_int_equal(ibv_poll_cq(b.cq, 1, &wc), 0);
	/* The request is still there for another. */
	assert_int_equal(modify(1, 0, IBV_SRQ_MAX_WR), 0);
	assert_int_equal(post(2, 8, 1), ENOMEM);
}

static int open_context(void **state)
{
	(void)state;
	context = verbs_pair_open();
	return fcntl(context->async_fd, F_SETFL, O_NONBLOCK);
}

static int close_context(void **state)
{
	(void)state;
	return ibv_close_device(context);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(shared_queue_takes_what_the_device_says),
		TEST(shared_queues_are_as_many_as_the_device_says),
		TEST(shared_queue_in_use_is_not_destroyed),
		TEST(shared_queue_that_was_destroyed_is_refused),
		TEST(queue_pair_with_a_shared_queue_is_created_without_one_of_its_own),
		TEST(queue_pair_with_a_shared_queue_shows_it),
		TEST(posts_to_a_shared_queue_are_checked),
		TEST(shared_queue_tells_when_its_limit_is_reached),
		TEST(shared_queue_is_resized),
		TEST(shared_queue_is_resized_while_it_is_used),
		TEST(shared_queue_serves_queue_pairs_of_several_lanes),
		TEST(queue_pair_in_error_says_that_it_takes_no_more),
	};

	if (netns_enter_new() < 0)
		return 77;
	setenv("URNIC_LANES", "4", 1);
	unsetenv("URNIC_DEVICE_NAME");
	unsetenv("URNIC_INTERFACES");
	settings_read();
	return cmocka_run_group_tests(tests, open_context, close_context);
}
