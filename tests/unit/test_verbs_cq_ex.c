/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Extended completion queues, and what programs do with completion queues beside polling: fields
 * and timestamps, threads that wait for each other, resizing.
 */
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "os/setting.h"
#include "support/netns.h"
#include "support/verbs_pair.h"

enum { TIMEOUT_HALF_A_SECOND = 17, CQE_COUNT = 16 };

#define WC_FLAGS                                                       \
	(IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | \
		IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK)

static struct ibv_context *context;
/* Two connected ends that complete in one extended queue. */
static struct ibv_cq_ex *cq;
static struct verbs_end a;
static struct verbs_end b;

static struct ibv_cq_ex *cq_make(uint64_t wc_flags, uint32_t flags)
{
	struct ibv_cq_init_attr_ex init = {
		.cqe = CQE_COUNT,
		.wc_flags = wc_flags,
		.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
		.flags = flags,
	};

	return ibv_create_cq_ex(context, &init);
}

static void ends_make(uint32_t flags)
{
	assert_non_null(cq = cq_make(WC_FLAGS, flags));
	verbs_end_make(&a, context, ibv_cq_ex_to_cq(cq));
	verbs_end_make(&b, context, ibv_cq_ex_to_cq(cq));
	verbs_ends_connect(&a, &b, TIMEOUT_HALF_A_SECOND);
}

static int setup(void **state)
{
	(void)state;
	context = verbs_pair_open();
	ends_make(0);
	return 0;
}

