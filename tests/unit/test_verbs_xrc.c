/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * XRC domains, their shared receive queues and both kinds of queue pairs as a program uses them, on
 * the loopback interface in a network namespace of its own.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <infiniband/verbs.h>

#include "os/setting.h"
#include "support/netns.h"
#include "support/sanitizer.h"
#include "support/verbs_pair.h"

enum { BUFFER_BYTES = 4096, SRQ_DEPTH = 8 };

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_mr *mr;
static uint8_t *buffer;
static struct ibv_cq *send_cq;
static struct ibv_cq *recv_cq;
static struct ibv_xrcd *xrcd;
static struct ibv_srq *srq;
static struct ibv_qp *initiator;
static struct ibv_qp *target;

static void messages_arrive_in_the_shared_queue(void **state);

static struct ibv_xrcd *xrcd_open(int fd, int oflags)
{
	struct ibv_xrcd_init_attr init = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = fd,
		.oflags = oflags,
	};

	return ibv_open_xrcd(context, &init);
}

static struct ibv_srq_init_attr_ex srq_init(void)
{
	return (struct ibv_srq_init_attr_ex){
		.attr = {.max_wr = SRQ_DEPTH, .max_sge = 1},
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_XRC,
		.pd = pd,
		.xrcd = xrcd,
		.cq = recv_cq,
	};
}

static struct ibv_qp *target_make(struct ibv_xrcd *domain)
{
	struct ibv_qp_init_attr_ex init = {
		.qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD, .xrcd = domain};

	return ibv_create_qp_ex(context, &init);
}

static struct ibv_qp *initiator_make(void)
{
	struct ibv_qp_init_attr_ex init = {
		.qp_type = IBV_QPT_XRC_SEND,
		.send_cq = send_cq,
		.cap = {.max_send_wr = 8, .max_send_sge = 1},
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = pd,
	};

	return ibv_create_qp_ex(context, &init);
}

static int setup(void **state)
{
	struct ibv_srq_init_attr_ex init;

	(void)state;
	MUST(pd = ibv_alloc_pd(context));
	MUST(buffer = aligned_alloc(4096, BUFFER_BYTES));
	memset(buffer, 0, BUFFER_BYTES);
	MUST(mr = ibv_reg_mr(pd, buffer, BUFFER_BYTES,
		     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
			     IBV_ACCESS_REMOTE_ATOMIC));
	MUST(send_cq = ibv_create_cq(context, 16, NULL, NULL, 0));
	MUST(recv_cq = ibv_create_cq(context, 16, NULL, NULL, 0));
	MUST(xrcd = xrcd_open(-1, O_CREAT));
	init = srq_init();
	MUST(srq = ibv_create_srq_ex(context, &init));
	MUST(target = target_make(xrcd));
	MUST(initiator = initiator_make());
	verbs_qp_connect(target, initiator->qp_num, 17);
	verbs_qp_connect(initiator, target->qp_num, 17);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	if (initiator)
		MUST(!ibv_destroy_qp(initiator));
	if (target)
		MUST(!ibv_destroy_qp(target));
	if (srq)
		MUST(!ibv_destroy_srq(srq));
	MUST(!ibv_close_xrcd(xrcd));
	MUST(!ibv_destroy_cq(recv_cq));
	MUST(!ibv_destroy_cq(send_cq));
	MUST(!ibv_dereg_mr(mr));
	MUST(!ibv_dealloc_pd(pd));
	free(buffer);
	return 0;
}

static void post_receive(uint64_t wr_id)
{
	struct ibv_sge sge = {(uintptr_t)buffer, 100, mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1};
	struct ibv_recv_wr *bad;

	assert_int_equal(ibv_post_srq_recv(srq, &wr, &bad), 0);
}

static uint32_t srq_number(void)
{
	uint32_t number = 0;

	assert_int_equal(ibv_get_srq_num(srq, &number), 0);
	return number;
}

