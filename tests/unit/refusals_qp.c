/* SPDX-License-Identifier: BSD-2-Clause */
/* Refused calls about queue pairs, multicast groups and flows. */
#include "refusals.h"

#include <assert.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

static struct ibv_qp_init_attr_ex plain(enum ibv_qp_type type)
{
	return (struct ibv_qp_init_attr_ex){
		.qp_type = type,
		.send_cq = refusals.cq,
		.recv_cq = refusals.cq,
		.cap = {1, 1, 1, 1, 0},
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = refusals.pd,
	};
}

static int create(struct ibv_qp_init_attr_ex init)
{
	struct ibv_qp *qp = ibv_create_qp_ex(refusals.context, &init);

	return qp ? ibv_destroy_qp(qp) : errno;
}

static int made_ibv_create_qp(void)
{
	return create(plain(IBV_QPT_RC));
}

WITHOUT_MEMORY(ibv_create_qp)
AT_LIMIT(ibv_create_qp, max_qp)

#define CREATE_REFUSED(reason, type, ...)                        \
	PROVOKE(ibv_create_qp, reason)                           \
	{                                                        \
		struct ibv_qp_init_attr_ex init = plain(type);   \
                                                                 \
		__VA_ARGS__;                                     \
		return create(init);                             \
	}

static struct ibv_pd gone_pd;
static uint8_t hash_key[40];

static struct ibv_pd *no_pd(void)
{
	gone_pd = (struct ibv_pd){.context = refusals.context, .handle = 0x77777};
	return &gone_pd;
}

CREATE_REFUSED(NO_PARENT, IBV_QPT_RC, init.pd = no_pd())
CREATE_REFUSED(UNKNOWN_BITS, IBV_QPT_RC, init.comp_mask |= 1u << 31)
CREATE_REFUSED(UNSUPPORTED_BITS, IBV_QPT_RC, init.comp_mask |= IBV_QP_INIT_ATTR_MAX_TSO_HEADER)
CREATE_REFUSED(QP_TYPE, IBV_QPT_RC, init.qp_type = 0)
CREATE_REFUSED(QP_TYPE_LACKING, IBV_QPT_DRIVER, (void)0)
CREATE_REFUSED(QP_SEND_WR, IBV_QPT_RC, init.cap.max_send_wr = 1u << 30)
CREATE_REFUSED(QP_RECV_WR, IBV_QPT_RC, init.cap.max_recv_wr = 1u << 30)
CREATE_REFUSED(QP_SEND_SGE, IBV_QPT_RC, init.cap.max_send_sge = 1000)
CREATE_REFUSED(QP_RECV_SGE, IBV_QPT_RC, init.cap.max_recv_sge = 1000)
CREATE_REFUSED(QP_INLINE, IBV_QPT_RC, init.cap.max_inline_data = 1u << 20)
CREATE_REFUSED(QP_CQ_MISSING, IBV_QPT_RC, init.recv_cq = NULL)
CREATE_REFUSED(QP_PD_MISSING, IBV_QPT_RC, init.comp_mask = IBV_QP_INIT_ATTR_CREATE_FLAGS)
CREATE_REFUSED(QP_XRCD_MISSING, IBV_QPT_XRC_RECV, init.comp_mask = 0)
CREATE_REFUSED(QP_SEND_OPS, IBV_QPT_UD, init.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	init.send_ops_flags = IBV_QP_EX_WITH_RDMA_READ)
CREATE_REFUSED(SPREAD_INCOMPLETE, IBV_QPT_RAW_PACKET, init.comp_mask |= IBV_QP_INIT_ATTR_RX_HASH)
CREATE_REFUSED(FORKED, IBV_QPT_RC, (void)0)

static struct ibv_qp_init_attr_ex spread(enum ibv_qp_type type, uint8_t key_bytes)
{
	static struct ibv_rwq_ind_table table;
	struct ibv_qp_init_attr_ex init = plain(type);

	table = (struct ibv_rwq_ind_table){.context = refusals.context};
	init.comp_mask |= IBV_QP_INIT_ATTR_RX_HASH | IBV_QP_INIT_ATTR_IND_TABLE;
	init.rwq_ind_tbl = &table;
	init.rx_hash_conf = (struct ibv_rx_hash_conf){
		.rx_hash_function = IBV_RX_HASH_FUNC_TOEPLITZ,
		.rx_hash_key_len = key_bytes,
		.rx_hash_key = hash_key,
	};
	return init;
}

