/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * libibverbs as a program calls it: two connected queue pairs of this process on the loopback interface, in a network namespace of
 * their own. What data-path tests of the engine cover is not repeated; here it is about arguments, errors, events, and lives of objects.
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
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <infiniband/verbs.h>

#include "support/netns.h"

enum {
	BUFFER_BYTES = 16384,
	DEPTH = 8,
	ACCESS_ALL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
		IBV_ACCESS_REMOTE_ATOMIC,
	PATIENCE_S = 10,
};

/* One end of a connection. */
struct end {
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	uint8_t *buffer;
};

static struct ibv_context *context;
static struct end a;
static struct end b;

/* --- making and connecting ---------------------------------------------------------------- */

static struct ibv_qp *qp_make(struct end *end, struct ibv_qp_cap cap)
{
	struct ibv_qp_init_attr init = {
		.send_cq = end->cq,
		.recv_cq = end->cq,
		.cap = cap,
		.qp_type = IBV_QPT_RC,
	};

	return ibv_create_qp(end->pd, &init);
}

static void end_make(struct end *end)
{
	struct ibv_qp_cap cap = {DEPTH, DEPTH, 2, 2, 64};

	end->pd = ibv_alloc_pd(context);
	assert_non_null(end->pd);
	end->channel = ibv_create_comp_channel(context);
	assert_non_null(end->channel);
	assert_int_equal(fcntl(end->channel->fd, F_SETFL, O_NONBLOCK), 0);
	end->cq = ibv_create_cq(context, 4 * DEPTH, end, end->channel, 0);
	assert_non_null(end->cq);
	end->buffer = aligned_alloc(4096, BUFFER_BYTES);
	assert_non_null(end->buffer);
	memset(end->buffer, 0, BUFFER_BYTES);
	end->mr = ibv_reg_mr(end->pd, end->buffer, BUFFER_BYTES, ACCESS_ALL);
	assert_non_null(end->mr);
	end->qp = qp_make(end, cap);
	assert_non_null(end->qp);
}

static void end_unmake(struct end *end)
{
	assert_int_equal(ibv_destroy_qp(end->qp), 0);
	assert_int_equal(ibv_destroy_cq(end->cq), 0);
	assert_int_equal(ibv_destroy_comp_channel(end->channel), 0);
	assert_int_equal(ibv_dereg_mr(end->mr), 0);
	assert_int_equal(ibv_dealloc_pd(end->pd), 0);
	free(end->buffer);
}

static int to_init(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = ACCESS_ALL,
	};

	return ibv_modify_qp(
		qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

static struct ibv_qp_attr rtr_attr(uint32_t dest_qpn)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = dest_qpn,
		.rq_psn = 0xfffffe,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 1,
		.ah_attr = {.is_global = 1, .port_num = 1, .grh = {.hop_limit = 1}},
	};

	assert_int_equal(ibv_query_gid(context, 1, 0, &attr.ah_attr.grh.dgid), 0);
	return attr;
}

static const int rtr_mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
	IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;

static int to_rts(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 1,
		.sq_psn = 0xfffffe,
		.max_rd_atomic = 4,
	};

	return ibv_modify_qp(qp, &attr,
		IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

static void connect_to(struct ibv_qp *qp, uint32_t dest_qpn)
{
	struct ibv_qp_attr attr = rtr_attr(dest_qpn);

	assert_int_equal(to_init(qp), 0);
	assert_int_equal(ibv_modify_qp(qp, &attr, rtr_mask), 0);
	assert_int_equal(to_rts(qp), 0);
}

static int make_ends(void **state)
{
	(void)state;
	end_make(&a);
	end_make(&b);
	return 0;
}

static int connect_ends(void **state)
{
	make_ends(state);
	connect_to(a.qp, b.qp->qp_num);
	connect_to(b.qp, a.qp->qp_num);
	return 0;
}

static int unmake_ends(void **state)
{
	(void)state;
	end_unmake(&a);
	end_unmake(&b);
	return 0;
}

/* --- posting and polling ------------------------------------------------------------------ */

static struct ibv_sge whole(const struct end *end, uint32_t bytes)
{
	return (struct ibv_sge){(uintptr_t)end->buffer, bytes, end->mr->lkey};
}

static void post_recv(struct end *end, uint32_t bytes)
{
	struct ibv_sge sge = whole(end, bytes);
	struct ibv_recv_wr wr = {.wr_id = 7, .sg_list = &sge, .num_sge = 1};
	struct ibv_recv_wr *bad;

	assert_int_equal(ibv_post_recv(end->qp, &wr, &bad), 0);
}

/* A signaled request of `bytes` bytes from the beginning of a's buffer, to that of b's. */
static struct ibv_send_wr send_make(enum ibv_wr_opcode opcode, struct ibv_sge *sge)
{
	struct ibv_send_wr wr = {
		.wr_id = 9,
		.sg_list = sge,
		.num_sge = 1,
		.opcode = opcode,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = {(uintptr_t)b.buffer, b.mr->rkey},
	};

	return wr;
}

static void post_send(struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	assert_int_equal(ibv_post_send(a.qp, wr, &bad), 0);
}

static struct ibv_wc poll_one(struct end *end)
{
	time_t until = time(NULL) + PATIENCE_S;
	struct ibv_wc wc;
	int got;

	do {
		got = ibv_poll_cq(end->cq, 1, &wc);
		assert_true(got >= 0);
	} while (got == 0 && time(NULL) < until);
	assert_int_equal(got, 1);
	return wc;
}

static void completion_is(struct end *end, enum ibv_wc_status status)
{
	struct ibv_wc wc = poll_one(end);

	assert_int_equal(wc.status, status);
	assert_int_equal(wc.qp_num, end->qp->qp_num);
}

static void state_is(struct ibv_qp *qp, enum ibv_qp_state expected)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	assert_int_equal(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
	assert_int_equal(attr.qp_state, expected);
}

static bool is_readable(int fd, int timeout_ms)
{
	struct pollfd poll_fd = {.fd = fd, .events = POLLIN};

	return poll(&poll_fd, 1, timeout_ms) == 1;
}

/* Takes one asynchronous event; it must come soon. */
static struct ibv_async_event async_take(void)
{
	struct ibv_async_event event;

	assert_true(is_readable(context->async_fd, PATIENCE_S * 1000));
	assert_int_equal(ibv_get_async_event(context, &event), 0);
	return event;
}

/* --- devices and contexts ----------------------------------------------------------------- */

static void device_pointers_stay_the_same(void **state)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	int count = -1;
	struct ibv_device **again = ibv_get_device_list(&count);

	(void)state;
	assert_int_equal(count, 1);
	assert_ptr_equal(list[0], again[0]);
	assert_null(again[1]);
	assert_string_equal(ibv_get_device_name(list[0]), "rocep_lo");
	assert_int_not_equal(ibv_get_device_guid(list[0]), 0);
	ibv_free_device_list(list);
	ibv_free_device_list(again);
}

