/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Raw packets as a program uses them: queue pairs, flows, work queues and indirection tables on the
 * loopback interface of a network namespace, which returns each sent frame.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <infiniband/verbs.h>

#include "os/setting.h"
#include "support/frames.h"
#include "support/netns.h"

enum { BYTES = 4096, DEPTH = 16, QUIET_MS = 20, TIMEOUT_MS = 60000, TABLE = 4 };

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static uint8_t memory[BYTES];

static int open_context(void **state)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	(void)state;
	assert_non_null(list);
	assert_non_null(list[0]);
	context = ibv_open_device(list[0]);
	ibv_free_device_list(list);
	pd = ibv_alloc_pd(context);
	cq = ibv_create_cq(context, 256, NULL, NULL, 0);
	mr = ibv_reg_mr(pd, memory, BYTES, IBV_ACCESS_LOCAL_WRITE);
	return context && pd && cq && mr ? 0 : -1;
}

static int close_context(void **state)
{
	(void)state;
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
	assert_int_equal(ibv_close_device(context), 0);
	return 0;
}

static void to_rts(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};

	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PORT), 0);
	attr.qp_state = IBV_QPS_RTR;
	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
	attr.qp_state = IBV_QPS_RTS;
	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
}

static struct ibv_qp *make(void)
{
	struct ibv_qp_init_attr init = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = {DEPTH, DEPTH, 2, 2, 64},
		.qp_type = IBV_QPT_RAW_PACKET,
		.sq_sig_all = 1,
	};
	struct ibv_qp *qp = ibv_create_qp(pd, &init);

	assert_non_null(qp);
	to_rts(qp);
	return qp;
}

/* A rule for UDP from and to the ports of frame_add_ports(). */
struct udp_rule {
	struct ibv_flow_attr attr;
	struct ibv_flow_spec_eth eth;
	struct ibv_flow_spec_ipv4 ip;
	struct ibv_flow_spec_tcp_udp udp;
};

static struct udp_rule udp_rule(void)
{
	struct udp_rule rule = {
		.attr = {.type = IBV_FLOW_ATTR_NORMAL,
			.size = sizeof(rule),
			.num_of_specs = 3,
			.port = 1},
		.eth = {.type = IBV_FLOW_SPEC_ETH, .size = sizeof(rule.eth)},
		.ip = {.type = IBV_FLOW_SPEC_IPV4, .size = sizeof(rule.ip)},
		.udp = {.type = IBV_FLOW_SPEC_UDP, .size = sizeof(rule.udp)},
	};

	memset(rule.eth.mask.src_mac, 0xff, 6);
	rule.eth.val.src_mac[0] = 0x02;
	rule.eth.val.src_mac[5] = 0x05;
	rule.udp.val.dst_port = (uint16_t)(1766 >> 8 | (1766 & 0xff) << 8);
	rule.udp.mask.dst_port = 0xffff;
	return rule;
}

static void send_frame(struct ibv_qp *qp, const struct frame *frame)
{
	struct ibv_sge sge = {(uintptr_t)memory, frame->count, mr->lkey};
	struct ibv_send_wr wr = {.wr_id = 1, .opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1};
	struct ibv_send_wr *bad;

	memcpy(memory, frame->bytes, frame->count);
	assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
}

static struct ibv_recv_wr receive_request(uint64_t wr_id, struct ibv_sge *sge)
{
	*sge = (struct ibv_sge){(uintptr_t)memory + 2048, 2048, mr->lkey};
	return (struct ibv_recv_wr){.wr_id = wr_id, .sg_list = sge, .num_sge = 1};
}

static void post_receive(struct ibv_qp *qp, uint64_t wr_id)
{
	struct ibv_sge sge;
	struct ibv_recv_wr wr = receive_request(wr_id, &sge), *bad;

	assert_int_equal(ibv_post_recv(qp, &wr, &bad), 0);
}

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Poll one completion; false when none comes in time. */
static bool poll_one(struct ibv_cq *from, struct ibv_wc *wc, int64_t timeout_ms)
{
	int64_t until_ms = now_ms() + timeout_ms;

	do {
		if (ibv_poll_cq(from, 1, wc))
			return true;
	} while (now_ms() < until_ms);
	return false;
}

