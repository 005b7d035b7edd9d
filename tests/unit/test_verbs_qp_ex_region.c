/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Posting call by call (ibv_wr_*): the requests between wr_start and wr_complete are posted
 * together or not at all.
 */
#include "support/verbs_builder.h"

#include <errno.h>
#include <stdatomic.h>
#include <unistd.h>

static void nothing_happens_before_the_region_is_complete(void **state)
{
	struct ibv_wc wc;

	(void)state;
	b.buffer[0] = 0;
	a.buffer[0] = 5;
	ibv_wr_start(qp);
	ibv_wr_rdma_write(qp, b.mr->rkey, far(0));
	set_near(0, 1);
	usleep(20000);
	assert_int_equal(ibv_poll_cq(a.cq, 1, &wc), 0);
	assert_int_equal(b.buffer[0], 0);
	assert_int_equal(ibv_wr_complete(qp), 0);
	assert_int_equal(verbs_poll_one(a.cq).status, IBV_WC_SUCCESS);
	assert_int_equal(b.buffer[0], 5);
}

static void aborted_region_leaves_nothing(void **state)
{
	(void)state;
	b.buffer[0] = 0;
	a.buffer[0] = 6;
	for (uint32_t i = 0; i < 3 * DEPTH; i++) {
		ibv_wr_start(qp);
		qp->wr_id = 7;
		ibv_wr_rdma_write(qp, b.mr->rkey, far(0));
		set_near(0, 1);
		ibv_wr_abort(qp);
	}
	ibv_wr_start(qp);
	qp->wr_id = 8;
	ibv_wr_rdma_read(qp, b.mr->rkey, far(0));
	set_near(8, 1);
	assert_int_equal(ibv_wr_complete(qp), 0);
	completes(8);
	assert_int_equal(b.buffer[0], 0);
	ibv_wr_start(qp);
	assert_int_equal(ibv_wr_complete(qp), 0); /* an empty one is fine */
}

/* A good request, what `spoil` does, another good request: all are refused with `expected`. */
static void region_fails(void (*spoil)(void), int expected)
{
	struct ibv_wc wc;

	ibv_wr_start(qp);
	ibv_wr_rdma_write(qp, b.mr->rkey, far(0));
	set_near(0, 8);
	spoil();
	ibv_wr_rdma_write(qp, b.mr->rkey, far(8));
	set_near(0, 8);
	assert_int_equal(ibv_wr_complete(qp), expected);
	assert_int_equal(ibv_poll_cq(a.cq, 1, &wc), 0);
}

static void spoil_by_list(void)
{
	struct ibv_sge list[3] = {{0, 0, 0}, {0, 0, 0}, {0, 0, 0}};

	ibv_wr_rdma_write(qp, b.mr->rkey, far(0));
	ibv_wr_set_sge_list(qp, 3, list);
	ibv_wr_set_sge_list(qp, SIZE_MAX, list);
}

static void spoil_by_length(void)
{
	struct ibv_sge list[2] = {{0, UINT32_MAX, 0}, {0, UINT32_MAX, 0}};

	ibv_wr_rdma_write(qp, b.mr->rkey, far(0));
	ibv_wr_set_sge_list(qp, 2, list);
}

static void spoil_by_inline(void)
{
	ibv_wr_rdma_write(qp, b.mr->rkey, far(0));
	ibv_wr_set_inline_data(qp, a.buffer, INLINE_BYTES + 1);
}

static void spoil_by_inline_sum(void)
{
	struct ibv_data_buf parts[] = {{a.buffer, INLINE_BYTES}, {a.buffer, SIZE_MAX}};

	ibv_wr_rdma_write(qp, b.mr->rkey, far(0));
	ibv_wr_set_inline_data_list(qp, 2, parts);
}

static void spoil_by_inline_read(void)
{
	ibv_wr_rdma_read(qp, b.mr->rkey, far(0));
	ibv_wr_set_inline_data(qp, a.buffer, 8);
}

static void spoil_by_number(void)
{
	for (uint32_t i = 0; i < DEPTH; i++) {
		ibv_wr_rdma_write(qp, b.mr->rkey, far(0));
		set_near(0, 8);
	}
}