PROVOKE(ibv_create_qp, SPREAD_TYPE)
{
	return create(spread(IBV_QPT_RC, 40));
}

PROVOKE(ibv_create_qp, SPREAD_HASH)
{
	return create(spread(IBV_QPT_RAW_PACKET, 10));
}

static int create_on_tags(enum ibv_qp_type type)
{
	struct ibv_srq_init_attr_ex with_tags = {
		.attr = {.max_wr = 4, .max_sge = 1},
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_CQ |
			IBV_SRQ_INIT_ATTR_TM,
		.srq_type = IBV_SRQT_TM,
		.pd = refusals.pd,
		.cq = refusals.cq,
		.tm_cap = {.max_num_tags = 4, .max_ops = 4},
	};
	struct ibv_qp_init_attr_ex init = plain(type);
	int error;

	init.srq = ibv_create_srq_ex(refusals.context, &with_tags);
	if (!init.srq)
		return 0;
	error = create(init);
	return ibv_destroy_srq(init.srq) ? 0 : error;
}

PROVOKE(ibv_create_qp, TAGS_TYPE)
{
	return create_on_tags(IBV_QPT_UD);
}

PROVOKE(ibv_create_qp, TAGS_SEND_QUEUE)
{
	return create_on_tags(IBV_QPT_RC);
}

PROVOKE(ibv_create_qp, GONE)
{
	struct ibv_qp_init_attr_ex init = plain(IBV_QPT_RC);

	init.pd = refusals.fading_pd;
	init.send_cq = init.recv_cq = refusals.fading_cq;
	return refusal_of(ibv_create_qp_ex(refusals.fading, &init));
}

/* --- receiving queue pairs of XRC --- */

static int open_xrc(struct ibv_xrcd *xrcd, uint32_t mask, uint32_t number)
{
	struct ibv_qp_open_attr attr = {
		.comp_mask = mask, .qp_num = number, .xrcd = xrcd, .qp_type = IBV_QPT_XRC_RECV};
	struct ibv_qp *qp = ibv_open_qp(refusals.context, &attr);

	return qp ? ibv_destroy_qp(qp) : errno;
}

enum { OPEN = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE };

PROVOKE(ibv_open_qp, ATTR_MISSING)
{
	return open_xrc(refusals.xrcd, 0, 1);
}

PROVOKE(ibv_open_qp, QP_XRCD_MISSING)
{
	return open_xrc(NULL, OPEN, 1);
}

PROVOKE(ibv_open_qp, NO_PARENT)
{
	struct ibv_xrcd gone = {.context = refusals.context};

	return open_xrc(&gone, OPEN, 1);
}

PROVOKE(ibv_open_qp, XRC_NUMBER)
{
	return open_xrc(refusals.xrcd, OPEN, 1);
}

static uint32_t xrc_number;

static int made_ibv_open_qp(void)
{
	return open_xrc(refusals.xrcd, OPEN, xrc_number);
}

PROVOKE(ibv_open_qp, NO_MEMORY)
{
	struct ibv_qp_init_attr_ex init = {
		.qp_type = IBV_QPT_XRC_RECV,
		.comp_mask = IBV_QP_INIT_ATTR_XRCD,
		.xrcd = refusals.xrcd,
	};
	struct ibv_qp *qp = ibv_create_qp_ex(refusals.context, &init);
	int error;

	if (!qp)
		return 0;
	xrc_number = qp->qp_num;
	error = refusal_without_memory(made_ibv_open_qp);
	return ibv_destroy_qp(qp) ? 0 : error;
}

/* --- states --- */

static struct ibv_qp_attr to_init(void)
{
	return (struct ibv_qp_attr){.qp_state = IBV_QPS_INIT, .port_num = 1};
}

enum { INIT = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS };

static int modify(int mask)
{
	struct ibv_qp_attr attr = to_init();

	return ibv_modify_qp(refusals.qp, &attr, mask);
}