static void expect(uint64_t wr_id)
{
	struct ibv_wc wc;

	assert_true(poll_one(cq, &wc, TIMEOUT_MS));
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.wr_id, wr_id);
}

static void expect_nothing(void)
{
	struct ibv_wc wc;

	assert_false(poll_one(cq, &wc, QUIET_MS));
}

static struct frame udp_frame(void)
{
	struct frame frame = frame_ethernet();

	frame_add_ipv4(&frame, 17);
	frame_add_ports(&frame);
	return frame;
}

static void raw_frame_reaches_the_flow_that_matches_it(void **state)
{
	struct ibv_qp *from = make(), *to = make();
	struct udp_rule rule = udp_rule();
	struct frame frame = udp_frame();
	struct ibv_flow *flow = ibv_create_flow(to, &rule.attr);

	(void)state;
	assert_non_null(flow);
	post_receive(to, 2);
	post_receive(from, 3);
	send_frame(from, &frame);
	expect(1);
	expect(2);
	assert_memory_equal(memory + 2048, frame.bytes, frame.count);
	frame.bytes[11] = 6;
	send_frame(from, &frame);
	expect(1);
	expect_nothing();
	assert_int_equal(ibv_destroy_qp(to), EBUSY);
	assert_int_equal(ibv_destroy_flow(flow), 0);
	post_receive(to, 4);
	frame.bytes[11] = 5;
	send_frame(from, &frame);
	expect(1);
	expect_nothing();
	assert_int_equal(ibv_destroy_qp(to), 0);
	assert_int_equal(ibv_destroy_qp(from), 0);
}

static void raw_flow_that_cannot_be_is_refused(void **state)
{
	struct ibv_qp *qp = make();
	struct udp_rule rule = udp_rule();
	struct ibv_flow_attr plain = {
		.type = IBV_FLOW_ATTR_SNIFFER, .size = sizeof(plain), .port = 1};

	(void)state;
#define REFUSED(with, expected)                               \
	do {                                                  \
		struct udp_rule was = rule;                   \
		with;                                         \
		errno = 0;                                    \
		assert_null(ibv_create_flow(qp, &rule.attr)); \
		assert_int_equal(errno, expected);            \
		rule = was;                                   \
	} while (0)
	REFUSED(rule.attr.port = 2, EINVAL);
	REFUSED(rule.attr.comp_mask = 1, EINVAL);
	REFUSED(rule.attr.type = (enum ibv_flow_attr_type)9, EINVAL);
	REFUSED(rule.attr.type = IBV_FLOW_ATTR_SNIFFER, EINVAL);
	REFUSED(rule.attr.flags = 1 << 3, EINVAL);
	REFUSED(rule.attr.flags = IBV_FLOW_ATTR_FLAGS_EGRESS, EOPNOTSUPP);
	REFUSED(rule.eth.size = 12, EINVAL);
	REFUSED(rule.udp.type = IBV_FLOW_SPEC_ESP, EOPNOTSUPP);
	REFUSED(rule.udp.type = IBV_FLOW_SPEC_IPV6, EINVAL);
	plain.flags = IBV_FLOW_ATTR_FLAGS_DONT_TRAP;
	assert_null(ibv_create_flow(qp, &plain));
	plain.flags = 0;
	struct ibv_flow *flow = ibv_create_flow(qp, &plain);
	assert_non_null(flow);
	struct ibv_flow copy = *flow;
	assert_int_equal(ibv_destroy_flow(flow), 0);
	assert_int_equal(ibv_destroy_flow(&copy), ENOENT);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	struct ibv_qp_init_attr init = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC};
	qp = ibv_create_qp(pd, &init);
	assert_null(ibv_create_flow(qp, &plain));
	assert_int_equal(errno, EINVAL);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static struct ibv_wq *wq_make(void)
{
	struct ibv_wq_init_attr init = {
		.wq_type = IBV_WQT_RQ, .max_wr = 32, .max_sge = 1, .pd = pd, .cq = cq};

	return ibv_create_wq(context, &init);
}

