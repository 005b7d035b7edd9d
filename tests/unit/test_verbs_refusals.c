/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calls that return an error number: errno says it, too, and with URNIC_LOG=info the log has a
 * sentence.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/arith.h"
#include "nic/nic_failure.h"
#include "os/setting.h"
#include "support/netns.h"
#include "support/verbs_pair.h"

static struct ibv_context *context;
static struct verbs_end end;
static int log_file; /* standard error, as long as a call is made */
static int real_stderr;

/* --- what is refused ---------------------------------------------------------------------- */

static struct ibv_qp_attr attr_of(enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = {
		.qp_state = state,
		.port_num = 1,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = end.qp->qp_num,
		.ah_attr = {.is_global = 1, .port_num = 1},
	};

	MUST(!ibv_query_gid(context, 1, 0, &attr.ah_attr.grh.dgid));
	return attr;
}

enum {
	RTR_MASK = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
};

static int rtr_without_grh(void)
{
	struct ibv_qp_attr attr = attr_of(IBV_QPS_RTR);

	attr.ah_attr.is_global = 0;
	return ibv_modify_qp(end.qp, &attr, RTR_MASK);
}

static int rtr_from_another_gid(void)
{
	struct ibv_qp_attr attr = attr_of(IBV_QPS_RTR);

	attr.ah_attr.grh.sgid_index = 31;
	return ibv_modify_qp(end.qp, &attr, RTR_MASK);
}

static int rtr_without_its_peer(void)
{
	struct ibv_qp_attr attr = attr_of(IBV_QPS_RTR);

	return ibv_modify_qp(end.qp, &attr, RTR_MASK & ~IBV_QP_DEST_QPN);
}

static int rtr_with_a_qkey(void)
{
	struct ibv_qp_attr attr = attr_of(IBV_QPS_RTR);

	return ibv_modify_qp(end.qp, &attr, RTR_MASK | IBV_QP_QKEY);
}

static int rtr_with_too_many_reads(void)
{
	struct ibv_qp_attr attr = attr_of(IBV_QPS_RTR);

	attr.max_dest_rd_atomic = 255;
	return ibv_modify_qp(end.qp, &attr, RTR_MASK);
}

static int rts_at_once(void)
{
	struct ibv_qp_attr attr = attr_of(IBV_QPS_RTS);

	return ibv_modify_qp(end.qp, &attr, IBV_QP_STATE);
}

static int post_too_early(void)
{
	struct ibv_send_wr *bad, wr = {.opcode = IBV_WR_SEND};

	return ibv_post_send(end.qp, &wr, &bad);
}

static int receive_too_much(void)
{
	struct ibv_sge sge[64] = {{0}};
	struct ibv_recv_wr *bad, wr = {.sg_list = sge, .num_sge = 64};

	return ibv_post_recv(end.qp, &wr, &bad);
}

static int free_what_is_used(void)
{
	return ibv_dealloc_pd(end.pd);
}

static int destroy_what_is_gone(void)
{
	struct ibv_cq cq = {.context = context, .handle = 77};

	return ibv_destroy_cq(&cq);
}

static int query_another_port(void)
{
	struct ibv_port_attr attr;

	return ibv_query_port(context, 2, &attr);
}

static int resize_to_nothing(void)
{
	return ibv_resize_cq(end.cq, 0);
}

static int modify_what_is_gone(void)
{
	struct ibv_srq_attr attr = {.max_wr = 1};
	struct ibv_srq srq = {.context = context};

	return ibv_modify_srq(&srq, &attr, IBV_SRQ_MAX_WR);
}

static const struct {
	int (*call)(void);
	int error;
	const char *said;
} refusals[] = {
	{rtr_without_grh, EINVAL, "RTR over RoCE needs ah_attr.is_global and a GRH"},
	{rtr_from_another_gid, EINVAL, "sgid_index 31 is beyond the end of the GID table"},
	{rtr_without_its_peer, EINVAL, "ibv_modify_qp to RTR: IBV_QP_DEST_QPN is missing"},
	{rtr_with_a_qkey, EINVAL, "IBV_QP_QKEY does not belong to the transition from INIT"},
	{rtr_with_too_many_reads, EINVAL, "max_dest_rd_atomic is more than"},
	{rts_at_once, EINVAL, "there is no transition from INIT to RTS"},
	{post_too_early, EINVAL, "ibv_post_send fails"},
	{receive_too_much, EINVAL, "ibv_post_recv fails"},
	{free_what_is_used, EBUSY, "ibv_dealloc_pd fails: Device or resource busy"},
	{destroy_what_is_gone, ENOENT, "ibv_destroy_cq fails: No such file"},
	{query_another_port, EINVAL, "ibv_query_port fails: Invalid argument"},
	{resize_to_nothing, EINVAL, "ibv_resize_cq fails: Invalid argument"},
	{modify_what_is_gone, ENOENT, "ibv_modify_srq fails: No such file"},
};

