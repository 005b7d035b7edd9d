/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Datagrams, address handles and multicast groups through the ABI, over the loopback interface.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <infiniband/verbs.h>

#include "base/arith.h"
#include "os/setting.h"
#include "support/netns.h"
#include "support/verbs_pair.h"

enum { ENDS = 3, GRH = 40, HOPS = 9, QKEY = 0x11111111, DEPTH = 16, BYTES = 8192 };

/*
 * Each end has a completion queue of its own, and so a lane of its own while there are enough
 * lanes.
 */
struct end {
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	uint8_t *buffer;
};

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct end ends[ENDS];

static void end_make(struct end *end, enum ibv_qp_type type)
{
	struct ibv_qp_init_attr init = {.cap = {DEPTH, DEPTH, 1, 1, 0}, .qp_type = type};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY};

	MUST(end->cq = ibv_create_cq(context, 2 * DEPTH, NULL, NULL, 0));
	init.send_cq = end->cq;
	init.recv_cq = end->cq;
	MUST(end->qp = ibv_create_qp(pd, &init));
	MUST(end->buffer = calloc(1, BYTES));
	MUST(end->mr = ibv_reg_mr(pd, end->buffer, BYTES, IBV_ACCESS_LOCAL_WRITE));
	if (type != IBV_QPT_UD)
		return;
	MUST(!ibv_modify_qp(
		end->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY));
	attr.qp_state = IBV_QPS_RTR;
	MUST(!ibv_modify_qp(end->qp, &attr, IBV_QP_STATE));
	attr.qp_state = IBV_QPS_RTS;
	MUST(!ibv_modify_qp(end->qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN));
}

static void end_unmake(struct end *end)
{
	MUST(!ibv_destroy_qp(end->qp));
	MUST(!ibv_destroy_cq(end->cq));
	MUST(!ibv_dereg_mr(end->mr));
	free(end->buffer);
}

static int setup(void **state)
{
	(void)state;
	context = verbs_pair_open();
	MUST(pd = ibv_alloc_pd(context));
	for (int i = 0; i < ENDS; i++)
		end_make(&ends[i], IBV_QPT_UD);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	for (int i = 0; i < ENDS; i++)
		end_unmake(&ends[i]);
	MUST(!ibv_dealloc_pd(pd));
	MUST(!ibv_close_device(context));
	return 0;
}

static struct ibv_ah_attr attr_to(const union ibv_gid *gid, uint8_t gid_index)
{
	return (struct ibv_ah_attr){
		.grh = {.dgid = *gid, .sgid_index = gid_index, .hop_limit = HOPS},
		.is_global = 1,
		.port_num = 1,
	};
}

static struct ibv_ah *ah_to(const union ibv_gid *gid)
{
	struct ibv_ah_attr attr = attr_to(gid, 0);

	return ibv_create_ah(pd, &attr);
}

/* To the device's own first address, which is an IPv4 one. */
static struct ibv_ah *ah_to_self(void)
{
	union ibv_gid gid;
	struct ibv_ah *ah;

	MUST(!ibv_query_gid(context, 1, 0, &gid));
	MUST(ah = ah_to(&gid));
	return ah;
}

static union ibv_gid mgid(uint8_t last)
{
	return (union ibv_gid){.raw = {0xff, 0x0e, [10] = 0xff, [11] = 0xff, 224, 9, 8, last}};
}

static void post_receive(struct end *end)
{
	struct ibv_sge sge = {(uintptr_t)end->buffer, BYTES / 2, end->mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	MUST(!ibv_post_recv(end->qp, &wr, &bad));
}

static void send_to(struct end *end, struct ibv_ah *ah, uint32_t qpn, uint32_t bytes)
{
	struct ibv_sge sge = {(uintptr_t)end->buffer + BYTES / 2, bytes, end->mr->lkey};
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.ud = {.ah = ah, .remote_qpn = qpn, .remote_qkey = QKEY},
	};
	struct ibv_send_wr *bad;

	MUST(!ibv_post_send(end->qp, &wr, &bad));
}