static void device_that_is_none_is_not_opened(void **state)
{
	struct ibv_device device = {.name = "rocep_lo"};

	(void)state;
	assert_null(ibv_open_device(&device));
	assert_int_equal(errno, ENODEV);
}

static void context_closed_with_objects_takes_them_along(void **state)
{
	struct ibv_context *second = ibv_open_device(context->device);
	struct end end = {0};

	(void)state;
	assert_non_null(second);
	end.pd = ibv_alloc_pd(second);
	end.channel = ibv_create_comp_channel(second);
	end.cq = ibv_create_cq(second, 1, NULL, end.channel, 0);
	end.qp = qp_make(&end, (struct ibv_qp_cap){1, 1, 1, 1, 0});
	assert_non_null(end.qp);
	assert_int_equal(ibv_close_device(second), 0);
	/* Only the structures are left, for a program that still looks at them; leak checkers shall not. */
	free(end.qp);
	free(end.cq);
	free(end.channel);
	free(end.pd);
}

static void object_of_another_opening_is_refused(void **state)
{
	struct ibv_context *second = ibv_open_device(context->device);
	struct ibv_qp_init_attr init = {
		.send_cq = a.cq,
		.recv_cq = a.cq,
		.cap = {1, 1, 1, 1, 0},
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_pd *pd;
	struct ibv_pd foreign;

	(void)state;
	assert_non_null(second);
	pd = ibv_alloc_pd(second);
	assert_non_null(pd);
	assert_null(ibv_create_qp(pd, &init));
	assert_int_equal(errno, EINVAL);
	assert_null(ibv_import_pd(second, a.pd->handle));
	assert_int_equal(errno, EINVAL);
	foreign = *a.pd;
	foreign.context = second;
	assert_null(ibv_reg_mr(&foreign, a.buffer, 10, 0));
	assert_int_equal(errno, EINVAL);
	assert_int_equal(ibv_dealloc_pd(&foreign), EINVAL);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
	assert_int_equal(ibv_close_device(second), 0);
}

static void imported_context_knows_the_domains_of_the_first(void **state)
{
	struct ibv_context *imported = ibv_import_device(dup(context->cmd_fd));
	struct ibv_pd *pd;
	struct ibv_mr *mr;

	(void)state;
	assert_non_null(imported);
	pd = ibv_import_pd(imported, a.pd->handle);
	assert_non_null(pd);
	mr = ibv_reg_mr(pd, a.buffer, 10, 0);
	assert_non_null(mr);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_null(ibv_import_pd(imported, a.cq->handle));
	ibv_unimport_pd(pd);
	assert_int_equal(ibv_close_device(imported), 0);
}

static void queries_of_other_ports_and_indices_are_refused(void **state)
{
	struct ibv_port_attr port;
	struct ibv_gid_entry entry;
	union ibv_gid gid;
	__be16 pkey;

	(void)state;
	assert_int_equal(ibv_query_port(context, 0, &port), EINVAL);
	assert_int_equal(ibv_query_port(context, 2, &port), EINVAL);
	assert_int_equal(ibv_query_gid(context, 1, 1000, &gid), -1);
	assert_int_equal(ibv_query_gid(context, 1, -1, &gid), -1);
	assert_int_equal(ibv_query_gid_ex(context, 1, 31, &entry, 0), ENODATA);
	assert_int_equal(ibv_query_gid_ex(context, 1, 1000, &entry, 0), EINVAL);
	assert_int_equal(ibv_query_gid_table(context, &entry, 0, 0), -EINVAL);
	assert_int_equal(ibv_query_pkey(context, 1, 1, &pkey), -1);
}

/* --- regions ------------------------------------------------------------------------------ */

static void reg_fails(void *address, size_t bytes, int access, int expected)
{
	assert_null(ibv_reg_mr(a.pd, address, bytes, access));
	assert_int_equal(errno, expected);
}

static void region_of_memory_that_is_not_there_is_refused(void **state)
{
	uint8_t *pages =
		mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint8_t *readable = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint8_t *mixed =
		mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr;

	(void)state;
	/* Good at both ends. */
	mprotect(mixed + 4096, 4096, PROT_READ);
	reg_fails(mixed, 3 * 4096, IBV_ACCESS_LOCAL_WRITE, EFAULT);
	mprotect(mixed + 4096, 4096, PROT_NONE);
	reg_fails(mixed, 3 * 4096, 0, EFAULT);
	munmap(mixed, 3 * 4096);
	munmap(pages + 4096, 4096);
	reg_fails(pages, 3 * 4096, 0, EFAULT);
	reg_fails(pages + 4096, 1, 0, EFAULT);
	reg_fails((void *)(UINTPTR_MAX - 4), 100, 0, EFAULT);
	reg_fails(readable, 4096, IBV_ACCESS_LOCAL_WRITE, EFAULT);
	mr = ibv_reg_mr(a.pd, readable, 4096, 0);
	assert_non_null(mr);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	munmap(pages, 4096);
	munmap(pages + 2 * 4096, 4096);
	munmap(readable, 4096);
}

static void region_with_rights_that_contradict_is_refused(void **state)
{
	(void)state;
	reg_fails(a.buffer, 10, IBV_ACCESS_REMOTE_WRITE, EINVAL);
	reg_fails(a.buffer, 10, IBV_ACCESS_REMOTE_ATOMIC, EINVAL);
	reg_fails(a.buffer, 10, 1 << 12, EINVAL);
}

static void region_in_use_keeps_its_domain(void **state)
{
	(void)state;
	assert_int_equal(ibv_dealloc_pd(a.pd), EBUSY);
}

static void handle_that_is_none_is_refused(void **state)
{
	struct ibv_pd pd = {.context = context, .handle = a.mr->handle};
	struct ibv_cq cq = {.context = context, .handle = 0xffffffff};
	struct ibv_qp qp = {.context = context, .handle = 0};
	struct ibv_mr mr = {.context = context, .handle = a.pd->handle};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	(void)state;
	assert_int_equal(ibv_dealloc_pd(&pd), EINVAL);
	assert_null(ibv_reg_mr(&pd, a.buffer, 10, 0));
	assert_int_equal(errno, EINVAL);
	assert_int_equal(ibv_destroy_cq(&cq), EINVAL);
	assert_int_equal(ibv_destroy_qp(&qp), EINVAL);
	assert_int_equal(ibv_modify_qp(&qp, &attr, IBV_QP_STATE), EINVAL);
	assert_int_equal(ibv_dereg_mr(&mr), EINVAL);
}

/* --- queues ------------------------------------------------------------------------------- */

static void queue_of_absurd_size_is_refused(void **state)
{
	static const struct ibv_qp_cap caps[] = {
		{1u << 20, 1, 1, 1, 0},
		{1, UINT32_MAX, 1, 1, 0},
		{1, 1, 1000, 1, 0},
		{1, 1, 1, 1000, 0},
		{1, 1, 1, 1, 1u << 20},
	};

	(void)state;
	assert_null(ibv_create_cq(context, 0, NULL, NULL, 0));
	assert_int_equal(errno, EINVAL);
	assert_null(ibv_create_cq(context, INT32_MAX, NULL, NULL, 0));
	assert_null(ibv_create_cq(context, 1, NULL, NULL, -1));
	assert_null(ibv_create_cq(context, 1, NULL, NULL, context->num_comp_vectors));
	for (size_t i = 0; i < sizeof(caps) / sizeof(caps[0]); i++) {
		errno = 0;
		assert_null(qp_make(&a, caps[i]));
		assert_int_equal(errno, EINVAL);
	}
}

static void queue_pair_of_a_type_that_is_not_there_is_not_supported(void **state)
{
	struct ibv_qp_init_attr init = {
		.send_cq = a.cq, .recv_cq = a.cq, .qp_type = IBV_QPT_DRIVER};

	(void)state;
	assert_null(ibv_create_qp(a.pd, &init));
	assert_int_equal(errno, EOPNOTSUPP);
	init.qp_type = (enum ibv_qp_type)77;
	assert_null(ibv_create_qp(a.pd, &init));
	assert_int_equal(errno, EINVAL);
	init.qp_type = IBV_QPT_RC;
	init.recv_cq = NULL;
	assert_null(ibv_create_qp(a.pd, &init));
	assert_int_equal(errno, EINVAL);
}

static struct ibv_qp_init_attr_ex extended_attr(uint32_t comp_mask)
{
	return (struct ibv_qp_init_attr_ex){
		.qp_type = IBV_QPT_RC,
		.send_cq = a.cq,
		.recv_cq = a.cq,
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
		.comp_mask = comp_mask,
		.pd = a.pd,
	};
}

static void create_ex_fails(struct ibv_qp_init_attr_ex attr, int expected)
{
	errno = 0;
	assert_null(ibv_create_qp_ex(context, &attr));
	assert_int_equal(errno, expected);
}

static void queue_pair_with_extensions_that_are_not_there_is_refused(void **state)
{
	struct ibv_qp_init_attr_ex attr =
		extended_attr(IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS);
	struct ibv_qp *qp;

	(void)state;
	qp = ibv_create_qp_ex(context, &attr);
	assert_non_null(qp);
	assert_ptr_equal(qp->pd, a.pd);
	assert_int_equal(ibv_destroy_qp(qp), 0);

	create_ex_fails(extended_attr(IBV_QP_INIT_ATTR_CREATE_FLAGS), EINVAL);
	create_ex_fails(extended_attr(IBV_QP_INIT_ATTR_PD | 1u << 20), EINVAL);
	create_ex_fails(
		extended_attr(IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_MAX_TSO_HEADER), EOPNOTSUPP);
	attr.create_flags = IBV_QP_CREATE_SOURCE_QPN;
	create_ex_fails(attr, EOPNOTSUPP);
}

static void queue_in_use_is_not_destroyed(void **state)
{
	(void)state;
	assert_int_equal(ibv_destroy_cq(a.cq), EBUSY);
	assert_int_equal(ibv_destroy_comp_channel(a.channel), EBUSY);
}

static void options_of_other_vendors_are_not_accepted(void **state)
{
	struct ibv_ece ece = {.vendor_id = 0x15b3, .options = 7};

	(void)state;
	assert_int_equal(ibv_set_ece(a.qp, &ece), 0);
	assert_int_equal(ece.vendor_id, 0);
	assert_int_equal(ece.options, 0);
	ece.vendor_id = 1;
	assert_int_equal(ibv_query_ece(a.qp, &ece), 0);
	assert_int_equal(ece.vendor_id, 0);
	ece.comp_mask = 1;
	assert_int_equal(ibv_set_ece(a.qp, &ece), EINVAL);
}

static void modify_out_of_turn_is_refused(void **state)
{
	struct ibv_qp_attr attr = rtr_attr(b.qp->qp_num);

	(void)state;
	assert_int_equal(ibv_modify_qp(a.qp, &attr, rtr_mask), EINVAL);
	assert_int_equal(to_rts(a.qp), EINVAL);
	assert_int_equal(to_init(a.qp), 0);
	assert_int_equal(to_rts(a.qp), EINVAL);
	assert_int_equal(ibv_modify_qp(a.qp, &attr, rtr_mask & ~IBV_QP_DEST_QPN), EINVAL);
	assert_int_equal(ibv_modify_qp(a.qp, &attr, rtr_mask | IBV_QP_QKEY), EINVAL);
	assert_int_equal(ibv_modify_qp(a.qp, &attr, rtr_mask | 1 << 30), EINVAL);
	state_is(a.qp, IBV_QPS_INIT);
}

static void modify_to_an_address_that_is_none_is_refused(void **state)
{
	struct ibv_qp_attr attr = rtr_attr(b.qp->qp_num);

	(void)state;
	assert_int_equal(to_init(a.qp), 0);
	attr.ah_attr.is_global = 0;
	assert_int_equal(ibv_modify_qp(a.qp, &attr, rtr_mask), EINVAL);
	attr.ah_attr.is_global = 1;
	attr.ah_attr.grh.sgid_index = 31;
	assert_int_equal(ibv_modify_qp(a.qp, &attr, rtr_mask), EINVAL);
	attr.ah_attr.grh.sgid_index = 0;
	attr.ah_attr.port_num = 2;
	assert_int_equal(ibv_modify_qp(a.qp, &attr, rtr_mask), EINVAL);
	attr.ah_attr.port_num = 1;
	assert_int_equal(ibv_modify_qp(a.qp, &attr, rtr_mask), 0);
}

static void query_tells_what_modify_set(void **state)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	(void)state;
	assert_int_equal(ibv_query_qp(a.qp, &attr, 0, &init), 0);
	assert_int_equal(attr.qp_state, IBV_QPS_RTS);
	assert_int_equal(attr.dest_qp_num, b.qp->qp_num);
	assert_int_equal(attr.path_mtu, IBV_MTU_1024);
	assert_int_equal(attr.timeout, 14);
	assert_int_equal(attr.rnr_retry, 1);
	assert_int_equal(attr.max_rd_atomic, 4);
	assert_int_equal(attr.qp_access_flags, ACCESS_ALL);
	assert_int_equal(attr.ah_attr.is_global, 1);
	assert_int_equal(attr.cap.max_send_wr, DEPTH);
	assert_int_equal(attr.cap.max_inline_data, 64);
	assert_ptr_equal(init.send_cq, a.cq);
	assert_int_equal(init.qp_type, IBV_QPT_RC);
}

