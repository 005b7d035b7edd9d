/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ibv_modify_qp: every transition of every type of queue pair, with attribute masks of every kind.
 *
 * The table is written from IBTA 11.2.5.2 (table "QP state transition properties"),
 * ibv_modify_qp(3), and, for the types that the specification leaves to others (XRC: annex A14; raw
 * packet), what drivers agree on. It shares nothing with the table of the code.
 *
 * For each rule, the required attributes are accepted with every subset of the optional ones. A
 * call is refused if one required attribute is missing, or if it has an attribute that is neither
 * required nor optional. A refused call leaves the queue pair as it was.
 */
#include <errno.h>
#include <fcntl.h>
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

#include "base/arith.h"
#include "support/netns.h"
#include "support/verbs_pair.h"

enum {
	RC = 1 << 0,
	UC = 1 << 1,
	UD = 1 << 2,
	XRC_SEND = 1 << 3,
	XRC_RECV = 1 << 4,
	RAW = 1 << 5,

	XRC = XRC_SEND | XRC_RECV,
	CONNECTED = RC | UC | XRC,
	TRANSPORTS = CONNECTED | UD,
	ANY = TRANSPORTS | RAW,
};

enum { STATE_COUNT = IBV_QPS_ERR + 1 };

/*
 * The rate limit is not in the table: where a device paces a type (packet_pacing_caps of
 * ibv_query_device_ex), it may be set on the way to RTS and in it.
 */

/* The names of the table, shortened. */
enum {
	CUR = IBV_QP_CUR_STATE,
	NOTIFY = IBV_QP_EN_SQD_ASYNC_NOTIFY,
	ACCESS = IBV_QP_ACCESS_FLAGS,
	PKEY = IBV_QP_PKEY_INDEX,
	PORT = IBV_QP_PORT,
	QKEY = IBV_QP_QKEY,
	AV = IBV_QP_AV,
	MTU = IBV_QP_PATH_MTU,
	TIMEOUT = IBV_QP_TIMEOUT,
	RETRY = IBV_QP_RETRY_CNT,
	RNR = IBV_QP_RNR_RETRY,
	RQ_PSN = IBV_QP_RQ_PSN,
	SQ_PSN = IBV_QP_SQ_PSN,
	RD_ATOMIC = IBV_QP_MAX_QP_RD_ATOMIC,
	DEST_RD_ATOMIC = IBV_QP_MAX_DEST_RD_ATOMIC,
	ALT = IBV_QP_ALT_PATH,
	MIG = IBV_QP_PATH_MIG_STATE,
	MIN_RNR = IBV_QP_MIN_RNR_TIMER,
	DEST = IBV_QP_DEST_QPN,
	RATE = IBV_QP_RATE_LIMIT,
};

struct rule {
	enum ibv_qp_state from;
	enum ibv_qp_state to;
	int types;
	int required;
	int optional;
};

