/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Receiving queue pairs of an XRC domain that two processes have open (ibv_open_qp).
 *
 * A child executes the test's orders, with one queue pair of its own. The test's own process sends
 * the messages. XRC_KILL_ROUNDS: rounds in which a process is killed, 12 unless set.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/netns.h"
#include "support/sanitizer.h"
#include "support/verbs_pair.h"
#include "support/xrc_member.h"

enum {
	TIMEOUT = 16, /* 268 ms, eight times: a busy machine keeps processes waiting */
	TIMEOUT_SHORT = 12, /* 17 ms, for those that nobody answers */
	ROUNDS = 12,
	NO_EVENT = 0xffff,
};

static int domain_file;
static struct xrc_member here;

static struct ibv_qp *open_in(struct ibv_xrcd *xrcd, uint32_t number)
{
	struct ibv_qp_open_attr attr = {
		.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE,
		.qp_num = number,
		.xrcd = xrcd,
		.qp_type = IBV_QPT_XRC_RECV,
	};

	return ibv_open_qp(xrcd->context, &attr);
}

static enum ibv_qp_state state_of(struct ibv_qp *qp, struct ibv_qp_attr *attr)
{
	struct ibv_qp_init_attr init;

	MUST(!ibv_query_qp(qp, attr, IBV_QP_STATE, &init));
	return attr->qp_state;
}

static int reset(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};

	return ibv_modify_qp(qp, &attr, IBV_QP_STATE);
}

/* The type of the next event, which is acknowledged; NO_EVENT when none comes. */
static uint32_t event_next(struct ibv_context *context, int timeout_ms)
{
	struct pollfd pollfd = {.fd = context->async_fd, .events = POLLIN};
	struct ibv_async_event event;

	if (poll(&pollfd, 1, timeout_ms) != 1)
		return NO_EVENT;
	MUST(!ibv_get_async_event(context, &event));
	ibv_ack_async_event(&event);
	return event.event_type;
}

/* --- the child ---------------------------------------------------------------------------- */

enum order {
	MAKE, /* a receiving queue pair; answers its number */
	OPEN, /* the one of this number; answers 0 or the errno */
	CONNECT, /* to this number, up to RTS */
	STATE, /* answers it */
	CLOSE,
	EVENT, /* answers its type */
	RECEIVED, /* answers how many messages were, since it was last asked */
	LEAVE, /* the domain, and all that is in it, but not the process */
	SENDER, /* makes a sending one; answers its number */
	RESET, /* answers 0 or the errno */
};

struct instruction {
	uint32_t order; /* enum order */
	uint32_t argument;
};

static uint32_t child_obey(struct xrc_member *own, struct ibv_qp **qp, struct instruction what)
{
	struct ibv_qp_attr attr;

	switch ((enum order)what.order) {
	case MAKE:
		*qp = xrc_receiver_make(own);
		return (*qp)->qp_num;
	case OPEN:
		*qp = open_in(own->xrcd, what.argument);
		return *qp ? 0 : (uint32_t)errno;
	case CONNECT:
		verbs_qp_connect(*qp, what.argument, TIMEOUT);
		return 0;
	case STATE:
		return state_of(*qp, &attr);
	case CLOSE:
		return (uint32_t)ibv_destroy_qp(*qp);
	case EVENT:
		return event_next(own->context, PAIR_TIMEOUT_S * 1000);
	case RECEIVED:
		return xrc_receive_all(own);
	case LEAVE:
		xrc_member_unmake(own);
		xrc_member_make(own, domain_file);
		return 0;
	case SENDER:
		return xrc_sender_make(own)->qp_num;
	case RESET:
		return (uint32_t)reset(*qp);
	}
	return 0;
}

_Noreturn static void child_run(int socket)
{
	struct xrc_member own;
	struct ibv_qp *qp = NULL;
	struct instruction what;

	xrc_member_make(&own, domain_file);
	for (;;) {
		uint32_t answer;

		if (read(socket, &what, sizeof(what)) != sizeof(what))
			_exit(0);
		answer = child_obey(&own, &qp, what);
		MUST(write(socket, &answer, sizeof(answer)) == sizeof(answer));
	}
}

