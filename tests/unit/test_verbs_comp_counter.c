/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completion counters: what they count for two connected queue pairs of this process, without a
 * poll of a completion queue, and what is refused.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <cmocka.h>

#include "front/verbs/newer.h"
#include "nic/object/nic.h"
#include "os/setting.h"
#include "support/netns.h"
#include "support/verbs_pair.h"

enum { BYTES = 100, TIMEOUT_HALF_A_SECOND = 17 };

static struct ibv_context *context, *other_context;

static int set_up(void **state)
{
	(void)state;
	context = verbs_pair_open();
	other_context = verbs_pair_open();
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	return ibv_close_device(other_context) || ibv_close_device(context);
}

static struct comp_counter *counter_of(struct ibv_context *of, uint32_t type)
{
	const struct comp_counter_attr attr = {.type = type};
	struct comp_counter *counter = comp_counter_create(of, &attr);

	assert_non_null(counter);
	assert_ptr_equal(counter->context, of);
	return counter;
}

static int attach(struct verbs_end *end, struct comp_counter *counter, uint32_t operations)
{
	const struct comp_counter_attach_attr attr = {.operations = operations};

	return comp_counter_attach(end->qp, counter, &attr);
}

static void pair_make(struct verbs_pair *pair)
{
	verbs_end_make(&pair->a, context, NULL);
	verbs_end_make(&pair->b, context, NULL);
}

static void pair_connect(struct verbs_pair *pair)
{
	verbs_ends_connect(&pair->a, &pair->b, TIMEOUT_HALF_A_SECOND);
}

typedef int read_fn(struct comp_counter *counter, uint64_t *ret_value);

/* Read until the counter has the value, without a poll of a completion queue. */
static void wait_for(struct comp_counter *counter, read_fn *read_value, uint64_t expected)
{
	time_t until = time(NULL) + PAIR_TIMEOUT_S;
	uint64_t value;

	do
		assert_int_equal(read_value(counter, &value), 0);
	while (value < expected && time(NULL) < until);
	assert_int_equal(value, expected);
}

static uint64_t errors_of(struct comp_counter *counter)
{
	uint64_t value;

	assert_int_equal(comp_counter_read_errors(counter, &value), 0);
	return value;
}

static void requests_count_by_their_operation(void **state)
{
	struct comp_counter *sends = counter_of(context, COMP_COUNTER_REQUESTS);
	struct comp_counter *writes = counter_of(context, COMP_COUNTER_REQUESTS);
	struct comp_counter *read_bytes = counter_of(context, COMP_COUNTER_BYTES);
	struct verbs_pair pair;

	(void)state;
	pair_make(&pair);
	assert_int_equal(attach(&pair.a, sends, COUNTED_SEND), 0);
	assert_int_equal(attach(&pair.a, writes, COUNTED_RDMA_WRITE), 0);
	assert_int_equal(attach(&pair.a, read_bytes, COUNTED_RDMA_READ), 0);
	pair_connect(&pair);
	for (uint32_t i = 0; i < 3; i++) {
		verbs_post_recv(&pair.b, i, 0, BYTES);
		MUST(!verbs_post(&pair.a, IBV_WR_SEND, NULL, 0, BYTES));
	}
	for (uint32_t i = 0; i < 2; i++)
		MUST(!verbs_post_unsignaled(&pair.a, IBV_WR_RDMA_WRITE, &pair.b, 0, BYTES));
	MUST(!verbs_post(&pair.a, IBV_WR_RDMA_READ, &pair.b, 0, BYTES));
	MUST(!verbs_post_unsignaled(&pair.a, IBV_WR_RDMA_READ, &pair.b, 0, BYTES));
	wait_for(read_bytes, comp_counter_read, 2 * BYTES);
	wait_for(writes, comp_counter_read, 2);
	wait_for(sends, comp_counter_read, 3);
	assert_int_equal(errors_of(sends) + errors_of(writes) + errors_of(read_bytes), 0);
	/* The signaled requests have completions, too. */
	for (int i = 0; i < 4; i++)
		assert_int_equal(verbs_poll_one(pair.a.cq).status, IBV_WC_SUCCESS);
	verbs_pair_unmake(&pair);
	assert_int_equal(comp_counter_destroy(sends), 0);
	assert_int_equal(comp_counter_destroy(writes), 0);
	assert_int_equal(comp_counter_destroy(read_bytes), 0);
}

static void receives_of_two_queue_pairs_count_on_one_counter(void **state)
{
	struct comp_counter *receives = counter_of(context, COMP_COUNTER_REQUESTS);
	struct verbs_pair pair;

	(void)state;
	pair_make(&pair);
	assert_int_equal(attach(&pair.a, receives, COUNTED_RECV), 0);
	assert_int_equal(attach(&pair.b, receives, COUNTED_RECV), 0);
	pair_connect(&pair);
	verbs_post_recv(&pair.a, 1, 0, BYTES);
	verbs_post_recv(&pair.b, 2, 0, BYTES);
	MUST(!verbs_post(&pair.a, IBV_WR_SEND, NULL, 0, BYTES));
	MUST(!verbs_post(&pair.b, IBV_WR_SEND, NULL, 0, BYTES));
	wait_for(receives, comp_counter_read, 2);
	verbs_pair_unmake(&pair);
	assert_int_equal(comp_counter_destroy(receives), 0);
}