/* clang-format off */
static const struct rule rules[] = {
	{IBV_QPS_RESET, IBV_QPS_RESET, ANY,      0, 0},
	{IBV_QPS_RESET, IBV_QPS_INIT, CONNECTED, PKEY | PORT | ACCESS, 0},
	{IBV_QPS_RESET, IBV_QPS_INIT, UD,        PKEY | PORT | QKEY, 0},
	{IBV_QPS_RESET, IBV_QPS_INIT, RAW,       PORT, 0},

	{IBV_QPS_INIT,  IBV_QPS_INIT, CONNECTED, 0, PKEY | PORT | ACCESS},
	{IBV_QPS_INIT,  IBV_QPS_INIT, UD,        0, PKEY | PORT | QKEY},
	{IBV_QPS_INIT,  IBV_QPS_INIT, RAW,       0, 0},

	{IBV_QPS_INIT,  IBV_QPS_RTR,  RC | XRC_RECV, AV | MTU | DEST | RQ_PSN | DEST_RD_ATOMIC | MIN_RNR,
	                                         ALT | ACCESS | PKEY},
	{IBV_QPS_INIT,  IBV_QPS_RTR,  UC | XRC_SEND, AV | MTU | DEST | RQ_PSN, ALT | ACCESS | PKEY},
	{IBV_QPS_INIT,  IBV_QPS_RTR,  UD,        0, PKEY | QKEY},
	{IBV_QPS_INIT,  IBV_QPS_RTR,  RAW,       0, 0},

	{IBV_QPS_RTR,   IBV_QPS_RTS,  RC,        SQ_PSN | TIMEOUT | RETRY | RNR | RD_ATOMIC,
	                                         CUR | ALT | ACCESS | MIN_RNR | MIG},
	{IBV_QPS_RTR,   IBV_QPS_RTS,  XRC_SEND,  SQ_PSN | TIMEOUT | RETRY | RNR | RD_ATOMIC,
	                                         CUR | ALT | ACCESS | MIG},
	{IBV_QPS_RTR,   IBV_QPS_RTS,  XRC_RECV,  SQ_PSN | TIMEOUT, CUR | ALT | ACCESS | MIN_RNR | MIG},
	{IBV_QPS_RTR,   IBV_QPS_RTS,  UC,        SQ_PSN, CUR | ALT | ACCESS | MIG},
	{IBV_QPS_RTR,   IBV_QPS_RTS,  UD,        SQ_PSN, CUR | QKEY},
	{IBV_QPS_RTR,   IBV_QPS_RTS,  RAW,       0, 0},

	{IBV_QPS_RTS,   IBV_QPS_RTS,  RC | XRC_RECV, 0, CUR | ALT | ACCESS | MIN_RNR | MIG},
	{IBV_QPS_RTS,   IBV_QPS_RTS,  UC | XRC_SEND, 0, CUR | ALT | ACCESS | MIG},
	{IBV_QPS_RTS,   IBV_QPS_RTS,  UD,        0, CUR | QKEY},
	{IBV_QPS_RTS,   IBV_QPS_RTS,  RAW,       0, 0},

	{IBV_QPS_RTS,   IBV_QPS_SQD,  TRANSPORTS, 0, NOTIFY},
	{IBV_QPS_RTS,   IBV_QPS_SQD,  RAW,       0, 0},

	{IBV_QPS_SQD,   IBV_QPS_RTS,  RC | XRC_RECV, 0, CUR | ALT | ACCESS | MIN_RNR | MIG},
	{IBV_QPS_SQD,   IBV_QPS_RTS,  UC | XRC_SEND, 0, CUR | ALT | ACCESS | MIG},
	{IBV_QPS_SQD,   IBV_QPS_RTS,  UD,        0, CUR | QKEY},
	{IBV_QPS_SQD,   IBV_QPS_RTS,  RAW,       0, 0},

	{IBV_QPS_SQD,   IBV_QPS_SQD,  RC,        0, PORT | AV | TIMEOUT | RETRY | RNR | RD_ATOMIC |
	                                         DEST_RD_ATOMIC | ALT | ACCESS | PKEY | MIN_RNR | MIG},
	{IBV_QPS_SQD,   IBV_QPS_SQD,  XRC_SEND,  0, PORT | AV | TIMEOUT | RETRY | RNR | RD_ATOMIC | ALT |
	                                         ACCESS | PKEY | MIG},
	{IBV_QPS_SQD,   IBV_QPS_SQD,  XRC_RECV,  0, PORT | AV | TIMEOUT | DEST_RD_ATOMIC | ALT | ACCESS | PKEY |
	                                         MIN_RNR | MIG},
	{IBV_QPS_SQD,   IBV_QPS_SQD,  UC,        0, AV | ALT | ACCESS | PKEY | MIG},
	{IBV_QPS_SQD,   IBV_QPS_SQD,  UD,        0, PKEY | QKEY},
	{IBV_QPS_SQD,   IBV_QPS_SQD,  RAW,       0, 0},

	{IBV_QPS_SQE,   IBV_QPS_RTS,  UC,        0, CUR | ACCESS},
	{IBV_QPS_SQE,   IBV_QPS_RTS,  UD,        0, CUR | QKEY},
	{IBV_QPS_SQE,   IBV_QPS_RTS,  RAW,       0, 0},

	{IBV_QPS_INIT,  IBV_QPS_RESET, ANY, 0, 0},
	{IBV_QPS_RTR,   IBV_QPS_RESET, ANY, 0, 0},
	{IBV_QPS_RTS,   IBV_QPS_RESET, ANY, 0, 0},
	{IBV_QPS_SQD,   IBV_QPS_RESET, ANY, 0, 0},
	{IBV_QPS_SQE,   IBV_QPS_RESET, ANY, 0, 0},
	{IBV_QPS_ERR,   IBV_QPS_RESET, ANY, 0, 0},
	/* A queue pair in RESET has no request to flush, so it has no transition to ERR. */
	{IBV_QPS_INIT,  IBV_QPS_ERR,   ANY, 0, 0},
	{IBV_QPS_RTR,   IBV_QPS_ERR,   ANY, 0, 0},
	{IBV_QPS_RTS,   IBV_QPS_ERR,   ANY, 0, 0},
	{IBV_QPS_SQD,   IBV_QPS_ERR,   ANY, 0, 0},
	{IBV_QPS_SQE,   IBV_QPS_ERR,   ANY, 0, 0},
	{IBV_QPS_ERR,   IBV_QPS_ERR,   ANY, 0, 0},
};
/* clang-format on */