struct child {
	pid_t pid;
	int socket;
};

static struct child child_start(void)
{
	struct child child;
	int sockets[2];

	MUST(!socketpair(AF_UNIX, SOCK_STREAM, 0, sockets));
	child.pid = fork();
	MUST(child.pid >= 0);
	if (!child.pid) {
		close(sockets[0]);
		child_run(sockets[1]);
	}
	close(sockets[1]);
	child.socket = sockets[0];
	return child;
}

/* Begin only. */
static void child_begin(const struct child *child, enum order order, uint32_t argument)
{
	struct instruction what = {order, argument};

	MUST(write(child->socket, &what, sizeof(what)) == sizeof(what));
}

static uint32_t child_do(const struct child *child, enum order order, uint32_t argument)
{
	uint32_t answer;

	child_begin(child, order, argument);
	MUST(read(child->socket, &answer, sizeof(answer)) == sizeof(answer));
	return answer;
}

static void child_kill(const struct child *child)
{
	MUST(!kill(child->pid, SIGKILL));
	MUST(waitpid(child->pid, NULL, 0) == child->pid);
	close(child->socket);
}

/* --- the sender --------------------------------------------------------------------------- */

static struct ibv_qp *sender_to(uint32_t number, uint8_t timeout)
{
	struct ibv_qp *sender = xrc_sender_make(&here);

	verbs_qp_connect(sender, number, timeout);
	return sender;
}

/* One message to the queue. */
static enum ibv_wc_status message(struct ibv_qp *sender, uint32_t srqn)
{
	MUST(xrc_send(&here, sender, srqn));
	return verbs_poll_one(here.send_cq).status;
}

/* One to our own queue, which arrives. */
static void message_arrives(struct ibv_qp *sender)
{
	uint32_t count = 0;

	assert_int_equal(message(sender, xrc_srq_number(here.srq)), IBV_WC_SUCCESS);
	while (!count)
		count = xrc_receive_all(&here);
	assert_int_equal(count, 1);
}

static void nobody_receives(uint32_t number)
{
	struct ibv_qp *sender = sender_to(number, TIMEOUT_SHORT);

	assert_int_equal(message(sender, xrc_srq_number(here.srq)), IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(ibv_destroy_qp(sender), 0);
}

static void cannot_be_opened(uint32_t number)
{
	errno = 0;
	assert_null(open_in(here.xrcd, number));
	assert_int_equal(errno, EINVAL);
}

/* When its last user was killed, urnicd or its owner has to notice. */
static void goes_soon(uint32_t number)
{
	struct ibv_qp *qp = NULL;

	for (int i = 0; i < 2000; i++) {
		qp = open_in(here.xrcd, number);
		if (!qp)
			break;
		assert_int_equal(ibv_destroy_qp(qp), 0);
		usleep(10000);
	}
	assert_null(qp);
}

/* Sockets of this network namespace in whose path the kernel shows `part`. */
static uint32_t paths_with(const char *part)
{
	FILE *table = fopen("/proc/thread-self/net/unix", "re");
	char line[256];
	uint32_t count = 0;

	MUST(table);
	while (fgets(line, sizeof(line), table))
		count += strstr(line, part) != NULL;
	fclose(table);
	return count;
}

/* --- tests -------------------------------------------------------------------------------- */

static void who_opens_it_can_move_it(void **state)
{
	struct child child = child_start();
	uint32_t number = child_do(&child, MAKE, 0);
	struct ibv_qp *sender = sender_to(number, TIMEOUT);
	struct ibv_qp *qp = open_in(here.xrcd, number);
	struct ibv_qp_attr attr;

	(void)state;
	assert_non_null(qp);
	assert_int_equal(qp->qp_num, number);
	assert_int_equal(state_of(qp, &attr), IBV_QPS_RESET);
	verbs_qp_connect(qp, sender->qp_num, TIMEOUT);
	assert_int_equal(child_do(&child, STATE, 0), IBV_QPS_RTS);
	assert_int_equal(state_of(qp, &attr), IBV_QPS_RTS);
	assert_int_equal(attr.dest_qp_num, sender->qp_num);
	assert_int_equal(attr.path_mtu, IBV_MTU_1024);
	assert_int_equal(attr.ah_attr.is_global, 1);
	message_arrives(sender);
	/* A change that the state does not allow is as it is for the maker. */
	attr.qp_state = IBV_QPS_INIT;
	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE), EINVAL);
	attr.qp_state = IBV_QPS_RESET;
	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
	assert_int_equal(child_do(&child, STATE, 0), IBV_QPS_RESET);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(child_do(&child, CLOSE, 0), 0);
	assert_int_equal(ibv_destroy_qp(sender), 0);
	child_kill(&child);
}