static void expect_nothing(struct end *end)
{
	struct ibv_wc wc;

	for (int i = 0; i < 1000; i++)
		assert_int_equal(ibv_poll_cq(end->cq, 1, &wc), 0);
}

static void datagram_arrives_and_its_sender_can_be_answered(void **state)
{
	struct ibv_ah *ah = ah_to_self(), *back;
	struct ibv_wc wc;

	(void)state;
	post_receive(&ends[0]);
	post_receive(&ends[1]);
	verbs_pattern_fill(ends[0].buffer + BYTES / 2, 100, 1);
	send_to(&ends[0], ah, ends[1].qp->qp_num, 100);
	assert_int_equal(verbs_poll_one(ends[0].cq).opcode, IBV_WC_SEND);
	wc = verbs_poll_one(ends[1].cq);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.byte_len, GRH + 100);
	assert_int_equal(wc.src_qp, ends[0].qp->qp_num);
	assert_int_equal(wc.wc_flags, IBV_WC_GRH);
	assert_int_equal(wc.sl, 0xa); /* UDP over IPv4, as mlx5 says it */
	assert_true(verbs_pattern_is(ends[1].buffer + GRH, 100, 1));
	/* The IPv4 header in the last 20 bytes. */
	assert_int_equal(ends[1].buffer[20], 0x45);
	assert_int_equal(ends[1].buffer[20 + 8], HOPS);

	back = ibv_create_ah_from_wc(pd, &wc, (struct ibv_grh *)(void *)ends[1].buffer, 1);
	assert_non_null(back);
	send_to(&ends[1], back, wc.src_qp, 7);
	assert_int_equal(verbs_poll_one(ends[1].cq).status, IBV_WC_SUCCESS);
	wc = verbs_poll_one(ends[0].cq);
	assert_int_equal(wc.byte_len, GRH + 7);
	assert_int_equal(wc.src_qp, ends[1].qp->qp_num);
	MUST(!ibv_destroy_ah(ah));
	MUST(!ibv_destroy_ah(back));
	assert_int_equal(ibv_dealloc_pd(pd), EBUSY);
}

static void datagram_over_ipv6_brings_its_ip_header(void **state)
{
	struct ibv_ah_attr attr;
	union ibv_gid gid;
	struct ibv_ah *ah;

	(void)state;
	MUST(!ibv_query_gid(context, 1, 1, &gid)); /* ::1 */
	attr = attr_to(&gid, 1);
	attr.grh.traffic_class = 0x28;
	MUST(ah = ibv_create_ah(pd, &attr));
	post_receive(&ends[1]);
	send_to(&ends[0], ah, ends[1].qp->qp_num, 10);
	assert_int_equal(verbs_poll_one(ends[1].cq).byte_len, GRH + 10);
	assert_int_equal(ends[1].buffer[0], 0x62); /* version 6, and the upper half of 0x28 */
	assert_int_equal(ends[1].buffer[1] & 0xc0, 0x80); /* its lower half; the rest is ECN's */
	assert_int_equal(ends[1].buffer[7], HOPS);
	assert_memory_equal(ends[1].buffer + 8, gid.raw, 16);
	assert_memory_equal(ends[1].buffer + 24, gid.raw, 16);
	MUST(!ibv_destroy_ah(ah));
}

/* It did not exist when the queue pair was made. */
static void datagram_comes_to_a_new_address_of_the_device(void **state)
{
	static const uint8_t ipv4[4] = {127, 9, 9, 9};
	union ibv_gid gid = {.raw = {[10] = 0xff, [11] = 0xff}};
	struct ibv_ah *ah;
	struct ibv_wc wc;
	int count = 0;

	(void)state;
	memcpy(gid.raw + 12, ipv4, sizeof(ipv4));
	MUST(netns_run("ip addr add 127.9.9.9/8 dev lo") == 0);
	MUST(ah = ah_to(&gid));
	post_receive(&ends[1]);
	for (int tries = 0; tries < 200 && !count; tries++) {
		send_to(&ends[0], ah, ends[1].qp->qp_num, 10);
		assert_int_equal(verbs_poll_one(ends[0].cq).status, IBV_WC_SUCCESS);
		usleep(10000);
		count = ibv_poll_cq(ends[1].cq, 1, &wc);
	}
	assert_int_equal(count, 1);
	assert_int_equal(wc.byte_len, GRH + 10);
	MUST(netns_run("ip addr del 127.9.9.9/8 dev lo") == 0);
	MUST(!ibv_destroy_ah(ah));
}

