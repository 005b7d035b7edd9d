/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Every transition with every kind of attribute mask, against a table written down from the
 * specification (IBTA 11.2.5.2) in another shape than the code's.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/arith.h"
#include "support/script.h"
#include "support/sim_random.h"

static struct script script;

static int setup(void **state)
{
	(void)state;
	script_start(&script, NULL);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	script_end(&script);
	return 0;
}

static const struct qp_attr legal = {
	.port = 1,
	.access = MR_REMOTE_ANY,
	.path_mtu = 3,
	.dest_qpn = 5,
	.max_rd_atomic = 1,
	.max_dest_rd_atomic = 1,
	.min_rnr_timer = 1,
	.timeout = 1,
	.retry_cnt = 1,
	.rnr_retry = 1,
	.alt_port = 1,
};

/* What an attribute means to a transition. */
enum need { NEVER, MAY, MUST };

/*
 * One row per attribute: RESET to INIT, INIT to INIT, INIT to RTR, RTR to RTS, RTS to RTS, RTS to
 * SQD, SQD to SQD, SQD to RTS.
 */
enum { COLUMN_COUNT = 8 };
static const struct {
	uint32_t bit;
	enum need need[COLUMN_COUNT];
} rows[] = {
	/* clang-format off */
	{ATTR_PKEY_INDEX,         {MUST,  MAY,   MAY,   NEVER, NEVER, NEVER, MAY,   NEVER}},
	{ATTR_PORT,               {MUST,  MAY,   NEVER, NEVER, NEVER, NEVER, MAY,   NEVER}},
	{ATTR_ACCESS,             {MUST,  MAY,   MAY,   MAY,   MAY,   NEVER, MAY,   MAY}},
	{ATTR_AV,                 {NEVER, NEVER, MUST,  NEVER, NEVER, NEVER, MAY,   NEVER}},
	{ATTR_PATH_MTU,           {NEVER, NEVER, MUST,  NEVER, NEVER, NEVER, NEVER, NEVER}},
	{ATTR_DEST_QPN,           {NEVER, NEVER, MUST,  NEVER, NEVER, NEVER, NEVER, NEVER}},
	{ATTR_RQ_PSN,             {NEVER, NEVER, MUST,  NEVER, NEVER, NEVER, NEVER, NEVER}},
	{ATTR_MAX_DEST_RD_ATOMIC, {NEVER, NEVER, MUST,  NEVER, NEVER, NEVER, MAY,   NEVER}},
	{ATTR_MIN_RNR_TIMER,      {NEVER, NEVER, MUST,  MAY,   MAY,   NEVER, MAY,   MAY}},
	{ATTR_ALT_PATH,           {NEVER, NEVER, MAY,   MAY,   MAY,   NEVER, MAY,   MAY}},
	{ATTR_TIMEOUT,            {NEVER, NEVER, NEVER, MUST,  NEVER, NEVER, MAY,   NEVER}},
	{ATTR_RETRY_CNT,          {NEVER, NEVER, NEVER, MUST,  NEVER, NEVER, MAY,   NEVER}},
	{ATTR_RNR_RETRY,          {NEVER, NEVER, NEVER, MUST,  NEVER, NEVER, MAY,   NEVER}},
	{ATTR_SQ_PSN,             {NEVER, NEVER, NEVER, MUST,  NEVER, NEVER, NEVER, NEVER}},
	{ATTR_MAX_RD_ATOMIC,      {NEVER, NEVER, NEVER, MUST,  NEVER, NEVER, MAY,   NEVER}},
	{ATTR_CUR_STATE,          {NEVER, NEVER, NEVER, MAY,   MAY,   NEVER, NEVER, MAY}},
	{ATTR_RATE_LIMIT,         {NEVER, NEVER, NEVER, MAY,   MAY,   NEVER, NEVER, MAY}},
	{ATTR_SQD_NOTIFY,         {NEVER, NEVER, NEVER, NEVER, NEVER, MAY,   NEVER, NEVER}},
	{ATTR_PATH_MIG,           {NEVER, NEVER, NEVER, MAY,   MAY,   NEVER, MAY,   MAY}},
	/* clang-format on */
};

