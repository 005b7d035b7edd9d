/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An XRC domain that two processes share, one of which is killed at a random moment.
 *
 * The test's own process sends. In `guest_*` its messages go to a receiving queue pair of the child's and name a shared
 * receive queue of its own; in `host_*` they come to a queue pair of its own and name a queue of the child's.
 * Rounds: XRC_KILL_ROUNDS, 12 unless set.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "support/netns.h"
#include "support/sanitizer.h"
#include "support/verbs_pair.h"

enum {
	BYTES = 4096,
	DEPTH = 32,
	TIMEOUT = 16, /* 268 ms, eight times: a busy machine keeps processes waiting */
	TIMEOUT_SHORT = 12, /* 17 ms, for those that shall be over soon */
	ROUNDS = 12,
};

/* What one process has in the domain. */
struct member {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct ibv_cq *send_cq;
	struct ibv_cq *recv_cq;
	struct ibv_xrcd *xrcd;
	struct ibv_srq *srq;
	uint8_t *buffer;
};

static int domain_file;
static uint8_t timeout; /* of connections made from here on */
static struct member here;

static void post_receive(struct member *member)
{
	struct ibv_sge sge = {(uintptr_t)member->buffer, BYTES, member->mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	MUST(!ibv_post_srq_recv(member->srq, &wr, &bad));
}

static void member_make(struct member *member)
{
	struct ibv_xrcd_init_attr xrcd = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = domain_file,
		.oflags = O_CREAT,
	};

	member->context = verbs_pair_open();
	MUST(member->pd = ibv_alloc_pd(member->context));
	MUST(member->buffer = aligned_alloc(4096, BYTES));
	memset(member->buffer, 0, BYTES);
	MUST(member->mr = ibv_reg_mr(member->pd, member->buffer, BYTES,
		     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC));
	MUST(member->send_cq = ibv_create_cq(member->context, 4 * DEPTH, NULL, NULL, 0));
	MUST(member->recv_cq = ibv_create_cq(member->context, 4 * DEPTH, NULL, NULL, 0));
	MUST(member->xrcd = ibv_open_xrcd(member->context, &xrcd));
	struct ibv_srq_init_attr_ex srq = {
		.attr = {.max_wr = DEPTH, .max_sge = 1},
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_XRC,
		.pd = member->pd,
		.xrcd = member->xrcd,
		.cq = member->recv_cq,
	};
	MUST(member->srq = ibv_create_srq_ex(member->context, &srq));
	for (int i = 0; i < DEPTH; i++)
		post_receive(member);
}

static void member_unmake(struct member *member)
{
	MUST(!ibv_destroy_srq(member->srq));
	MUST(!ibv_close_xrcd(member->xrcd));
	MUST(!ibv_destroy_cq(member->recv_cq));
	MUST(!ibv_destroy_cq(member->send_cq));
	MUST(!ibv_dereg_mr(member->mr));
	MUST(!ibv_dealloc_pd(member->pd));
	MUST(!ibv_close_device(member->context));
	free(member->buffer);
}

static uint32_t number_of(struct ibv_srq *srq)
{
	uint32_t number;

	MUST(!ibv_get_srq_num(srq, &number));
	return number;
}

static struct ibv_qp *receiver_make(struct member *member)
{
	struct ibv_qp_init_attr_ex init = {
		.qp_type = IBV_QPT_XRC_RECV,
		.comp_mask = IBV_QP_INIT_ATTR_XRCD,
		.xrcd = member->xrcd,
	};
	struct ibv_qp *qp;

	MUST(qp = ibv_create_qp_ex(member->context, &init));
	return qp;
}

static struct ibv_qp *sender_make(struct member *member)
{
	struct ibv_qp_init_attr_ex init = {
		.qp_type = IBV_QPT_XRC_SEND,
		.send_cq = member->send_cq,
		.cap = {.max_send_wr = DEPTH, .max_send_sge = 1},
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = member->pd,
	};
	struct ibv_qp *qp;

	MUST(qp = ibv_create_qp_ex(member->context, &init));
	return qp;
}