static void datagram_longer_than_the_mtu_is_a_local_length_error(void **state)
{
	struct ibv_ah *ah = ah_to_self();
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS};
	struct ibv_qp_init_attr init;

	(void)state;
	ends[0].mr->length = BYTES;
	MUST(!ibv_dereg_mr(ends[0].mr));
	free(ends[0].buffer);
	MUST(ends[0].buffer = calloc(2, BYTES));
	MUST(ends[0].mr = ibv_reg_mr(pd, ends[0].buffer, 2ul * BYTES, IBV_ACCESS_LOCAL_WRITE));
	send_to(&ends[0], ah, ends[1].qp->qp_num, 4096);
	assert_int_equal(verbs_poll_one(ends[0].cq).status, IBV_WC_SUCCESS);
	send_to(&ends[0], ah, ends[1].qp->qp_num, 4097);
	assert_int_equal(verbs_poll_one(ends[0].cq).status, IBV_WC_LOC_LEN_ERR);
	MUST(!ibv_query_qp(ends[0].qp, &attr, IBV_QP_STATE, &init));
	assert_int_equal(attr.qp_state, IBV_QPS_SQE);
	attr.qp_state = IBV_QPS_RTS;
	MUST(!ibv_modify_qp(ends[0].qp, &attr, IBV_QP_STATE));
	MUST(!ibv_destroy_ah(ah));
}

static void ah_made_before_the_queue_pair_leads_out_of_its_lane_too(void **state)
{
	struct ibv_ah *ah = ah_to_self();
	struct end late[4];

	(void)state;
	for (uint32_t i = 0; i < ARRAY_COUNT(late); i++) {
		end_make(&late[i], IBV_QPT_UD);
		post_receive(&ends[0]);
		send_to(&late[i], ah, ends[0].qp->qp_num, 1);
		assert_int_equal(verbs_poll_one(ends[0].cq).src_qp, late[i].qp->qp_num);
	}
	for (uint32_t i = 0; i < ARRAY_COUNT(late); i++)
		end_unmake(&late[i]);
	MUST(!ibv_destroy_ah(ah));
}

/* As with mlx5 and rxe: posting takes it, the completion says what is wrong. */
static void request_that_is_no_datagram_completes_with_an_error(void **state)
{
	static const enum ibv_wr_opcode opcodes[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM,
		IBV_WR_RDMA_READ, IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS};

	(void)state;
	for (size_t i = 0; i < ARRAY_COUNT(opcodes); i++) {
		struct ibv_sge sge = {(uintptr_t)ends[0].buffer, 8, ends[0].mr->lkey};
		struct ibv_send_wr *bad,
			wr = {
				.sg_list = &sge,
				.num_sge = 1,
				.opcode = opcodes[i],
				.send_flags = IBV_SEND_SIGNALED,
				/* What adapters' libraries would take for an address handle. */
				.wr.rdma = {.remote_addr = (uintptr_t)ends[0].buffer, .rkey = 7},
			};

		assert_int_equal(ibv_post_send(ends[0].qp, &wr, &bad), 0);
		assert_int_equal(verbs_poll_one(ends[0].cq).status, IBV_WC_LOC_QP_OP_ERR);
		assert_int_equal(ibv_modify_qp(ends[0].qp, &attr, IBV_QP_STATE), 0);
	}
}