static void each_opener_hears_its_events(void **state)
{
	struct child child = child_start();
	struct child other = child_start();
	uint32_t number = child_do(&child, MAKE, 0);
	struct ibv_qp *sender = sender_to(number, TIMEOUT);
	struct ibv_qp *qp = open_in(here.xrcd, number);
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = 0};

	(void)state;
	assert_non_null(qp);
	assert_int_equal(child_do(&other, OPEN, number), 0);
	assert_int_equal(
		ibv_modify_qp(qp, &attr,
			IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
		0);
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = sender->qp_num,
		.rq_psn = 0xfffff0,
		.min_rnr_timer = 1,
		.ah_attr = {.is_global = 1, .port_num = 1, .grh = {.hop_limit = 1}},
	};
	MUST(!ibv_query_gid(qp->context, 1, 0, &attr.ah_attr.grh.dgid));
	assert_int_equal(
		ibv_modify_qp(qp, &attr,
			IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
		0);
	message_arrives(sender);
	assert_int_equal(event_next(here.context, PAIR_TIMEOUT_S * 1000), IBV_EVENT_COMM_EST);
	assert_int_equal(child_do(&child, EVENT, 0), IBV_EVENT_COMM_EST);
	assert_int_equal(child_do(&other, EVENT, 0), IBV_EVENT_COMM_EST);
	/* No such shared receive queue. */
	assert_int_equal(message(sender, number), IBV_WC_REM_INV_REQ_ERR);
	assert_int_equal(event_next(here.context, PAIR_TIMEOUT_S * 1000), IBV_EVENT_QP_REQ_ERR);
	assert_int_equal(child_do(&child, EVENT, 0), IBV_EVENT_QP_REQ_ERR);
	assert_int_equal(child_do(&other, EVENT, 0), IBV_EVENT_QP_REQ_ERR);
	assert_int_equal(child_do(&other, STATE, 0), IBV_QPS_ERR);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_qp(sender), 0);
	child_kill(&other);
	child_kill(&child);
}

static void what_is_no_such_queue_pair_is_refused(void **state)
{
	struct child child = child_start();
	uint32_t number = child_do(&child, MAKE, 0);
	uint32_t sending = child_do(&child, SENDER, 0);
	int other_file = memfd_create("another", MFD_CLOEXEC);
	struct xrc_member other;

	(void)state;
	cannot_be_opened(number ^ 1);
	cannot_be_opened(sending);
	cannot_be_opened(0);
	cannot_be_opened(0xfe0001); /* nobody's slot */
	cannot_be_opened(number | 1u << 24);
	cannot_be_opened(UINT32_MAX);
	xrc_member_make(&other, other_file);
	assert_null(open_in(other.xrcd, number));
	assert_int_equal(errno, EINVAL);
	xrc_member_unmake(&other);
	close(other_file);
	assert_int_equal(child_do(&child, CLOSE, 0), 0);
	cannot_be_opened(number);
	child_kill(&child);
	cannot_be_opened(number);
}