static int column_of(enum qp_state from, enum qp_state to)
{
	static const enum qp_state pairs[COLUMN_COUNT][2] = {{QP_RESET, QP_INIT},
		{QP_INIT, QP_INIT}, {QP_INIT, QP_RTR}, {QP_RTR, QP_RTS}, {QP_RTS, QP_RTS},
		{QP_RTS, QP_SQD}, {QP_SQD, QP_SQD}, {QP_SQD, QP_RTS}};

	for (int i = 0; i < COLUMN_COUNT; i++)
		if (pairs[i][0] == from && pairs[i][1] == to)
			return i;
	return -1;
}

static bool is_legal(enum qp_state from, enum qp_state to, uint32_t mask)
{
	int column = column_of(from, to);

	mask &= ~(uint32_t)ATTR_STATE;
	if (to == QP_ERR && from == QP_RESET)
		return false;
	if (to == QP_RESET || to == QP_ERR)
		return mask == 0;
	if (column < 0)
		return false;
	for (uint32_t i = 0; i < ARRAY_COUNT(rows); i++) {
		if (rows[i].need[column] == MUST && !(mask & rows[i].bit))
			return false;
		if (rows[i].need[column] != NEVER)
			mask &= ~rows[i].bit;
	}
	return mask == 0;
}

static uint32_t required_of(enum qp_state from, enum qp_state to)
{
	int column = column_of(from, to);
	uint32_t mask = 0;

	for (uint32_t i = 0; column >= 0 && i < ARRAY_COUNT(rows); i++)
		if (rows[i].need[column] == MUST)
			mask |= rows[i].bit;
	return mask;
}

static void try_mask(enum qp_state from, enum qp_state to, uint32_t mask)
{
	struct qp_attr attr = legal;
	struct qp_attr before;

	qp_set_state(script.qp, from, 1);
	attr.cur_state = from;
	memset(&script.qp->attr, 0x11, sizeof(before));
	script.qp->attr.path_mtu = 4;
	script.qp->attr.has_drain_event = true;
	/* A rate that was set has made its queue pair ready for it. */
	script.qp->attr.rate_limit_kbps = 0;
	script.qp->attr.path.rate_kbps = 0;
	script.qp->attr.alt_path.rate_kbps = 0;
	before = script.qp->attr;
	int error = qp_modify(script.qp, to, mask, &attr, 1);
	assert_int_equal(error, is_legal(from, to, mask) ? 0 : -EINVAL);
	if (error) {
		assert_int_equal(script.qp->state, from);
		assert_memory_equal(&script.qp->attr, &before, sizeof(before));
	} else {
		assert_int_equal(script.qp->state, mask & ATTR_STATE ? to : from);
	}
	assert_int_equal(script.qp->public->state, script.qp->state);
}

static void modify_allows_what_the_table_allows_and_nothing_else(void **state)
{
	struct sim_random random = {1};

	(void)state;
	for (uint32_t from = 0; from < QP_STATE_COUNT; from++) {
		for (uint32_t to = 0; to < QP_STATE_COUNT; to++) {
			uint32_t required = required_of((enum qp_state)from, (enum qp_state)to);

			for (uint32_t bit = 0; bit < 32; bit++) {
				try_mask((enum qp_state)from, (enum qp_state)to,
					(required ^ 1u << bit) | ATTR_STATE);
				try_mask((enum qp_state)from, (enum qp_state)to,
					ATTR_STATE | 1u << bit);
			}
			try_mask((enum qp_state)from, (enum qp_state)to, required | ATTR_STATE);
			for (uint32_t i = 0; i < 2000; i++)
				try_mask((enum qp_state)from, (enum qp_state)to,
					(required ^
						(uint32_t)(sim_random_next(&random) &
							sim_random_next(&random) &
							sim_random_next(&random))) |
						ATTR_STATE);
		}
	}
}

static void modify_without_a_state_follows_the_rules_of_staying(void **state)
{
	(void)state;
	for (uint32_t from = 0; from < QP_STATE_COUNT; from++)
		for (uint32_t bit = 1; bit < 32; bit++)
			try_mask((enum qp_state)from, (enum qp_state)from, 1u << bit);
}

