/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Each row of src/queue/refusal.def: the call fails with the errno of the reason, and the failure
 * that is kept names the call and the reason. A row without a function of refusals_*.c does not
 * link.
 */
#include "refusals.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/failure_file.h"
#include "nic/nic_failure.h"
#include "os/failure_text.h"
#include "os/setting.h"
#include "support/last_failure.h"
#include "support/netns.h"
#include "support/verbs_pair.h"

enum { LOG_BYTES = 2048 };

struct refusals refusals;

/* --- allocations that fail: the linker redirects the calls of urnic's code --- */

static __thread uint32_t fails_in; /* calls until one fails; 0: none does */

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);

static bool fails_now(void)
{
	return fails_in && --fails_in == 0;
}

void *__wrap_malloc(size_t bytes)
{
	return fails_now() ? NULL : __real_malloc(bytes);
}

void *__wrap_calloc(size_t count, size_t bytes)
{
	return fails_now() ? NULL : __real_calloc(count, bytes);
}

bool refusal_is_other_user;

uid_t __real_geteuid(void);
uid_t __wrap_geteuid(void);

uid_t __wrap_geteuid(void)
{
	return __real_geteuid() + refusal_is_other_user;
}

int refusal_without_memory(int (*make)(void))
{
	for (uint32_t nth = 1; nth < 50; nth++) {
		int error;

		fails_in = nth;
		error = make();
		if (fails_in) /* the call makes fewer allocations */
			error = 0;
		fails_in = 0;
		if (error)
			return error;
	}
	return 0;
}

int refusal_at_limit(int (*make)(void), int *limit)
{
	int before = *limit;
	int error;

	*limit = 0;
	error = make();
	*limit = before;
	return error;
}

/* --- the rows --- */

static const struct row {
	const char *call;
	const char *name;
	enum reason reason;
	int (*provoke)(void);
} rows[] = {
#define REFUSAL(call, reason) {#call, #reason, REASON_##reason, refusal_##call##_##reason},
#include "queue/refusal.def"
#undef REFUSAL
};

/* Provoke the row. `ret_log` has LOG_BYTES for what urnic writes to the log meanwhile. */
static int row_provoke(const struct row *row, char *ret_log)
{
	int kept = dup(STDERR_FILENO), log = memfd_create("log", MFD_CLOEXEC), error;
	ssize_t bytes;

	MUST(kept >= 0 && log >= 0 && dup2(log, STDERR_FILENO) >= 0);
	error = row->provoke();
	MUST(dup2(kept, STDERR_FILENO) >= 0);
	bytes = pread(log, ret_log, LOG_BYTES - 1, 0);
	ret_log[bytes > 0 ? bytes : 0] = '\0';
	close(kept);
	close(log);
	return error;
}

/* What is wrong with how the row was refused; NULL: nothing. */
static const char *row_check(const struct row *row)
{
	static char wrong[1024];
	const struct reason_row *reason = reason_find(row->reason);
	char said[REASON_SENTENCE_BYTES], log[LOG_BYTES];
	struct failure last;
	int error;

	nic_failures_forget();
	error = row_provoke(row, log);
	last = last_failure();
	reason_tell(&last, said, sizeof(said));
	if (error != reason->error)
		snprintf(wrong, sizeof(wrong), "it returned %d (%s), not %d; said: %s", error,
			strerror(error), reason->error, last.number ? said : "nothing");
	else if (row->reason == REASON_POST_FULL)
		return last.number ? "a full queue is reported" : NULL;
	else if (last.reason != row->reason)
		snprintf(wrong, sizeof(wrong), "urnic said: %s", last.number ? said : "nothing");
	else if (row->reason == REASON_NO_MEMORY && !strstr(log, "lift the limits on memory"))
		snprintf(wrong, sizeof(wrong), "the log has by default: %.200s", log);
	else if (strchr(said, '?') ||
		(strstr(reason->seen, "{text}") && !reason->clause &&
			strncmp(said, row->call, strlen(row->call)) != 0))
		snprintf(wrong, sizeof(wrong), "urnic said: %s", said);
	else
		return NULL;
	return wrong;
}