static void address_of_another_domain_completes_with_an_error(void **state)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS};
	struct ibv_pd *mine = pd;
	struct ibv_ah *ah;

	(void)state;
	MUST(pd = ibv_alloc_pd(context));
	ah = ah_to_self();
	send_to(&ends[0], ah, ends[1].qp->qp_num, 10);
	assert_int_equal(verbs_poll_one(ends[0].cq).status, IBV_WC_LOC_QP_OP_ERR);
	assert_int_equal(ibv_modify_qp(ends[0].qp, &attr, IBV_QP_STATE), 0);
	expect_nothing(&ends[1]);
	MUST(!ibv_destroy_ah(ah));
	MUST(!ibv_dealloc_pd(pd));
	pd = mine;
}

static void ah_that_cannot_lead_anywhere_is_refused(void **state)
{
	struct ibv_ah_attr attr;
	union ibv_gid gid = {{0xfd, [15] = 1}};

	(void)state;
	attr = attr_to(&gid, 0); /* IPv6 from IPv4 */
	assert_null(ibv_create_ah(pd, &attr));
	assert_int_equal(errno, EINVAL);
	attr = attr_to(&gid, 200);
	assert_null(ibv_create_ah(pd, &attr));
	memset(&gid, 0, sizeof(gid));
	attr = attr_to(&gid, 0);
	assert_null(ibv_create_ah(pd, &attr));
}

/* Of this thread's processor: the machine may have other things to do. */
static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

enum { AH_COUNT = 65536, AH_BATCH = 256, AH_SAMPLES = 16, AH_ATTEMPTS_MAX = 5 };

static void ahs_make(struct ibv_ah **ahs, uint32_t first)
{
	union ibv_gid gid;

	MUST(!ibv_query_gid(context, 1, 0, &gid));
	gid.raw[12] = 10;
	gid.raw[13] = 7;
	for (uint32_t i = first; i < first + AH_BATCH; i++) {
		gid.raw[14] = (uint8_t)(i >> 8);
		gid.raw[15] = (uint8_t)i;
		MUST(ahs[i] = ah_to(&gid));
	}
}

static void ahs_destroy(struct ibv_ah **ahs, uint32_t first)
{
	for (uint32_t i = first; i < first + AH_BATCH; i++)
		MUST(!ibv_destroy_ah(ahs[i]));
}

/*
 * Call `step` for all batches. The figures are the fastest of the first AH_SAMPLES batches and the
 * fastest of the last ones, because batches that wait for a lock are slower.
 */
static void ahs_measure(
	struct ibv_ah **ahs, void (*step)(struct ibv_ah **, uint32_t), uint64_t fastest[2])
{
	uint32_t batches = AH_COUNT / AH_BATCH;

	fastest[0] = fastest[1] = UINT64_MAX;
	for (uint32_t i = 0; i < batches; i++) {
		uint64_t start_ns = now_ns();
		uint64_t *least = i < AH_SAMPLES ? &fastest[0] : &fastest[1];

		step(ahs, i * AH_BATCH);
		if (i < AH_SAMPLES || i >= batches - AH_SAMPLES)
			*least = min_u64(*least, now_ns() - start_ns);
	}
}

/* Did the last batches take about as long as the first? */
static bool ah_takes_the_same_time(struct ibv_ah **ahs)
{
	uint64_t made[2], destroyed[2];

	ahs_measure(ahs, ahs_make, made);
	ahs_measure(ahs, ahs_destroy, destroyed);
	return made[1] <= 8 * made[0] && destroyed[0] <= 8 * destroyed[1];
}

/* Other programs take the caches away: then once more. */
static void ah_takes_the_same_time_however_many_there_are(void **state)
{
	struct ibv_ah **ahs = calloc(AH_COUNT, sizeof(struct ibv_ah *));
	unsigned attempts = 1;

	(void)state;
	MUST(ahs);
	while (!ah_takes_the_same_time(ahs) && attempts++ < AH_ATTEMPTS_MAX)
		printf("retried: address handles: some took longer\n");
	free(ahs);
	assert_true(attempts <= AH_ATTEMPTS_MAX);
}