static int wq_to(struct ibv_wq *wq, enum ibv_wq_state to)
{
	struct ibv_wq_attr attr = {.attr_mask = IBV_WQ_ATTR_STATE, .wq_state = to};

	return ibv_modify_wq(wq, &attr);
}

static void raw_work_queue_goes_through_its_states(void **state)
{
	struct ibv_wq *wq = wq_make();
	struct ibv_sge sge;
	struct ibv_recv_wr wr = receive_request(7, &sge), *bad;
	struct ibv_wq_attr attr = {
		.attr_mask = IBV_WQ_ATTR_CURR_STATE, .curr_wq_state = IBV_WQS_RESET};
	struct ibv_wc wc;

	(void)state;
	assert_non_null(wq);
	assert_int_equal(wq->state, IBV_WQS_RESET);
	assert_int_equal(ibv_post_wq_recv(wq, &wr, &bad), EINVAL);
	assert_ptr_equal(bad, &wr);
	assert_int_equal(wq_to(wq, IBV_WQS_ERR), EINVAL);
	assert_int_equal(wq_to(wq, IBV_WQS_RDY), 0);
	assert_int_equal(wq->state, IBV_WQS_RDY);
	assert_int_equal(ibv_modify_wq(wq, &attr), EINVAL);
	for (int i = 0; i < 32; i++)
		assert_int_equal(ibv_post_wq_recv(wq, &wr, &bad), 0);
	assert_int_equal(ibv_post_wq_recv(wq, &wr, &bad), ENOMEM);
	assert_int_equal(wq_to(wq, IBV_WQS_RESET), 0);
	assert_int_equal(wq_to(wq, IBV_WQS_RDY), 0);
	assert_int_equal(ibv_post_wq_recv(wq, &wr, &bad), 0);
	assert_int_equal(wq_to(wq, IBV_WQS_ERR), 0);
	assert_true(poll_one(cq, &wc, TIMEOUT_MS));
	assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(ibv_post_wq_recv(wq, &wr, &bad), 0);
	assert_true(poll_one(cq, &wc, TIMEOUT_MS));
	assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(wq_to(wq, IBV_WQS_RDY), EINVAL);
	attr = (struct ibv_wq_attr){
		.attr_mask = IBV_WQ_ATTR_FLAGS, .flags_mask = IBV_WQ_FLAGS_CVLAN_STRIPPING};
	assert_int_equal(ibv_modify_wq(wq, &attr), EOPNOTSUPP);
	assert_int_equal(ibv_destroy_wq(wq), 0);
}

static struct ibv_qp *spread_make(
	struct ibv_rwq_ind_table *table, uint8_t *key, uint64_t fields, uint8_t key_bytes)
{
	struct ibv_qp_init_attr_ex init = {
		.qp_type = IBV_QPT_RAW_PACKET,
		.comp_mask =
			IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH,
		.pd = pd,
		.rwq_ind_tbl = table,
		.rx_hash_conf = {IBV_RX_HASH_FUNC_TOEPLITZ, key_bytes, key, fields},
	};

	errno = 0;
	return ibv_create_qp_ex(context, &init);
}