static void join(struct ibv_qp *a, struct ibv_qp *b)
{
	verbs_qp_connect(a, b->qp_num, timeout);
	verbs_qp_connect(b, a->qp_num, timeout);
}

/* --- the child ---------------------------------------------------------------------------- */

/* What the child tells, once it is told what to connect to. */
struct hello {
	uint32_t qpn;
	uint32_t srqn;
	uint64_t address; /* of its region */
	uint32_t key;
};

_Noreturn static void child_run(int socket)
{
	struct member own;
	struct ibv_qp *receiver;
	uint32_t sender_qpn;
	struct ibv_wc wc;

	member_make(&own);
	receiver = receiver_make(&own);
	struct hello hello = {
		receiver->qp_num, number_of(own.srq), (uintptr_t)own.buffer, own.mr->rkey};
	MUST(write(socket, &hello, sizeof(hello)) == sizeof(hello));
	MUST(read(socket, &sender_qpn, sizeof(sender_qpn)) == sizeof(sender_qpn));
	verbs_qp_connect(receiver, sender_qpn, timeout);
	MUST(write(socket, "", 1) == 1);
	for (;;)
		if (ibv_poll_cq(own.recv_cq, 1, &wc) > 0)
			post_receive(&own);
		else
			sched_yield();
}

struct child {
	pid_t pid;
	int socket;
	struct hello hello;
};

static void child_start(struct child *child)
{
	int sockets[2];

	MUST(!socketpair(AF_UNIX, SOCK_STREAM, 0, sockets));
	child->pid = fork();
	MUST(child->pid >= 0);
	if (!child->pid)
		child_run(sockets[1]);
	close(sockets[1]);
	child->socket = sockets[0];
	MUST(read(child->socket, &child->hello, sizeof(child->hello)) == sizeof(child->hello));
}

static void child_connect(const struct child *child, uint32_t qpn)
{
	char byte;

	MUST(write(child->socket, &qpn, sizeof(qpn)) == sizeof(qpn));
	MUST(read(child->socket, &byte, 1) == 1);
}

static void child_kill(const struct child *child)
{
	MUST(!kill(child->pid, SIGKILL));
	MUST(waitpid(child->pid, NULL, 0) == child->pid);
	close(child->socket);
}

/* --- the sender --------------------------------------------------------------------------- */

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void receive_all(struct member *member)
{
	struct ibv_wc wc;

	while (ibv_poll_cq(member->recv_cq, 1, &wc) > 0)
		post_receive(member);
}

static bool send_one(struct ibv_qp *qp, uint32_t srqn)
{
	struct ibv_sge sge = {(uintptr_t)here.buffer, BYTES, here.mr->lkey};
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
		.qp_type.xrc.remote_srqn = srqn,
	};
	struct ibv_send_wr *bad;

	return !ibv_post_send(qp, &wr, &bad);
}

/*
 * Keep messages under way until `count` are complete (UINT32_MAX: until one fails), or kill the child when its time has
 * come. Returns the status of the last one.
 */
static enum ibv_wc_status stream(struct ibv_qp *qp, uint32_t srqn, uint32_t count,
	const struct child *child, uint64_t kill_ns)
{
	uint64_t end_ns = now_ns() + PAIR_PATIENCE_S * 1000000000ull;
	uint32_t under_way = 0, done = 0;
	struct ibv_wc wc = {.status = IBV_WC_SUCCESS};

	while (done < count && wc.status == IBV_WC_SUCCESS) {
		if (under_way < 4 && send_one(qp, srqn))
			under_way++;
		if (ibv_poll_cq(here.send_cq, 1, &wc) > 0) {
			under_way--;
			done++;
		}
		receive_all(&here);
		if (child && now_ns() >= kill_ns) {
			child_kill(child);
			child = NULL;
		}
		MUST(now_ns() < end_ns);
	}
	if (child && count == UINT32_MAX)
		child_kill(child); /* on a machine so busy that it did not answer in time */
	while (under_way)
		under_way -= (uint32_t)ibv_poll_cq(here.send_cq, 1, &(struct ibv_wc){0});
	return wc.status;
}