static const struct type {
	int bit;
	enum ibv_qp_type verbs;
	const char *name;
} types[] = {
	{RC, IBV_QPT_RC, "RC"},
	{UC, IBV_QPT_UC, "UC"},
	{UD, IBV_QPT_UD, "UD"},
	{XRC_SEND, IBV_QPT_XRC_SEND, "XRC_SEND"},
	{XRC_RECV, IBV_QPT_XRC_RECV, "XRC_RECV"},
	{RAW, IBV_QPT_RAW_PACKET, "RAW_PACKET"},
};

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_xrcd *xrcd;
static struct ibv_qp *qp;
static const struct type *type;
static struct ibv_qp_attr legal;
static unsigned call_count;

static const struct rule *rule_of(enum ibv_qp_state from, enum ibv_qp_state to)
{
	for (size_t i = 0; i < ARRAY_COUNT(rules); i++)
		if (rules[i].from == from && rules[i].to == to && (rules[i].types & type->bit))
			return &rules[i];
	return NULL;
}

/* Attributes of the other half of an extended reliable connection are overlooked. */
static int overlooked(void)
{
	switch (type->bit) {
	case XRC_SEND:
		return DEST_RD_ATOMIC | MIN_RNR;
	case XRC_RECV:
		return RD_ATOMIC | RETRY | RNR;
	default:
		return 0;
	}
}

static void query(struct ibv_qp_attr *ret_attr)
{
	struct ibv_qp_init_attr init;

	memset(ret_attr, 0, sizeof(*ret_attr));
	MUST(!ibv_query_qp(qp, ret_attr, ~0 & ~IBV_QP_RATE_LIMIT, &init));
}

static bool is_same_ah(const struct ibv_ah_attr *a, const struct ibv_ah_attr *b)
{
	return memcmp(&a->grh.dgid, &b->grh.dgid, sizeof(a->grh.dgid)) == 0 &&
		a->grh.flow_label == b->grh.flow_label && a->grh.sgid_index == b->grh.sgid_index &&
		a->grh.hop_limit == b->grh.hop_limit &&
		a->grh.traffic_class == b->grh.traffic_class && a->dlid == b->dlid &&
		a->sl == b->sl && a->src_path_bits == b->src_path_bits &&
		a->static_rate == b->static_rate && a->is_global == b->is_global &&
		a->port_num == b->port_num;
}

/* Compare member by member, because padding is undefined. */
static bool is_same(const struct ibv_qp_attr *a, const struct ibv_qp_attr *b)
{
	size_t words_bytes = offsetof(struct ibv_qp_attr, ah_attr);
	size_t bytes_from = offsetof(struct ibv_qp_attr, pkey_index);
	size_t bytes_to = offsetof(struct ibv_qp_attr, alt_timeout) + 1;

	return memcmp(a, b, words_bytes) == 0 && is_same_ah(&a->ah_attr, &b->ah_attr) &&
		is_same_ah(&a->alt_ah_attr, &b->alt_ah_attr) &&
		memcmp((const char *)a + bytes_from, (const char *)b + bytes_from,
			bytes_to - bytes_from) == 0 &&
		a->rate_limit == b->rate_limit;
}

/* Call ibv_modify_qp with legal values only. */
static int modify(enum ibv_qp_state from, enum ibv_qp_state to, int mask)
{
	struct ibv_qp_attr attr = legal;

	attr.qp_state = mask & IBV_QP_STATE ? to : IBV_QPS_UNKNOWN;
	attr.cur_qp_state = from;
	call_count++;
	return ibv_modify_qp(qp, &attr, mask);
}

static void step(enum ibv_qp_state from, enum ibv_qp_state to)
{
	MUST(modify(from, to, IBV_QP_STATE | rule_of(from, to)->required) == 0);
}

/* Only an error of the send queue leads to SQE: a gather from memory that is not registered. */
static void break_send_queue(void)
{
	struct ibv_ah *ah = type->bit == UD ? ibv_create_ah(pd, &legal.ah_attr) : NULL;
	uint64_t word = 0;
	struct ibv_sge sge = {(uintptr_t)&word, sizeof(word), 0};
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
	};
	struct ibv_send_wr *bad;

	if (type->bit == UD) {
		MUST(ah);
		wr.wr.ud.ah = ah;
		wr.wr.ud.remote_qpn = qp->qp_num;
	}
	MUST(!ibv_post_send(qp, &wr, &bad));
	MUST(verbs_poll_one(cq).status == IBV_WC_LOC_PROT_ERR);
	if (ah)
		MUST(!ibv_destroy_ah(ah));
}