static void raw_table_spreads_frames_over_its_queues(void **state)
{
	struct ibv_wq *wqs[TABLE];
	struct ibv_rwq_ind_table_init_attr init = {.log_ind_tbl_size = 2, .ind_tbl = wqs};
	struct ibv_flow_attr all = {
		.type = IBV_FLOW_ATTR_ALL_DEFAULT, .size = sizeof(all), .port = 1};
	struct ibv_sge sge;
	struct ibv_recv_wr wr = receive_request(0, &sge), *bad;
	struct frame frame = udp_frame();
	uint32_t seen[TABLE] = {0};
	uint8_t key[40];
	struct ibv_wc wc;

	(void)state;
	for (size_t i = 0; i < sizeof(key); i++)
		key[i] = (uint8_t)(i * i * 29 + 0x6b);
	for (uint32_t i = 0; i < TABLE; i++) {
		wqs[i] = wq_make();
		assert_int_equal(wq_to(wqs[i], IBV_WQS_RDY), 0);
		for (wr.wr_id = 100 + i; ibv_post_wq_recv(wqs[i], &wr, &bad) == 0;)
			;
	}
	struct ibv_rwq_ind_table *table = ibv_create_rwq_ind_table(context, &init);
	assert_non_null(table);
	assert_int_equal(ibv_destroy_wq(wqs[0]), EBUSY);
	assert_null(spread_make(table, key, IBV_RX_HASH_SRC_IPV4, 39));
	assert_int_equal(errno, EINVAL);
	assert_null(spread_make(table, key, IBV_RX_HASH_INNER, 40));
	assert_int_equal(errno, EOPNOTSUPP);
	struct ibv_qp *from = make();
	struct ibv_qp *to = spread_make(table, key, IBV_RX_HASH_SRC_IPV4, 40);
	assert_non_null(to);
	assert_int_equal(ibv_destroy_rwq_ind_table(table), EBUSY);
	assert_int_not_equal(ibv_post_recv(to, &wr, &bad), 0);
	/* In RESET: the work queues' states are what counts. */
	struct ibv_flow *flow = ibv_create_flow(to, &all);
	assert_non_null(flow);
	for (uint32_t i = 0; i < 32; i++) {
		frame.bytes[14 + 15] = (uint8_t)i;
		send_frame(from, &frame);
		expect(1);
		assert_true(poll_one(cq, &wc, TIMEOUT_MS));
		assert_in_range(wc.wr_id, 100, 100 + TABLE - 1);
		assert_int_equal(wc.qp_num, wqs[wc.wr_id - 100]->wq_num);
		seen[wc.wr_id - 100]++;
	}
	for (uint32_t i = 0; i < TABLE; i++)
		assert_true(seen[i] > 0);
	assert_int_equal(ibv_destroy_flow(flow), 0);
	assert_int_equal(ibv_destroy_qp(to), 0);
	assert_int_equal(ibv_destroy_qp(from), 0);
	assert_int_equal(ibv_destroy_rwq_ind_table(table), 0);
	for (uint32_t i = 0; i < TABLE; i++)
		assert_int_equal(ibv_destroy_wq(wqs[i]), 0);
}

static void raw_work_queue_with_bad_memory_fails_with_an_event(void **state)
{
	struct ibv_wq *wq = wq_make();
	struct ibv_rwq_ind_table_init_attr init = {.log_ind_tbl_size = 0, .ind_tbl = &wq};
	struct ibv_flow_attr all = {
		.type = IBV_FLOW_ATTR_ALL_DEFAULT, .size = sizeof(all), .port = 1};
	struct ibv_sge sge;
	struct ibv_recv_wr wr = receive_request(9, &sge), *bad;
	struct frame frame = udp_frame();
	struct ibv_async_event event;
	uint8_t key[40] = {1};
	struct ibv_wc wc;

	(void)state;
	assert_int_equal(wq_to(wq, IBV_WQS_RDY), 0);
	sge.lkey++;
	assert_int_equal(ibv_post_wq_recv(wq, &wr, &bad), 0);
	struct ibv_rwq_ind_table *table = ibv_create_rwq_ind_table(context, &init);
	struct ibv_qp *from = make();
	struct ibv_qp *to = spread_make(table, key, 0, 40);
	to_rts(to);
	struct ibv_flow *flow = ibv_create_flow(to, &all);
	send_frame(from, &frame);
	expect(1);
	assert_true(poll_one(cq, &wc, TIMEOUT_MS));
	assert_int_equal(wc.status, IBV_WC_LOC_PROT_ERR);
	assert_int_equal(ibv_get_async_event(context, &event), 0);
	assert_int_equal(event.event_type, IBV_EVENT_WQ_FATAL);
	assert_ptr_equal(event.element.wq, wq);
	ibv_ack_async_event(&event);
	assert_int_equal(ibv_destroy_flow(flow), 0);
	assert_int_equal(ibv_destroy_qp(to), 0);
	assert_int_equal(ibv_destroy_qp(from), 0);
	assert_int_equal(ibv_destroy_rwq_ind_table(table), 0);
	assert_int_equal(ibv_destroy_wq(wq), 0);
}

