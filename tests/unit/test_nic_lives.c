/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Objects that start and end during traffic, over the loopback interface of a namespace of their
 * own: memory that is deregistered, queue pairs that are destroyed, threads that are cancelled,
 * processes that fork.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <linux/capability.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "os/setting.h"
#include "support/netns.h"
#include "support/sanitizer.h"
#include "support/verbs_pair.h"

enum { TIMEOUT_33_MS = 13, BYTES = 3000, REGION_BYTES = 65536, WINDOW = 8, CHURNS = 60 };

static struct ibv_context *context;
static _Atomic bool is_over;

static void sleep_us(long us)
{
	struct timespec time = {0, us * 1000};

	nanosleep(&time, NULL);
}

/* A message there, and its bytes back. */
static void exchange(struct verbs_pair *pair, uint32_t seed)
{
	verbs_pattern_fill(pair->a.buffer, BYTES, seed);
	verbs_post_recv(&pair->b, seed, 0, BYTES);
	MUST(!verbs_post(&pair->a, IBV_WR_SEND, NULL, 0, BYTES));
	MUST(verbs_poll_one(pair->b.cq).status == IBV_WC_SUCCESS);
	MUST(verbs_pattern_is(pair->b.buffer, BYTES, seed));
	MUST(verbs_poll_one(pair->a.cq).status == IBV_WC_SUCCESS);
	MUST(!verbs_post(&pair->a, IBV_WR_RDMA_READ, &pair->b, 0, BYTES));
	MUST(verbs_poll_one(pair->a.cq).status == IBV_WC_SUCCESS);
	MUST(verbs_pattern_is(pair->a.buffer, BYTES, seed));
}

static void *exchange_until_over(void *argument)
{
	struct verbs_pair pair;

	(void)argument;
	verbs_pair_make(&pair, context);
	for (uint32_t seed = 0; !is_over; seed++)
		exchange(&pair, seed);
	verbs_pair_unmake(&pair);
	return NULL;
}

/* --- memory --------------------------------------------------------------------------------- */

/* What the region is to the requests that use it. */
enum role { TARGET_OF_WRITE, SOURCE_OF_WRITE, TARGET_OF_READ, ROLE_COUNT };

struct stream {
	struct verbs_pair pair;
	enum role role;
	uint8_t *region;
	uint32_t key;
	enum ibv_wc_status status; /* of the first request that failed */
};

static void stream_post(struct stream *stream)
{
	struct verbs_pair *pair = &stream->pair;
	struct ibv_sge sge = {(uintptr_t)pair->a.buffer, PAIR_BYTES, pair->a.mr->lkey};
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = stream->role == TARGET_OF_READ ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = {(uintptr_t)pair->b.buffer, pair->b.mr->rkey},
	};
	struct ibv_send_wr *bad;

	if (stream->role == TARGET_OF_WRITE) {
		wr.wr.rdma.remote_addr = (uintptr_t)stream->region;
		wr.wr.rdma.rkey = stream->key;
	} else {
		sge.addr = (uintptr_t)stream->region;
		sge.lkey = stream->key;
	}
	MUST(!ibv_post_send(pair->a.qp, &wr, &bad));
}

static void *stream_until_refused(void *argument)
{
	struct stream *stream = argument;

	for (int i = 0; i < WINDOW; i++)
		stream_post(stream);
	while (stream->status == IBV_WC_SUCCESS) {
		stream->status = verbs_poll_one(stream->pair.a.cq).status;
		if (stream->status == IBV_WC_SUCCESS)
			stream_post(stream);
	}
	return NULL;
}