/* From the second half of the buffer; WRITE and READ to and from its beginning. */
static int post(struct ibv_qp *qp, enum ibv_wr_opcode opcode, uint32_t bytes, uint32_t number)
{
	struct ibv_sge sge = {(uintptr_t)buffer + BUFFER_BYTES / 2, bytes, mr->lkey};
	struct ibv_send_wr wr = {
		.wr_id = 3,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = opcode,
		.send_flags = IBV_SEND_SIGNALED,
		.qp_type.xrc.remote_srqn = number,
	};
	struct ibv_send_wr *bad;

	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = (uintptr_t)buffer;
		wr.wr.atomic.rkey = mr->rkey;
		wr.wr.atomic.compare_add = 5;
	} else {
		wr.wr.rdma.remote_addr = (uintptr_t)buffer;
		wr.wr.rdma.rkey = mr->rkey;
	}
	return ibv_post_send(qp, &wr, &bad);
}

/* --- domains ------------------------------------------------------------------------------ */

static void domain_is_shared_by_its_file(void **state)
{
	int fd = memfd_create("domain", 0);
	int same = dup(fd);
	struct ibv_xrcd *first;
	struct ibv_xrcd *second;

	(void)state;
	assert_null(xrcd_open(fd, 0));
	assert_int_equal(errno, EAGAIN);
	first = xrcd_open(fd, O_CREAT | O_EXCL);
	assert_non_null(first);
	assert_null(xrcd_open(same, O_CREAT | O_EXCL));
	assert_int_equal(errno, EINVAL);
	second = xrcd_open(same, 0);
	assert_non_null(second);
	assert_int_equal(ibv_close_xrcd(first), 0);
	/* The second opening keeps it. */
	first = xrcd_open(fd, 0);
	assert_non_null(first);
	assert_int_equal(ibv_close_xrcd(first), 0);
	assert_int_equal(ibv_close_xrcd(second), 0);
	assert_null(xrcd_open(fd, 0));
	close(fd);
	close(same);
}

static int in_child(int fd)
{
	if (xrcd_open(fd, O_CREAT | O_EXCL) || errno != EINVAL)
		return 1;
	return xrcd_open(fd, 0) ? 0 : 2;
}

/* The child is another process, which shares its parent's files. */
static void domain_is_shared_with_a_child(void **state)
{
	int fd = memfd_create("domain", 0);
	struct ibv_xrcd *domain = xrcd_open(fd, O_CREAT);
	int status = -1;
	pid_t child;

	(void)state;
	if (HAS_THREAD_SANITIZER)
		skip();
	assert_non_null(domain);
	child = fork();
	if (child == 0)
		_exit(in_child(fd));
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	messages_arrive_in_the_shared_queue(state);
	assert_int_equal(ibv_close_xrcd(domain), 0);
	close(fd);
}

static void domain_with_wrong_arguments_is_refused(void **state)
{
	struct ibv_xrcd_init_attr init = {.comp_mask = IBV_XRCD_INIT_ATTR_FD, .fd = -1};

	(void)state;
	assert_null(ibv_open_xrcd(context, &init));
	assert_int_equal(errno, EINVAL);
	init.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS | 1 << 6;
	assert_null(ibv_open_xrcd(context, &init));
	assert_int_equal(errno, EOPNOTSUPP);
	assert_null(xrcd_open(10000, O_CREAT));
	assert_int_equal(errno, EBADF);
}

static void domain_in_use_is_not_closed(void **state)
{
	struct ibv_xrcd copy = *xrcd;

	(void)state;
	assert_int_equal(ibv_close_xrcd(xrcd), EBUSY);
	assert_int_equal(ibv_close_xrcd(&copy), ENOENT);
	assert_int_equal(ibv_destroy_cq(recv_cq), EBUSY);
}