/* What was set is what is answered, address by address. */
static void query_answers_the_paths(void **state)
{
	struct ibv_qp_attr attr = rtr_attr(0xabcdef);
	struct ibv_ah_attr ah = attr.ah_attr;
	struct ibv_qp_init_attr init;

	(void)state;
	ah.grh.flow_label = 0x12345;
	ah.grh.traffic_class = 0x68;
	ah.grh.hop_limit = 7;
	ah.sl = 3;
	ah.static_rate = IBV_RATE_10_GBPS;
	attr.ah_attr = ah;
	attr.alt_ah_attr = ah;
	attr.alt_ah_attr.grh.traffic_class = 0;
	attr.alt_ah_attr.sl = 5;
	attr.alt_port_num = 1;
	attr.alt_timeout = 9;
	assert_int_equal(to_init(a.qp), 0);
	assert_int_equal(ibv_query_qp(a.qp, &attr, IBV_QP_AV, &init), 0);
	assert_int_equal(attr.ah_attr.port_num, 0);

	attr = rtr_attr(0xabcdef);
	attr.ah_attr = ah;
	attr.alt_ah_attr = ah;
	attr.alt_ah_attr.grh.traffic_class = 0;
	attr.alt_port_num = 1;
	attr.alt_timeout = 9;
	assert_int_equal(ibv_modify_qp(a.qp, &attr, rtr_mask | IBV_QP_ALT_PATH), 0);
	assert_int_equal(to_rts(a.qp), 0);
	assert_int_equal(ibv_query_qp(a.qp, &attr, IBV_QP_AV | IBV_QP_ALT_PATH, &init), 0);
	assert_memory_equal(&attr.ah_attr, &ah, sizeof(ah));
	ah.grh.traffic_class = 0;
	assert_memory_equal(&attr.alt_ah_attr, &ah, sizeof(ah));
	assert_int_equal(attr.alt_port_num, 1);
	assert_int_equal(attr.alt_timeout, 9);
	assert_int_equal(attr.path_mig_state, IBV_MIG_MIGRATED);
	attr.path_mig_state = IBV_MIG_REARM;
	assert_int_equal(ibv_modify_qp(a.qp, &attr, IBV_QP_PATH_MIG_STATE), 0);
	assert_int_equal(ibv_query_qp(a.qp, &attr, IBV_QP_PATH_MIG_STATE, &init), 0);
	assert_int_equal(attr.path_mig_state, IBV_MIG_REARM);
	attr.qp_state = IBV_QPS_SQD;
	attr.en_sqd_async_notify = 1;
	assert_int_equal(ibv_modify_qp(a.qp, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
	struct ibv_async_event event = async_take();
	assert_int_equal(event.event_type, IBV_EVENT_SQ_DRAINED);
	assert_ptr_equal(event.element.qp, a.qp);
	ibv_ack_async_event(&event);
	assert_int_equal(ibv_query_qp(a.qp, &attr, IBV_QP_STATE, &init), 0);
	assert_int_equal(attr.qp_state, IBV_QPS_SQD);
	assert_int_equal(attr.sq_draining, 0);
}

/* --- posting ------------------------------------------------------------------------------ */

static void post_in_a_state_that_takes_none_is_refused(void **state)
{
	struct ibv_sge sge = whole(&a, 10);
	struct ibv_send_wr send = send_make(IBV_WR_SEND, &sge);
	struct ibv_recv_wr recv = {.sg_list = &sge, .num_sge = 1};
	struct ibv_send_wr *bad_send = NULL;
	struct ibv_recv_wr *bad_recv = NULL;

	(void)state;
	assert_int_equal(ibv_post_recv(a.qp, &recv, &bad_recv), EINVAL);
	assert_ptr_equal(bad_recv, &recv);
	assert_int_equal(ibv_post_send(a.qp, &send, &bad_send), EINVAL);
	assert_ptr_equal(bad_send, &send);
	assert_int_equal(to_init(a.qp), 0);
	assert_int_equal(ibv_post_recv(a.qp, &recv, &bad_recv), 0);
	assert_int_equal(ibv_post_send(a.qp, &send, &bad_send), EINVAL);
}

static void post_names_the_first_request_that_is_refused(void **state)
{
	struct ibv_sge sge[3] = {whole(&a, 1), whole(&a, 1), whole(&a, 1)};
	struct ibv_send_wr wr[3];
	struct ibv_send_wr *bad;

	(void)state;
	for (int i = 0; i < 3; i++) {
		wr[i] = send_make(IBV_WR_RDMA_WRITE, sge);
		wr[i].next = i < 2 ? &wr[i + 1] : NULL;
	}
	wr[1].num_sge = 3;
	assert_int_equal(ibv_post_send(a.qp, wr, &bad), EINVAL);
	assert_ptr_equal(bad, &wr[1]);
	completion_is(&a, IBV_WC_SUCCESS);

	wr[1].num_sge = -1;
	assert_int_equal(ibv_post_send(a.qp, &wr[1], &bad), EINVAL);
	wr[1].num_sge = 1;
	wr[1].opcode = (enum ibv_wr_opcode)99;
	assert_int_equal(ibv_post_send(a.qp, &wr[1], &bad), EINVAL);
	wr[1].opcode = IBV_WR_SEND;
	wr[1].send_flags = IBV_SEND_INLINE;
	sge[0].length = 65;
	assert_int_equal(ibv_post_send(a.qp, &wr[1], &bad), EINVAL);
}

static void post_to_a_full_queue_is_refused(void **state)
{
	struct ibv_recv_wr wr[DEPTH + 2];
	struct ibv_recv_wr *bad;

	(void)state;
	for (int i = 0; i < DEPTH + 2; i++)
		wr[i] = (struct ibv_recv_wr){.next = i < DEPTH + 1 ? &wr[i + 1] : NULL};
	assert_int_equal(ibv_post_recv(a.qp, wr, &bad), ENOMEM);
	assert_ptr_equal(bad, &wr[DEPTH]);
}

/* --- transfers ---------------------------------------------------------------------------- */

static void send_with_immediate_arrives_with_all_its_words(void **state)
{
	struct ibv_sge sge = whole(&a, 5000);
	struct ibv_send_wr wr = send_make(IBV_WR_SEND_WITH_IMM, &sge);
	struct ibv_wc wc;

	(void)state;
	for (int i = 0; i < 5000; i++)
		a.buffer[i] = (uint8_t)(i * 7);
	wr.imm_data = htobe32(0x01020304);
	post_recv(&b, BUFFER_BYTES);
	post_send(&wr);
	wc = poll_one(&a);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_SEND);
	assert_int_equal(wc.wr_id, 9);
	wc = poll_one(&b);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_RECV);
	assert_int_equal(wc.wr_id, 7);
	assert_int_equal(wc.byte_len, 5000);
	assert_int_equal(wc.wc_flags & IBV_WC_WITH_IMM, IBV_WC_WITH_IMM);
	assert_int_equal(be32toh(wc.imm_data), 0x01020304);
	assert_memory_equal(a.buffer, b.buffer, 5000);
}