PROVOKE(ibv_modify_qp, MODIFY_MISSING)
{
	return modify(INIT & ~IBV_QP_PORT);
}

PROVOKE(ibv_modify_qp, MODIFY_FORBIDDEN)
{
	return modify(INIT | IBV_QP_TIMEOUT);
}

PROVOKE(ibv_modify_qp, MODIFY_TRANSITION)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS};

	return ibv_modify_qp(refusals.qp, &attr, IBV_QP_STATE);
}

PROVOKE(ibv_modify_qp, MODIFY_VALUE)
{
	struct ibv_qp_attr attr = to_init();

	attr.port_num = 9;
	return ibv_modify_qp(refusals.qp, &attr, INIT);
}

PROVOKE(ibv_modify_qp, ADDRESS)
{
	struct ibv_qp_attr attr = {.ah_attr = {.port_num = 1}};

	return ibv_modify_qp(refusals.qp, &attr, IBV_QP_AV);
}

PROVOKE(ibv_modify_qp, GONE)
{
	return modify(INIT);
}

static int modify_other(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = to_init();

	return ibv_modify_qp(qp, &attr, INIT);
}

static int query_other(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	return ibv_query_qp(qp, &attr, 0, &init);
}

NEVER_MADE(ibv_modify_qp, struct ibv_qp, modify_other(&gone))
NEVER_MADE(ibv_query_qp, struct ibv_qp, query_other(&gone))
NEVER_MADE(ibv_destroy_qp, struct ibv_qp, ibv_destroy_qp(&gone))

static int set_rate(struct ibv_qp *qp, struct ibv_qp_rate_limit_attr attr)
{
	return ibv_modify_qp_rate_limit(qp, &attr);
}

NEVER_MADE(ibv_modify_qp_rate_limit, struct ibv_qp,
	set_rate(&gone, (struct ibv_qp_rate_limit_attr){.rate_limit = 5000}))

PROVOKE(ibv_modify_qp_rate_limit, UNKNOWN_BITS)
{
	return set_rate(refusals.ready, (struct ibv_qp_rate_limit_attr){.comp_mask = 1});
}

PROVOKE(ibv_modify_qp_rate_limit, RATE_VALUE)
{
	return set_rate(refusals.qp, (struct ibv_qp_rate_limit_attr){.rate_limit = 5000});
}

static int ece_of(struct ibv_qp *qp, bool sets)
{
	struct ibv_ece ece = {.comp_mask = 0};

	return sets ? ibv_set_ece(qp, &ece) : ibv_query_ece(qp, &ece);
}

NEVER_MADE(ibv_set_ece, struct ibv_qp, ece_of(&gone, true))
NEVER_MADE(ibv_query_ece, struct ibv_qp, ece_of(&gone, false))

PROVOKE(ibv_set_ece, UNKNOWN_BITS)
{
	struct ibv_ece ece = {.comp_mask = 1};

	return ibv_set_ece(refusals.qp, &ece);
}

/* --- multicast groups --- */

static const union ibv_gid group = {
	.raw = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 239, 1, 2, 3}};

NEVER_MADE(ibv_attach_mcast, struct ibv_qp, ibv_attach_mcast(&gone, &group, 0))
NEVER_MADE(ibv_detach_mcast, struct ibv_qp, ibv_detach_mcast(&gone, &group, 0))

PROVOKE(ibv_attach_mcast, GROUP_ADDRESS)
{
	return ibv_attach_mcast(refusals.ud, &refusals.gid, 0);
}

PROVOKE(ibv_detach_mcast, GROUP_ABSENT)
{
	return ibv_detach_mcast(refusals.ud, &group, 0);
}

PROVOKE(ibv_destroy_qp, QP_IN_GROUP)
{
	int error;

	if (ibv_attach_mcast(refusals.ud, &group, 0))
		return 0;
	error = ibv_destroy_qp(refusals.ud);
	return ibv_detach_mcast(refusals.ud, &group, 0) ? 0 : error;
}

/* --- flows and their counters --- */

struct rule {
	struct ibv_flow_attr attr;
	struct ibv_flow_spec_eth eth;
	struct ibv_flow_spec_eth again;
};

struct counting_rule {
	struct ibv_flow_attr attr;
	struct ibv_flow_spec_counter_action action;
} __attribute__((packed, aligned(8))); /* specifications follow each other unaligned */