/* Objects from before a fork are refused in the child. */
static bool is_for_child(const struct row *row)
{
	return row->reason == REASON_FORKED ||
		(row->reason == REASON_GONE && strcmp(row->call, "ibv_create_qp") != 0);
}

static const char *row_check_in_child(const struct row *row)
{
	static char wrong[1024];
	int fds[2], status;
	pid_t child;
	ssize_t bytes;

	if (pipe(fds))
		return "no pipe";
	child = fork();
	if (child == 0) {
		const char *said = row_check(row);

		if (said && write(fds[1], said, strlen(said)) < 0)
			_exit(2);
		_exit(said != NULL);
	}
	close(fds[1]);
	bytes = read(fds[0], wrong, sizeof(wrong) - 1);
	close(fds[0]);
	wrong[bytes > 0 ? bytes : 0] = '\0';
	waitpid(child, &status, 0);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return NULL;
	return bytes > 0 ? wrong : "the child ended";
}

static void refused_call_names_its_reason(void **state)
{
	uint32_t failed = 0;

	(void)state;
	for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
		const struct row *row = &rows[i];
		const char *wrong = is_for_child(row) ? row_check_in_child(row) : row_check(row);

		if (wrong)
			print_error("%s %s: %s\n", row->call, row->name, wrong);
		failed += wrong != NULL;
	}
	print_message("%zu refusals\n", ARRAY_COUNT(rows));
	assert_int_equal(failed, 0);
}

static bool file_is_own(void *context, const struct failure_file *file)
{
	bool *is_there = context;

	*is_there = *is_there || file->head.pid == (uint32_t)getpid();
	return !*is_there;
}

static bool has_file(void)
{
	bool is_there = false;

	failure_file_visit(file_is_own, &is_there);
	return is_there;
}

/* Programs find the end of a table this way. The first failure makes the file. */
static void end_of_a_table_makes_no_file(void **state)
{
	(void)state;
	assert_int_equal(refusal_ibv_query_gid_GID_INDEX(), EINVAL);
	assert_int_equal(refusal_ibv_query_pkey_PKEY_INDEX(), EINVAL);
	assert_int_equal(refusal_ibv_get_pkey_index_PKEY_ABSENT(), EINVAL);
	assert_false(has_file());
	assert_int_equal(refusal_ibv_query_port_PORT_NUMBER(), EINVAL);
	assert_true(has_file());
}

/* What no check of urnic refuses, but the machine. */
static void machine_that_refuses_is_named(void **state)
{
	static const struct {
		int error;
		enum reason reason;
	} machine[] = {
		{ENOMEM, REASON_NO_MEMORY},
		{EMFILE, REASON_NO_DESCRIPTORS},
		{ENFILE, REASON_NO_DESCRIPTORS},
		{EPERM, REASON_NOT_PERMITTED},
		{EIO, REASON_GONE},
		{ENOSYS, REASON_REFUSED_CALL},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_COUNT(machine); i++) {
		nic_failures_forget();
		nic_failure_end("ibv_create_qp", machine[i].error);
		assert_int_equal(last_failure().reason, machine[i].reason);
		assert_string_equal(last_failure().text, "ibv_create_qp");
	}
}

/* The cause of a call that has succeeded by other means is not told of a later one. */
static void cause_is_told_of_its_errno_alone(void **state)
{
	(void)state;
	nic_failures_forget();
	nic_failure_cause(REASON_NO_OBJECT);
	nic_failure_end("ibv_create_qp", EMFILE);
	assert_int_equal(last_failure().reason, REASON_NO_DESCRIPTORS);
	nic_failure_end("ibv_dealloc_pd", ENOENT);
	assert_int_equal(last_failure().reason, REASON_REFUSED_CALL);
}

/* --- the objects --- */

static void interface_make(const char *name, int net)
{
	MUST(!netns_run("ip link add %s type veth peer name %.8s_p && ip link set %.8s_p up && "
			"ip address add 10.%d.0.1/24 dev %s && ip link set %s up",
		name, name, name, net, name, name));
}