static void write_read_and_atomics_move_what_they_should(void **state)
{
	struct ibv_sge sge = whole(&a, 3000);
	struct ibv_send_wr wr = send_make(IBV_WR_RDMA_WRITE, &sge);
	uint64_t old;

	(void)state;
	memset(a.buffer, 0x5a, 3000);
	post_send(&wr);
	completion_is(&a, IBV_WC_SUCCESS);
	assert_memory_equal(a.buffer, b.buffer, 3000);

	memset(b.buffer, 0xa5, 3000);
	wr.opcode = IBV_WR_RDMA_READ;
	post_send(&wr);
	completion_is(&a, IBV_WC_SUCCESS);
	assert_memory_equal(a.buffer, b.buffer, 3000);

	*(uint64_t *)(void *)b.buffer = 40;
	sge.length = 8;
	wr = send_make(IBV_WR_ATOMIC_FETCH_AND_ADD, &sge);
	wr.wr.atomic.remote_addr = (uintptr_t)b.buffer;
	wr.wr.atomic.rkey = b.mr->rkey;
	wr.wr.atomic.compare_add = 2;
	post_send(&wr);
	completion_is(&a, IBV_WC_SUCCESS);
	memcpy(&old, a.buffer, 8);
	assert_int_equal(old, 40);
	assert_int_equal(*(uint64_t *)(void *)b.buffer, 42);
}