static void modify_to_a_state_that_does_not_exist_is_refused(void **state)
{
	(void)state;
	for (uint32_t to = QP_STATE_COUNT; to < 300; to++)
		assert_int_equal(
			qp_modify(script.qp, (enum qp_state)to, ATTR_STATE, &legal, 1), -EINVAL);
	assert_int_equal(
		qp_modify(script.qp, (enum qp_state)UINT32_MAX, ATTR_STATE, &legal, 1), -EINVAL);
	assert_int_equal(script.qp->state, QP_RTS);
}

/* One attribute has this value: is the transition that requires it allowed? */
static void expect(int error, enum qp_state from, enum qp_state to, const struct qp_attr *attr)
{
	qp_set_state(script.qp, from, 1);
	assert_int_equal(
		qp_modify(script.qp, to, required_of(from, to) | ATTR_STATE, attr, 1), error);
}

#define EXPECT_VALUE(error, from, to, field, value_) \
	do {                                         \
		struct qp_attr attr = legal;         \
		attr.field = (value_);               \
		expect(error, from, to, &attr);      \
	} while (0)

static void modify_values_out_of_range_are_refused(void **state)
{
	(void)state;
	EXPECT_VALUE(-EINVAL, QP_RESET, QP_INIT, pkey_index, 1);
	EXPECT_VALUE(-EINVAL, QP_RESET, QP_INIT, port, 0);
	EXPECT_VALUE(-EINVAL, QP_RESET, QP_INIT, port, 2);
	EXPECT_VALUE(-EINVAL, QP_RESET, QP_INIT, access, 1u << 10);
	EXPECT_VALUE(0, QP_RESET, QP_INIT, access, 0);
	EXPECT_VALUE(-EINVAL, QP_INIT, QP_RTR, path_mtu, 0);
	EXPECT_VALUE(0, QP_INIT, QP_RTR, path_mtu, 1);
	EXPECT_VALUE(0, QP_INIT, QP_RTR, path_mtu, 5);
	EXPECT_VALUE(-EINVAL, QP_INIT, QP_RTR, path_mtu, 6);
	EXPECT_VALUE(0, QP_INIT, QP_RTR, dest_qpn, 0xffffff);
	EXPECT_VALUE(-EINVAL, QP_INIT, QP_RTR, dest_qpn, 0x1000000);
	EXPECT_VALUE(0, QP_INIT, QP_RTR, max_dest_rd_atomic, 0);
	EXPECT_VALUE(0, QP_INIT, QP_RTR, max_dest_rd_atomic, 16);
	EXPECT_VALUE(-EINVAL, QP_INIT, QP_RTR, max_dest_rd_atomic, 17);
	EXPECT_VALUE(0, QP_INIT, QP_RTR, min_rnr_timer, 31);
	EXPECT_VALUE(-EINVAL, QP_INIT, QP_RTR, min_rnr_timer, 32);
	EXPECT_VALUE(0, QP_RTR, QP_RTS, timeout, 31);
	EXPECT_VALUE(-EINVAL, QP_RTR, QP_RTS, timeout, 32);
	EXPECT_VALUE(0, QP_RTR, QP_RTS, retry_cnt, 7);
	EXPECT_VALUE(-EINVAL, QP_RTR, QP_RTS, retry_cnt, 8);
	EXPECT_VALUE(0, QP_RTR, QP_RTS, rnr_retry, 7);
	EXPECT_VALUE(-EINVAL, QP_RTR, QP_RTS, rnr_retry, 8);
	EXPECT_VALUE(0, QP_RTR, QP_RTS, max_rd_atomic, 128);
	EXPECT_VALUE(-EINVAL, QP_RTR, QP_RTS, max_rd_atomic, 129);
}

static void modify_with_another_current_state_is_refused(void **state)
{
	struct qp_attr attr = {.cur_state = QP_RTR};

	(void)state;
	assert_int_equal(
		qp_modify(script.qp, QP_RTS, ATTR_STATE | ATTR_CUR_STATE, &attr, 1), -EINVAL);
	attr.cur_state = QP_RTS;
	assert_int_equal(qp_modify(script.qp, QP_RTS, ATTR_STATE | ATTR_CUR_STATE, &attr, 1), 0);
}