static struct ibv_context *open_named(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = NULL;

	MUST(list);
	for (int i = 0; list[i]; i++)
		if (strcmp(ibv_get_device_name(list[i]), name) == 0)
			context = ibv_open_device(list[i]);
	ibv_free_device_list(list);
	MUST(context);
	return context;
}

static struct ibv_qp *qp_make(enum ibv_qp_type type, struct ibv_srq *srq)
{
	struct ibv_qp_init_attr init = {
		.send_cq = refusals.cq,
		.recv_cq = refusals.cq,
		.srq = srq,
		.cap = {16, 16, 2, 2, 64},
		.qp_type = type,
	};
	struct ibv_qp *qp = ibv_create_qp(refusals.pd, &init);

	MUST(qp);
	return qp;
}

static void ud_start(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = 1};

	MUST(!ibv_modify_qp(
		qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY));
	attr.qp_state = IBV_QPS_RTR;
	MUST(!ibv_modify_qp(qp, &attr, IBV_QP_STATE));
	attr.qp_state = IBV_QPS_RTS;
	MUST(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN));
}

void refusal_qp_fail(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = 1};

	MUST(!ibv_modify_qp(qp, &attr,
		IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			(qp->qp_type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS)));
	attr.qp_state = IBV_QPS_ERR;
	MUST(!ibv_modify_qp(qp, &attr, IBV_QP_STATE));
}

static void queue_pairs_make(void)
{
	struct ibv_srq_init_attr srq = {.attr = {.max_wr = 16, .max_sge = 1}};
	struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = 1};

	refusals.srq = ibv_create_srq(refusals.pd, &srq);
	MUST(refusals.srq);
	refusals.qp = qp_make(IBV_QPT_RC, NULL);
	refusals.ready = qp_make(IBV_QPT_RC, NULL);
	verbs_qp_connect(refusals.ready, refusals.ready->qp_num, 14);
	refusals.ud = qp_make(IBV_QPT_UD, NULL);
	ud_start(refusals.ud);
	refusals.with_srq = qp_make(IBV_QPT_RC, refusals.srq);
	MUST(!ibv_modify_qp(refusals.with_srq, &init,
		IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
}

static int setup(void **state)
{
	struct ibv_xrcd_init_attr xrcd = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1};

	(void)state;
	interface_make("staying", 99);
	interface_make("fading", 98);
	refusals.context = open_named("rocep_staying");
	refusals.iwarp = open_named("iwp_staying");
	refusals.fading = open_named("rocep_fading");
	refusals.fading_pd = ibv_alloc_pd(refusals.fading);
	refusals.fading_cq = ibv_create_cq(refusals.fading, 4, NULL, NULL, 0);
	refusals.pd = ibv_alloc_pd(refusals.context);
	refusals.cq = ibv_create_cq(refusals.context, 64, NULL, NULL, 0);
	refusals.xrcd = ibv_open_xrcd(refusals.context, &xrcd);
	refusals.memory = mmap(
		NULL, REFUSAL_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	refusals.mr = ibv_reg_mr(refusals.pd, refusals.memory, REFUSAL_BYTES,
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	MUST(refusals.fading_cq && refusals.pd && refusals.cq && refusals.xrcd && refusals.mr);
	MUST(!ibv_query_gid(refusals.context, 1, 0, &refusals.gid));
	queue_pairs_make();
	MUST(!netns_run("ip link del fading"));
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(end_of_a_table_makes_no_file),
		cmocka_unit_test(refused_call_names_its_reason),
		cmocka_unit_test(machine_that_refuses_is_named),
		cmocka_unit_test(cause_is_told_of_its_errno_alone),
	};

	if (netns_enter_new() < 0)
		return 77;
	unsetenv("URNIC_DEVICE_NAME");
	unsetenv("URNIC_INTERFACES");
	setenv("URNIC_TRANSPORTS", "roce,iwarp", 1);
	settings_read();
	return cmocka_run_group_tests(tests, setup, NULL);
}
