/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An XRC domain that two processes share, one of which is killed at a random moment.
 *
 * The test's own process sends. In `borrower_*` its messages go to a receiving queue pair of the
 * child's and name a shared receive queue of its own; in `host_*` they arrive at a queue pair of
 * its own and name a queue of the child's. Rounds: XRC_KILL_ROUNDS, 12 unless set.
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
#include "support/xrc_member.h"

enum {
	TIMEOUT = 16, /* 268 ms, eight times: a busy machine keeps processes waiting */
	TIMEOUT_SHORT = 12, /* 17 ms, for those that shall be over soon */
	ROUNDS = 12,
};

static int domain_file;
static uint8_t timeout; /* of connections made from here on */
static struct xrc_member here;

static void join(struct ibv_qp *a, struct ibv_qp *b)
{
	verbs_qp_connect(a, b->qp_num, timeout);
	verbs_qp_connect(b, a->qp_num, timeout);
}

/* --- the child ---------------------------------------------------------------------------- */

/* What the child reports after the test has told it the queue pair to connect to. */
struct hello {
	uint32_t qpn;
	uint32_t srqn;
	uint64_t address; /* of its region */
	uint32_t key;
};

_Noreturn static void child_run(int socket)
{
	struct xrc_member own;
	struct ibv_qp *receiver;
	uint32_t sender_qpn;
	struct ibv_wc wc;

	xrc_member_make(&own, domain_file);
	receiver = xrc_receiver_make(&own);
	struct hello hello = {
		receiver->qp_num, xrc_srq_number(own.srq), (uintptr_t)own.buffer, own.mr->rkey};
	MUST(write(socket, &hello, sizeof(hello)) == sizeof(hello));
	MUST(read(socket, &sender_qpn, sizeof(sender_qpn)) == sizeof(sender_qpn));
	verbs_qp_connect(receiver, sender_qpn, timeout);
	MUST(write(socket, "", 1) == 1);
	for (;;)
		if (ibv_poll_cq(own.recv_cq, 1, &wc) > 0)
			xrc_post_receive(&own);
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

/*
 * Keep messages under way until `count` are complete (UINT32_MAX: until one fails), or kill the
 * child at the chosen moment. Returns the status of the last one.
 */
static enum ibv_wc_status stream(struct ibv_qp *qp, uint32_t srqn, uint32_t count,
	const struct child *child, uint64_t kill_ns)
{
	uint64_t end_ns = now_ns() + PAIR_TIMEOUT_S * 1000000000ull;
	uint32_t under_way = 0, done = 0;
	struct ibv_wc wc = {.status = IBV_WC_SUCCESS};

	while (done < count && wc.status == IBV_WC_SUCCESS) {
		if (under_way < 4 && xrc_send(&here, qp, srqn))
			under_way++;
		if (ibv_poll_cq(here.send_cq, 1, &wc) > 0) {
			under_way--;
			done++;
		}
		xrc_receive_all(&here);
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
	struct ibv_qp *sender = xrc_sender_make(&here);
	struct ibv_qp *receiver = xrc_receiver_make(&here);

	join(sender, receiver);
	assert_int_equal(
		stream(sender, xrc_srq_number(here.srq), 2 * XRC_DEPTH, NULL, 0), IBV_WC_SUCCESS);
	assert_int_equal(ibv_destroy_qp(sender), 0);
	assert_int_equal(ibv_destroy_qp(receiver), 0);
	xrc_receive_all(&here);
}

static void borrower_is_killed(void **state)
{
	(void)state;
	if (HAS_THREAD_SANITIZER)
		skip();
	for (uint32_t i = 0; i < rounds(); i++) {
		struct child child;
		struct ibv_qp *sender;

		/*
		 * The requests that a dead borrower had taken are lost, so make a queue anew that
		 * many borrowers have used.
		 */
		timeout = TIMEOUT_SHORT;
		xrc_member_make(&here, domain_file);
		child_start(&child);
		sender = xrc_sender_make(&here);
		verbs_qp_connect(sender, child.hello.qpn, timeout);
		child_connect(&child, sender->qp_num);
		assert_int_equal(
			stream(sender, xrc_srq_number(here.srq), UINT32_MAX, &child, soon_ns()),
			IBV_WC_RETRY_EXC_ERR);
		assert_int_equal(ibv_destroy_qp(sender), 0);
		timeout = TIMEOUT;
		own_queue_works();
		xrc_member_unmake(&here);
	}
}

static void host_is_killed(void **state)
{
	(void)state;
	if (HAS_THREAD_SANITIZER)
		skip();
	xrc_member_make(&here, domain_file);
	for (uint32_t i = 0; i < rounds(); i++) {
		struct ibv_qp *sender = xrc_sender_make(&here);
		struct ibv_qp *receiver = xrc_receiver_make(&here);
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
	xrc_member_unmake(&here);
}

static void both_ways_at_once_work(void **state)
{
	struct ibv_qp *to_child, *to_self, *receiver;
	struct child child;

	(void)state;
	if (HAS_THREAD_SANITIZER)
		skip();
	xrc_member_make(&here, domain_file);
	child_start(&child);
	to_child = xrc_sender_make(&here);
	to_self = xrc_sender_make(&here);
	receiver = xrc_receiver_make(&here);
	verbs_qp_connect(to_child, child.hello.qpn, timeout);
	child_connect(&child, to_child->qp_num);
	join(to_self, receiver);
	for (int i = 0; i < 10; i++) {
		uint32_t own = xrc_srq_number(here.srq);

		assert_int_equal(stream(to_child, own, 50, NULL, 0), IBV_WC_SUCCESS);
		assert_int_equal(stream(to_child, child.hello.srqn, 50, NULL, 0), IBV_WC_SUCCESS);
		assert_int_equal(stream(to_self, child.hello.srqn, 50, NULL, 0), IBV_WC_SUCCESS);
		assert_int_equal(stream(to_self, own, 50, NULL, 0), IBV_WC_SUCCESS);
	}
	child_kill(&child);
	assert_int_equal(ibv_destroy_qp(to_child), 0);
	assert_int_equal(ibv_destroy_qp(to_self), 0);
	assert_int_equal(ibv_destroy_qp(receiver), 0);
	xrc_member_unmake(&here);
}

/* Whether the child's memory is mapped here or not. */
static void words_of_another_process_are_operated_on(void **state)
{
	struct ibv_qp *sender, *receiver;
	struct child child;

	(void)state;
	if (HAS_THREAD_SANITIZER)
		skip();
	xrc_member_make(&here, domain_file);
	child_start(&child);
	sender = xrc_sender_make(&here);
	receiver = xrc_receiver_make(&here);
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
	xrc_member_unmake(&here);
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
	xrc_member_make(&here, domain_file);
	sender = xrc_sender_make(&here);
	receiver = xrc_receiver_make(&here);
	join(sender, receiver);
	assert_int_equal(stream(sender, child.hello.srqn, 1, NULL, 0), IBV_WC_REM_INV_REQ_ERR);
	child_kill(&child);
	assert_int_equal(ibv_destroy_qp(sender), 0);
	assert_int_equal(ibv_destroy_qp(receiver), 0);
	xrc_member_unmake(&here);
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
		cmocka_unit_test(borrower_is_killed),
		cmocka_unit_test(host_is_killed),
	};

	if (netns_enter_new() < 0)
		return 77;
	timeout = TIMEOUT;
	domain_file = memfd_create("domain", MFD_CLOEXEC);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