static void it_outlives_what_its_maker_has_of_it(void **state)
{
	struct child child = child_start();
	uint32_t number = child_do(&child, MAKE, 0);
	struct ibv_qp *sender = sender_to(number, TIMEOUT);
	struct ibv_qp *qp = open_in(here.xrcd, number);
	struct ibv_qp_attr attr;

	(void)state;
	assert_non_null(qp);
	assert_int_equal(child_do(&child, CLOSE, 0), 0);
	verbs_qp_connect(qp, sender->qp_num, TIMEOUT);
	message_arrives(sender);
	assert_int_equal(child_do(&child, LEAVE, 0), 0);
	message_arrives(sender);
	assert_int_equal(state_of(qp, &attr), IBV_QPS_RTS);
	/* Its maker comes back, and stays. */
	assert_int_equal(child_do(&child, OPEN, number), 0);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	message_arrives(sender);
	assert_int_equal(child_do(&child, STATE, 0), IBV_QPS_RTS);
	assert_int_equal(child_do(&child, CLOSE, 0), 0);
	cannot_be_opened(number);
	assert_int_equal(ibv_destroy_qp(sender), 0);
	nobody_receives(number);
	child_kill(&child);
}

static void domain_is_busy_while_it_is_open(void **state)
{
	struct child child = child_start();
	struct ibv_qp *qp = open_in(here.xrcd, child_do(&child, MAKE, 0));

	(void)state;
	assert_non_null(qp);
	assert_int_equal(ibv_destroy_srq(here.srq), 0);
	assert_int_equal(ibv_close_xrcd(here.xrcd), EBUSY);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_close_xrcd(here.xrcd), 0);
	assert_int_equal(ibv_destroy_cq(here.recv_cq), 0);
	assert_int_equal(ibv_destroy_cq(here.send_cq), 0);
	assert_int_equal(ibv_dereg_mr(here.mr), 0);
	assert_int_equal(ibv_dealloc_pd(here.pd), 0);
	assert_int_equal(ibv_close_device(here.context), 0);
	free(here.buffer);
	child_kill(&child);
	xrc_member_make(&here, domain_file);
}