static void modify_keeps_24_bits_of_a_psn(void **state)
{
	(void)state;
	EXPECT_VALUE(0, QP_INIT, QP_RTR, rq_psn, 0xff000005);
	assert_int_equal(script.qp->attr.rq_psn, 5);
	EXPECT_VALUE(0, QP_RTR, QP_RTS, sq_psn, 0x1000006);
	assert_int_equal(script.qp->attr.sq_psn, 6);
}

static void posting_is_taken_or_refused_by_the_state(void **state)
{
	static const struct {
		enum qp_state state;
		int send;
		int receive;
	} expected[] = {
		{QP_RESET, -EINVAL, -EINVAL},
		{QP_INIT, -EINVAL, 0},
		{QP_RTR, -EINVAL, 0},
		{QP_RTS, 0, 0},
		{QP_SQD, 0, 0},
		{QP_SQE, 0, 0},
		{QP_ERR, 0, 0},
	};
	struct send_wr send = {.opcode = WR_SEND};
	struct recv_wr receive = {0};

	(void)state;
	for (uint32_t i = 0; i < ARRAY_COUNT(expected); i++) {
		qp_set_state(script.qp, QP_RESET, 1);
		qp_set_state(script.qp, expected[i].state, 1);
		assert_int_equal(qp_post_send(script.qp, &send), expected[i].send);
		assert_int_equal(qp_post_recv(script.qp, &receive), expected[i].receive);
	}
}

static void posting_what_cannot_be_executed_is_refused(void **state)
{
	struct sge sge[5] = {{0, 1u << 31, 0}, {0, 1, 0}};
	struct send_wr wr = {.opcode = WR_OPCODE_COUNT};

	(void)state;
	assert_int_equal(qp_post_send(script.qp, &wr), -EINVAL);
	wr = (struct send_wr){.opcode = UINT32_MAX};
	assert_int_equal(qp_post_send(script.qp, &wr), -EINVAL);
	wr = (struct send_wr){.opcode = WR_SEND, .sge = sge, .sge_count = 5};
	assert_int_equal(qp_post_send(script.qp, &wr), -EINVAL);
	wr.sge_count = 2; /* 2^31 + 1 bytes */
	assert_int_equal(qp_post_send(script.qp, &wr), -EINVAL);
	wr.sge_count = 1;
	assert_int_equal(qp_post_send(script.qp, &wr), 0);
	sge[0].bytes = 65;
	wr.flags = SEND_INLINE;
	assert_int_equal(qp_post_send(script.qp, &wr), -EINVAL);
	wr = (struct send_wr){.opcode = WR_RDMA_READ, .flags = SEND_INLINE};
	assert_int_equal(qp_post_send(script.qp, &wr), -EINVAL);
}

static void reset_forgets_everything(void **state)
{
	(void)state;
	script_post(&script, WR_SEND, 10, SEND_SIGNALED);
	script_post(&script, WR_RDMA_READ, 10, SEND_SIGNALED);
	script_post_receive(&script, 10);
	script_drain(&script);
	script_send_read(&script, 0, 0, 100);
	qp_set_state(script.qp, QP_RESET, 1);
	script_expect_silence(&script);
	script_expect_no_completion(&script);
	assert_true(engine_deadline_ns(&script.lane) == DEADLINE_NEVER);
	assert_int_equal(rq_count(script.qp->rq), 0);
	assert_int_equal(script.qp->sq->posted, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(modify_allows_what_the_table_allows_and_nothing_else),
		TEST(modify_without_a_state_follows_the_rules_of_staying),
		TEST(modify_to_a_state_that_does_not_exist_is_refused),
		TEST(modify_values_out_of_range_are_refused),
		TEST(modify_with_another_current_state_is_refused),
		TEST(modify_keeps_24_bits_of_a_psn),
		TEST(posting_is_taken_or_refused_by_the_state),
		TEST(posting_what_cannot_be_executed_is_refused),
		TEST(reset_forgets_everything),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