static void reach(enum ibv_qp_state state)
{
	MUST(modify(IBV_QPS_ERR, IBV_QPS_RESET, IBV_QP_STATE) == 0);
	if (state == IBV_QPS_RESET)
		return;
	step(IBV_QPS_RESET, IBV_QPS_INIT);
	if (state == IBV_QPS_ERR)
		step(IBV_QPS_INIT, IBV_QPS_ERR);
	if (state == IBV_QPS_ERR || state == IBV_QPS_INIT)
		return;
	step(IBV_QPS_INIT, IBV_QPS_RTR);
	if (state == IBV_QPS_RTR)
		return;
	step(IBV_QPS_RTR, IBV_QPS_RTS);
	if (state == IBV_QPS_SQD)
		step(IBV_QPS_RTS, IBV_QPS_SQD);
	if (state == IBV_QPS_SQE)
		break_send_queue();
}

static void complain(enum ibv_qp_state from, enum ibv_qp_state to, int mask, int got)
{
	fail_msg("%s: from %d to %d with mask 0x%x: %d", type->name, from, to, mask, got);
}

static void expect_accepted(enum ibv_qp_state from, enum ibv_qp_state to, int mask)
{
	struct ibv_qp_attr after;
	int got;

	reach(from);
	got = modify(from, to, mask);
	if (got)
		complain(from, to, mask, got);
	query(&after);
	if (after.qp_state != to)
		complain(from, to, mask, after.qp_state);
}

/* The queue pair is in `from` before, and so it is after. */
static void expect_refused(enum ibv_qp_state from, enum ibv_qp_state to, int mask)
{
	struct ibv_qp_attr before;
	struct ibv_qp_attr after;
	int got;

	query(&before);
	assert_int_equal(before.qp_state, from);
	got = modify(from, to, mask);
	if (got != EINVAL)
		complain(from, to, mask, got);
	query(&after);
	if (!is_same(&before, &after))
		complain(from, to, mask, after.qp_state);
}

static bool is_paced(void)
{
	struct ibv_device_attr_ex device;

	MUST(!ibv_query_device_ex(context, NULL, &device));
	return device.packet_pacing_caps.supported_qpts & (1u << type->verbs);
}

static void walk_rule(const struct rule *rule)
{
	int optional = rule->optional | (rule->to == IBV_QPS_RTS && is_paced() ? RATE : 0);
	int state_mask = IBV_QP_STATE;

	/* Every subset of the optional attributes, from all of them down to none. */
	for (int subset = optional;; subset = (subset - 1) & optional) {
		expect_accepted(rule->from, rule->to, IBV_QP_STATE | rule->required | subset);
		if (rule->from == rule->to) {
			expect_accepted(rule->from, rule->to, rule->required | subset);
			state_mask = 0;
		}
		if (subset == 0)
			break;
	}
	reach(rule->from);
	for (int bit = 0; bit < 32; bit++) {
		int attribute = (int)(1u << bit);

		if (attribute == IBV_QP_STATE || ((optional | overlooked()) & attribute))
			continue;
		/* Takes a required one away, or adds an illegal one. */
		expect_refused(rule->from, rule->to, IBV_QP_STATE | (rule->required ^ attribute));
		expect_refused(rule->from, rule->to,
			IBV_QP_STATE | ((rule->required | optional) ^ attribute));
		expect_refused(rule->from, rule->to, state_mask | (rule->required ^ attribute));
	}
}

/* No attribute makes this transition legal. */
static void walk_illegal(enum ibv_qp_state from, enum ibv_qp_state to)
{
	reach(from);
	expect_refused(from, to, IBV_QP_STATE);
	expect_refused(from, to, ~0);
	for (int bit = 0; bit < 32; bit++)
		expect_refused(from, to, IBV_QP_STATE | (int)(1u << bit));
	for (size_t i = 0; i < ARRAY_COUNT(rules); i++) {
		expect_refused(from, to, IBV_QP_STATE | rules[i].required);
		expect_refused(from, to, IBV_QP_STATE | rules[i].required | rules[i].optional);
	}
	if (from == to)
		expect_refused(from, to, 0);
}

static bool can_be_in(enum ibv_qp_state state)
{
	return state != IBV_QPS_SQE || (type->bit & (UC | UD));
}