/* A rule that tags what it steers, and counts it. */
struct counting_rule {
	struct udp_rule match;
	struct ibv_flow_spec_action_tag tag;
	struct ibv_flow_spec_counter_action count;
};

static struct counting_rule counting_rule(struct ibv_counters *counters)
{
	struct counting_rule rule = {
		.match = udp_rule(),
		.tag = {.type = IBV_FLOW_SPEC_ACTION_TAG, .size = sizeof(rule.tag), .tag_id = 4711},
		.count = {.type = IBV_FLOW_SPEC_ACTION_COUNT,
			.size = sizeof(rule.count),
			.counters = counters},
	};

	rule.match.attr.size = sizeof(rule);
	rule.match.attr.num_of_specs = 5;
	return rule;
}

static struct ibv_counters *counters_make(void)
{
	struct ibv_counters_init_attr init = {.comp_mask = 0};
	struct ibv_counters *counters = ibv_create_counters(context, &init);

	assert_non_null(counters);
	return counters;
}

static int attach(struct ibv_counters *counters, int what, uint32_t index)
{
	struct ibv_counter_attach_attr attr = {
		.counter_desc = (enum ibv_counter_description)what,
		.index = index,
	};

	return ibv_attach_counters_point_flow(counters, &attr, NULL);
}

static void raw_flow_counts_and_tags_what_it_steers(void **state)
{
	struct ibv_cq_init_attr_ex cq_init = {.cqe = 16, .wc_flags = IBV_WC_EX_WITH_FLOW_TAG};
	struct ibv_cq_ex *tagged = ibv_create_cq_ex(context, &cq_init);
	struct ibv_poll_cq_attr poll_attr = {.comp_mask = 0};
	struct ibv_qp_init_attr qp_init = {
		.send_cq = cq,
		.recv_cq = ibv_cq_ex_to_cq(tagged),
		.cap = {DEPTH, DEPTH, 2, 2, 64},
		.qp_type = IBV_QPT_RAW_PACKET,
		.sq_sig_all = 1,
	};
	struct ibv_counters *counters = counters_make();
	struct counting_rule rule = counting_rule(counters);
	struct frame frame = udp_frame();
	uint64_t values[4] = {9, 9, 9, 9};
	struct ibv_flow *flow;
	struct ibv_qp *qp;

	(void)state;
	assert_non_null(tagged);
	assert_non_null(qp = ibv_create_qp(pd, &qp_init));
	to_rts(qp);
	assert_int_equal(attach(counters, IBV_COUNTER_PACKETS, 0), 0);
	assert_int_equal(attach(counters, IBV_COUNTER_BYTES, 2), 0);
	assert_int_equal(attach(counters, IBV_COUNTER_PACKETS, 2), 0);
	assert_int_equal(attach(counters, 7, 0), EOPNOTSUPP);
	assert_non_null(flow = ibv_create_flow(qp, &rule.match.attr));
	assert_int_equal(attach(counters, IBV_COUNTER_PACKETS, 1), EBUSY);
	assert_int_equal(ibv_destroy_counters(counters), EBUSY);
	for (uint32_t i = 0; i < 3; i++) {
		int64_t until_ms = now_ms() + TIMEOUT_MS;

		post_receive(qp, i);
		send_frame(qp, &frame);
		expect(1);
		while (ibv_start_poll(tagged, &poll_attr))
			assert_true(now_ms() < until_ms);
		assert_int_equal(tagged->wr_id, i);
		assert_int_equal(ibv_wc_read_flow_tag(tagged), 4711);
		ibv_end_poll(tagged);
	}
	assert_int_equal(ibv_read_counters(counters, values, 3, 0), 0);
	assert_int_equal(values[0], 3);
	assert_int_equal(values[1], 0);
	assert_int_equal(values[2], 3 * frame.count + 3);
	assert_int_equal(values[3], 9);
	assert_int_equal(ibv_read_counters(counters, values, 3, 8), EINVAL);

	assert_int_equal(ibv_destroy_flow(flow), 0);
	assert_int_equal(attach(counters, IBV_COUNTER_PACKETS, 1), 0);
	assert_int_equal(ibv_destroy_counters(counters), 0);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(tagged)), 0);
}