static int setup_ignoring_overruns(void **state)
{
	(void)state;
	context = verbs_pair_open();
	ends_make(IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	verbs_end_unmake(&a);
	verbs_end_unmake(&b);
	MUST(!ibv_destroy_cq(ibv_cq_ex_to_cq(cq)));
	return ibv_close_device(context);
}

static void poll_start(void)
{
	struct ibv_poll_cq_attr attr = {.comp_mask = 0};
	time_t until = time(NULL) + PAIR_TIMEOUT_S;
	int error;

	do
		error = ibv_start_poll(cq, &attr);
	while (error == ENOENT && time(NULL) < until);
	MUST(!error);
}

/* Everything posted so far has come to its end, and lies in the queue. */
static void let_complete(uint32_t count)
{
	struct ibv_wc wc;

	assert_int_equal(verbs_post(&a, IBV_WR_RDMA_READ, &b, 0, 8), 0);
	for (uint32_t i = 0; i < count + 1; i++) {
		wc = verbs_poll_one(ibv_cq_ex_to_cq(cq));
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
	}
}

static uint64_t raw_clock_ns(void)
{
	struct ibv_values_ex values = {.comp_mask = IBV_VALUES_MASK_RAW_CLOCK};

	MUST(!ibv_query_rt_values_ex(context, &values));
	MUST(values.comp_mask == IBV_VALUES_MASK_RAW_CLOCK && values.raw_clock.tv_sec == 0);
	return (uint64_t)values.raw_clock.tv_nsec;
}

static uint64_t wallclock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* --- fields ------------------------------------------------------------------------------- */

static void send_with_imm(uint32_t imm)
{
	struct ibv_sge sge = {(uintptr_t)a.buffer, 21, a.mr->lkey};
	struct ibv_send_wr wr = {
		.wr_id = 5,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND_WITH_IMM,
		.imm_data = imm,
	};
	struct ibv_send_wr *bad;

	assert_int_equal(ibv_post_send(a.qp, &wr, &bad), 0);
}

static void completion_has_all_its_fields(void **state)
{
	(void)state;
	verbs_post_recv(&b, 77, 0, 100);
	send_with_imm(0x12345678);
	poll_start();
	assert_int_equal(cq->wr_id, 77);
	assert_int_equal(cq->status, IBV_WC_SUCCESS);
	assert_int_equal(ibv_wc_read_opcode(cq), IBV_WC_RECV);
	assert_int_equal(ibv_wc_read_byte_len(cq), 21);
	assert_int_equal(ibv_wc_read_imm_data(cq), 0x12345678);
	assert_int_equal(ibv_wc_read_wc_flags(cq), IBV_WC_WITH_IMM);
	assert_int_equal(ibv_wc_read_qp_num(cq), b.qp->qp_num);
	assert_int_equal(ibv_wc_read_vendor_err(cq), 0);
	assert_int_equal(ibv_wc_read_slid(cq), 0);
	assert_int_equal(ibv_wc_read_sl(cq), 0);
	assert_int_equal(ibv_wc_read_dlid_path_bits(cq), 0);
	ibv_end_poll(cq);
}

static void batch_ends_with_the_last_completion(void **state)
{
	uint64_t posted = 4;
	uint64_t polled = 0;

	(void)state;
	for (uint32_t i = 0; i < posted; i++)
		assert_int_equal(verbs_post(&a, IBV_WR_RDMA_WRITE, &b, i, 1), 0);
	while (polled < posted) {
		poll_start();
		do
			assert_int_equal(cq->wr_id, polled++);
		while (!ibv_next_poll(cq));
		assert_int_equal(ibv_next_poll(cq), ENOENT);
		ibv_end_poll(cq);
	}
	assert_int_equal(ibv_start_poll(cq, &(struct ibv_poll_cq_attr){0}), ENOENT);
	assert_int_equal(ibv_start_poll(cq, &(struct ibv_poll_cq_attr){1}), EINVAL);
}

static void timestamps_are_those_of_the_clock(void **state)
{
	uint64_t before_ns = raw_clock_ns();
	uint64_t wall_before_ns = wallclock_ns();
	struct ibv_device_attr_ex attr;

	(void)state;
	for (int i = 0; i < 100; i++) {
		uint64_t raw_ns, wall_ns, now_ns;

		assert_int_equal(verbs_post(&a, IBV_WR_RDMA_WRITE, &b, 0, 1), 0);
		poll_start();
		raw_ns = ibv_wc_read_completion_ts(cq);
		wall_ns = ibv_wc_read_completion_wallclock_ns(cq);
		ibv_end_poll(cq);
		now_ns = raw_clock_ns();
		assert_in_range(raw_ns, before_ns, now_ns);
		/* The time of day may be corrected meanwhile, but not by much. */
		assert_in_range(wall_ns, wall_before_ns - 1000000, wallclock_ns() + 1000000);
		before_ns = raw_ns;
	}
	assert_int_equal(ibv_query_device_ex(context, NULL, &attr), 0);
	assert_int_equal(attr.hca_core_clock, 1000000);
	assert_true(attr.completion_timestamp_mask == UINT64_MAX);
}

static void timestamp_of_a_flushed_request_is_not_older_than_it(void **state)
{
	struct ibv_qp_attr error = {.qp_state = IBV_QPS_ERR};
	uint64_t before_ns;

	(void)state;
	assert_int_equal(ibv_modify_qp(b.qp, &error, IBV_QP_STATE), 0);
	before_ns = raw_clock_ns();
	verbs_post_recv(&b, 1, 0, 8);
	poll_start();
	assert_int_equal(cq->status, IBV_WC_WR_FLUSH_ERR);
	assert_in_range(ibv_wc_read_completion_ts(cq), before_ns, raw_clock_ns());
	ibv_end_poll(cq);
}

static void clock_answers_what_it_is_asked(void **state)
{
	struct ibv_values_ex values = {.comp_mask = IBV_VALUES_MASK_RESERVED};

	(void)state;
	assert_int_equal(ibv_query_rt_values_ex(context, &values), 0);
	assert_int_equal(values.comp_mask, 0);
}

static void queue_with_fields_that_are_not_there_is_refused(void **state)
{
	struct ibv_cq_init_attr_ex init = {.cqe = 4, .comp_mask = 1u << 10};

	(void)state;
	errno = 0;
	assert_null(cq_make(IBV_WC_EX_WITH_CVLAN, 0));
	assert_int_equal(errno, EOPNOTSUPP);
	errno = 0;
	assert_null(cq_make(1ull << 40, 0));
	assert_int_equal(errno, EOPNOTSUPP);
	errno = 0;
	assert_null(cq_make(0, 1u << 10));
	assert_int_equal(errno, EOPNOTSUPP);
	errno = 0;
	assert_null(ibv_create_cq_ex(context, &init));
	assert_int_equal(errno, EINVAL);
	/* A protection domain is no parent domain. */
	init.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD;
	init.parent_domain = a.pd;
	errno = 0;
	assert_null(ibv_create_cq_ex(context, &init));
	assert_int_equal(errno, EINVAL);
}

/* --- who waits for whom ------------------------------------------------------------------- */

static _Atomic int has_polled;

static void *poll_in_thread(void *argument)
{
	(void)argument;
	poll_start();
	atomic_store(&has_polled, 1);
	ibv_end_poll(cq);
	return NULL;
}

static void second_poller_waits_for_the_first(void **state)
{
	pthread_t thread;

	(void)state;
	atomic_store(&has_polled, 0);
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(verbs_post(&a, IBV_WR_RDMA_WRITE, &b, 0, 1), 0);
	poll_start();
	assert_int_equal(pthread_create(&thread, NULL, poll_in_thread, NULL), 0);
	usleep(20000);
	assert_int_equal(atomic_load(&has_polled), 0);
	/* ibv_poll_cq() does not wait. */
	assert_int_equal(verbs_poll_one(ibv_cq_ex_to_cq(cq)).status, IBV_WC_SUCCESS);
	ibv_end_poll(cq);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(atomic_load(&has_polled), 1);
}

static void single_threaded_queue_does_not_lock(void **state)
{
	struct ibv_cq_ex *single = cq_make(0, IBV_CREATE_CQ_ATTR_SINGLE_THREADED);
	struct ibv_poll_cq_attr attr = {.comp_mask = 0};

	(void)state;
	assert_non_null(single);
	assert_int_equal(ibv_start_poll(single, &attr), ENOENT);
	ibv_end_poll(single); /* unbalanced, which a lock would not forgive */
	assert_int_equal(ibv_start_poll(single, &attr), ENOENT);
	assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(single)), 0);
}