static void refused_call_sets_errno_and_is_said(void **state)
{
	struct ibv_qp_attr init = attr_of(IBV_QPS_INIT);
	char text[1024];

	(void)state;
	assert_int_equal(
		ibv_modify_qp(end.qp, &init,
			IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
		0);
	for (size_t i = 0; i < ARRAY_COUNT(refusals); i++) {
		ssize_t bytes;
		int error;

		assert_int_equal(ftruncate(log_file, 0), 0);
		assert_int_equal(lseek(log_file, 0, SEEK_SET), 0);
		dup2(log_file, STDERR_FILENO);
		errno = 0;
		error = refusals[i].call();
		int number = errno;
		dup2(real_stderr, STDERR_FILENO);
		bytes = pread(log_file, text, sizeof(text) - 1, 0);
		text[bytes > 0 ? bytes : 0] = 0;
		if (error != refusals[i].error || number != error ||
			!strstr(text, refusals[i].said) || strchr(text, '\n')[1])
			fail_msg("%s: returned %d, errno %d, log '%s'", refusals[i].said, error,
				number, text);
	}
}

/* A program that fills its queue until it is full does so a million times. */
/* Each refusal has another sentence, so that none is counted with an earlier one. */
static void flood_of_refusals_is_bounded_in_the_log(void **state)
{
	static char text[1 << 16];
	uint32_t lines = 0;
	ssize_t bytes;

	(void)state;
	assert_int_equal(ftruncate(log_file, 0), 0);
	assert_int_equal(lseek(log_file, 0, SEEK_SET), 0);
	dup2(log_file, STDERR_FILENO);
	for (int i = 0; i < 300; i++)
		nic_failure_call(REASON_ADDRESS, 0, "refusal %d", i);
	dup2(real_stderr, STDERR_FILENO);
	bytes = pread(log_file, text, sizeof(text), 0);
	assert_in_range(bytes, 1, sizeof(text) - 1);
	for (ssize_t i = 0; i < bytes; i++)
		lines += text[i] == '\n';
	assert_in_range(lines, 1, 100); /* a second or two, on a busy machine a few */
	assert_non_null(strstr(text, "further failures of this second are not logged"));
	assert_false(nic_failure_is_explained() && nic_failure_is_explained());
}

static void full_queue_is_not_logged(void **state)
{
	struct ibv_recv_wr *bad, wr = {.wr_id = 1};
	char text[64];

	(void)state;
	assert_int_equal(ftruncate(log_file, 0), 0);
	assert_int_equal(lseek(log_file, 0, SEEK_SET), 0);
	dup2(log_file, STDERR_FILENO);
	while (!ibv_post_recv(end.qp, &wr, &bad))
		errno = 0;
	int number = errno;
	dup2(real_stderr, STDERR_FILENO);
	assert_int_equal(number, ENOMEM);
	assert_int_equal(pread(log_file, text, sizeof(text), 0), 0);
}

static int setup(void **state)
{
	(void)state;
	context = verbs_pair_open();
	verbs_end_make(&end, context, NULL);
	log_file = memfd_create("log", MFD_CLOEXEC);
	real_stderr = dup(STDERR_FILENO);
	return log_file >= 0 && real_stderr >= 0 ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	verbs_end_unmake(&end);
	return ibv_close_device(context);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(refused_call_sets_errno_and_is_said),
		cmocka_unit_test(full_queue_is_not_logged),
		cmocka_unit_test(flood_of_refusals_is_bounded_in_the_log),
	};

	if (netns_enter_new() < 0)
		return 77;
	setenv("URNIC_LOG", "info", 1);
	unsetenv("URNIC_DEVICE_NAME");
	unsetenv("URNIC_INTERFACES");
	settings_read();
	return cmocka_run_group_tests(tests, setup, teardown);
}