static void shared_queue_without_its_parts_is_refused(void **state)
{
	struct ibv_srq_init_attr_ex init = srq_init();

	(void)state;
	init.comp_mask &= ~(uint32_t)IBV_SRQ_INIT_ATTR_CQ;
	assert_null(ibv_create_srq_ex(context, &init));
	assert_int_equal(errno, EINVAL);
	init = srq_init();
	init.xrcd = (struct ibv_xrcd *)(void *)pd;
	assert_null(ibv_create_srq_ex(context, &init));
	assert_int_equal(errno, ENOENT);
	init = srq_init();
	init.srq_type = IBV_SRQT_TM;
	assert_null(ibv_create_srq_ex(context, &init));
	assert_int_equal(errno, EINVAL);
}

/* --- queue pairs -------------------------------------------------------------------------- */

static void messages_arrive_in_the_shared_queue(void **state)
{
	struct ibv_wc wc;

	(void)state;
	post_receive(11);
	buffer[BUFFER_BYTES / 2] = 0x77;
	assert_int_equal(post(initiator, IBV_WR_SEND, 100, srq_number()), 0);
	wc = verbs_poll_one(recv_cq);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.wr_id, 11);
	assert_int_equal(wc.qp_num, target->qp_num);
	assert_int_equal(buffer[0], 0x77);
	wc = verbs_poll_one(send_cq);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.qp_num, initiator->qp_num);
}

static void writes_reads_and_atomics_work(void **state)
{
	static const enum ibv_wr_opcode opcodes[] = {
		IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD};

	(void)state;
	buffer[BUFFER_BYTES / 2] = 0x42;
	for (uint32_t i = 0; i < 3; i++) {
		assert_int_equal(post(initiator, opcodes[i], 8, srq_number()), 0);
		assert_int_equal(verbs_poll_one(send_cq).status, IBV_WC_SUCCESS);
	}
	assert_int_equal(buffer[0], 0x47);
	assert_int_equal(buffer[BUFFER_BYTES / 2], 0x42);
}

static void number_that_is_none_is_an_error_at_both_ends(void **state)
{
	struct pollfd readable = {.fd = context->async_fd, .events = POLLIN};
	struct ibv_async_event event;

	(void)state;
	assert_int_equal(post(initiator, IBV_WR_SEND, 8, srq_number() ^ 1), 0);
	assert_int_equal(verbs_poll_one(send_cq).status, IBV_WC_REM_INV_REQ_ERR);
	assert_int_equal(poll(&readable, 1, PAIR_TIMEOUT_S * 1000), 1);
	while (poll(&readable, 1, 0) == 1) {
		assert_int_equal(ibv_get_async_event(context, &event), 0);
		assert_ptr_equal(event.element.qp, target);
		ibv_ack_async_event(&event);
	}
}

static void halves_have_only_their_queues(void **state)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct ibv_recv_wr wr = {0};
	struct ibv_recv_wr *bad;

	(void)state;
	assert_int_equal(ibv_post_recv(initiator, &wr, &bad), EINVAL);
	assert_int_equal(ibv_post_recv(target, &wr, &bad), EINVAL);
	assert_int_equal(post(target, IBV_WR_SEND, 8, srq_number()), EINVAL);
	assert_int_equal(ibv_query_qp(target, &attr, 0, &init), 0);
	assert_int_equal(init.cap.max_send_wr, 0);
	assert_int_equal(init.qp_type, IBV_QPT_XRC_RECV);
	assert_int_equal(attr.dest_qp_num, initiator->qp_num);
}

static void queue_goes_while_its_messages_come(void **state)
{
	uint32_t number = srq_number();

	(void)state;
	post_receive(1);
	assert_int_equal(post(initiator, IBV_WR_SEND, 8, number), 0);
	verbs_poll_one(recv_cq);
	verbs_poll_one(send_cq);
	assert_int_equal(ibv_destroy_srq(srq), 0);
	srq = NULL;
	assert_int_equal(post(initiator, IBV_WR_SEND, 8, number), 0);
	assert_int_equal(verbs_poll_one(send_cq).status, IBV_WC_REM_INV_REQ_ERR);
}