/* --- faults ------------------------------------------------------------------------------- */

static void write_with_a_wrong_key_is_a_remote_access_error(void **state)
{
	struct ibv_sge sge = whole(&a, 10);
	struct ibv_send_wr wr = send_make(IBV_WR_RDMA_WRITE, &sge);
	struct ibv_async_event event;

	(void)state;
	wr.wr.rdma.rkey ^= 0x100;
	post_send(&wr);
	completion_is(&a, IBV_WC_REM_ACCESS_ERR);
	state_is(a.qp, IBV_QPS_ERR);
	state_is(b.qp, IBV_QPS_ERR);
	/* The responder's program is told, and its queue pair stays until that is acknowledged. */
	do {
		event = async_take();
		ibv_ack_async_event(&event);
	} while (event.event_type == IBV_EVENT_COMM_EST);
	assert_int_equal(event.event_type, IBV_EVENT_QP_ACCESS_ERR);
	assert_ptr_equal(event.element.qp, b.qp);
}

static void write_with_a_wrong_lkey_is_a_local_protection_error(void **state)
{
	struct ibv_sge sge = whole(&a, 10);
	struct ibv_send_wr wr = send_make(IBV_WR_RDMA_WRITE, &sge);

	(void)state;
	sge.lkey = b.mr->lkey;
	post_send(&wr);
	completion_is(&a, IBV_WC_LOC_PROT_ERR);
	state_is(a.qp, IBV_QPS_ERR);
	state_is(b.qp, IBV_QPS_RTS);
}