/* 100 frames of 1,000 bytes and FCS at 16 Mbit/s take 50 ms, less what may go at once. */
static void raw_queue_pair_keeps_to_its_rate(void **state)
{
	enum { FRAMES = 100, FRAME_BYTES = 1000 };
	struct ibv_qp_rate_limit_attr limit = {.rate_limit = 16000};
	struct ibv_qp *qp = make();
	struct frame frame = udp_frame();
	int64_t start_ms;
	struct ibv_wc wc;

	(void)state;
	memcpy(memory, frame.bytes, frame.count);
	assert_int_equal(ibv_modify_qp_rate_limit(qp, &limit), 0);
	start_ms = now_ms();
	for (int i = 0; i < FRAMES; i++) {
		struct ibv_sge sge = {(uintptr_t)memory, FRAME_BYTES, mr->lkey};
		struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND},
				   *bad;

		assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
		assert_true(poll_one(cq, &wc, TIMEOUT_MS));
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
	}
	print_message("%d frames: %d ms\n", FRAMES, (int)(now_ms() - start_ms));
	assert_in_range(now_ms() - start_ms, 48, TIMEOUT_MS);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void raw_capabilities_are_told(void **state)
{
	struct ibv_device_attr_ex attr;

	(void)state;
	assert_int_equal(ibv_query_device_ex(context, NULL, &attr), 0);
	assert_true(attr.orig_attr.device_cap_flags & IBV_DEVICE_MANAGED_FLOW_STEERING);
	assert_int_equal(attr.rss_caps.supported_qpts, 1 << IBV_QPT_RAW_PACKET);
	assert_int_equal(attr.rss_caps.max_rwq_indirection_table_size, 128);
	assert_true(attr.max_wq_type_rq > 0);
	assert_true(attr.packet_pacing_caps.supported_qpts & 1u << IBV_QPT_RAW_PACKET);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(raw_frame_reaches_the_flow_that_matches_it),
		cmocka_unit_test(raw_flow_that_cannot_be_is_refused),
		cmocka_unit_test(raw_work_queue_goes_through_its_states),
		cmocka_unit_test(raw_table_spreads_frames_over_its_queues),
		cmocka_unit_test(raw_work_queue_with_bad_memory_fails_with_an_event),
		cmocka_unit_test(raw_flow_counts_and_tags_what_it_steers),
		cmocka_unit_test(raw_queue_pair_keeps_to_its_rate),
		cmocka_unit_test(raw_capabilities_are_told),
	};
	int netns = netns_enter_new();

	if (netns < 0)
		return 77;
	unsetenv("URNIC_DEVICE_NAME");
	unsetenv("URNIC_INTERFACES");
	settings_read();
	return cmocka_run_group_tests(tests, open_context, close_context);
}