/* --- opening a receiving queue pair ------------------------------------------------------- */

static struct ibv_qp *target_open(struct ibv_xrcd *domain, uint32_t number)
{
	struct ibv_qp_open_attr attr = {
		.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD |
			IBV_QP_OPEN_ATTR_CONTEXT | IBV_QP_OPEN_ATTR_TYPE,
		.qp_num = number,
		.xrcd = domain,
		.qp_context = &target,
		.qp_type = IBV_QPT_XRC_RECV,
	};

	return ibv_open_qp(context, &attr);
}

static void target_opened_again_outlives_its_maker(void **state)
{
	struct ibv_qp *opened = target_open(xrcd, target->qp_num);
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	(void)state;
	assert_non_null(opened);
	assert_int_equal(opened->qp_num, target->qp_num);
	assert_ptr_equal(opened->qp_context, &target);
	assert_int_equal(ibv_query_qp(opened, &attr, 0, &init), 0);
	assert_int_equal(attr.qp_state, IBV_QPS_RTS);
	assert_int_equal(attr.ah_attr.is_global, 1);
	assert_int_equal(ibv_destroy_qp(target), 0);
	target = opened;
	messages_arrive_in_the_shared_queue(state);
}

static void target_tells_everybody_who_has_it_open(void **state)
{
	struct ibv_qp *opened = target_open(xrcd, target->qp_num);
	struct pollfd readable = {.fd = context->async_fd, .events = POLLIN};
	uint32_t seen = 0;

	(void)state;
	assert_non_null(opened);
	assert_int_equal(post(initiator, IBV_WR_SEND, 8, srq_number() ^ 1), 0);
	assert_int_equal(verbs_poll_one(send_cq).status, IBV_WC_REM_INV_REQ_ERR);
	while (seen < 2) {
		struct ibv_async_event event;

		assert_int_equal(poll(&readable, 1, PAIR_TIMEOUT_S * 1000), 1);
		assert_int_equal(ibv_get_async_event(context, &event), 0);
		assert_true(event.element.qp == opened || event.element.qp == target);
		seen += event.event_type == IBV_EVENT_QP_REQ_ERR;
		ibv_ack_async_event(&event);
	}
	assert_int_equal(ibv_destroy_qp(opened), 0);
}

static void target_is_opened_in_its_own_domain_only(void **state)
{
	struct ibv_xrcd *elsewhere = xrcd_open(-1, O_CREAT);

	(void)state;
	assert_non_null(elsewhere);
	assert_null(target_open(elsewhere, target->qp_num));
	assert_int_equal(errno, EINVAL);
	assert_null(target_open(xrcd, initiator->qp_num));
	assert_int_equal(errno, EINVAL);
	assert_int_equal(ibv_close_xrcd(elsewhere), 0);
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
		TEST(domain_is_shared_by_its_file),
		TEST(domain_is_shared_with_a_child),
		TEST(domain_with_wrong_arguments_is_refused),
		TEST(domain_in_use_is_not_closed),
		TEST(shared_queue_without_its_parts_is_refused),
		TEST(messages_arrive_in_the_shared_queue),
		TEST(writes_reads_and_atomics_work),
		TEST(number_that_is_none_is_an_error_at_both_ends),
		TEST(halves_have_only_their_queues),
		TEST(queue_goes_while_its_messages_come),
		TEST(target_opened_again_outlives_its_maker),
		TEST(target_tells_everybody_who_has_it_open),
		TEST(target_is_opened_in_its_own_domain_only),
	};

	if (netns_enter_new() < 0)
		return 77;
	unsetenv("URNIC_DEVICE_NAME");
	unsetenv("URNIC_INTERFACES");
	settings_read();
	return cmocka_run_group_tests(tests, open_context, close_context);
}