static void send_longer_than_the_receive_is_an_error_on_both_sides(void **state)
{
	struct ibv_sge sge = whole(&a, 3000);
	struct ibv_send_wr wr = send_make(IBV_WR_SEND, &sge);

	(void)state;
	post_recv(&b, 2999);
	post_send(&wr);
	completion_is(&b, IBV_WC_LOC_LEN_ERR);
	completion_is(&a, IBV_WC_REM_INV_REQ_ERR);
	state_is(b.qp, IBV_QPS_ERR);
}

static void requests_after_the_error_are_flushed_in_order(void **state)
{
	struct ibv_sge sge = whole(&a, 10);
	struct ibv_send_wr wr[3];
	struct ibv_send_wr *bad;

	(void)state;
	for (int i = 0; i < 3; i++) {
		wr[i] = send_make(IBV_WR_RDMA_WRITE, &sge);
		wr[i].wr_id = (uint64_t)i;
		wr[i].next = i < 2 ? &wr[i + 1] : NULL;
	}
	wr[0].wr.rdma.remote_addr += BUFFER_BYTES;
	post_recv(&a, 10);
	assert_int_equal(ibv_post_send(a.qp, wr, &bad), 0);
	completion_is(&a, IBV_WC_REM_ACCESS_ERR);
	for (uint64_t i = 1; i < 3; i++) {
		struct ibv_wc wc = poll_one(&a);

		assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
		assert_int_equal(wc.wr_id, i);
	}
	completion_is(&a, IBV_WC_WR_FLUSH_ERR);
	/* And so are those that come later. */
	post_send(&wr[2]);
	completion_is(&a, IBV_WC_WR_FLUSH_ERR);
}