static struct rule rule_of(uint8_t specs)
{
	struct rule rule = {
		.attr = {.type = IBV_FLOW_ATTR_NORMAL,
			.size = sizeof(rule),
			.num_of_specs = specs,
			.port = 1},
		.eth = {.type = IBV_FLOW_SPEC_ETH, .size = sizeof(rule.eth)},
		.again = {.type = IBV_FLOW_SPEC_ETH, .size = sizeof(rule.again)},
	};

	return rule;
}

static int steer(struct ibv_qp *qp, struct rule rule)
{
	struct ibv_flow *flow = ibv_create_flow(qp, &rule.attr);

	return flow ? ibv_destroy_flow(flow) : errno;
}

PROVOKE(ibv_create_flow, FLOW_QP)
{
	return steer(refusals.qp, rule_of(1));
}

PROVOKE(ibv_create_flow, FLOW_SPEC)
{
	return steer(refusals.qp, rule_of(2));
}

PROVOKE(ibv_create_flow, FLOW_SPEC_LACKING)
{
	struct rule rule = rule_of(1);

	rule.eth.type = IBV_FLOW_SPEC_GRE;
	return steer(refusals.qp, rule);
}

PROVOKE(ibv_create_flow, FLOW_KIND)
{
	struct rule rule = rule_of(1);

	rule.attr.port = 9;
	return steer(refusals.qp, rule);
}

PROVOKE(ibv_create_flow, FLOW_EGRESS)
{
	struct rule rule = rule_of(1);

	rule.attr.flags = IBV_FLOW_ATTR_FLAGS_EGRESS;
	return steer(refusals.qp, rule);
}

PROVOKE(ibv_create_flow, ATTR_MISSING)
{
	struct counting_rule counting = {
		.attr = rule_of(1).attr,
		.action = {.type = IBV_FLOW_SPEC_ACTION_COUNT, .size = sizeof(counting.action)},
	};

	return refusal_of(ibv_create_flow(refusals.qp, (struct ibv_flow_attr *)(void *)&counting));
}

PROVOKE(ibv_create_flow, NO_PARENT)
{
	struct ibv_qp gone = {.context = refusals.context, .handle = 0x77777};

	return steer(&gone, rule_of(1));
}

static struct ibv_qp *raw;

static int made_ibv_create_flow(void)
{
	return steer(raw, rule_of(1));
}

/* Calls `refused` while there is a raw packet queue pair. */
static int with_raw(int (*refused)(void))
{
	struct ibv_qp_init_attr_ex init = plain(IBV_QPT_RAW_PACKET);
	int error;

	raw = ibv_create_qp_ex(refusals.context, &init);
	if (!raw)
		return 0;
	error = refused();
	return ibv_destroy_qp(raw) ? 0 : error;
}

static int flow_without_memory(void)
{
	return refusal_without_memory(made_ibv_create_flow);
}

PROVOKE(ibv_create_flow, NO_MEMORY)
{
	return with_raw(flow_without_memory);
}

static int destroy_steered(void)
{
	struct rule rule = rule_of(1);
	struct ibv_flow *flow = ibv_create_flow(raw, &rule.attr);
	int error = flow ? ibv_destroy_qp(raw) : 0;

	return flow && ibv_destroy_flow(flow) ? 0 : error;
}

PROVOKE(ibv_destroy_qp, IN_USE)
{
	return with_raw(destroy_steered);
}

static int destroy_flow_twice(void)
{
	struct rule rule = rule_of(1);
	struct ibv_flow *flow = ibv_create_flow(raw, &rule.attr);
	uint64_t copy[64] = {0};
	int error;

	if (!flow)
		return 0;
	assert(malloc_usable_size(flow) <= sizeof(copy));
	/* struct flow_front, whose handle is behind the public part */
	memcpy(copy, flow, malloc_usable_size(flow));
	error = ibv_destroy_flow(flow) ? 0 : ibv_destroy_flow((void *)copy);
	return error;
}

PROVOKE(ibv_destroy_flow, NO_OBJECT)
{
	return with_raw(destroy_flow_twice);
}