/* --- sizes -------------------------------------------------------------------------------- */

static void resize_keeps_completions_and_tells_the_size(void **state)
{
	struct ibv_cq *plain = ibv_cq_ex_to_cq(cq);

	(void)state;
	assert_int_equal(ibv_resize_cq(plain, 3 * CQE_COUNT), 0);
	assert_true(plain->cqe >= 3 * CQE_COUNT);
	for (uint32_t i = 0; i < 5; i++)
		assert_int_equal(verbs_post(&a, IBV_WR_RDMA_WRITE, &b, i, 1), 0);
	poll_start();
	assert_int_equal(cq->wr_id, 0);
	ibv_end_poll(cq);
	/* Whatever of the others has come already. */
	assert_int_equal(ibv_resize_cq(plain, CQE_COUNT), 0);
	assert_true(plain->cqe >= CQE_COUNT && plain->cqe < 3 * CQE_COUNT);
	for (uint32_t i = 1; i < 5; i++)
		assert_int_equal(verbs_poll_one(plain).wr_id, i);
}

static void resize_below_what_waits_is_refused(void **state)
{
	struct ibv_cq *plain = ibv_cq_ex_to_cq(cq);

	(void)state;
	/* Two requests of an unconnected queue pair complete at once, as flushed. */
	struct ibv_qp_attr error = {.qp_state = IBV_QPS_ERR};
	assert_int_equal(ibv_modify_qp(b.qp, &error, IBV_QP_STATE), 0);
	verbs_post_recv(&b, 1, 0, 8);
	verbs_post_recv(&b, 2, 0, 8);
	assert_int_equal(ibv_resize_cq(plain, 1), EINVAL);
	assert_int_equal(plain->cqe, CQE_COUNT);
	assert_int_equal(ibv_resize_cq(plain, 0), EINVAL);
	assert_int_equal(ibv_resize_cq(plain, -1), EINVAL);
	assert_int_equal(ibv_resize_cq(plain, 2), 0);
	assert_int_equal(verbs_poll_one(plain).wr_id, 1);
	assert_int_equal(verbs_poll_one(plain).wr_id, 2);
}

static void queue_that_ignores_overruns_goes_on(void **state)
{
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;

	(void)state;
	for (uint32_t i = 0; i < 3 * CQE_COUNT; i++)
		assert_int_equal(verbs_post(&a, IBV_WR_RDMA_WRITE, &b, 0, 1), 0);
	/* A READ completes after all of them, while no thread polls this queue. */
	usleep(100000);
	let_complete(CQE_COUNT - 1);
	assert_int_equal(ibv_query_qp(a.qp, &attr, IBV_QP_STATE, &init), 0);
	assert_int_equal(attr.qp_state, IBV_QPS_RTS);
}

/* --- moderation --------------------------------------------------------------------------- */

static struct ibv_modify_cq_attr moderation(uint16_t count, uint16_t period_us)
{
	return (struct ibv_modify_cq_attr){
		.attr_mask = IBV_CQ_ATTR_MODERATE,
		.moderate = {count, period_us},
	};
}

/* Sleep on the channel for an event. */
static void event_take(struct verbs_end *end)
{
	struct pollfd readable = {.fd = end->channel->fd, .events = POLLIN};
	struct ibv_cq *told;
	void *cq_context;

	assert_int_equal(poll(&readable, 1, PAIR_TIMEOUT_S * 1000), 1);
	assert_int_equal(ibv_get_cq_event(end->channel, &told, &cq_context), 0);
	assert_ptr_equal(told, end->cq);
	ibv_ack_cq_events(told, 1);
}