/* Once the region is deregistered no thread may access it: an access would be a fault. */
static void stream_with_region_that_goes(enum role role)
{
	struct stream stream = {.role = role};
	struct ibv_mr *mr;
	pthread_t thread;

	verbs_pair_make(&stream.pair, context);
	stream.region = mmap(
		NULL, REGION_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	MUST(stream.region != MAP_FAILED);
	MUST(mr = ibv_reg_mr(role == TARGET_OF_WRITE ? stream.pair.b.pd : stream.pair.a.pd,
		     stream.region, REGION_BYTES,
		     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE));
	stream.key = mr->rkey;
	MUST(!pthread_create(&thread, NULL, stream_until_refused, &stream));
	sleep_us(2000);
	MUST(!ibv_dereg_mr(mr));
	MUST(!mprotect(stream.region, REGION_BYTES, PROT_NONE));
	MUST(!pthread_join(thread, NULL));
	assert_int_equal(stream.status,
		role == TARGET_OF_WRITE ? IBV_WC_REM_ACCESS_ERR : IBV_WC_LOC_PROT_ERR);
	munmap(stream.region, REGION_BYTES);
	verbs_pair_unmake(&stream.pair);
}

static void memory_that_is_deregistered_is_not_touched_any_more(void **state)
{
	(void)state;
	for (int round = 0; round < 8; round++)
		for (enum role role = 0; role < ROLE_COUNT; role++)
			stream_with_region_that_goes(role);
}

/* --- queue pairs ---------------------------------------------------------------------------- */

static struct ibv_cq *shared_cq;

/* Half of the requests are still under way when the queue pairs go. */
static void *queue_pairs_come_and_go(void *argument)
{
	struct verbs_end a, b;

	(void)argument;
	for (int round = 0; round < CHURNS; round++) {
		verbs_end_make(&a, context, shared_cq);
		verbs_end_make(&b, context, shared_cq);
		verbs_ends_connect(&a, &b, TIMEOUT_33_MS);
		for (int i = 0; i < WINDOW; i++)
			verbs_post_recv(&b, (uint64_t)i, 0, PAIR_BYTES);
		for (int i = 0; i < WINDOW; i++)
			MUST(!verbs_post(&a, IBV_WR_SEND, NULL, 0, PAIR_BYTES));
		sleep_us(10L * round);
		verbs_end_unmake(round % 2 ? &a : &b);
		verbs_end_unmake(round % 2 ? &b : &a);
	}
	return NULL;
}

static void *poll_until_over(void *argument)
{
	struct ibv_wc wcs[WINDOW];

	(void)argument;
	while (!is_over)
		MUST(ibv_poll_cq(shared_cq, WINDOW, wcs) >= 0);
	return NULL;
}

static void queue_pairs_that_go_leave_no_completions(void **state)
{
	void *(*const bodies[])(void *) = {queue_pairs_come_and_go, queue_pairs_come_and_go,
		poll_until_over, exchange_until_over};
	enum { BODIES = sizeof(bodies) / sizeof(bodies[0]), FINITE = 2 };
	pthread_t threads[BODIES];
	struct ibv_wc wc;

	(void)state;
	is_over = false;
	shared_cq = ibv_create_cq(context, 16 * PAIR_DEPTH, NULL, NULL, 0);
	assert_non_null(shared_cq);
	for (int i = 0; i < BODIES; i++)
		MUST(!pthread_create(&threads[i], NULL, bodies[i], NULL));
	for (int i = 0; i < BODIES; i++) {
		if (i == FINITE)
			is_over = true;
		MUST(!pthread_join(threads[i], NULL));
	}
	assert_int_equal(ibv_poll_cq(shared_cq, 1, &wc), 0);
	assert_int_equal(ibv_destroy_cq(shared_cq), 0);
}

/* --- threads -------------------------------------------------------------------------------- */

static void event_take(struct verbs_end *end)
{
	struct ibv_cq *cq;
	void *cq_context;

	MUST(!ibv_get_cq_event(end->channel, &cq, &cq_context));
	ibv_ack_cq_events(cq, 1);
}

/* Completions of an armed queue make the NIC tell the channel from within this thread's calls. */
static void *exchange_until_cancelled(void *argument)
{
	struct verbs_pair *pair = argument;

	for (uint32_t seed = 0;; seed++) {
		MUST(!ibv_req_notify_cq(pair->a.cq, 0));
		MUST(!ibv_req_notify_cq(pair->b.cq, 0));
		exchange(pair, seed);
		event_take(&pair->a);
		event_take(&pair->b);
		pthread_testcancel();
	}
	return NULL;
}

static void thread_that_is_cancelled_leaves_no_lock_behind(void **state)
{
	struct verbs_pair pair;
	pthread_t thread;

	(void)state;
	for (int round = 0; round < 20; round++) {
		verbs_pair_make(&pair, context);
		MUST(!pthread_create(&thread, NULL, exchange_until_cancelled, &pair));
		sleep_us(1000);
		MUST(!pthread_cancel(thread));
		MUST(!pthread_join(thread, NULL));
		exchange(&pair, 0);
		verbs_pair_unmake(&pair);
	}
}

/* --- processes ------------------------------------------------------------------------------ */

/* What the child inherited is dead, and what it makes is alive. */
_Noreturn static void child_run(struct verbs_pair *inherited)
{
	struct verbs_pair own;
	struct verbs_end end;
	struct ibv_wc wc;

	alarm(PAIR_TIMEOUT_S);
	MUST(ibv_poll_cq(inherited->a.cq, 1, &wc) == 0);
	MUST(verbs_post(&inherited->a, IBV_WR_SEND, NULL, 0, 1) == EINVAL);
	MUST(!ibv_create_qp(inherited->a.pd,
		&(struct ibv_qp_init_attr){.send_cq = inherited->a.cq,
			.recv_cq = inherited->a.cq,
			.qp_type = IBV_QPT_RC}));
	if (!HAS_THREAD_SANITIZER) { /* no new threads in such a child */
		verbs_end_make(&end, context, NULL);
		verbs_end_unmake(&end);
		verbs_pair_make(&own, context);
		for (uint32_t seed = 0; seed < 10; seed++)
			exchange(&own, seed);
		verbs_pair_unmake(&own);
		verbs_pair_unmake(inherited);
	}
	_exit(0);
}

static void *regions_come_and_go(void *argument)
{
	static uint8_t region[1];
	struct ibv_pd *pd = ibv_alloc_pd(context);

	(void)argument;
	MUST(pd);
	while (!is_over) {
		struct ibv_mr *mr = ibv_reg_mr(pd, region, sizeof(region), 0);

		MUST(mr);
		MUST(!ibv_dereg_mr(mr));
	}
	MUST(!ibv_dealloc_pd(pd));
	return NULL;
}

static void child_of_a_busy_program_has_a_nic_of_its_own(void **state)
{
	struct verbs_pair pair;
	pthread_t threads[2];
	int status;

	(void)state;
	is_over = false;
	verbs_pair_make(&pair, context);
	exchange(&pair, 0);
	MUST(!pthread_create(&threads[0], NULL, exchange_until_over, NULL));
	MUST(!pthread_create(&threads[1], NULL, regions_come_and_go, NULL));
	for (uint32_t round = 1; round <= 10; round++) {
		pid_t child = fork();

		MUST(child >= 0);
		if (child == 0)
			child_run(&pair);
		exchange(&pair, round);
		MUST(waitpid(child, &status, 0) == child);
		assert_int_equal(status, 0);
	}
	is_over = true;
	for (int i = 0; i < 2; i++)
		MUST(!pthread_join(threads[i], NULL));
	verbs_pair_unmake(&pair);
}

/* NIC memory is a file of the kernel's kinds. */
static void limit_on_files_is_an_error_and_not_the_end(void **state)
{
	const struct rlimit limit = {1 << 20, 1 << 20};
	int status;
	pid_t child = fork();

	(void)state;
	MUST(child >= 0);
	if (child == 0) {
		MUST(!setrlimit(RLIMIT_FSIZE, &limit));
		MUST(!ibv_alloc_pd(context) && errno == EFBIG);
		_exit(0);
	}
	MUST(waitpid(child, &status, 0) == child);
	assert_int_equal(status, 0);
}

static int lowest_free_descriptor(void)
{
	int fd = dup(0);

	MUST(fd >= 0 && !close(fd));
	return fd;
}

/* One descriptor more each time, until a NIC can be made. */
static void nic_that_cannot_be_made_leaves_no_descriptors(void **state)
{
	struct rlimit limit, few;
	int status;
	pid_t child = fork();

	(void)state;
	MUST(child >= 0);
	if (child == 0) {
		int lowest = lowest_free_descriptor();

		MUST(!getrlimit(RLIMIT_NOFILE, &limit));
		for (few = limit, few.rlim_cur = 1;; few.rlim_cur++) {
			MUST(!setrlimit(RLIMIT_NOFILE, &few));
			struct ibv_pd *pd = ibv_alloc_pd(context);
			int error = errno;
			MUST(!setrlimit(RLIMIT_NOFILE, &limit));
			if (pd)
				_exit(0);
			MUST(error == EMFILE && lowest_free_descriptor() == lowest);
		}
	}
	MUST(waitpid(child, &status, 0) == child);
	assert_int_equal(status, 0);
}

/* As for programs without privileges. */
static void drop_capabilities(void)
{
	struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {{0}};

	MUST(!syscall(SYS_capset, &header, data));
}

enum { DESCRIPTORS_EACH = 128, MESSAGES = 8 };

/* Under way in messages that nobody takes; fewer when there are too many already. */
static void leave_descriptors(int to)
{
	int fds[DESCRIPTORS_EACH] = {0};
	char control[CMSG_SPACE(sizeof(fds))] = {0}, byte = 0;
	struct iovec piece = {&byte, 1};
	struct msghdr header = {.msg_iov = &piece,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control)};
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(&header);
	ssize_t sent = 1;

	cmsg->cmsg_level = SOL_SOCKET;
	cmsg->cmsg_type = SCM_RIGHTS;
	cmsg->cmsg_len = CMSG_LEN(sizeof(fds));
	memcpy(CMSG_DATA(cmsg), fds, sizeof(fds));
	for (int i = 0; i < MESSAGES && sent > 0; i++)
		sent = sendmsg(to, &header, 0);
	MUST(sent < 0 && errno == ETOOMANYREFS);
}