static void region_with_an_error_is_refused_as_a_whole(void **state)
{
	(void)state;
	region_fails(spoil_by_list, EINVAL);
	region_fails(spoil_by_length, EINVAL);
	region_fails(spoil_by_inline, EINVAL);
	region_fails(spoil_by_inline_sum, EINVAL);
	region_fails(spoil_by_inline_read, EINVAL);
	region_fails(spoil_by_number, ENOMEM);

	/* Data for no request. */
	ibv_wr_start(qp);
	set_near(0, 8);
	assert_int_equal(ibv_wr_complete(qp), EINVAL);
	ibv_wr_start(qp);
	ibv_wr_set_inline_data(qp, a.buffer, 8);
	assert_int_equal(ibv_wr_complete(qp), EINVAL);

	/* And after all of that it works as ever. */
	qp->wr_id = 4;
	ibv_wr_start(qp);
	ibv_wr_rdma_write(qp, b.mr->rkey, far(0));
	set_near(0, 8);
	assert_int_equal(ibv_wr_complete(qp), 0);
	completes(4);
}

static void region_in_a_state_that_takes_none_is_refused(void **state)
{
	struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};

	(void)state;
	/* The slots that it built in are not where the queue goes on after a reset. */
	assert_int_equal(verbs_post(&a, IBV_WR_RDMA_WRITE, &b, 0, 1), 0);
	verbs_poll_one(a.cq);
	ibv_wr_start(qp);
	ibv_wr_rdma_write(qp, b.mr->rkey, far(0));
	set_near(0, 8);
	assert_int_equal(ibv_modify_qp(a.qp, &reset, IBV_QP_STATE), 0);
	assert_int_equal(ibv_modify_qp(b.qp, &reset, IBV_QP_STATE), 0);
	verbs_ends_connect(&a, &b, TIMEOUT_HALF_A_SECOND);
	assert_int_equal(ibv_wr_complete(qp), EINVAL);
	assert_int_equal(ibv_modify_qp(a.qp, &reset, IBV_QP_STATE), 0);
	ibv_wr_start(qp);
	ibv_wr_send(qp);
	assert_int_equal(ibv_wr_complete(qp), EINVAL);
}

static void region_in_the_error_state_is_flushed(void **state)
{
	struct ibv_qp_attr error = {.qp_state = IBV_QPS_ERR};

	(void)state;
	assert_int_equal(ibv_modify_qp(a.qp, &error, IBV_QP_STATE), 0);
	ibv_wr_start(qp);
	ibv_wr_send(qp);
	ibv_wr_send(qp);
	assert_int_equal(ibv_wr_complete(qp), 0);
	assert_int_equal(verbs_poll_one(a.cq).status, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(verbs_poll_one(a.cq).status, IBV_WC_WR_FLUSH_ERR);
}

static _Atomic int has_posted;

static void *post_in_thread(void *argument)
{
	(void)argument;
	MUST(!verbs_post(&a, IBV_WR_RDMA_WRITE, &b, 1, 1));
	atomic_store(&has_posted, 1);
	return NULL;
}

static void other_way_of_posting_waits_for_the_region(void **state)
{
	pthread_t thread;

	(void)state;
	atomic_store(&has_posted, 0);
	ibv_wr_start(qp);
	qp->wr_id = 77;
	ibv_wr_rdma_write(qp, b.mr->rkey, far(0));
	set_near(0, 1);
	assert_int_equal(pthread_create(&thread, NULL, post_in_thread, NULL), 0);
	usleep(20000);
	assert_int_equal(atomic_load(&has_posted), 0);
	assert_int_equal(ibv_wr_complete(qp), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	completes(77);
	completes(1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		PAIR(nothing_happens_before_the_region_is_complete),
		PAIR(aborted_region_leaves_nothing),
		PAIR(region_with_an_error_is_refused_as_a_whole),
		PAIR(region_in_a_state_that_takes_none_is_refused),
		PAIR(region_in_the_error_state_is_flushed),
		PAIR(other_way_of_posting_waits_for_the_region),
	};

	return builder_begin() ? cmocka_run_group_tests(tests, NULL, NULL) : 77;
}