static void send_to_a_peer_without_receives_ends_in_rnr(void **state)
{
	struct ibv_sge sge = whole(&a, 10);
	struct ibv_send_wr wr = send_make(IBV_WR_SEND, &sge);

	(void)state;
	post_send(&wr);
	completion_is(&a, IBV_WC_RNR_RETRY_EXC_ERR);
}

/* --- events ------------------------------------------------------------------------------- */

static void channel_tells_of_the_completion_it_was_armed_for(void **state)
{
	struct ibv_sge sge = whole(&a, 10);
	struct ibv_send_wr wr = send_make(IBV_WR_SEND, &sge);
	struct ibv_cq *cq;
	void *cq_context;

	(void)state;
	assert_int_equal(ibv_get_cq_event(b.channel, &cq, &cq_context), -1);
	assert_int_equal(errno, EAGAIN);
	assert_int_equal(ibv_req_notify_cq(b.cq, 0), 0);
	post_recv(&b, 10);
	post_send(&wr);
	assert_true(is_readable(b.channel->fd, PATIENCE_S * 1000));
	assert_int_equal(ibv_get_cq_event(b.channel, &cq, &cq_context), 0);
	assert_ptr_equal(cq, b.cq);
	assert_ptr_equal(cq_context, &b);
	ibv_ack_cq_events(cq, 1);
	completion_is(&b, IBV_WC_SUCCESS);
	completion_is(&a, IBV_WC_SUCCESS);

	/* Once armed, once told. */
	post_recv(&b, 10);
	post_send(&wr);
	completion_is(&a, IBV_WC_SUCCESS);
	completion_is(&b, IBV_WC_SUCCESS);
	assert_false(is_readable(b.channel->fd, 0));
}

static void channel_armed_for_solicited_ones_passes_others_over(void **state)
{
	struct ibv_sge sge = whole(&a, 10);
	struct ibv_send_wr wr = send_make(IBV_WR_SEND, &sge);
	struct ibv_cq *cq;
	void *cq_context;

	(void)state;
	assert_int_equal(ibv_req_notify_cq(b.cq, 1), 0);
	post_recv(&b, 10);
	post_recv(&b, 10);
	post_send(&wr);
	completion_is(&b, IBV_WC_SUCCESS);
	assert_false(is_readable(b.channel->fd, 0));
	wr.send_flags |= IBV_SEND_SOLICITED;
	post_send(&wr);
	assert_true(is_readable(b.channel->fd, PATIENCE_S * 1000));
	assert_int_equal(ibv_get_cq_event(b.channel, &cq, &cq_context), 0);
	ibv_ack_cq_events(cq, 1);
	completion_is(&b, IBV_WC_SUCCESS);
}

static void *destroy_cq_in_thread(void *argument)
{
	return (void *)(intptr_t)ibv_destroy_cq(argument);
}