static void failed_and_flushed_requests_count_as_errors(void **state)
{
	struct comp_counter *counter = counter_of(context, COMP_COUNTER_BYTES);
	struct verbs_pair pair;
	uint64_t value;

	(void)state;
	pair_make(&pair);
	assert_int_equal(
		attach(&pair.a, counter, COUNTED_SEND | COUNTED_RECV | COUNTED_RDMA_READ), 0);
	pair_connect(&pair);
	verbs_post_recv(&pair.a, 1, 0, BYTES);
	pair.b.mr->rkey ^= 1;
	MUST(!verbs_post(&pair.a, IBV_WR_RDMA_READ, &pair.b, 0, BYTES));
	pair.b.mr->rkey ^= 1;
	wait_for(counter, comp_counter_read_errors, 2);
	MUST(!verbs_post(&pair.a, IBV_WR_SEND, NULL, 0, BYTES));
	wait_for(counter, comp_counter_read_errors, 3);
	assert_int_equal(comp_counter_read(counter, &value), 0);
	assert_int_equal(value, 0);
	verbs_pair_unmake(&pair);
	assert_int_equal(comp_counter_destroy(counter), 0);
}

static void attaching_is_refused_in_a_wrong_state_twice_and_for_what_peers_do(void **state)
{
	struct comp_counter *counter = counter_of(context, COMP_COUNTER_REQUESTS);
	struct comp_counter *second = counter_of(context, COMP_COUNTER_REQUESTS);
	struct comp_counter *foreign = counter_of(other_context, COMP_COUNTER_REQUESTS);
	struct comp_counter_attach_attr attr = {.comp_mask = 1, .operations = COUNTED_SEND};
	struct verbs_pair pair;

	(void)state;
	pair_make(&pair);
	assert_int_equal(comp_counter_attach(pair.a.qp, counter, &attr), EINVAL);
	assert_int_equal(attach(&pair.a, counter, 0), EINVAL);
	assert_int_equal(attach(&pair.a, counter, COUNTED_SEND | 1 << 3), EOPNOTSUPP);
	assert_int_equal(attach(&pair.a, counter, 1 << 5), EOPNOTSUPP);
	assert_int_equal(attach(&pair.a, foreign, COUNTED_SEND), ENOENT);
	assert_int_equal(attach(&pair.a, counter, COUNTED_SEND | COUNTED_RECV), 0);
	assert_int_equal(attach(&pair.a, second, COUNTED_RDMA_READ | COUNTED_RECV), EBUSY);
	assert_int_equal(comp_counter_destroy(counter), EBUSY);
	assert_int_equal(comp_counter_destroy(second), 0);
	pair_connect(&pair);
	assert_int_equal(attach(&pair.a, counter, COUNTED_RDMA_READ), EINVAL);
	verbs_pair_unmake(&pair);
	assert_int_equal(comp_counter_destroy(counter), 0);
	assert_int_equal(comp_counter_destroy(foreign), 0);
}

static void counter_of_another_kind_is_refused(void **state)
{
	struct comp_counter_attr attr = {.comp_mask = 1};

	(void)state;
	assert_null(comp_counter_create(context, &attr));
	assert_int_equal(errno, EINVAL);
	attr = (struct comp_counter_attr){.flags = 1};
	assert_null(comp_counter_create(context, &attr));
	assert_int_equal(errno, EINVAL);
	attr = (struct comp_counter_attr){.type = COMP_COUNTER_BYTES + 1};
	assert_null(comp_counter_create(context, &attr));
	assert_int_equal(errno, EOPNOTSUPP);
}

static void values_are_set_and_wrap_behind_the_largest(void **state)
{
	struct comp_counter *counter = counter_of(context, COMP_COUNTER_REQUESTS);
	uint64_t value;

	(void)state;
	assert_int_equal(comp_counter_set(counter, UINT64_MAX), 0);
	assert_int_equal(comp_counter_add(counter, 3), 0);
	assert_int_equal(comp_counter_set_errors(counter, 10), 0);
	assert_int_equal(comp_counter_add_errors(counter, 5), 0);
	assert_int_equal(comp_counter_read(counter, &value), 0);
	assert_int_equal(value, 2);
	assert_int_equal(errors_of(counter), 15);
	assert_int_equal(comp_counter_destroy(counter), 0);
}

static void capabilities_fill_the_structure_that_the_program_knows(void **state)
{
	struct {
		struct comp_counter_caps caps;
		uint64_t newer, behind;
	} answer = {.newer = 1, .behind = 1};

	(void)state;
	assert_int_equal(
		comp_counter_query_caps(context, &answer.caps, sizeof(answer.caps) + 8), 0);
	assert_int_equal(answer.caps.max_value, UINT64_MAX);
	assert_true(answer.caps.max_counters > 0);
	assert_int_equal(answer.caps.supported_operations, COUNTED_KNOWN);
	assert_int_equal(answer.newer, 0);
	assert_int_equal(answer.behind, 1);
	answer.caps.max_counters = 1;
	assert_int_equal(comp_counter_query_caps(context, &answer.caps, 8), 0);
	assert_int_equal(answer.caps.max_counters, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(requests_count_by_their_operation),
		cmocka_unit_test(receives_of_two_queue_pairs_count_on_one_counter),
		cmocka_unit_test(failed_and_flushed_requests_count_as_errors),
		cmocka_unit_test(attaching_is_refused_in_a_wrong_state_twice_and_for_what_peers_do),
		cmocka_unit_test(counter_of_another_kind_is_refused),
		cmocka_unit_test(values_are_set_and_wrap_behind_the_largest),
		cmocka_unit_test(capabilities_fill_the_structure_that_the_program_knows),
	};

	if (netns_enter_new() < 0)
		return 77;
	settings_read();
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