static void ah_beyond_the_limit_is_refused(void **state)
{
	struct ibv_device_attr limits;
	struct ibv_ah **ahs;
	union ibv_gid gid;

	(void)state;
	MUST(!ibv_query_device(context, &limits));
	MUST(!ibv_query_gid(context, 1, 0, &gid));
	MUST(ahs = calloc((size_t)limits.max_ah, sizeof(struct ibv_ah *)));
	for (int i = 0; i < limits.max_ah; i++) {
		gid.raw[14] = (uint8_t)(i >> 8);
		gid.raw[15] = (uint8_t)i;
		MUST(ahs[i] = ah_to(&gid));
	}
	assert_null(ah_to(&gid));
	assert_int_equal(errno, ENOMEM);
	for (int i = 0; i < limits.max_ah; i++)
		MUST(!ibv_destroy_ah(ahs[i]));
	free(ahs);
}

static void multicast_reaches_every_member_and_nobody_else(void **state)
{
	union ibv_gid group = mgid(1), other = mgid(2);
	struct ibv_ah *ah;

	(void)state;
	MUST(ah = ah_to(&group));
	for (int i = 0; i < ENDS; i++)
		post_receive(&ends[i]);
	MUST(!ibv_attach_mcast(ends[0].qp, &group, 0));
	MUST(!ibv_attach_mcast(ends[1].qp, &group, 0));
	MUST(!ibv_attach_mcast(ends[1].qp, &group, 0)); /* once is enough */
	MUST(!ibv_attach_mcast(ends[2].qp, &other, 0));
	send_to(&ends[2], ah, 0xffffff, 33);
	assert_int_equal(verbs_poll_one(ends[2].cq).opcode, IBV_WC_SEND);
	for (int i = 0; i < 2; i++) {
		struct ibv_wc wc = verbs_poll_one(ends[i].cq);

		assert_int_equal(wc.byte_len, GRH + 33);
		assert_int_equal(wc.src_qp, ends[2].qp->qp_num);
		post_receive(&ends[i]);
		expect_nothing(&ends[i]);
	}
	expect_nothing(&ends[2]);

	MUST(!ibv_detach_mcast(ends[0].qp, &group, 0));
	send_to(&ends[0], ah, 0xffffff, 34);
	assert_int_equal(verbs_poll_one(ends[0].cq).opcode, IBV_WC_SEND);
	assert_int_equal(verbs_poll_one(ends[1].cq).byte_len, GRH + 34);
	expect_nothing(&ends[0]);
	MUST(!ibv_detach_mcast(ends[1].qp, &group, 0));
	MUST(!ibv_detach_mcast(ends[2].qp, &other, 0));
	MUST(!ibv_destroy_ah(ah));
}

/*
 * It receives by its own number only: a datagram to the group's address for a queue pair in the
 * group is dropped.
 */
static void multicast_member_needs_its_number(void **state)
{
	union ibv_gid group = mgid(1);
	struct ibv_ah *ah;

	(void)state;
	MUST(ah = ah_to(&group));
	post_receive(&ends[0]);
	MUST(!ibv_attach_mcast(ends[0].qp, &group, 0));
	send_to(&ends[1], ah, ends[0].qp->qp_num, 1);
	expect_nothing(&ends[0]);
	MUST(!ibv_detach_mcast(ends[0].qp, &group, 0));
	MUST(!ibv_destroy_ah(ah));
}