static void queue_waits_for_its_events_to_be_acknowledged(void **state)
{
	struct ibv_sge sge = whole(&a, 10);
	struct ibv_send_wr wr = send_make(IBV_WR_SEND, &sge);
	struct timespec soon;
	struct ibv_cq *cq;
	void *cq_context;
	void *result;
	pthread_t thread;

	(void)state;
	assert_int_equal(ibv_req_notify_cq(b.cq, 0), 0);
	post_recv(&b, 10);
	post_send(&wr);
	assert_true(is_readable(b.channel->fd, PATIENCE_S * 1000));
	assert_int_equal(ibv_get_cq_event(b.channel, &cq, &cq_context), 0);
	assert_int_equal(ibv_destroy_qp(b.qp), 0);
	assert_int_equal(pthread_create(&thread, NULL, destroy_cq_in_thread, b.cq), 0);
	clock_gettime(CLOCK_REALTIME, &soon);
	soon.tv_nsec += 50000000;
	soon.tv_sec += soon.tv_nsec / 1000000000;
	soon.tv_nsec %= 1000000000;
	assert_int_equal(pthread_timedjoin_np(thread, &result, &soon), ETIMEDOUT);
	ibv_ack_cq_events(cq, 1);
	assert_int_equal(pthread_join(thread, &result), 0);
	assert_null(result);
	/* What the tear-down takes apart. */
	b.cq = ibv_create_cq(context, 1, &b, b.channel, 0);
	b.qp = qp_make(&b, (struct ibv_qp_cap){1, 1, 1, 1, 0});
}

static void queue_that_overruns_tells_and_stops(void **state)
{
	struct ibv_cq *small = ibv_create_cq(context, 1, NULL, NULL, 0);
	struct end end = {.pd = a.pd, .cq = small};
	struct ibv_recv_wr recv[DEPTH] = {0};
	struct ibv_recv_wr *bad;
	struct ibv_async_event event;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	struct ibv_qp *qp;

	(void)state;
	assert_non_null(small);
	qp = qp_make(&end, (struct ibv_qp_cap){1, DEPTH, 1, 1, 0});
	assert_non_null(qp);
	assert_int_equal(to_init(qp), 0);
	assert_true(small->cqe < DEPTH);
	for (int i = 0; i + 1 < DEPTH; i++)
		recv[i].next = &recv[i + 1];
	assert_int_equal(ibv_post_recv(qp, recv, &bad), 0);
	/* All are flushed into a queue that has room for one. */
	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
	do {
		event = async_take();
		ibv_ack_async_event(&event);
	} while (event.event_type != IBV_EVENT_CQ_ERR);
	assert_ptr_equal(event.element.cq, small);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_cq(small), 0);
}

/* ------------------------------------------------------------------------------------------ */

static int open_context(void **state)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	(void)state;
	if (!list || !list[0])
		return -1;
	context = ibv_open_device(list[0]);
	ibv_free_device_list(list);
	return context ? 0 : -1;
}

static int close_context(void **state)
{
	(void)state;
	return ibv_close_device(context);
}

#define UNCONNECTED(test) cmocka_unit_test_setup_teardown(test, make_ends, unmake_ends)
#define CONNECTED(test)   cmocka_unit_test_setup_teardown(test, connect_ends, unmake_ends)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(device_pointers_stay_the_same),
		cmocka_unit_test(device_that_is_none_is_not_opened),
		cmocka_unit_test(queries_of_other_ports_and_indices_are_refused),
		cmocka_unit_test(context_closed_with_objects_takes_them_along),
		UNCONNECTED(object_of_another_opening_is_refused),
		UNCONNECTED(imported_context_knows_the_domains_of_the_first),
		UNCONNECTED(region_of_memory_that_is_not_there_is_refused),
		UNCONNECTED(region_with_rights_that_contradict_is_refused),
		UNCONNECTED(region_in_use_keeps_its_domain),
		UNCONNECTED(handle_that_is_none_is_refused),
		UNCONNECTED(queue_of_absurd_size_is_refused),
		UNCONNECTED(queue_pair_of_a_type_that_is_not_there_is_not_supported),
		UNCONNECTED(queue_pair_with_extensions_that_are_not_there_is_refused),
		UNCONNECTED(queue_in_use_is_not_destroyed),
		UNCONNECTED(options_of_other_vendors_are_not_accepted),
		UNCONNECTED(modify_out_of_turn_is_refused),
		UNCONNECTED(modify_to_an_address_that_is_none_is_refused),
		CONNECTED(query_tells_what_modify_set),
		UNCONNECTED(query_answers_the_paths),
		UNCONNECTED(post_in_a_state_that_takes_none_is_refused),
		CONNECTED(post_names_the_first_request_that_is_refused),
		CONNECTED(post_to_a_full_queue_is_refused),
		CONNECTED(send_with_immediate_arrives_with_all_its_words),
		CONNECTED(write_read_and_atomics_move_what_they_should),
		CONNECTED(write_with_a_wrong_key_is_a_remote_access_error),
		CONNECTED(write_with_a_wrong_lkey_is_a_local_protection_error),
		CONNECTED(send_longer_than_the_receive_is_an_error_on_both_sides),
		CONNECTED(requests_after_the_error_are_flushed_in_order),
		CONNECTED(send_to_a_peer_without_receives_ends_in_rnr),
		CONNECTED(channel_tells_of_the_completion_it_was_armed_for),
		CONNECTED(channel_armed_for_solicited_ones_passes_others_over),
		CONNECTED(queue_waits_for_its_events_to_be_acknowledged),
		UNCONNECTED(queue_that_overruns_tells_and_stops),
	};
	int netns = netns_enter_new();

	if (netns < 0)
		return 77;
	unsetenv("URNIC_DEVICE_NAME");
	unsetenv("URNIC_INTERFACES");
	return cmocka_run_group_tests(tests, open_context, close_context);
}
