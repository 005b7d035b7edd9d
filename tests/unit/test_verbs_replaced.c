/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A program that replaces functions of the C library, as librspreload does. The calls of this
 * program fail; urnic makes none of them.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/epoll.h>

#include <cmocka.h>

#include "os/setting.h"
#include "support/netns.h"
#include "support/verbs_pair.h"

int epoll_create1(int flags)
{
	(void)flags;
	errno = EMFILE;
	return -1;
}

int epoll_ctl(int epoll, int operation, int fd, struct epoll_event *event)
{
	(void)epoll, (void)operation, (void)fd, (void)event;
	errno = ENOENT;
	return -1;
}

int epoll_wait(int epoll, struct epoll_event *events, int events_max, int timeout_ms)
{
	(void)epoll, (void)events, (void)events_max, (void)timeout_ms;
	errno = EINVAL;
	return -1;
}

static void pair_of_a_program_that_replaces_epoll_sends_and_sleeps(void **state)
{
	struct ibv_context *context = verbs_pair_open();
	struct verbs_pair pair;

	(void)state;
	verbs_pair_make(&pair, context);
	MUST(!ibv_req_notify_cq(pair.b.cq, 0));
	verbs_post_recv(&pair.b, 7, 0, 100);
	MUST(!verbs_post(&pair.a, IBV_WR_SEND, NULL, 0, 100));
	assert_int_equal(verbs_wait_one(&pair.b).status, IBV_WC_SUCCESS);
	assert_int_equal(verbs_poll_one(pair.a.cq).status, IBV_WC_SUCCESS);
	verbs_pair_unmake(&pair);
	assert_int_equal(ibv_close_device(context), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pair_of_a_program_that_replaces_epoll_sends_and_sleeps),
	};

	if (netns_enter_new() < 0)
		return 77;
	settings_read();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