/* The peer has `count` receives completed by SENDs, and sleeps meanwhile. */
static void let_receive(struct verbs_pair *pair, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		verbs_post_recv(&pair->b, i, 0, 8);
		MUST(!verbs_post_unsignaled(&pair->a, IBV_WR_SEND, NULL, 0, 8));
	}
}

/* How long after the first of `count` receives may have completed an event comes, in ms. */
static uint64_t receives_tell(struct verbs_pair *pair, uint32_t count)
{
	uint64_t before_ns = raw_clock_ns();
	uint64_t took_ms;

	assert_int_equal(ibv_req_notify_cq(pair->b.cq, 0), 0);
	let_receive(pair, count);
	event_take(&pair->b);
	took_ms = (raw_clock_ns() - before_ns) / 1000000;
	for (uint32_t i = 0; i < count; i++)
		verbs_poll_one(pair->b.cq);
	return took_ms;
}

/* Other programs may hold it up once, but not every time. */
static void receives_tell_within(struct verbs_pair *pair, uint32_t count, uint64_t most_ms)
{
	for (uint32_t i = 0; i < 100; i++)
		if (receives_tell(pair, count) <= most_ms)
			return;
	fail_msg("no event within %u ms", (uint32_t)most_ms);
}

static void moderated_queue_tells_after_the_count_or_the_time(void **state)
{
	enum { COUNT = 4, PERIOD_US = 60000 };
	struct ibv_modify_cq_attr on = moderation(COUNT, PERIOD_US);
	struct ibv_modify_cq_attr off = moderation(0, 0);
	struct ibv_device_attr_ex attr;
	struct verbs_pair pair;

	(void)state;
	assert_int_equal(ibv_query_device_ex(context, NULL, &attr), 0);
	assert_int_equal(attr.cq_mod_caps.max_cq_count, UINT16_MAX);
	assert_int_equal(attr.cq_mod_caps.max_cq_period, UINT16_MAX);
	verbs_pair_make(&pair, context);
	assert_int_equal(ibv_modify_cq(pair.b.cq, &on), 0);

	assert_int_equal(ibv_req_notify_cq(pair.b.cq, 0), 0);
	assert_in_range(receives_tell(&pair, COUNT - 1), PERIOD_US / 1000 - 1, UINT64_MAX);

	/* The count makes the event come long before a longer period is over. */
	on = moderation(COUNT, UINT16_MAX);
	assert_int_equal(ibv_modify_cq(pair.b.cq, &on), 0);
	receives_tell_within(&pair, COUNT, UINT16_MAX / 2000);

	assert_int_equal(ibv_modify_cq(pair.b.cq, &off), 0);
	receives_tell_within(&pair, 1, UINT16_MAX / 2000);
	verbs_pair_unmake(&pair);
}

static void moderated_queue_goes_while_a_signal_is_held_back(void **state)
{
	struct ibv_modify_cq_attr on = moderation(100, 20000);
	struct verbs_pair pair;

	(void)state;
	verbs_pair_make(&pair, context);
	assert_int_equal(ibv_modify_cq(pair.b.cq, &on), 0);
	assert_int_equal(ibv_req_notify_cq(pair.b.cq, 0), 0);
	let_receive(&pair, 2);
	usleep(5000);
	verbs_pair_unmake(&pair);
	usleep(30000);
	on.attr_mask = IBV_CQ_ATTR_RESERVED;
	assert_int_equal(ibv_modify_cq(ibv_cq_ex_to_cq(cq), &on), EINVAL);
}

#define PAIR(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		PAIR(completion_has_all_its_fields),
		PAIR(batch_ends_with_the_last_completion),
		PAIR(timestamps_are_those_of_the_clock),
		PAIR(timestamp_of_a_flushed_request_is_not_older_than_it),
		PAIR(clock_answers_what_it_is_asked),
		PAIR(queue_with_fields_that_are_not_there_is_refused),
		PAIR(second_poller_waits_for_the_first),
		PAIR(single_threaded_queue_does_not_lock),
		PAIR(resize_keeps_completions_and_tells_the_size),
		PAIR(resize_below_what_waits_is_refused),
		PAIR(moderated_queue_tells_after_the_count_or_the_time),
		PAIR(moderated_queue_goes_while_a_signal_is_held_back),
		cmocka_unit_test_setup_teardown(
			queue_that_ignores_overruns_goes_on, setup_ignoring_overruns, teardown),
	};

	if (netns_enter_new() < 0)
		return 77;
	unsetenv("URNIC_DEVICE_NAME");
	unsetenv("URNIC_INTERFACES");
	settings_read();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