static void multicast_what_cannot_be_is_refused(void **state)
{
	union ibv_gid group = mgid(1), unicast;
	struct end rc;

	(void)state;
	MUST(!ibv_query_gid(context, 1, 0, &unicast));
	assert_int_equal(ibv_attach_mcast(ends[0].qp, &unicast, 0), EINVAL);
	assert_int_equal(ibv_detach_mcast(ends[0].qp, &group, 0), EINVAL);
	/*
	 * perftest's default group: interface-local, which no IP stack lets pass to another host.
	 */
	union ibv_gid local = {{0xff, 0x01, [5] = 2, [6] = 201, [7] = 133}};
	assert_int_equal(ibv_attach_mcast(ends[0].qp, &local, 0), EINVAL);
	struct ibv_ah_attr attr = attr_to(&local, 1);
	errno = 0;
	assert_null(ibv_create_ah(pd, &attr));
	assert_int_equal(errno, EINVAL);
	end_make(&rc, IBV_QPT_RC);
	assert_int_equal(ibv_attach_mcast(rc.qp, &group, 0), EINVAL);
	end_unmake(&rc);
	MUST(!ibv_attach_mcast(ends[0].qp, &group, 0));
	assert_int_equal(ibv_destroy_qp(ends[0].qp), EBUSY);
	MUST(!ibv_detach_mcast(ends[0].qp, &group, 0));
}

static void multicast_limits_are_exact(void **state)
{
	struct ibv_device_attr limits;
	struct end *many;
	union ibv_gid group;

	(void)state;
	MUST(!ibv_query_device(context, &limits));
	for (int i = 0; i < limits.max_mcast_grp; i++) {
		group = mgid((uint8_t)i);
		MUST(!ibv_attach_mcast(ends[i % ENDS].qp, &group, 0));
	}
	group = mgid((uint8_t)limits.max_mcast_grp);
	assert_int_equal(ibv_attach_mcast(ends[0].qp, &group, 0), ENOMEM);
	group = mgid(0);
	MUST(many = calloc((size_t)limits.max_mcast_qp_attach, sizeof(*many)));
	for (int i = 1; i < limits.max_mcast_qp_attach; i++) {
		end_make(&many[i], IBV_QPT_UD);
		MUST(!ibv_attach_mcast(many[i].qp, &group, 0));
	}
	assert_int_equal(ibv_attach_mcast(ends[1].qp, &group, 0), ENOMEM);
	for (int i = 1; i < limits.max_mcast_qp_attach; i++) {
		MUST(!ibv_detach_mcast(many[i].qp, &group, 0));
		end_unmake(&many[i]);
	}
	for (int i = 0; i < limits.max_mcast_grp; i++) {
		group = mgid((uint8_t)i);
		MUST(!ibv_detach_mcast(ends[i % ENDS].qp, &group, 0));
	}
	free(many);
}

static void closing_a_device_leaves_its_groups(void **state)
{
	union ibv_gid group = mgid(1);
	struct ibv_context *second = verbs_pair_open();
	struct ibv_context *first = context;
	struct ibv_pd *first_pd = pd;
	/* Structures stay, because other code may have pointers to them */
	static struct ibv_pd *second_pd;
	static struct end end;

	(void)state;
	context = second;
	MUST(pd = second_pd = ibv_alloc_pd(context));
	end_make(&end, IBV_QPT_UD);
	MUST(!ibv_attach_mcast(end.qp, &group, 0));
	MUST(!ibv_close_device(second));
	free(end.buffer);
	context = first;
	pd = first_pd;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(datagram_arrives_and_its_sender_can_be_answered),
		TEST(datagram_over_ipv6_brings_its_ip_header),
		TEST(datagram_comes_to_a_new_address_of_the_device),
		TEST(datagram_longer_than_the_mtu_is_a_local_length_error),
		TEST(ah_made_before_the_queue_pair_leads_out_of_its_lane_too),
		TEST(request_that_is_no_datagram_completes_with_an_error),
		TEST(address_of_another_domain_completes_with_an_error),
		TEST(ah_that_cannot_lead_anywhere_is_refused),
		TEST(ah_takes_the_same_time_however_many_there_are),
		TEST(ah_beyond_the_limit_is_refused),
		TEST(multicast_reaches_every_member_and_nobody_else),
		TEST(multicast_member_needs_its_number),
		TEST(multicast_what_cannot_be_is_refused),
		TEST(multicast_limits_are_exact),
		TEST(closing_a_device_leaves_its_groups),
	};

	if (netns_enter_new() < 0)
		return 77;
	setenv("URNIC_LANES", "3", 1);
	settings_read();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