static struct ibv_qp *make_qp(void)
{
	struct ibv_qp_init_attr_ex init = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = {4, 4, 1, 1, 0},
		.qp_type = type->verbs,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = pd,
	};

	if (type->bit & XRC) {
		init.recv_cq = NULL;
		init.cap.max_recv_wr = 0;
		init.cap.max_recv_sge = 0;
	}
	if (type->bit == XRC_RECV) {
		init.comp_mask = IBV_QP_INIT_ATTR_XRCD;
		init.xrcd = xrcd;
		init.pd = NULL;
		init.send_cq = NULL;
		init.cap.max_send_wr = 0;
		init.cap.max_send_sge = 0;
	}
	return ibv_create_qp_ex(context, &init);
}

static void walk_type(int bit)
{
	for (type = types; type->bit != bit; type++)
		;
	qp = make_qp();
	MUST(qp);
	call_count = 0;
	for (int from = 0; from < STATE_COUNT; from++)
		for (int to = 0; to <= STATE_COUNT && can_be_in(from); to++)
			if (rule_of(from, to))
				walk_rule(rule_of(from, to));
			else
				walk_illegal(from, to);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	print_message("%s: %u calls\n", type->name, call_count);
}

static void modify_qp_rc_follows_the_table(void **state)
{
	(void)state;
	walk_type(RC);
}

static void modify_qp_uc_follows_the_table(void **state)
{
	(void)state;
	walk_type(UC);
}

static void modify_qp_ud_follows_the_table(void **state)
{
	(void)state;
	walk_type(UD);
}

static void modify_qp_xrc_send_follows_the_table(void **state)
{
	(void)state;
	walk_type(XRC_SEND);
}

static void modify_qp_xrc_recv_follows_the_table(void **state)
{
	(void)state;
	walk_type(XRC_RECV);
}

static void modify_qp_raw_packet_follows_the_table(void **state)
{
	(void)state;
	walk_type(RAW);
}

/* IBTA 11.2.5.2: the state that the program assumes has to be the state. */
static void modify_qp_with_another_current_state_is_refused(void **state)
{
	(void)state;
	type = &types[0];
	qp = make_qp();
	assert_non_null(qp);
	reach(IBV_QPS_RTS);
	for (int assumed = -1; assumed <= STATE_COUNT; assumed++) {
		struct ibv_qp_attr attr = {.cur_qp_state = assumed, .qp_state = IBV_QPS_RTS};

		assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_CUR_STATE),
			assumed == IBV_QPS_RTS ? 0 : EINVAL);
	}
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static int setup(void **state)
{
	struct ibv_xrcd_init_attr domain = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = -1,
		.oflags = O_CREAT,
	};

	(void)state;
	context = verbs_pair_open();
	MUST(pd = ibv_alloc_pd(context));
	MUST(xrcd = ibv_open_xrcd(context, &domain));
	MUST(cq = ibv_create_cq(context, 16, NULL, NULL, 0));
	legal = (struct ibv_qp_attr){
		.path_mtu = IBV_MTU_1024,
		.path_mig_state = IBV_MIG_MIGRATED, /* REARM needs an alternate path */
		.qkey = 0x11111111,
		.rq_psn = 0xfffff0,
		.sq_psn = 0xfffff0,
		.dest_qp_num = 0x123456,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
		.ah_attr = {.is_global = 1, .port_num = 1, .grh = {.hop_limit = 1}},
		.max_rd_atomic = 1,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.port_num = 1,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.alt_port_num = 1,
		.alt_timeout = 14,
		.rate_limit = 1000,
	};
	MUST(!ibv_query_gid(context, 1, 0, &legal.ah_attr.grh.dgid));
	legal.alt_ah_attr = legal.ah_attr;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	MUST(!ibv_destroy_cq(cq));
	MUST(!ibv_dealloc_pd(pd));
	MUST(!ibv_close_xrcd(xrcd));
	MUST(!ibv_close_device(context));
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(modify_qp_rc_follows_the_table),
		cmocka_unit_test(modify_qp_uc_follows_the_table),
		cmocka_unit_test(modify_qp_ud_follows_the_table),
		cmocka_unit_test(modify_qp_xrc_send_follows_the_table),
		cmocka_unit_test(modify_qp_xrc_recv_follows_the_table),
		cmocka_unit_test(modify_qp_raw_packet_follows_the_table),
		cmocka_unit_test(modify_qp_with_another_current_state_is_refused),
	};

	if (netns_enter_new() < 0)
		return 77;
	return cmocka_run_group_tests(tests, setup, teardown);
}