static uint32_t rounds(void)
{
	const char *text = getenv("XRC_KILL_ROUNDS");

	return text ? (uint32_t)atoi(text) : ROUNDS;
}

/* Up to 6 ms from now, which is some of the messages, from before the first one on. */
static uint64_t soon_ns(void)
{
	return now_ns() + (uint64_t)(rand() % 6000) * 1000;
}

/* Each queue pair of its own is still good for each queue of its own. */
static void own_queue_works(void)
{
	struct ibv_qp *sender = sender_make(&here);
	struct ibv_qp *receiver = receiver_make(&here);

	join(sender, receiver);
	assert_int_equal(stream(sender, number_of(here.srq), 2 * DEPTH, NULL, 0), IBV_WC_SUCCESS);
	assert_int_equal(ibv_destroy_qp(sender), 0);
	assert_int_equal(ibv_destroy_qp(receiver), 0);
	receive_all(&here);
}

static void guest_is_killed(void **state)
{
	(void)state;
	if (HAS_THREAD_SANITIZER)
		skip();
	for (uint32_t i = 0; i < rounds(); i++) {
		struct child child;
		struct ibv_qp *sender;

		/* What a dead guest has taken is lost: a queue that was used by many of them is made anew. */
		timeout = TIMEOUT_SHORT;
		member_make(&here);
		child_start(&child);
		sender = sender_make(&here);
		verbs_qp_connect(sender, child.hello.qpn, timeout);
		child_connect(&child, sender->qp_num);
		assert_int_equal(stream(sender, number_of(here.srq), UINT32_MAX, &child, soon_ns()),
			IBV_WC_RETRY_EXC_ERR);
		assert_int_equal(ibv_destroy_qp(sender), 0);
		timeout = TIMEOUT;
		own_queue_works();
		member_unmake(&here);
	}
}

static void host_is_killed(void **state)
{
	(void)state;
	if (HAS_THREAD_SANITIZER)
		skip();
	member_make(&here);
	for (uint32_t i = 0; i < rounds(); i++) {
		struct ibv_qp *sender = sender_make(&here);
		struct ibv_qp *receiver = receiver_make(&here);
		struct child child;
		enum ibv_wc_status status;

		child_start(&child);
		join(sender, receiver);
		status = stream(sender, child.hello.srqn, UINT32_MAX, &child, soon_ns());
		assert_true(status == IBV_WC_REM_INV_REQ_ERR || status == IBV_WC_REM_OP_ERR);
		assert_int_equal(ibv_destroy_qp(sender), 0);
		assert_int_equal(ibv_destroy_qp(receiver), 0);
		own_queue_works();
	}
	member_unmake(&here);
}

static void both_ways_at_once_work(void **state)
{
	struct ibv_qp *to_child, *to_self, *receiver;
	struct child child;

	(void)state;
	if (HAS_THREAD_SANITIZER)
		skip();
	member_make(&here);
	child_start(&child);
	to_child = sender_make(&here);
	to_self = sender_make(&here);
	receiver = receiver_make(&here);
	verbs_qp_connect(to_child, child.hello.qpn, timeout);
	child_connect(&child, to_child->qp_num);
	join(to_self, receiver);
	for (int i = 0; i < 10; i++) {
		uint32_t own = number_of(here.srq);

		assert_int_equal(stream(to_child, own, 50, NULL, 0), IBV_WC_SUCCESS);
		assert_int_equal(stream(to_child, child.hello.srqn, 50, NULL, 0), IBV_WC_SUCCESS);
		assert_int_equal(stream(to_self, child.hello.srqn, 50, NULL, 0), IBV_WC_SUCCESS);
		assert_int_equal(stream(to_self, own, 50, NULL, 0), IBV_WC_SUCCESS);
	}
	child_kill(&child);
	assert_int_equal(ibv_destroy_qp(to_child), 0);
	assert_int_equal(ibv_destroy_qp(to_self), 0);
	assert_int_equal(ibv_destroy_qp(receiver), 0);
	member_unmake(&here);
}