/* Every opener gets an event when the maker ends, and can only close the queue pair. */
static void it_ends_with_the_process_that_made_it(void **state)
{
	struct child maker = child_start();
	struct child other = child_start();
	uint32_t number = child_do(&maker, MAKE, 0);
	struct ibv_qp *sender = sender_to(number, TIMEOUT_SHORT);
	struct ibv_qp *qp = open_in(here.xrcd, number);
	struct ibv_qp_attr attr;

	(void)state;
	assert_non_null(qp);
	assert_int_equal(child_do(&other, OPEN, number), 0);
	verbs_qp_connect(qp, sender->qp_num, TIMEOUT);
	message_arrives(sender);
	child_kill(&maker);
	assert_int_equal(event_next(here.context, PAIR_TIMEOUT_S * 1000), IBV_EVENT_QP_FATAL);
	assert_int_equal(child_do(&other, EVENT, 0), IBV_EVENT_QP_FATAL);
	assert_int_equal(state_of(qp, &attr), IBV_QPS_ERR);
	assert_int_equal(child_do(&other, STATE, 0), IBV_QPS_ERR);
	assert_int_equal(reset(qp), EIO);
	assert_int_equal(child_do(&other, RESET, 0), EIO);
	assert_int_equal(message(sender, xrc_srq_number(here.srq)), IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(child_do(&other, CLOSE, 0), 0);
	cannot_be_opened(number);
	assert_int_equal(ibv_destroy_qp(sender), 0);
	assert_int_equal(event_next(here.context, 0), NO_EVENT);
	child_kill(&other);
}

static void it_goes_with_its_last_user_however_that_ends(void **state)
{
	struct child child = child_start();
	struct child other = child_start();
	struct ibv_qp *made = xrc_receiver_make(&here);
	uint32_t number = made->qp_num;
	struct ibv_qp *sender = sender_to(number, TIMEOUT);

	(void)state;
	assert_int_equal(child_do(&child, OPEN, number), 0);
	assert_int_equal(child_do(&other, OPEN, number), 0);
	assert_int_equal(child_do(&child, CONNECT, sender->qp_num), 0);
	assert_int_equal(ibv_destroy_qp(made), 0);
	message_arrives(sender);
	child_kill(&child);
	message_arrives(sender);
	child_kill(&other);
	goes_soon(number);
	assert_int_equal(ibv_destroy_qp(sender), 0);
	nobody_receives(number);
}

static uint32_t rounds(void)
{
	const char *text = getenv("XRC_KILL_ROUNDS");

	return text ? (uint32_t)atoi(text) : ROUNDS;
}

/* The child makes it, or opens it, and is killed while the two are at it. */
static void killed_at_any_moment(bool is_maker)
{
	for (uint32_t i = 0; i < rounds(); i++) {
		struct child child = child_start();
		struct ibv_qp *own = is_maker ? NULL : xrc_receiver_make(&here);
		uint32_t number = is_maker ? child_do(&child, MAKE, 0) : own->qp_num;
		struct ibv_qp_attr attr;
		struct ibv_qp *qp;
		int error;

		if (!is_maker)
			child_begin(&child, OPEN, number);
		for (int step = rand() % 8; step > 0; step--) {
			qp = open_in(here.xrcd, number);
			MUST(qp);
			state_of(qp, &attr);
			MUST(!reset(qp));
			MUST(!ibv_destroy_qp(qp));
		}
		qp = open_in(here.xrcd, number);
		MUST(qp);
		MUST(!kill(child.pid, SIGKILL));
		for (int step = 0; step < 20; step++) {
			state_of(qp, &attr);
			error = reset(qp);
			MUST(!error || (is_maker && error == EIO));
		}
		child_kill(&child);
		if (is_maker)
			assert_int_equal(event_next(here.context, PAIR_TIMEOUT_S * 1000),
				IBV_EVENT_QP_FATAL);
		assert_int_equal(reset(qp), is_maker ? EIO : 0);
		assert_int_equal(ibv_destroy_qp(qp), 0);
		assert_int_equal(own ? ibv_destroy_qp(own) : 0, 0);
		goes_soon(number);
	}
}

static void host_may_be_killed_at_any_moment(void **state)
{
	(void)state;
	killed_at_any_moment(true);
}

static void borrower_may_be_killed_at_any_moment(void **state)
{
	(void)state;
	killed_at_any_moment(false);
}

/* Any user can take an abstract name, which the kernel shows with an @, and fill its queue. */
static void owner_of_a_target_listens_where_its_user_alone_may_write(void **state)
{
	struct child child = child_start();

	(void)state;
	child_do(&child, MAKE, 0);
	assert_int_equal(paths_with(" @urnic"), 0);
	assert_int_equal(paths_with("/xrc-"), 1);
	child_kill(&child);
}

static int set_up(void **state)
{
	(void)state;
	xrc_member_make(&here, domain_file);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	xrc_member_unmake(&here);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(owner_of_a_target_listens_where_its_user_alone_may_write),
		cmocka_unit_test(who_opens_it_can_move_it),
		cmocka_unit_test(each_opener_hears_its_events),
		cmocka_unit_test(what_is_no_such_queue_pair_is_refused),
		cmocka_unit_test(it_outlives_what_its_maker_has_of_it),
		cmocka_unit_test(domain_is_busy_while_it_is_open),
		cmocka_unit_test(it_ends_with_the_process_that_made_it),
		cmocka_unit_test(it_goes_with_its_last_user_however_that_ends),
		cmocka_unit_test(host_may_be_killed_at_any_moment),
		cmocka_unit_test(borrower_may_be_killed_at_any_moment),
	};

	if (HAS_THREAD_SANITIZER) {
		printf("skipped: TSan forbids threads in the children of programs with threads\n");
		return 77;
	}
	if (netns_enter_new() < 0)
		return 77;
	domain_file = memfd_create("domain", MFD_CLOEXEC);
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