static int bad_checksum(void)
{
	struct ibv_send_wr *bad, wr = {.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_IP_CSUM};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};

	if (ibv_modify_qp(raw, &attr, IBV_QP_STATE | IBV_QP_PORT))
		return 0;
	attr.qp_state = IBV_QPS_RTR;
	if (ibv_modify_qp(raw, &attr, IBV_QP_STATE))
		return 0;
	attr.qp_state = IBV_QPS_RTS;
	if (ibv_modify_qp(raw, &attr, IBV_QP_STATE))
		return 0;
	return ibv_post_send(raw, &wr, &bad);
}

PROVOKE(ibv_post_send, POST_CHECKSUM)
{
	return with_raw(bad_checksum);
}

static int made_ibv_create_counters(void)
{
	struct ibv_counters_init_attr attr = {.comp_mask = 0};
	struct ibv_counters *counters = ibv_create_counters(refusals.context, &attr);

	return counters ? ibv_destroy_counters(counters) : errno;
}

WITHOUT_MEMORY(ibv_create_counters)

PROVOKE(ibv_create_counters, UNKNOWN_BITS)
{
	struct ibv_counters_init_attr attr = {.comp_mask = 1};

	return refusal_of(ibv_create_counters(refusals.context, &attr));
}

/* Calls `refused` with counters. */
static int with_counters(int (*refused)(struct ibv_counters *counters))
{
	struct ibv_counters_init_attr attr = {.comp_mask = 0};
	struct ibv_counters *counters = ibv_create_counters(refusals.context, &attr);
	int error = counters ? refused(counters) : 0;

	return ibv_destroy_counters(counters) ? 0 : error;
}

static int attach(struct ibv_counters *counters, uint32_t comp_mask, struct ibv_flow *flow)
{
	struct ibv_counter_attach_attr attr = {
		.counter_desc = IBV_COUNTER_PACKETS, .comp_mask = comp_mask};

	return ibv_attach_counters_point_flow(counters, &attr, flow);
}

static int attach_unknown(struct ibv_counters *counters)
{
	return attach(counters, 1, NULL);
}

static int attach_live(struct ibv_counters *counters)
{
	struct ibv_flow flow = {.context = refusals.context};

	return attach(counters, 0, &flow);
}

static int attach_too_often(struct ibv_counters *counters)
{
	int error = 0;

	for (int i = 0; i < 100 && !error; i++)
		error = attach(counters, 0, NULL);
	return error;
}

static int read_unknown(struct ibv_counters *counters)
{
	uint64_t value;

	return ibv_read_counters(counters, &value, 1, 1u << 31);
}

PROVOKE(ibv_attach_counters_point_flow, UNKNOWN_BITS)
{
	return with_counters(attach_unknown);
}

PROVOKE(ibv_attach_counters_point_flow, FLOW_LIVE)
{
	return with_counters(attach_live);
}

PROVOKE(ibv_attach_counters_point_flow, COUNTERS_FULL)
{
	return with_counters(attach_too_often);
}

PROVOKE(ibv_read_counters, UNKNOWN_BITS)
{
	return with_counters(read_unknown);
}

/* The counters, or their destruction, while a flow of `raw` uses them. */
static int (*while_bound)(struct ibv_counters *counters);

static int bind_counters(struct ibv_counters *counters)
{
	struct counting_rule counting = {
		.attr = rule_of(1).attr,
		.action = {.type = IBV_FLOW_SPEC_ACTION_COUNT,
			.size = sizeof(counting.action),
			.counters = counters},
	};
	struct ibv_flow *flow = ibv_create_flow(raw, (struct ibv_flow_attr *)(void *)&counting);
	int error = flow ? while_bound(counters) : 0;

	return flow && ibv_destroy_flow(flow) ? 0 : error;
}

static int raw_with_counters(void)
{
	return with_counters(bind_counters);
}

static int attach_bound(struct ibv_counters *counters)
{
	return attach(counters, 0, NULL);
}

PROVOKE(ibv_attach_counters_point_flow, COUNTERS_BOUND)
{
	while_bound = attach_bound;
	return with_raw(raw_with_counters);
}

PROVOKE(ibv_destroy_counters, IN_USE)
{
	while_bound = ibv_destroy_counters;
	return with_raw(raw_with_counters);
}