/* Whether the child's memory is mapped here or not. */
static void words_of_another_process_are_operated_on(void **state)
{
	struct ibv_qp *sender, *receiver;
	struct child child;

	(void)state;
	if (HAS_THREAD_SANITIZER)
		skip();
	member_make(&here);
	child_start(&child);
	sender = sender_make(&here);
	receiver = receiver_make(&here);
	join(sender, receiver);
	for (uint64_t i = 0; i < 50; i++) {
		struct ibv_sge sge = {(uintptr_t)here.buffer, sizeof(i), here.mr->lkey};
		struct ibv_send_wr wr = {
			.sg_list = &sge,
			.num_sge = 1,
			.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
			.send_flags = IBV_SEND_SIGNALED,
			.wr.atomic = {child.hello.address + 64, 3, 0, child.hello.key},
			.qp_type.xrc.remote_srqn = child.hello.srqn,
		};
		struct ibv_send_wr *bad;
		uint64_t before;

		assert_int_equal(ibv_post_send(sender, &wr, &bad), 0);
		assert_int_equal(verbs_poll_one(here.send_cq).status, IBV_WC_SUCCESS);
		memcpy(&before, here.buffer, sizeof(before));
		assert_int_equal(before, 3 * i);
	}
	child_kill(&child);
	assert_int_equal(ibv_destroy_qp(sender), 0);
	assert_int_equal(ibv_destroy_qp(receiver), 0);
	member_unmake(&here);
}

static void number_in_another_domain_is_refused(void **state)
{
	struct ibv_qp *sender, *receiver;
	struct child child;
	int file = domain_file;

	(void)state;
	if (HAS_THREAD_SANITIZER)
		skip();
	child_start(&child);
	domain_file = memfd_create("another", MFD_CLOEXEC);
	member_make(&here);
	sender = sender_make(&here);
	receiver = receiver_make(&here);
	join(sender, receiver);
	assert_int_equal(stream(sender, child.hello.srqn, 1, NULL, 0), IBV_WC_REM_INV_REQ_ERR);
	child_kill(&child);
	assert_int_equal(ibv_destroy_qp(sender), 0);
	assert_int_equal(ibv_destroy_qp(receiver), 0);
	member_unmake(&here);
	close(domain_file);
	domain_file = file;
}

/* 0 or the errno. */
static int open_domain(struct ibv_context *context, int oflags)
{
	struct ibv_xrcd_init_attr init = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = domain_file,
		.oflags = oflags,
	};
	struct ibv_xrcd *xrcd = ibv_open_xrcd(context, &init);

	if (!xrcd)
		return errno;
	assert_int_equal(ibv_close_xrcd(xrcd), 0);
	return 0;
}

static void domain_of_another_process_is_there(void **state)
{
	struct ibv_context *context;
	struct child child;

	(void)state;
	if (HAS_THREAD_SANITIZER)
		skip();
	context = verbs_pair_open();
	assert_int_equal(open_domain(context, 0), EAGAIN);
	assert_int_equal(open_domain(context, O_CREAT | O_EXCL), 0);
	child_start(&child);
	assert_int_equal(open_domain(context, 0), 0);
	assert_int_equal(open_domain(context, O_CREAT), 0);
	assert_int_equal(open_domain(context, O_CREAT | O_EXCL), EINVAL);
	child_kill(&child);
	for (int i = 0; i < 100 && open_domain(context, 0) == 0; i++)
		usleep(10000); /* urnicd has to hear of it */
	assert_int_equal(open_domain(context, 0), EAGAIN);
	assert_int_equal(ibv_close_device(context), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(both_ways_at_once_work),
		cmocka_unit_test(words_of_another_process_are_operated_on),
		cmocka_unit_test(number_in_another_domain_is_refused),
		cmocka_unit_test(domain_of_another_process_is_there),
		cmocka_unit_test(guest_is_killed),
		cmocka_unit_test(host_is_killed),
	};

	if (netns_enter_new() < 0)
		return 77;
	timeout = TIMEOUT;
	domain_file = memfd_create("domain", MFD_CLOEXEC);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