/* In place of the C library's: the process changes no limit of its own. */
static _Atomic pid_t unchanged_pid;

int setrlimit(__rlimit_resource_t resource, const struct rlimit *limit)
{
	MUST(atomic_load(&unchanged_pid) != (pid_t)syscall(SYS_getpid));
	return (int)syscall(SYS_prlimit64, 0, resource, limit, NULL);
}

/* Other programs of the user's have left many, in urnicds of other network namespaces, say. */
static void descriptors_under_way_are_no_reason_to_fail(void **state)
{
	const struct ibv_qp_cap cap = {.max_send_wr = 1, .max_send_sge = 1};
	int status;
	pid_t child = fork();

	(void)state;
	MUST(child >= 0);
	if (child == 0) {
		struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_RC, .cap = cap};
		struct ibv_pd *pd;
		struct rlimit limit;
		int ends[2];

		MUST(!getrlimit(RLIMIT_NOFILE, &limit));
		limit.rlim_cur = 512;
		MUST(!setrlimit(RLIMIT_NOFILE, &limit));
		MUST(!socketpair(AF_UNIX, SOCK_DGRAM, 0, ends));
		drop_capabilities();
		leave_descriptors(ends[0]);
		atomic_store(&unchanged_pid, (pid_t)syscall(SYS_getpid));
		pd = ibv_alloc_pd(context);
		MUST(pd);
		init.send_cq = ibv_create_cq(context, 1, NULL, NULL, 0);
		MUST(init.send_cq);
		init.recv_cq = init.send_cq;
		MUST(ibv_create_qp(pd, &init));
		MUST(!getrlimit(RLIMIT_NOFILE, &limit) && limit.rlim_cur == 512);
		_exit(0);
	}
	MUST(waitpid(child, &status, 0) == child);
	assert_int_equal(status, 0);
}

static int open_context(void **state)
{
	(void)state;
	context = verbs_pair_open();
	return 0;
}

static int close_context(void **state)
{
	(void)state;
	return ibv_close_device(context);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(memory_that_is_deregistered_is_not_touched_any_more),
		cmocka_unit_test(queue_pairs_that_go_leave_no_completions),
		cmocka_unit_test(thread_that_is_cancelled_leaves_no_lock_behind),
		cmocka_unit_test(child_of_a_busy_program_has_a_nic_of_its_own),
		cmocka_unit_test(limit_on_files_is_an_error_and_not_the_end),
		cmocka_unit_test(nic_that_cannot_be_made_leaves_no_descriptors),
		cmocka_unit_test(descriptors_under_way_are_no_reason_to_fail),
	};

	if (netns_enter_new() < 0)
		return 77;
	setenv("URNIC_LANES", "2", 1);
	settings_read();
	return cmocka_run_group_tests(tests, open_context, close_context);
}
